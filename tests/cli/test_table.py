"""The table: one line per span, nothing cut that a reader needs whole."""

import io

import pytest

from focusctx import Focus
from focusctx.cli.output import console_on, printable, short
from focusctx.cli.table import numbers, print_events, what
from focusctx.drafts import ScriptedDraft
from focusctx.types import Span
from helpers import histories


def printed(width, monkeypatch, spans=120):
    monkeypatch.setenv("COLUMNS", str(width))
    cited = ", ".join(f"s_{index}" for index in range(90, spans))
    plan = f"Step: go on with a very long piece of work that no window can show | Depends on: [{cited}]"
    stream = io.StringIO()
    focus = Focus(ScriptedDraft([plan] * 12), budget=0, rollouts=12, levels=False, target=None)
    result = focus.compress(histories.run(spans))
    print_events(console_on(stream), [("run", result)], 0)
    return stream.getvalue().splitlines()


@pytest.mark.parametrize("width", [60, 80, 140, 200])
def test_ids_numbers_and_decisions_are_whole_at_any_width(monkeypatch, width):
    lines = printed(width, monkeypatch)
    rows = [line for line in lines if line.startswith("s_")]
    assert len(rows) == 120
    assert all(len(line) <= width for line in rows)
    assert rows[119].split()[:5] == ["s_120", "9", "0.00", "pinned", "-"]
    assert rows[118].split()[3:5] == ["kept", "1-12"]
    assert rows[0].split()[3:5] == ["dropped", "-"]


def test_a_pipe_has_a_width_of_its_own():
    assert console_on(io.StringIO()).width == 140


def test_colour_only_where_it_is_wanted(monkeypatch):
    assert "\x1b" not in "".join(printed(100, monkeypatch))
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b[" in "".join(printed(100, monkeypatch))


@pytest.mark.parametrize(
    ("values", "text"), [((), ""), ((4,), "4"), ((3, 1, 2), "1-3"), ((1, 2, 5, 7, 8), "1-2,5,7-8")]
)
def test_numbers(values, text):
    assert numbers(values) == text


def test_what_a_span_did():
    assert what(Span(1, thought="hm", action="look(\n  x )")) == "look( x )"
    assert what(Span(1, thought="hm")) == "hm"
    assert what(Span(1)) == ""
    assert len(what(Span(1, action="x" * 5000))) == 200


def test_short_and_printable():
    assert short("a  b\n c", 10) == "a b c"
    assert short("abcdef", 4) == "abc…"
    assert short("  " * 100 + "a", 5).endswith("…")
    assert printable("a\x1b[31m\tb\u202e\nc") == "a\ufffd[31m  b\ufffd\nc"
