"""Which observations say that a call failed, and which calls were made again."""

import pytest

from focusctx.replay.evidence import has_failed, repeated_failures
from focusctx.types import Span


@pytest.mark.parametrize(
    "observation",
    [
        "<returncode>1</returncode>\n<output>\n</output>",
        "<returncode>-9</returncode>",
        "some output\nTraceback (most recent call last)\n  File",
        "Error: no such order",
        '{"error": "unknown"}',
        '{"success": false, "why": "late"}',
        "done, exit code: 2",
    ],
)
def test_failures(observation: str) -> None:
    assert has_failed(Span(1, action="f()", observation=observation))
    assert not has_failed(Span(1, observation=observation)), "nothing was tried"


@pytest.mark.parametrize(
    "observation",
    [
        "<returncode>0</returncode>\n<output>\nErrors: 0\n</output>",
        "No Error here",
        '{"error": null, "order": 1}',
        '{"ok": true}',
        "exit code: 0",
        "",
    ],
)
def test_no_failures(observation: str) -> None:
    assert not has_failed(Span(1, action="f()", observation=observation))


def test_the_same_call_word_for_word() -> None:
    def span(index: int, action: str, failed: bool = True) -> Span:
        return Span(index, action=action, observation="Error: x" if failed else "fine")

    spans = [span(1, "f(1)"), span(2, "f(2)"), span(3, "f(1)", failed=False), span(4, "f( 1)"), span(5, "f(1)")]
    spans += [span(6, " f(1)\n"), span(7, "f(2)")]
    assert repeated_failures(spans) == {5: (1,), 6: (1, 5), 7: (2,)}
