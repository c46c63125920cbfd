"""The savings that a session reports are what a caching provider would have charged less."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from focusctx.prices import price_of
from focusctx.session.store import MemoryStore, Totals
from focusctx.session.stores import store_from
from focusctx.types import Usage
from helpers.session_parts import (
    BreakableStore,
    Draft,
    cites,
    crosses,
    growing,
    moved,
    sent,
    session_of,
    sized,
    wait_until,
)

GPT = "gpt-4.1"
MINI = "openai:gpt-4.1-mini"
MILLION = 1_000_000


def test_a_small_run_worked_out_by_hand():
    """gpt-4.1 at $2 a million, r = .25, w = 1. Steps of 100, δ 310. At the fourth, s_1 and s_3 go.

    Calls 1 to 3 cost what they would have. The fourth leaves out 200 tokens, each of which would have been read for
    .25; s_2, which stood behind s_1, is written again for .75 more; s_4 is new in either case. The fifth leaves out
    the same 200. The sketches: 1000 tokens in and 150 out of gpt-4.1-mini at $0.40 and $1.60.
    """
    draft = Draft(cites(2), usage=Usage(1, 1000, 150), name=MINI)
    store = MemoryStore()
    session = session_of(draft, store, budget=310, model=GPT)
    histories = growing(sized(*[100] * 5))
    sent(session, histories[:4])
    assert session.savings == Totals()
    sent(session, histories[4:])
    savings = session.savings
    assert savings.events == 1
    assert savings.tokens_saved == 200 + 200
    assert savings.saved == pytest.approx((50 + 50) * 2 / MILLION)
    assert savings.rereads == pytest.approx(75 * 2 / MILLION)
    assert savings.drafts == pytest.approx((1000 * 0.40 + 150 * 1.60) / MILLION)
    assert savings.recalls == 0
    session.recall("s_1")
    assert session.savings.recalls == pytest.approx(100 * 2 / MILLION)
    assert session.savings.net == pytest.approx((100 - 75 - 100) * 2 / MILLION - 0.00064)
    session.close()
    assert store.totals("default") == session.savings


def bill(calls: list[list[dict]], pauses: list[bool], model: str) -> float:
    """Dollars a provider charges for these inputs: the longest prefix it has seen is cached, unless it forgot."""
    price = price_of(model)
    total, before = 0.0, [calls[0][0]]
    for messages, forgot in zip(calls, pauses, strict=True):
        same = 0
        while not forgot and same < min(len(messages), len(before)) and messages[same] == before[same]:
            same += 1
        cached = sum(crosses(json.dumps(message)) for message in messages[1:same])
        fresh = sum(crosses(json.dumps(message)) for message in messages[max(same, 1) :])
        total += price.cache_read * cached + price.cache_write * fresh
        before = messages
    return total * price.input / MILLION


@settings(max_examples=60)
@given(data=st.data())
@pytest.mark.parametrize("model", [GPT, "claude-sonnet-4-5"])
@pytest.mark.parametrize("gate", [True, False])
def test_the_ledger_is_what_a_provider_would_bill(gate, model, data):
    sizes = data.draw(st.lists(st.integers(0, 60), min_size=3, max_size=14))
    kept = data.draw(st.lists(st.integers(1, 14), max_size=6))
    pauses = data.draw(st.lists(st.booleans(), min_size=len(sizes) + 1, max_size=len(sizes) + 1))
    pauses[0] = False
    now = [0.0]
    session = session_of(
        Draft(cites(*(set(kept) & set(range(1, 4))))),
        budget=data.draw(st.integers(20, 150)),
        model=model,
        only_if_it_pays=gate,
        recall=data.draw(st.booleans()),
        levels=data.draw(st.booleans()),
        target=data.draw(st.sampled_from([None, 0.5])),
        clock=lambda: now[0],
    )
    histories, views = growing(sized(*sizes, task=data.draw(st.integers(0, 30)))), []
    for history, pause in zip(histories, pauses, strict=True):
        now[0] += 10_000 if pause else 1
        views.append(session.view(history))
    savings = session.savings
    assert savings.saved - savings.rereads == pytest.approx(
        bill(histories, pauses, model) - bill(views, pauses, model), abs=1e-12
    )
    assert savings.tokens_saved == sum(
        crosses(json.dumps(full)) - crosses(json.dumps(view)) for full, view in zip(histories, views, strict=True)
    )
    assert savings.events == len(moved(session))


def test_totals_of_a_tenant_add_up_over_sessions():
    store = MemoryStore()
    draft = Draft(cites(2), usage=Usage(1, 1000, 150), name=MINI)
    sessions = [session_of(draft, store, model=GPT, tenant=tenant) for tenant in ("ann", "ann", "bob")]
    for number, session in enumerate(sessions):
        sent(session, growing(sized(*[100] * 6, name=str(number))))
        session.recall("s_1")
        session.close()
    ann, also_ann, bob = (session.savings for session in sessions)
    assert store.totals("ann").net == pytest.approx((ann + also_ann).net)
    assert store.totals("ann").tokens_saved == (ann + also_ann).tokens_saved > 0
    assert store.totals("bob") == bob
    assert store.totals("eve") == Totals()


def test_nothing_is_written_while_nothing_is_saved():
    store = BreakableStore()
    session = session_of(Draft(), store)
    sent(session, growing(sized(100, 100)))
    session.recall("s_1")
    assert "add" not in store.asked


def test_sketches_that_were_paid_for_but_not_used_are_counted():
    usage = Usage(1, 1000, 150)
    draft = Draft(cites(1), usage=usage, name=MINI)
    session = session_of(draft, model=GPT, ahead=0.4, growth=10)
    session.view(sized(100, 100))  # near δ: asked ahead of time
    assert wait_until(lambda: draft.calls == 1 and not session.conversations[0].early_draw.in_flight)
    assert session.savings.drafts == 0
    session.view([*sized(100, 100), {"role": "user", "content": "Now do something else."}])
    assert session.savings.drafts == pytest.approx(0.00064), "no plan for what the user wants now"
    session.view([*sized(100, 100), {"role": "user", "content": "Now do something else."}, *sized(*[200] * 3)[-2:]])
    assert draft.calls == 2
    assert session.savings.drafts == pytest.approx(2 * 0.00064)


def test_what_is_left_at_the_end_is_counted():
    draft = Draft(usage=Usage(1, 1000, 150), name=MINI)
    store = MemoryStore()
    session = session_of(draft, store, model=GPT, ahead=0.4)
    session.view(sized(100, 100))
    assert wait_until(lambda: draft.calls == 1 and not session.conversations[0].early_draw.in_flight)
    session.close()
    assert session.savings.drafts == store.totals("default").drafts == pytest.approx(0.00064)


def test_sketches_that_led_to_nothing_are_counted():
    draft = Draft("I would rather not.", usage=Usage(1, 1000, 150), name=MINI)
    session = session_of(draft, model=GPT)
    session.view(sized(*[100] * 4))
    assert session.events[-1].cause == "draft"
    assert session.savings.drafts == pytest.approx(0.00064)
    assert session.savings.net < 0


def test_a_session_that_takes_over_claims_no_more_than_is_sure():
    """The provider may well have the view of the process before in its cache."""
    store = MemoryStore()
    first = session_of(Draft(cites(2)), store, model=GPT)
    histories = growing(sized(*[100] * 5))
    sent(first, histories[:5])
    second = session_of(Draft(cites(2)), store, model=GPT)
    second.view(histories[5])
    assert second.savings == Totals(tokens_saved=200, saved=0.25 * 200 * 2 / MILLION)


def test_two_conversations_in_one_session_do_not_mix_their_caches():
    session = session_of(Draft(cites(2)), budget=310, model=GPT)
    main, side = growing(sized(*[100] * 5)), growing(sized(*[10] * 5, name=" aside"))
    for one, other in zip(main, side, strict=True):
        session.view(one)
        session.view(other)
    alone = session_of(Draft(cites(2)), budget=310, model=GPT)
    sent(alone, main)
    assert session.savings == alone.savings


def test_copies_of_the_messages_are_the_same_conversation():
    """A proxy gets every request as new JSON."""
    session, proxied = (session_of(Draft(cites(2)), budget=310, model=GPT) for _ in range(2))
    histories = growing(sized(*[100] * 6))
    sent(session, histories)
    sent(proxied, (json.loads(json.dumps(history)) for history in histories))
    assert proxied.savings == session.savings
    assert session.savings.events == 2


def test_a_store_that_takes_no_totals_does_not_stop_the_agent():
    session = session_of(Draft(cites(2)), BreakableStore("add"), model=GPT)
    views = sent(session, growing(sized(*[100] * 6)))
    assert len(views[-1]) < 14
    assert session.savings.tokens_saved > 0


# -------------------------------------------------------------------------------------- a draft without a known price

NOBODY_LISTS_IT = "openai:some-model-of-our-own"


@pytest.mark.parametrize("url", ["memory", "sqlite:///{}/focus.db"])
def test_a_draft_without_a_known_price_is_not_booked_as_free(url, tmp_path):
    store = store_from(url.format(tmp_path))
    session = session_of(Draft(cites(2), usage=Usage(1, 1000, 150), name=NOBODY_LISTS_IT), store, model=GPT)
    sent(session, growing(sized(*[100] * 5)))
    session.close()
    for savings in (session.savings, store.totals("default")):
        assert (savings.unpriced, savings.draft_cost, savings.net) == (1, None, None)
        assert savings.saved > 0, "the rest is known"
    store.close()


def test_one_unknown_price_makes_the_sum_unknown():
    known, unknown = Totals(saved=2.0, drafts=0.5), Totals(saved=1.0, unpriced=1)
    assert (known.draft_cost, known.net) == (0.5, 1.5)
    assert (known + unknown).net is None
    assert (known + unknown).saved == 3.0


def test_sketches_that_were_broken_off_have_no_known_price_either():
    draft = Draft(seconds=60, name=NOBODY_LISTS_IT)
    session = session_of(draft, model=GPT, ahead=0.4)
    session.view(sized(100, 100))
    assert wait_until(lambda: draft.calls == 1)
    session.close()
    assert session.savings.unpriced == 1


@pytest.mark.parametrize("name", ["offline", "transformers:some/model", "llama-cpp:some.gguf", "scripted"])
def test_a_draft_on_this_machine_costs_nothing(name):
    session = session_of(Draft(cites(2), usage=Usage(1, 1000, 150), name=name), model=GPT)
    sent(session, growing(sized(*[100] * 5)))
    assert session.events[-1].result.usage.cost == 0.0
    assert (session.savings.draft_cost, session.savings.unpriced) == (0.0, 0)
    assert session.savings.net is not None
