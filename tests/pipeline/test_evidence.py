"""The record of an event: worked out when somebody looks at it, and the same whenever that is."""

import copy
import json
import pickle

from hypothesis import given
from hypothesis import strategies as st

from focusctx import Focus, FocusConfig, History, Result, Span
from focusctx.drafts import ScriptedDraft
from focusctx.pipeline.draft import reasons
from focusctx.pipeline.evidence import decisions
from focusctx.pipeline.keep import score, select
from focusctx.types import Rescue, Sketch, Step
from helpers.histories import run

SPANS = 6
some_spans = st.lists(st.integers(1, SPANS + 2), max_size=5, unique=True).map(tuple)
words = st.sampled_from(["", "go", "look", "it failed"])
sketches = st.lists(
    st.builds(
        Sketch,
        st.just(""),
        st.lists(st.builds(Step, words, some_spans), max_size=3).map(tuple),
        st.lists(st.builds(Rescue, some_spans, words), max_size=2).map(tuple),
        problem=st.sampled_from([None, None, None, "nonsense"]),
    ),
    min_size=1,
    max_size=4,
)
HISTORY = History("g", tuple(Span(index, tokens=10 * index) for index in range(1, SPANS + 1)))


@given(sketches=sketches, asked=st.sets(st.integers(1, SPANS)))
def test_the_reasons_for_some_spans_are_those_in_their_decisions(sketches: list[Sketch], asked: set[int]) -> None:
    scores = score(sketches, {})
    found = decisions(HISTORY, sketches, scores, select(HISTORY, scores, {SPANS: "newest span"}, FocusConfig()))
    said = reasons(sketches, asked)
    assert set(said) <= asked
    for decision in found:
        if decision.index in asked:
            assert said.get(decision.index, ()) == decision.reasons


def test_who_asked_for_what() -> None:
    sketches = [
        Sketch("", (Step("pay", (1, 2)), Step("", (2,))), (Rescue((3,), "it failed"),)),
        Sketch("", (Step("pay", (2,)), Step("leave", (1,)))),
        Sketch("", (Step("sing", (4,)),), problem="no plan"),
    ]
    scores = score(sketches, {})
    selection = select(HISTORY, scores, {SPANS: "newest span"}, FocusConfig())
    first, second, third, fourth, *_, last = decisions(HISTORY, sketches, scores, selection)
    assert (first.cited_by, first.reasons, first.utility, first.fate) == ((1, 2), ("pay", "leave"), 1.0, "kept")
    assert (second.cited_by, second.reasons) == ((1, 2), ("pay",))
    assert (third.rescued_by, third.reasons, third.fate) == ((1,), ("it failed",), "rescued")
    assert (fourth.cited_by, fourth.reasons, fourth.fate) == ((), (), "dropped")
    assert (last.pinned, last.fate) == ("newest span", "pinned")


def compressed() -> Result:
    plan = "Step: finish | Depends on: [s_2]\nRescued Spans: [s_1] | Reason: it failed"
    result = Focus(ScriptedDraft([plan]), budget=0, levels=False, target=None).compress(run(6))
    assert result.dropped
    return result


def test_a_result_is_the_same_before_and_after_somebody_looked() -> None:
    fresh, looked_at = compressed(), compressed()
    assert len(looked_at.decisions) == len(looked_at.kept) + len(looked_at.dropped)
    assert fresh.decisions == looked_at.decisions == tuple(looked_at.decisions)
    assert fresh.decisions != looked_at.decisions[1:]
    assert fresh.decisions[-1] == looked_at.decisions[-1:][0]
    assert hash(fresh.decisions) == hash(tuple(looked_at.decisions))
    assert repr(fresh.decisions) == repr(tuple(looked_at.decisions))


def test_it_can_be_copied_and_sent_to_another_process() -> None:
    result = compressed()
    for made in (copy.deepcopy(result), pickle.loads(pickle.dumps(compressed())), Result.from_json(result.to_json())):
        assert type(made.decisions) is tuple
        assert made.decisions == result.decisions
    assert [decision["index"] for decision in json.loads(compressed().to_json())["decisions"]] == list(range(1, 7))
