from focusctx.config import FocusConfig
from focusctx.drafts.grammar import PlanGrammar
from focusctx.drafts.likelihood import without_span
from focusctx.drafts.small_prompt import for_small_models
from focusctx.pipeline.draft import build_prompt
from focusctx.types import History, Span, UserTurn

HISTORY = History("Pay it.", tuple(Span(n, "t", "a", f"o{n}") for n in (1, 2, 4)), (UserTurn(2, "And hurry."),))


def test_the_trace_stays_and_the_question_comes_after_it():
    usual = build_prompt(HISTORY, FocusConfig())
    small = for_small_models(usual)
    trace = usual.user.removesuffix("\n\nThe remaining plan:")
    assert trace != usual.user
    assert small.user.startswith(trace + "\n\n")
    question = small.user.removeprefix(trace)
    assert "[s_4] was the last one" in question
    assert "Step: <what to do next> | Depends on: [<ids>]" in question
    assert (small.history, small.seed, small.max_tokens) == (usual.history, usual.seed, usual.max_tokens)


def test_rescues_are_asked_for_where_they_were():
    for defensive in (True, False):
        small = for_small_models(build_prompt(HISTORY, FocusConfig(defensive=defensive)))
        assert ("Rescued Spans:" in small.user) == defensive
        assert PlanGrammar.of(small) == PlanGrammar((1, 2, 4), defensive)


def test_no_words_of_the_question_can_be_taken_for_a_span():
    small = for_small_models(build_prompt(HISTORY, FocusConfig()))
    assert without_span(small, "s_4").user.count("[s_4]") == small.user.count("[s_4]") - 1
    assert "] |" not in small.user.split("\n\n")[-1].split("\n")[0]


def test_nothing_done_nothing_changed():
    empty = build_prompt(History("Pay it.", ()), FocusConfig())
    assert for_small_models(empty) is empty
