"""When an event is due: the formula on numbers worked out by hand, and sessions that follow it."""

from functools import partial

import pytest

from focusctx import Focus
from focusctx.errors import ConfigError
from focusctx.prices import Price, price_of
from focusctx.session.events import Economics, calls_to_come, weigh
from focusctx.session.store import MemoryStore
from focusctx.types import Prompt, Usage
from helpers import histories
from helpers.session_parts import NOTHING, Draft, cites, everything, growing, moved, sent, session_of, sized

GPT = "gpt-4.1"
CLAUDE = "claude-sonnet-4-5"
MINI = "openai:gpt-4.1-mini"


money_first = partial(session_of, only_if_it_pays=True)


def verdict(model: str, dropped: int, suffix: int, calls: int, sketches: float = 0.0, *, cold: bool = False):
    return weigh(price_of(model), dropped=dropped, suffix=suffix, calls=calls, sketches=sketches, cold=cold)


def test_the_prices_the_examples_rest_on():
    assert (price_of(GPT).cache_read, price_of(GPT).cache_write) == (0.25, 1.0)
    assert (price_of(CLAUDE).cache_read, price_of(CLAUDE).cache_write) == (0.1, 1.25)


@pytest.mark.parametrize(
    ("model", "dropped", "suffix", "sketches", "calls_needed"),
    [
        (GPT, 2000, 1000, 0, 2),  # (1 − .25)·1000 / (.25·2000) = 1.5
        (GPT, 2000, 1000, 500, 3),  # (750 + 500) / 500 = 2.5
        (GPT, 4000, 6000, 1500, 7),  # (4500 + 1500) / 1000 = 6: as much again is not more
        (CLAUDE, 2000, 1000, 0, 6),  # (1.25 − .1)·1000 / (.1·2000) = 5.75
        (CLAUDE, 2000, 1000, 60, 7),  # (1150 + 60) / 200 = 6.05
        (CLAUDE, 500, 10_010, 0, 231),  # 11511.5 / 50 = 230.23
    ],
)
def test_it_pays_from_so_many_calls_on(model, dropped, suffix, sketches, calls_needed):
    assert not verdict(model, dropped, suffix, calls_needed - 1, sketches).pays
    assert verdict(model, dropped, suffix, calls_needed, sketches).pays


def test_a_verdict_says_what_it_weighed():
    refused = verdict(CLAUDE, 2000, 1000, 5)
    assert refused.gain == pytest.approx(5 * 0.1 * 2000)
    assert refused.cost == pytest.approx(1.15 * 1000)
    assert "1000" in refused.why
    assert "1150" in refused.why


def test_a_cold_cache_always_pays():
    cold = verdict(CLAUDE, 1, 100_000, 1, cold=True)
    assert cold.pays
    assert "cold" in cold.why
    assert cold.cost == 0  # the tokens behind the drop are written again in any case


def test_with_a_cold_cache_the_dropped_tokens_save_one_write_and_the_reads_to_come():
    cold = verdict(CLAUDE, 2000, 1000, 5, 60, cold=True)
    assert (cold.gain, cold.cost) == pytest.approx((1.25 * 2000 + 5 * 0.1 * 2000, 60))


def test_where_nothing_is_cached_only_the_sketches_count():
    plain = Price(input=1.0, output=1.0)
    assert weigh(plain, dropped=100, suffix=10_000, calls=1, sketches=99, cold=False).pays
    assert not weigh(plain, dropped=100, suffix=10_000, calls=1, sketches=100, cold=False).pays


def test_nothing_dropped_never_pays():
    assert not verdict(GPT, 0, 0, 1000).pays


def test_as_many_calls_are_expected_as_there_were():
    assert [calls_to_come(spans) for spans in (0, 1, 7)] == [1, 1, 7]


# ------------------------------------------------------------------------------------------------- in a session


def test_a_session_weighs_before_it_asks_the_draft():
    """Four steps of 100, δ 300: D = S = 200, k = 4. On Claude 80 against 230; on gpt-4.1 200 against 150."""
    drafts = {model: Draft() for model in (GPT, CLAUDE)}
    sessions = {model: money_first(draft, model=model) for model, draft in drafts.items()}
    for session in sessions.values():
        sent(session, growing(sized(100, 100, 100, 100)))
    refused = sessions[CLAUDE].events[-1]
    assert (refused.happened, refused.cause, refused.span, refused.tokens_before) == (False, "money", 4, 400)
    assert (refused.verdict.gain, refused.verdict.cost) == pytest.approx((4 * 0.1 * 200, 1.15 * 200))
    assert refused.result is None
    assert drafts[CLAUDE].calls == 0
    assert [event.cause for event in sessions[GPT].events] == ["compressed"]
    assert drafts[GPT].calls == 1


def test_the_draft_has_its_price_in_the_gate():
    """gpt-4.1-mini reads 400 tokens and writes 3·1024/4 = 768: 160 + 1228.8 millionths, 694.4 tokens of gpt-4.1."""
    session = money_first(Draft(name="openai:gpt-4.1-mini"), model=GPT)
    sent(session, growing(sized(100, 100, 100, 100)))
    assert session.events[-1].cause == "money"
    assert session.events[-1].verdict.cost == pytest.approx(0.75 * 200 + (400 * 0.4 + 768 * 1.6) / 2.0)


def test_it_opens_when_enough_has_come_together():
    """k, D and S grow: 0.1·k·D > 1.15·S at k = 12 with half of everything dropped."""
    draft = Draft()
    session = money_first(draft, model=CLAUDE)
    sent(session, growing(sized(*[100] * 12)))
    assert [(event.cause, event.span, event.steps) for event in session.events] == [
        ("money", 11, 8),  # one entry for eight steps in a row
        ("compressed", 12, 1),
    ]
    assert draft.calls == 1


@pytest.mark.parametrize("model", [None, "a-model-nobody-knows"])
def test_a_model_without_a_price_leaves_the_gate_open(model):
    session = session_of(Draft(), model=model)
    sent(session, growing(sized(100, 100, 100, 100)))
    assert [(event.happened, event.why, event.verdict) for event in session.events] == [(True, "over budget", None)]


def test_a_quarter_over_the_budget_it_is_made_and_says_what_it_costs():
    """400 tokens, a budget of 300: above 375 nothing waits. On Claude s_2 moves: 80 against 115."""
    session = session_of(Draft(cites(2)), model=CLAUDE)
    sent(session, growing(sized(100, 100, 100, 100)))
    (event,) = session.events
    assert (event.happened, event.cause, event.tokens_after) == (True, "compressed", 200)
    assert event.why.startswith("a quarter over budget, so made in any case: does not pay: ")
    assert not event.verdict.pays
    # s_2 moves and is read again; s_4 is new and would have been written in any case
    assert (event.verdict.gain, event.verdict.cost) == pytest.approx((4 * 0.1 * 200, 1.15 * 100))


@pytest.mark.parametrize("model", ["gpt-5", "gemini-2.5-pro", CLAUDE])
def test_the_budget_is_kept_at_models_with_a_cheap_cache(model):
    """Sixty steps of 100 on a budget of 1000, of which the sketches need the last five."""
    draft = Draft(lambda prompt: cites(*range(prompt.history.newest - 5, prompt.history.newest)), name=MINI)
    session, gated = (session_of(draft, budget=1000, model=model, only_if_it_pays=gate) for gate in (False, True))
    histories = growing(sized(*[100] * 60))
    sizes = []
    for history in histories:
        session.view(history)
        sizes.append(session.size[1])
    assert max(sizes) <= 1250
    sent(gated, histories)
    assert max(event.tokens_before for event in gated.events) > 1800, "money first sends more than that"


def test_an_event_that_does_not_pay_waits_within_a_quarter_and_says_so():
    """Steps of 100 on 1000. At s_11 and s_12 a gain of 0.1·k·D is below the cost, above 1250 nobody asks."""
    draft = Draft(cites(2), name="openai:gpt-5", usage=Usage(1, 1000, 100))
    session = session_of(draft, budget=1000, model="gpt-5")
    sent(session, growing(sized(*[100] * 13)))
    waiting, done = session.events
    assert (waiting.cause, waiting.span, waiting.steps) == ("money", 12, 2)
    assert waiting.why.startswith("over budget, may wait until 1250 tokens: does not pay: ")
    assert (done.cause, done.span, done.tokens_before) == ("compressed", 13, 1300)
    assert draft.calls == 1
    gated = session_of(Draft(cites(2), name="openai:gpt-5"), budget=1000, model="gpt-5", only_if_it_pays=True)
    sent(gated, growing(sized(*[100] * 13)))
    assert [(event.cause, event.steps) for event in gated.events] == [("money", 3)]
    assert gated.events[-1].why.startswith("over budget, but only_if_it_pays is set: does not pay: ")


def test_a_cold_cache_opens_it():
    now = [1000.0]
    session = money_first(Draft(), model=CLAUDE, clock=lambda: now[0])
    histories = growing(sized(*[100] * 5))
    sent(session, histories[:-1])
    assert moved(session) == []
    now[0] += 299
    session.view(histories[-2])
    assert moved(session) == []
    now[0] += 301  # Claude forgets after 300 s
    session.view(histories[-1])
    assert [event.why for event in moved(session)] == ["over budget: the provider's cache has gone cold"]


def test_each_conversation_has_a_cache_of_its_own():
    """A sub-agent that is called all the time does not keep the main agent's prefix warm."""
    now = [0.0]
    session = money_first(Draft(), model=CLAUDE, clock=lambda: now[0])
    main, side = growing(sized(*[100] * 5)), sized(1, name=" aside")
    sent(session, main[:-1])
    for _ in range(4):
        now[0] += 200
        session.view(side)
    session.view(main[-1])
    assert [event.why for event in moved(session)] == ["over budget: the provider's cache has gone cold"]


def test_near_the_window_it_always_opens(tmp_path, monkeypatch):
    prices = tmp_path / "prices.toml"
    prices.write_text(
        '[models]\n"small" = { input = 1.0, output = 1.0, cache_read = 0.01, cache_write = 2.0, context = 500 }\n'
    )
    monkeypatch.setenv("FOCUSCTX_PRICES", str(prices))
    session = money_first(Draft(), model="small")
    sent(session, growing(sized(*[100] * 5)))
    assert [(event.cause, event.span, event.why) for event in session.events] == [
        ("money", 4, session.events[0].why),  # 400 of 500
        ("compressed", 5, "near the model's window"),
    ]


def test_what_the_sketches_leave_out_may_not_pay_and_is_not_asked_again_at_every_step():
    """Expected: half of it. The sketches would drop only s_1: 0.25·4·10 against 0.75·(390 − 0 − 100)."""
    draft = Draft(lambda prompt: cites(*(span.index for span in prompt.history.spans if span.index > 1)))
    session = money_first(draft, model=GPT, growth=0.5)
    sent(session, growing(sized(10, 190, 100, 100)))
    refused = session.events[-1]
    assert (refused.happened, refused.cause) == (False, "money")
    assert refused.result.dropped == (1,)
    assert (refused.verdict.gain, refused.verdict.cost) == pytest.approx((0.25 * 4 * 10, 0.75 * 290))
    assert draft.calls == 1
    sent(session, growing(sized(10, 190, *[100] * 6))[5:])
    assert [(event.cause, event.span) for event in session.events][1:] == [
        ("growth", 5),  # 100 new tokens of the 150 that are needed
        ("money", 8),  # half of 400 new ones: 0.25·8·200 against 0.75·600
    ]
    assert draft.calls == 1
    sent(session, growing(sized(10, 190, *[100] * 7))[-1:])  # 0.25·9·250 against 0.75·650
    assert draft.calls == 2


def test_what_did_not_pay_is_dropped_when_the_cache_is_cold_without_asking_again():
    now = [0.0]
    draft = Draft(lambda prompt: cites(*(span.index for span in prompt.history.spans if span.index > 1)))
    session = money_first(draft, model=GPT, clock=lambda: now[0])
    sent(session, growing(sized(10, 190, 100, 100)))
    assert session.events[-1].cause == "money"
    now[0] += 601
    view = session.view(sized(10, 190, 100, 100, 5))
    assert draft.calls == 1
    assert [event.result.dropped for event in moved(session)] == [(1,)]
    assert len(view) == 2 + 2 * 4


def test_sketches_that_did_not_pay_are_not_used_after_new_words_of_the_user():
    """The draft is asked again: the sketches were about another goal."""
    now = [0.0]
    draft = Draft(lambda prompt: cites(*(span.index for span in prompt.history.spans if span.index > 1)))
    session = money_first(draft, model=GPT, clock=lambda: now[0])
    sent(session, growing(sized(10, 190, 100, 100)))
    assert session.conversations[0].deferred
    now[0] += 601
    session.view([*sized(10, 190, 100, 100), {"role": "user", "content": "Now another task."}, *sized(*[99] * 5)[-2:]])
    assert draft.calls == 2
    assert session.conversations[0].deferred is None


def test_deferred_sketches_are_weighed_with_the_steps_that_came_since():
    """s_2 of 100 would go. At s_6: 0.25·6·100 = 150 against 0.75·(200 + 1 + 1) = 151.5, not yet.

    At s_7, 175 against 0.75·(200 + 3). The 50 tokens before s_2 do not move, and the newest step is new in any case.
    """
    draft = Draft(lambda prompt: cites(*(span.index for span in prompt.history.spans if span.index != 2)))
    session = money_first(draft, model=GPT, growth=10)
    sent(session, growing(sized(50, 100, 200, 1, 1, 1, 100)))
    assert draft.calls == 1
    assert [(event.cause, event.span) for event in session.events if event.result] == [("money", 4), ("compressed", 7)]
    done = moved(session)[0].verdict
    assert (done.gain, done.cost) == pytest.approx((0.25 * 7 * 100, 0.75 * 203))


def test_after_an_event_that_found_all_needed_the_gate_can_open_again():
    draft = Draft(lambda prompt: everything(prompt) if prompt.history.newest < 6 else NOTHING)
    session = money_first(draft, model=GPT)
    sent(session, growing(sized(*[100] * 14)))
    assert next(event.cause for event in session.events if event.result) == "needed"
    assert moved(session)[0].cause == "compressed"


def test_growth_is_needed_and_said():
    draft = Draft(everything)
    session = session_of(draft, budget=400, growth=0.5, model=CLAUDE)
    sent(session, growing(sized(100, 100, 100, 100, 110, 100, 100, 100)))
    assert [(event.cause, event.span, event.steps) for event in session.events] == [
        ("needed", 5, 1),  # 510 tokens, and every step is needed
        ("growth", 6, 1),
        ("needed", 7, 1),  # 200 more
        ("growth", 8, 1),
    ]
    waiting = session.events[1]
    assert waiting.why == "only 100 new tokens since the last event, 200 are needed"
    assert waiting.verdict.cost > 0, "and what it would have cost"
    assert draft.calls == 2


def test_a_history_of_which_all_is_needed_does_not_ask_at_every_step():
    draft = Draft(everything)
    session = session_of(draft, budget=1000)
    sent(session, growing(sized(*[50] * 100)))
    assert draft.calls == 16  # at 1050 tokens, then every 250 up to 4800 or 5050
    assert moved(session) == []


def test_tokens_left_in_records_are_not_growth():
    draft = Draft()
    session = session_of(draft, budget=1000, tokens=len, levels=True, target=0.5)
    history = sized(*[100] * 40)
    for message in history:
        if message["role"] == "assistant":
            message["content"] = "a long thought that stays " * 4
    sent(session, growing(history))
    for before, after in zip(moved(session), moved(session)[1:], strict=False):
        assert after.tokens_before - before.tokens_after >= 250
    assert draft.calls < 20


def test_words_of_the_user_alone_make_no_second_event_at_the_same_step():
    draft = Draft(everything)
    session = session_of(draft)
    history = sized(100, 100, 100, 100)
    session.view(history)
    for _ in range(3):
        history = [*history, {"role": "user", "content": "x" * 500}]
        session.view(history)
    assert draft.calls == 1
    assert session.events[-1].why == "no new step since the last event"
    session.view([*history, *sized(*[1] * 5)[-2:]])
    assert draft.calls == 2


def test_nobody_is_asked_where_nothing_can_go():
    draft = Draft()
    session = session_of(draft, pin=lambda span: True)
    sent(session, growing(sized(*[100] * 6)))
    assert [(event.cause, event.steps) for event in session.events] == [("pinned", 3)]
    lone = session_of(draft, budget=10)
    lone.view(sized(100))
    assert lone.events[-1].cause == "pinned"
    assert draft.calls == 0


def test_a_history_that_no_provider_takes_is_passed_on_and_nobody_is_asked():
    draft = Draft()
    session = session_of(draft)
    history = sized(*[100] * 5)
    del history[3]  # a call without its result
    assert session.view(history) == history
    assert session.events[-1].cause == "illegal"
    assert draft.calls == 0


@pytest.mark.parametrize("options", [{"ahead": 0}, {"ahead": 1.1}, {"growth": -0.1}])
def test_options_out_of_range_are_refused(options):
    with pytest.raises(ConfigError, match=f"{next(iter(options))} must be"):
        session_of(Draft(), **options)


# ------------------------------------------------------------------------- no more than one event is ever outstanding

SKETCHES = Usage(requests=1, input_tokens=5000, output_tokens=750)
"""$0.0032: as much as 1600 input tokens of gpt-4.1."""


def test_after_sketches_that_brought_nothing_no_others_are_paid_for():
    draft = Draft(everything, usage=SKETCHES, name=MINI)
    session = money_first(draft, budget=3000, model=GPT)
    sent(session, growing(sized(*[1000] * 40)))
    assert draft.calls == 1
    assert "has not paid for itself yet, 1600 tokens' worth to go" in session.events[-1].why
    assert session.savings.net == pytest.approx(-0.0032)


def test_sketches_are_paid_for_only_while_nothing_is_outstanding():
    balances: list[float] = []
    draft = Draft(lambda prompt: cites(2), usage=SKETCHES, name=MINI)
    session = money_first(draft, budget=3000, model=GPT)
    for history in growing(sized(*[1000] * 60)):
        before, calls = session.savings.net, draft.calls
        session.view(history)
        balances += [before] * (draft.calls - calls)
    assert len(balances) > 3
    assert min(balances) >= 0


def test_near_the_window_debts_do_not_count(tmp_path, monkeypatch):
    prices = tmp_path / "prices.toml"
    prices.write_text('[models]\n"small" = { input = 2.0, output = 1.0, cache_read = 0.25, context = 20000 }\n')
    monkeypatch.setenv("FOCUSCTX_PRICES", str(prices))
    draft = Draft(lambda prompt: everything(prompt) if prompt.history.newest < 19 else NOTHING)
    session = money_first(draft, budget=3000, model="small")
    session.view(sized(*[1000] * 6))
    session.conversations[0].spent = 1.0
    sent(session, growing(sized(*[1000] * 19))[7:])
    assert [(event.why, event.span) for event in moved(session)] == [("near the model's window", 19)]


def test_a_process_that_takes_over_knows_what_is_still_owed():
    """s_2 and s_4 are left of 4000 tokens. s_2 is read again for 0.75·1000, and every call brings in 0.25·2000."""
    store = MemoryStore()
    histories = growing(sized(*[1000] * 8))
    first = money_first(Draft(cites(2)), store, budget=3000, model=GPT, growth=10)
    sent(first, histories[:5])
    options = {"ahead": 1.0, "growth": 10.0, "only_if_it_pays": True}
    money = Economics(price_of(GPT), first.focus, **options)
    for steps, balance in ((4, -250), (5, -250), (6, 250), (8, 1250)):
        second = money_first(Draft(cites(2)), store, budget=3000, model=GPT, growth=10)
        second.view(histories[steps])
        assert money.in_tokens(money.balance(second.conversations[0])) == pytest.approx(balance)


def test_what_was_once_useless_does_not_switch_it_off_for_good():
    """A single call would save more than the old sketches and new ones cost: 0.25·D against 1600 and more."""
    draft = Draft(
        lambda prompt: everything(prompt) if prompt.history.newest < 20 else NOTHING, name=MINI, usage=SKETCHES
    )
    session = money_first(draft, budget=3000, model=GPT)
    sent(session, growing(sized(*[1000] * 80)))
    assert moved(session)
    assert draft.calls < 10


def test_sketches_that_did_not_pay_are_acted_on_once_they_do():
    """s_1 of 100 saves 0.25·k·100 and moves what is behind it: 0.75·S. Steps of 1 add little to S and one to k."""
    draft = Draft(lambda prompt: cites(*(span.index for span in prompt.history.spans if span.index > 1)))
    session = money_first(draft, model=GPT, growth=10)
    sent(session, growing(sized(100, 100, 100, 100, *[1] * 8)))
    assert draft.calls == 1
    assert [(event.cause, event.span) for event in session.events if event.result] == [("money", 4), ("compressed", 10)]
    # at s_9: 0.25·9·100 = 225 against 0.75·(300 + 4) = 228, not yet
    done = moved(session)[0].verdict
    assert (done.gain, done.cost) == pytest.approx((0.25 * 10 * 100, 0.75 * 305))


def test_an_event_waits_until_large_results_are_answered() -> None:
    """They must stay whole until then, and would leave little room for the rest."""
    messages = [{"role": "user", "content": "Go on."}]
    session = Focus("offline", budget=1000, target=0.5).session()
    for number, words in enumerate((150, 150, 150, 150, 500, 20), 1):
        messages += histories.step(number, "word " * words)
        view = session.view(messages)
        event = view.conversation.events[-1] if view.conversation.events else None
        if number == 5:
            assert (event.happened, event.cause) == (False, "newest")
            assert view == messages
    assert event.happened
    assert view.conversation.tokens <= 500


@pytest.mark.parametrize(("large", "waits"), [(500, True), (750, True), (1000, False)])
def test_an_event_waits_for_answers_until_the_view_is_half_over_the_budget(large: int, waits: bool) -> None:
    messages = [{"role": "user", "content": "Go on."}]
    session = Focus("offline", budget=1000, target=0.5).session()
    for number, words in enumerate((150, 150, 150, 150, large), 1):
        messages += histories.step(number, "word " * words)
        view = session.view(messages)
    assert waits == (view.conversation.events[-1].cause == "newest")
    assert waits == (view == messages)


def test_near_the_models_window_an_event_waits_for_no_answers(tmp_path, monkeypatch) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text('[models]\n"small" = { input = 2.0, output = 1.0, cache_read = 0.25, context = 1200 }\n')
    monkeypatch.setenv("FOCUSCTX_PRICES", str(prices))
    messages = [{"role": "user", "content": "Go on."}]
    session = Focus("offline", budget=1000, target=0.5).session(model="small")
    for number, words in enumerate((150, 150, 150, 150, 500), 1):
        messages += histories.step(number, "word " * words)
        view = session.view(messages)
    assert view.conversation.events[-1].happened


def test_sketches_are_not_drawn_ahead_while_large_results_are_new() -> None:
    """The draft says nothing of the newest step, and by the time of the event these results are not the newest."""
    drawn: list[int] = []

    def draft(prompt: Prompt) -> str:
        drawn.append(prompt.history.newest)
        return "Step: go on | Depends on: [s_5]\nRescued Spans: [] | Reason: none"

    messages = [{"role": "user", "content": "Go on."}]
    session = Focus(draft, budget=1000, target=0.5, rollouts=1).session()
    for number, words in enumerate((60, 60, 60, 60, 700, 20), 1):
        messages += histories.step(number, "word " * words)
        session.view(messages)
    assert session.events[-1].happened
    assert drawn[-1] == 6
    assert 5 not in drawn
