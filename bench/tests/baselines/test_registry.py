"""Names, as the tables have them, to methods."""

import subprocess
import sys
from pathlib import Path

import pytest

from bench_helpers.answers import every_third_word
from focusctx.baselines.registry import method_from
from focusctx.drafts import ScriptedDraft
from focusctx.errors import ConfigError, MissingExtraError
from focusctx_bench.baselines import summary
from focusctx_bench.baselines.registry import ALL, KNOWN, BenchSettings
from helpers.histories import run


@pytest.fixture
def settings(tmp_path: Path) -> BenchSettings:
    (tmp_path / "ut.md").write_text("Keep ids.")
    (tmp_path / "utco.md").write_text("Ids.")
    return BenchSettings(
        budget=0,
        draft="offline",
        compressor=ScriptedDraft(["All is well."]),
        embedder="words",
        guideline_ut=tmp_path / "ut.md",
        guideline_utco=str(tmp_path / "utco.md"),
    )


@pytest.mark.parametrize("name", KNOWN)
async def test_every_name_makes_its_method_anew_for_every_run(
    name: str, settings: BenchSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("focusctx_bench.baselines.registry.LLMLingua2", lambda *_: every_third_word)
    factory = method_from(name, settings)
    one, other = factory(), factory()
    assert one is not other
    assert one.name == name
    await one.compress(run(15))
    compressed = await other.compress(run(15))
    assert compressed.failure is None
    stay = ("none", "masking-10", "masking-5", "masking-3", "clear-tool-uses", "random", "newest", "retrieval-matched")
    assert name in stay or len(compressed.messages) < len(run(15))


def test_the_names() -> None:
    assert ALL == (
        "none", "fifo", "retrieval", "llmlingua", "prompting", "masking-10", "masking-5", "masking-3", "acon-ut",
        "acon-utco", "focus-o", "focus-d",
    )  # fmt: skip


def test_an_unknown_name_says_which_are_known() -> None:
    with pytest.raises(ConfigError, match="unknown method 'lifo'; known: none, fifo"):
        method_from("lifo")


@pytest.mark.parametrize(
    ("name", "settings", "why"),
    [
        ("retrieval", {}, "embedder"),
        ("retrieval", {"embedder": "magic"}, "unknown embedder 'magic'"),
        ("retrieval", {"embedder": "words", "budget": -1}, "budget"),
        ("prompting", {}, "prompting needs a model"),
        ("prompting", {"draft": "offline"}, "prompting needs a model"),
        ("prompting", {"compressor": "offline", "draft": "openai:x"}, "prompting needs a model"),
        ("prompting", {"compressor": "magic"}, "unknown draft 'magic'"),
        ("acon-ut", {"compressor": str.lower}, "acon-ut needs the file of a guideline"),
        (
            "acon-utco",
            {"compressor": str.lower, "guideline_utco": "no/such/file"},
            "no/such/file cannot be read",
        ),
        ("focus-d", {}, "focus needs a draft"),
        ("focus", {}, "focus needs a draft"),
        ("random", {}, "focus needs a draft"),
        ("retrieval-matched", {"draft": "offline"}, "embedder"),
        ("summary", {"draft": "offline"}, "summary needs a model"),
        ("summary", {"draft": str.lower, "method_options": {"dead": 1}}, "unknown setting 'dead' of summary"),
        (
            "clear-tool-uses",
            {"method_options": {"kept": 3}},
            "unknown setting 'kept' of clear-tool-uses; known: trigger",
        ),
        ("focus-o", {"draft": "offline", "threshold": 2.0}, "threshold"),
        ("llmlingua", {"llmlingua_rate": 0.0}, "rate"),
        ("llmlingua", {"llmlingua_model": "gpt2"}, "xlm-roberta-large"),
    ],
)
def test_what_is_wrong_shows_before_the_first_run(name: str, settings: dict[str, object], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        method_from(name, BenchSettings(**settings))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "embedder", "package", "extra"),
    [
        ("llmlingua", None, "llmlingua", "llmlingua"),
        ("retrieval", "wordllama", "wordllama", "wordllama"),
        ("retrieval", "sentence-transformers:x", "sentence_transformers", "sentence-transformers"),
    ],
)
def test_a_missing_package_names_its_extra(
    monkeypatch: pytest.MonkeyPatch, name: str, embedder: str | None, package: str, extra: str
) -> None:
    monkeypatch.setattr(summary, "find_spec", lambda _: None)
    monkeypatch.setattr("focusctx_bench.baselines.embedders.find_spec", lambda _: None)
    monkeypatch.setattr("focusctx_bench.baselines.embedders.find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=rf"focusctx-bench\[{extra}\]"):
        method_from(name, BenchSettings(embedder=embedder))


def test_the_draft_writes_summaries_unless_another_is_named() -> None:
    assert method_from("prompting", BenchSettings(draft=ScriptedDraft(["All is well."])))().name == "prompting"


def test_the_registry_loads_nothing_heavy() -> None:
    code = "import sys, focusctx.baselines.registry; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "numpy", "transformers", "llmlingua", "wordllama", "aiohttp", "tiktoken"} & set(modules)
