"""Recorded files: packed ones are read and never added to; a model is named without its folder."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from focusctx.errors import BenchError
from focusctx.replay.files import read_text, short_name
from focusctx.replay.sketches import Recorded, Sketches
from focusctx_bench.replay.agreement.answers import Answer, Answers
from focusctx_bench.replay.study.likelihoods import Kind, Likelihoods, Text, read_likelihoods, to_line


def packed(path: Path) -> Path:
    """The file beside it that holds the same; the plain one is gone."""
    found = path.with_name(f"{path.name}.gz")
    found.write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    return found


def test_packed_sketches_are_read_and_not_added_to(tmp_path: Path) -> None:
    plain = tmp_path / "sketches.jsonl"
    recorded = Recorded(file="a.jsonl", id="1", messages=3, spans=2, budget=10, replies=("Step: é | Depends on: []",))
    Sketches(plain).add(recorded)
    path = packed(plain)
    before = path.read_bytes()
    assert list(Sketches(path)) == [recorded]
    with pytest.raises(BenchError, match="gunzip"):
        Sketches(path).open()
    assert path.read_bytes() == before


def test_packed_answers_are_read_where_there_are_no_plain_ones(tmp_path: Path) -> None:
    told = Answer(
        file="a.jsonl", run="1", messages=3, model="m", method="none", budget=10, history_tokens=9, sent_tokens=9,
        span_tokens=8, span_left=8, turn={"role": "assistant", "content": "yes"},
    )  # fmt: skip
    Answers(tmp_path).add(told)
    path = packed(tmp_path / "answers.jsonl")
    assert list(Answers(tmp_path)) == [told]
    with pytest.raises(BenchError, match="gunzip"):
        Answers(tmp_path).open()
    (tmp_path / "answers.jsonl").touch()
    assert list(Answers(tmp_path)) == []
    assert path.exists()


def test_packed_likelihoods_are_read(tmp_path: Path) -> None:
    scored = Likelihoods(("a.jsonl", "1", 3), 10, "m", (Text(Kind.PLAN, "go", 1),), (-1.0,), {1: (-2.0,)})
    plain = tmp_path / "likelihoods.jsonl"
    plain.write_text(f"{to_line(scored)}\n", encoding="utf-8")
    path = packed(plain)
    assert read_text(path) == f"{to_line(scored)}\n"
    assert list(read_likelihoods(path)) == [scored]


def test_a_local_model_is_named_without_its_folder() -> None:
    assert short_name("transformers:/home/me/model.gguf") == "transformers:model.gguf"
    assert short_name("llama-cpp:models\\model.gguf?grammar=1") == "llama-cpp:model.gguf?grammar=1"
    assert short_name("likelihood:transformers:/home/me/model.gguf") == "likelihood:transformers:model.gguf"
    assert short_name("transformers:model?template=a/b") == "transformers:model?template=a/b"
    assert short_name("openai:gpt-4.1-mini") == "openai:gpt-4.1-mini"
    assert short_name("openrouter:qwen/qwen3") == "openrouter:qwen/qwen3"
