"""WebVoyager without a browser: its task file, its judge, the parts in which a page is shown."""

import json
from pathlib import Path
from typing import Any

import pytest

from focusctx.errors import BenchError, ConfigError
from focusctx_bench.benchmarks import benchmark_from
from focusctx_bench.benchmarks.browser import VIEW, PageLine, Reading, plain
from focusctx_bench.benchmarks.webvoyager import judge, verdict_of
from focusctx_bench.models.scripted import FunctionModel, Say
from focusctx_bench.protocols import Options

# What is missing.

ROW = {"web_name": "Shop", "id": "Shop--0", "ques": "How much?", "web": "https://shop.example/"}


def test_no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FOCUSCTX_WEBVOYAGER", raising=False)
    with pytest.raises(BenchError, match=r"git clone https://github.com/MinorJerry/WebVoyager.*FOCUSCTX_WEBVOYAGER"):
        benchmark_from("webvoyager")
    with pytest.raises(BenchError, match=r"there is no .*/data/WebVoyager_data\.jsonl: git clone"):
        benchmark_from("webvoyager", Options(tmp_path))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "line 1 is not valid JSON"),
        ("[]", "line 1 needs the texts"),
        (json.dumps({**ROW, "ques": 3}), "line 1 needs the texts"),
        (json.dumps({**ROW, "web": "file:///etc/passwd"}), "not an http or https address"),
        (json.dumps(ROW) + "\n\n" + json.dumps(ROW), "two tasks of the same id"),
    ],
)
def test_a_bad_task_file(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "tasks.jsonl").write_text(text)
    with pytest.raises(BenchError, match=problem):
        benchmark_from("webvoyager", Options(tmp_path / "tasks.jsonl"))


async def test_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    rows = [ROW, {**ROW, "web_name": "BBC News", "id": "BBC News--3"}]
    (tmp_path / "data" / "WebVoyager_data.jsonl").write_text("\n".join(map(json.dumps, rows)))
    monkeypatch.setenv("FOCUSCTX_WEBVOYAGER", str(tmp_path))
    bench = benchmark_from("webvoyager")
    assert [(task.id, task.step_limit) for task in bench.tasks()] == [("Shop--0", 15), ("BBC News--3", 15)]
    assert [task.id for task in benchmark_from("webvoyager", Options(split="BBC News")).tasks()] == ["BBC News--3"]
    with pytest.raises(ConfigError, match="no split 'test': it has all, and by website Shop, BBC News"):
        benchmark_from("webvoyager", Options(split="test"))
    with pytest.raises(ConfigError, match="unknown setting 'user'"):
        benchmark_from("webvoyager", Options(more={"user": "x"}))
    with pytest.raises(BenchError, match="judged by a model: name one, as in --set judge="):
        await bench.start(bench.tasks()[0])
    missing = benchmark_from("webvoyager", Options(more={"judge": "openai:m@http://127.0.0.1:1", "chromium": "/no"}))
    with pytest.raises(BenchError, match="needs Chromium, there is none at /no: install"):
        await missing.start(missing.tasks()[0])


# The judge.


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("Right.\nSUCCESS", True),
        ("Wrong.\n NOT SUCCESS \n", False),
        ("SUCCESS", True),
        ("SUCCESS\nor maybe not", None),
        ("It was a SUCCESS", None),
        ("success", None),
        ("NOT  SUCCESS", None),
        ("", None),
    ],
)
def test_a_verdict_stands_alone_on_the_last_line(text: str, verdict: bool | None) -> None:
    assert verdict_of(text) is verdict


@pytest.mark.parametrize(("second", "success"), [("SUCCESS", True), ("NOT SUCCESS", False), ("Who knows", None)])
async def test_a_judge_without_a_verdict_is_asked_once_more(second: str, success: bool | None) -> None:
    model = FunctionModel(lambda messages: Say("Hm." if len(messages) == 2 else second))
    judged = await judge(model, "Q", "A", "P")
    assert (judged.success, judged.reasons, judged.usage.requests) == (success, f"Hm.\n{second}", 2)


# Views.


@pytest.mark.parametrize("size", [1, 79, VIEW - 1, VIEW, VIEW * 2])
def test_scrolling_shows_every_line_in_order(size: int) -> None:
    document: Any = None
    lines = [PageLine(f"{number} {'x' * size}", document, number) for number in range(230)]
    reading = Reading("", "", lines, [], 0, False)
    first, shown, starts = 0, list[str](), list[int]()
    while first < len(lines):
        starts.append(first)
        end = reading.end_of_view(first)
        shown += [line.text for line in lines[first:end]]
        assert first < end
        assert reading.end_of_view(reading.start_of_view(end)) >= end
        first = end
    assert shown == reading.texts
    assert all(len(reading.view(start)) <= VIEW + size + 200 for start in starts)


def test_words_of_a_page_cannot_be_numbers_of_ours() -> None:
    assert plain("see [1] and\n[ 22 ] [a]") == "see (1) and ( 22 ) [a]"
