"""The note of agreed plan steps: what it says, where it stands, and how long."""

from focusctx.baselines.focus import DefaultFocus
from focusctx.drafts import ScriptedDraft
from focusctx.invariants import violations
from focusctx.types import Sketch, Step
from focusctx_bench.baselines.plan_note import HEADING, PlanNote, note_of, with_note
from helpers.histories import Messages, run, step

PLANS = [
    "Step: pay invoice I-77 from the blue account | Depends on: [s_2]\nStep: mail Ada the receipt | Depends on: []",
    "Step: pay the invoice I-77 from the account | Depends on: [s_2]\nStep: look at the weather | Depends on: []",
    "Step: water all the plants | Depends on: []\nStep: pay invoice I-77 | Depends on: [s_2]",
]


def history(steps: int) -> Messages:
    """Steps whose results have some forty tokens each."""
    return [
        *run(0),
        *(one for number in range(1, steps + 1) for one in step(number, f"page {number}: " + "word " * 40)),
    ]


def sketch(*steps: str) -> Sketch:
    return Sketch("", tuple(Step(step, ()) for step in steps))


def test_only_steps_that_most_plans_share_are_noted() -> None:
    note = note_of([sketch("pay invoice I-77", "mail Ada"), sketch("pay the invoice I-77 now"), sketch("go home")])
    assert note == f"{HEADING}\n- pay invoice I-77\n]"
    assert note_of([sketch("pay invoice I-77"), sketch("go home")]) == ""
    assert note_of([sketch("pay invoice I-77")]) == "", "one plan agrees with nobody"
    assert note_of([]) == ""
    assert note_of([sketch("go home"), Sketch("", problem="no plan"), sketch("go home")]) == f"{HEADING}\n- go home\n]"


async def test_the_note_stands_behind_the_task_and_stays_until_the_next_event() -> None:
    # The answers of each event are the three plans in turn.
    method = PlanNote(DefaultFocus(ScriptedDraft(PLANS), budget=500, settings={"ahead": 1.0}))
    seen = [await method.compress(history(steps)) for steps in range(1, 40)]
    happened = [place for place, compressed in enumerate(seen) if compressed.happened]
    assert len(happened) >= 2
    first = happened[0]
    assert (
        seen[first].messages[1]["content"] == f"Do the task.\n\n{HEADING}\n- pay invoice I-77 from the blue account\n]"
    )
    assert all(HEADING not in str(compressed.messages) for compressed in seen[:first])
    for before, after in zip(seen[first:], seen[first + 1 :], strict=False):
        assert str(after.messages).count(HEADING) == 1
        assert after.messages[1]["content"].startswith(f"Do the task.\n\n{HEADING}")
        assert not violations(after.messages, "chat_completions")
        if not after.happened:
            assert list(after.messages[: len(before.messages)]) == list(before.messages)


def test_a_task_in_blocks_gets_a_block() -> None:
    task = {"role": "user", "content": [{"type": "text", "text": "Do it."}]}
    (message,) = with_note([task], "note")
    assert message["content"] == [*task["content"], {"type": "text", "text": "note"}]
    assert with_note([{"role": "system", "content": "x"}], "note") == [{"role": "system", "content": "x"}]
