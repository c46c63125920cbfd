"""The citation parser reads what models write, and never guesses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from focusctx.pipeline.cite import read_sketch

SPANS = 12


@pytest.mark.parametrize(
    ("line", "cited"),
    [
        ("Step: log in | Depends on: [s_1, s_2]", (1, 2)),
        ("Step 1: log in | Depends on: [s_1]", (1,)),
        ("1. Step: log in | Depends on: [s_1]", (1,)),
        ("- Step: log in | Depends on: [s_3]", (3,)),
        ("* **Step 2:** log in | **Depends on:** [s_3, s_4]", (3, 4)),
        ("**Step 1: log in** | *Depends on:* `[s_3]`", (3,)),
        ("Step 3. log in | depends on: s_5", (5,)),
        ("Step: log in | Depends on: s_5 and s_6", (5, 6)),
        ("Step: log in | Depends on: [s_1], [s_2]", (1, 2)),
        ("Step: log in | Depends on: [s_1] [s_2]", (1, 2)),
        ("Step: log in | Depends on: [s_1-s_4]", (1, 2, 3, 4)),
        ("Step: log in | Depends on: s_1 – s_4", (1, 2, 3, 4)),
        ("Step: log in | Depends on: [s_1 through s_3, s_7]", (1, 2, 3, 7)),
        ("Step: log in | Depends on: [s_2..s_4]", (2, 3, 4)),
        ("Step: log in | Depends on: [s_2-4]", (2, 3, 4)),
        ("Step: log in | Depends on: [s1, S2]", (1, 2)),
        (r"Step: log in | Depends on: [s\_1, s\_2]", (1, 2)),
        ("Step: log in | Depends on: [s_{1}]", (1,)),
        ("Step: log in | Depends on: [span s_4]", (4,)),
        ("Step: log in | Depends on: (s_4)", (4,)),
        ("Step: log in | Depends on: [1, 4]", (1, 4)),
        ("Step: log in | Depends on: none", ()),
        ("Step: log in | Depends on: None.", ()),
        ("Step: log in | Depends on: []", ()),
        ("Step: log in | Depends on: [none]", ()),
        ("Step: log in | Depends on:", ()),
        ("Step: log in | Depends on: n/a", ()),
        ("Step: log in | Depends on: [s_2] (the token; s_9 is not needed)", (2,)),
        ("Step: log in. Depends on: [s_2]", (2,)),
        ("Step: log in (depends on: s_2)", (2,)),
        ("2) log in | Depends on: [s_2]", (2,)),
        ("> Step: log in | Depends on: [s_2]", (2,)),
    ],
)
def test_one_line(line: str, cited: tuple[int, ...]) -> None:
    sketch = read_sketch(line, SPANS)
    assert sketch.problem is None
    assert sketch.unknown == ()
    assert sketch.steps[0].cites == cited
    assert sketch.steps[0].text.startswith("log in")


def test_a_step_and_its_dependencies_on_two_lines() -> None:
    sketch = read_sketch("Step 1: log in\n   Depends on: [s_2]\nStep 2: pay\n   Depends on: [s_3]", SPANS)
    assert [(step.text, step.cites) for step in sketch.steps] == [("log in", (2,)), ("pay", (3,))]


def test_rescues_with_reasons() -> None:
    sketch = read_sketch(
        "Step: pay | Depends on: [s_1]\nRescued Spans: [s_2, s_3] | Reason: the password was wrong\n"
        "**Rescued Spans:** [s_5]\nReason: a rule",
        SPANS,
    )
    assert sketch.cited == {1}
    assert sketch.rescued == {2, 3, 5}
    assert [rescue.reason for rescue in sketch.rescues] == ["the password was wrong", "a rule"]


def test_an_empty_rescue_rescues_nothing() -> None:
    for line in ("Rescued Spans: [] | Reason: none", "Rescued Spans: none", "Rescued Spans: [none] | Reason: -"):
        sketch = read_sketch(f"Step: pay | Depends on: [s_1]\n{line}", SPANS)
        assert sketch.rescued == set()
        assert sketch.unknown == ()


def test_a_fenced_block_and_a_preamble() -> None:
    reply = (
        "<think>s_9 looks useful: Step: no | Depends on: [s_9]</think>\nHere is the plan, based on s_7:\n\n"
        "```text\nStep: pay | Depends on: [s_1]\n```\nLet me know if s_8 matters."
    )
    assert read_sketch(reply, SPANS).cited == {1}


def test_only_the_closing_tag_of_the_preamble_came_through() -> None:
    assert read_sketch("Step: x | Depends on: [s_9]\n</think>\nStep: pay | Depends on: [s_1]", SPANS).cited == {1}


def test_thinking_that_never_ended_is_no_plan() -> None:
    assert read_sketch("<think>Step: x | Depends on: [s_9]", SPANS).problem is not None


@pytest.mark.parametrize(
    ("cites", "unknown"),
    [("s_13", "s_13"), ("s_0", "s_0"), ("s_10-s_14", "s_10-s_14"), ("s_4-s_2", "s_4-s_2"), ("s_99999999999", "s_")],
)
def test_an_id_that_names_no_span_is_reported_not_kept(cites: str, unknown: str) -> None:
    sketch = read_sketch(f"Step: pay | Depends on: [s_1, {cites}]", SPANS)
    assert sketch.cited == {1}
    assert len(sketch.unknown) == 1
    assert sketch.unknown[0].startswith(unknown)
    assert sketch.problem is None


def test_only_unknown_ids_make_no_plan() -> None:
    assert "s_77" in (read_sketch("Step: pay | Depends on: [s_77]", SPANS).problem or "")


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "I'm sorry, I can't help with that.",
        "Step 1: log in\nStep 2: pay",
        "The agent should use s_3 and s_4.",
        "Step: <what> | Depends on: [<ids>]",
        "Step: pay | Depends on: the login step",
        '{"steps": []}',
    ],
)
def test_nonsense_does_not_vote(reply: str) -> None:
    assert read_sketch(reply, SPANS).problem is not None


def test_a_truncated_reply_loses_its_last_line() -> None:
    reply = "Step: pay | Depends on: [s_2]\nStep: tell | Depends on: [s_1"
    assert read_sketch(reply, SPANS).cited == {1, 2}
    assert read_sketch(reply, SPANS, truncated=True).cited == {2}


PASSAGES = {1: 0, 2: 4, 3: 9, 5: 2}
"""The number of passages of each span; the first is not divided, the fourth is gone."""


@pytest.mark.parametrize(
    ("ids", "whole", "parts"),
    [
        ("s_2.3", (), ((2, 3),)),
        ("s_2.1, s_3.9", (), ((2, 1), (3, 9))),
        ("s_2.0", (), ((2, 0),)),
        ("s_2.1-s_2.3", (), ((2, 1), (2, 2), (2, 3))),
        ("s_2.1-3", (), ((2, 1), (2, 2), (2, 3))),
        ("s_2.1 – s_2.2, s_5", (5,), ((2, 1), (2, 2))),
        ("s_2.1, s_2, s_2.4", (2,), ()),
        ("s_2-s_5", (2, 3, 5), ()),
        ("s_1.1", (1,), ()),
        ("s2.4", (), ((2, 4),)),
    ],
)
def test_passages_are_cited_and_a_whole_span_counts_more_than_its_parts(
    ids: str, whole: tuple[int, ...], parts: tuple[tuple[int, int], ...]
) -> None:
    cited = read_sketch(f"Step: pay | Depends on: [{ids}]", PASSAGES)
    rescued = read_sketch(f"Step: x | Depends on: []\nRescued Spans: [{ids}] | Reason: y", PASSAGES)
    for sketch in (cited, rescued):
        assert (sketch.problem, sketch.unknown) == (None, ())
        assert sketch.cited | sketch.rescued == {*whole, *(index for index, _ in parts)}
    assert (cited.steps[0].cites, cited.steps[0].parts) == (whole, parts)
    assert (rescued.rescues[0].spans, rescued.rescues[0].parts) == (whole, parts)


@pytest.mark.parametrize("ids", ["s_2.5", "s_5.3", "s_4.1", "s_2.3-s_2.9", "s_2.3-1", "s_2.1-s_3.2"])
def test_a_passage_that_does_not_exist_is_reported_not_guessed(ids: str) -> None:
    sketch = read_sketch(f"Step: pay | Depends on: [s_5.1, {ids}]", PASSAGES)
    assert (sketch.steps[0].cites, sketch.steps[0].parts) == ((), ((5, 1),))
    assert len(sketch.unknown) == 1


def test_dependencies_on_two_lines_are_joined_with_their_passages() -> None:
    sketch = read_sketch("Step: pay | Depends on: [s_2.1]\nDepends on: [s_2.2, s_5]", PASSAGES)
    assert [(step.cites, step.parts) for step in sketch.steps] == [((5,), ((2, 1), (2, 2)))]


@given(st.text())
def test_any_text_at_all_is_read(text: str) -> None:
    sketch = read_sketch(text, SPANS)
    assert sketch.cited | sketch.rescued <= set(range(1, SPANS + 1))


@given(st.lists(st.integers(1, 10**12)), st.sampled_from([", ", " and ", "; ", "], [", " "]))
def test_known_ids_are_cited_and_others_reported(numbers: list[int], between: str) -> None:
    listed = between.join(f"s_{number}" for number in numbers)
    sketch = read_sketch(f"Step: go on | Depends on: [{listed}]", SPANS)
    assert sketch.cited == {number for number in numbers if number <= SPANS}
    assert len(sketch.unknown) == len({number for number in numbers if number > SPANS})


@given(st.text(alphabet="s_[]()0123456789 |:-,dependsonrescupaStD\n\\*`", max_size=400))
def test_a_reply_of_line_noise_takes_no_time(text: str) -> None:
    read_sketch(text * 20, SPANS)
