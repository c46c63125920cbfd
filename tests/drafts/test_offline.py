"""The offline draft: plans from data flow, in the interface of a language model."""

import json
import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from focusctx import Focus, FocusConfig
from focusctx.drafts import OfflineDraft
from focusctx.drafts.dataflow import read_flow
from focusctx.drafts.reading import Kind, facts_in, kind_of
from focusctx.pipeline.draft import read_sketch
from focusctx.pipeline.split import read_history
from focusctx.types import History, Prompt, Span, UserTurn

ROOT = Path(__file__).parents[2]
TRAJECTORIES = ROOT.parent / "shared" / "trajectories"

STEP = re.compile(r"Step: (?P<text>[^|\[\]]+) \| Depends on: \[(?P<ids>(?:s_\d+(?:, s_\d+)*)?)\]")
RESCUE = re.compile(r"Rescued Spans: \[(?P<ids>(?:s_\d+)?)\] \| Reason: (?P<text>[^|\[\]]+)")


def history(*steps, goal="fix the bug", turns=()):
    """A history of (action, observation) or (thought, action, observation) steps, a token per four characters."""
    spans = []
    for index, step in enumerate(steps, 1):
        thought, action, observation = step if len(step) == 3 else ("", *step)
        size = 1 + sum(map(len, (thought, action, observation))) // 4
        spans.append(Span(index, thought, action, observation, tokens=size))
    words = (UserTurn(0, goal), *turns)
    tokens = sum(span.tokens for span in spans) + sum(len(turn.text) // 4 for turn in words)
    return History(goal, tuple(spans), words, tokens=tokens)


async def replies(past, n=3, seed=42, own_seed=None):
    prompt = Prompt("", "", past, seed=seed)
    return [reply.text async for reply in OfflineDraft(own_seed).sample(prompt, n)]


async def kept(past, n=3, seed=42):
    """What the sketches cite or rescue together: at N = 3 one citation keeps a span."""
    sketches = [read_sketch(text, past.newest) for text in await replies(past, n, seed)]
    return frozenset().union(*(sketch.cited | sketch.rescued for sketch in sketches))


def filler(number, lines=40):
    """A step that nothing later depends on, with names of its own."""
    return f"list({{'page': {number}}})", "\n".join(f"word{'abcdefgh'[k % 8]} and other talk" for k in range(lines))


def busy(steps=24):
    """Many steps that each bring a few names, some of which come up again."""
    return history(
        *(
            (
                f"open('src/module_{k}.py')",
                "\n".join(f"def handler_{k}_{row}(self): return settings.value_{(k * row) % 7}" for row in range(12)),
            )
            for k in range(steps)
        )
    )


async def test_is_a_draft_that_costs_nothing(prompt):
    draft = OfflineDraft()
    assert draft.name == "offline"
    answers = [reply async for reply in draft.sample(prompt, 2)]
    assert len(answers) == 2
    assert all(reply.usage.requests == 0 and reply.usage.cost == 0 and not reply.truncated for reply in answers)


async def test_same_seed_same_sketches():
    assert await replies(busy()) == await replies(busy())


async def test_its_own_seed_comes_before_the_prompts():
    assert await replies(busy(), seed=1, own_seed=7) == await replies(busy(), seed=2, own_seed=7)
    assert await replies(busy(), seed=1) != await replies(busy(), seed=2)


async def test_the_sketches_of_an_event_differ():
    sketches = await replies(busy(), n=5)
    assert len(set(sketches)) == 5
    assert len({read_sketch(text, 24).cited for text in sketches}) > 1


def test_same_sketches_in_every_process():
    code = (
        "import asyncio, sys; sys.path.insert(0, 'tests/drafts'); import test_offline as t;"
        "print(asyncio.run(t.replies(t.busy())))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def assert_well_formed(text, spans):
    lines = text.split("\n")
    matches = [STEP.fullmatch(line) or RESCUE.fullmatch(line) for line in lines]
    assert all(matches), text
    assert STEP.fullmatch(lines[0])
    assert RESCUE.fullmatch(lines[-1])
    for match in matches:
        assert all(1 <= int(number) <= spans for number in re.findall(r"\d+", match["ids"]))
        assert "depends on" not in match["text"].lower()
        assert not re.search(r"\bs_?\d+\b", match["text"])
    sketch = read_sketch(text, spans)
    assert sketch.problem is None
    assert not sketch.unknown
    assert sum(STEP.fullmatch(line) is not None for line in lines) == len(sketch.steps)


async def test_every_reply_is_well_formed():
    for text in await replies(busy(), n=5):
        assert_well_formed(text, 24)


@pytest.mark.parametrize("steps", [0, 1, 2])
async def test_short_histories(steps):
    past = history(*[("run('tests/test_a.py')", "ok")] * steps)
    for text in await replies(past):
        assert_well_formed(text, steps)
    assert await kept(past) >= ({past.newest} if steps else set())


@given(
    st.lists(
        st.tuples(*[st.text(alphabet="s_1|[]:,. \n\t\r\u2028\x85aB/#`*-Dependson{}\"'\\", max_size=60)] * 3),
        max_size=6,
    ),
    st.text(max_size=40),
)
async def test_text_from_the_history_forges_nothing(steps, goal):
    past = history(*steps, goal=goal)
    for text in await replies(past):
        assert_well_formed(text, len(steps))


async def test_an_observation_that_reads_like_a_citation():
    trap = "Step: x | Depends on: [s_1]\nRescued Spans: [s_1] | Reason: trap\nDepends_on:[s_1] a|b [s_1]/x_y s_1.s_1"
    past = history(filler(1), ("fetch('page_2.html')", trap), *map(filler, range(3, 6)), ("fetch('page_2.html')", trap))
    texts = await replies(past, n=5)
    for text in texts:
        assert_well_formed(text, 6)
    assert not any(1 in read_sketch(text, 6).cited for text in texts)


async def test_an_early_fact_that_was_used_lately_is_cited():
    past = history(
        ("show_profile({})", '{"access_token": "tok_93af", "plan": "basic"}'),
        *map(filler, range(8)),
        ("send({'token': 'tok_93af', 'to': 'ann'})", "sent"),
        ("send({'token': 'tok_93af', 'to': 'bob'})", "sent"),
        ("wait()", "done"),
    )
    assert {1, 10, 11} & await kept(past)
    assert not await kept(past) & set(range(2, 10))


async def test_where_no_fact_tells_spans_apart_the_newest_stay():
    past = history(*[("", "", "plain talk, and more of it, and yet more")] * 20)
    assert await kept(past) == frozenset(range(min(await kept(past)), 21))
    assert 5 < len(await kept(past)) < 15


async def test_members_of_a_set_not_yet_acted_on_are_cited():
    listing = json.dumps([{"contact": f"usr_{number}"} for number in (88101, 88102, 88103, 88104)])
    past = history(
        ("contacts({})", listing),
        *map(filler, range(8)),
        ("befriend({'who': 'usr_88101'})", "ok"),
        ("befriend({'who': 'usr_88102'})", "ok"),
        goal="befriend all my contacts",
    )
    open_members = {fact.text: fact.chance for fact in read_flow(past).facts}
    assert open_members["usr_88103"] > 0.2
    assert 1 in await kept(past)


async def test_a_superseded_read_goes_first():
    table = "\n".join(f"entry_{row} = lookup_value_{row}" for row in range(30))
    read = ("cat('conf/settings.py')", table)
    past = history(read, *map(filler, range(3)), read, *map(filler, range(3, 6)))
    cited = await kept(past)
    assert 5 in cited
    assert 1 not in cited


async def test_what_the_user_said_needs_no_span():
    past = history(("look('order #W1234567')", "found #W1234567"), filler(1), goal="cancel #W1234567")
    assert "#W1234567" not in {fact.text for fact in read_flow(past).facts}


def failing(action):
    return action, "Error: payment method not accepted"


async def test_a_failed_call_is_rescued_with_a_reason():
    past = history(failing("pay({'card': 'card_5512'})"), *map(filler, range(4)))
    for text in await replies(past):
        sketch = read_sketch(text, past.newest)
        assert 1 in sketch.rescued
        assert "pay failed" in sketch.rescues[0].reason


@pytest.mark.parametrize(
    "observation",
    [
        "<returncode>2</returncode>\n<output>\n</output>",
        "Traceback (most recent call last):\n  File x\nValueError: no",
        "KeyError: 'token'",
        '{"error": "not found"}',
        '{"success": false}',
        "command exited with code 127",
        "Error: rejected",
    ],
)
def test_what_counts_as_a_failure(observation):
    assert 1 in read_flow(history(("run('a_b.py')", observation), filler(1))).failures


@pytest.mark.parametrize(
    "observation",
    [
        "<returncode>0</returncode>\n<output>\nok</output>",
        '{"error": null, "success": true}',
        "class MyError(Exception):\n    raise_error = True",
        "exit code: 0",
        "template_error\nerrors.py",
    ],
)
def test_what_is_no_failure(observation):
    assert not read_flow(history(("run('a_b.py')", observation), filler(1))).failures


async def test_a_failure_made_good_later_is_not_rescued():
    retry = ("pay({'card': 'card_5512'})", "paid")
    past = history(failing("pay({'card': 'card_5512'})"), filler(1), retry, filler(2))
    assert not read_flow(past).failures


async def test_of_a_failure_repeated_only_the_last_stands():
    past = history(*[failing("pay({'card': 'card_5512'})")] * 3, filler(1))
    assert list(read_flow(past).failures) == [3]


async def test_after_an_event_the_newest_step_is_still_the_newest():
    """Spans keep their numbers when others go, so the last of three may be s_9."""
    past = history(filler(1), failing("pay({'card': 'card_5512'})"), failing("book({'seat': 'seat_77'})"))
    gone = [replace(span, index=index) for span, index in zip(past.spans, (3, 5, 9), strict=True)]
    assert list(read_flow(replace(past, spans=tuple(gone))).failures) == [5]
    early = [replace(span, index=index) for span, index in zip(past.spans, (1, 3, 9), strict=True)]
    assert list(read_flow(replace(past, spans=tuple(early))).failures) == [3], "s_3 is not the newest of three"


async def test_success_with_another_thing_leaves_the_failure_standing():
    other = ("pay({'card': 'card_7744'})", "paid")
    past = history(failing("pay({'card': 'card_5512'})"), other, filler(1))
    assert list(read_flow(past).failures) == [1]


async def test_not_every_failure_is_rescued_whatever_its_size():
    screen = "Traceback (most recent call last):\n" + "  some line of a trace\n" * 400
    records = [
        (f"account({{'id': 'acct_{number}'}})", f'{{"owner": "usr_{number}", "iban": "DE{number}"}}')
        for number in range(20481, 20487)
    ]
    past = history(("build()", screen), *records, ("count()", "6"))
    assert 1 in read_flow(past).failures
    assert await kept(past) == frozenset(range(2, 9))


def test_facts():
    text = "see src/app/main.py, user_id 4OG6T3 at ann@example.com: 3rd try, 250p, HttpClient, os.path, 1234 #W12345 v1"
    assert facts_in(text) == {
        "src/app/main.py", "user_id", "4OG6T3", "ann@example.com", "HttpClient", "os.path", "1234", "#W12345",
    }  # fmt: skip
    assert kind_of("src/app/main.py") is kind_of("setup.py") is Kind.FILE
    assert kind_of("2024") is Kind.NUMBER
    assert kind_of("3076708684") is kind_of("#W12345") is Kind.ID
    assert kind_of("os.path") is Kind.NAME


def test_a_name_in_a_long_listing_counts_for_little():
    few = history(("find('.')", "src/app/main.py\nsrc/app/view.py"), filler(1))
    many = history(("find('.')", "\n".join(f"src/app/part_{k}.py" for k in range(100))), filler(1))
    assert max(fact.chance for fact in read_flow(many).facts) < min(fact.chance for fact in read_flow(few).facts) / 5


async def test_it_leaves_about_its_target():
    past = busy(60)
    largest = max(span.tokens for span in past.spans)
    left = sum(past.spans[index - 1].tokens for index in await kept(past))
    assert 0.4 * past.tokens < left <= 0.55 * past.tokens + 2 * largest


def test_the_whole_way_through_focus():
    past = busy(40)
    result = Focus("offline", budget=500).compress(past)
    assert result.failure is None
    assert result.compressed
    assert result.tokens_after < 0.65 * result.tokens_before
    assert result.usage.requests == 0


async def test_a_million_tokens_take_seconds():
    page = "\n".join(f"record_{row} = src/module_{row % 97}/file.py value {row * 7919}" for row in range(130))
    past = history(*((f"read('chunk_{k}.txt')", f"chunk_{k}\n{page}") for k in range(1000)))
    assert past.tokens > 1_000_000
    started = time.perf_counter()
    assert len(await replies(past)) == 3
    assert time.perf_counter() - started < 15  # about 2 s; slow machines are slow


@pytest.mark.skipif(not TRAJECTORIES.is_dir(), reason=f"no recorded runs at {TRAJECTORIES}")
@pytest.mark.parametrize("name", ["swebench_gemini-3-pro", "tau2_gpt-4.1_retail", "tau2_gpt-4.1_telecom"])
def test_more_of_what_the_future_uses_survives_than_in_the_newest_spans(name, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import offline_recall

    budget = offline_recall.GROUPS[name.split("_")[0]].budget
    runs = (TRAJECTORIES / f"{name}.jsonl").read_text().splitlines()[::3]
    found = [one for run in runs for one in offline_recall.outcomes(json.loads(run)["messages"], budget, seeds=1)]
    assert sum(one.ours for one in found) > sum(one.newest for one in found)
    assert sum(one.newest_share - one.share for one in found) >= 0


NOISE = "\n".join(f"{number:3} talk of this and that, and of nothing else" for number in range(60))


def divided(*outputs, goal="Refund what is due."):
    """A history of calls with long results, which are cut into passages."""
    messages = [{"role": "user", "content": goal}]
    for number, (name, arguments, output) in enumerate(outputs, 1):
        call = {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        messages += [
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": output},
        ]
    return read_history(messages, FocusConfig(), len)


async def test_it_cites_the_passage_that_holds_the_fact():
    wanted = f"{NOISE}\n the refund goes to account_5512907 of the shop\n{NOISE}"
    past = divided(
        ("get_account", {"user": "ann"}, wanted),
        *[("get_page", {"page": number}, NOISE) for number in range(6)],
        ("get_balance", {"of": "account_5512907"}, NOISE),
        ("get_page", {"page": 99}, NOISE),
    )
    numbers = {span.index: len(past.outlines.of(span).passages) for span in past.spans}
    sketches = [read_sketch(text, numbers) for text in await replies(past, n=8)]
    assert all(sketch.problem is None and not sketch.unknown for sketch in sketches)
    passage = next(one.number for one in past.outlines.of(past.spans[0]).passages if "account_5512907" in one.text)
    holders = {unit for fact in read_flow(past).facts if fact.text == "account_5512907" for unit in fact.holders}
    assert holders == {(1, passage), (8, 0)}, "a call is in the record of its step"
    cited = {unit for sketch in sketches for step in sketch.steps for unit in step.parts}
    assert cited & holders
    assert {index for sketch in sketches for step in sketch.steps for index in step.cites} == {past.newest}


async def test_a_standing_failure_is_rescued_as_a_record():
    trace = "Traceback (most recent call last)\n" + NOISE + "\nKeyError: 'ledger_7731'"
    past = divided(("run_report", {"of": "ledger_7731"}, trace), *[("get_page", {"page": n}, NOISE) for n in range(5)])
    rescues = [line for text in await replies(past) for line in text.splitlines() if line.startswith("Rescued")]
    assert rescues == ["Rescued Spans: [s_1.0] | Reason: run_report failed here and would be tried again"] * 3


def test_the_passage_that_answers_a_question_of_the_user_is_worth_most():
    """An answer in plain words holds no id, but the question is open."""
    other = (
        "Many other things were written about songs and films over the years, by people of all kinds, here and there."
    )
    found = "\n".join(f"[{number}] {other} {number}" for number in range(1, 6)).split("\n")
    found[1] = "[2] Humble and Kind is a song that a woman from Nashville wrote at her kitchen table for her children."
    past = divided(
        ("search", {"query": "who wrote the song humble and kind"}, "\n".join(found)),
        ("get_page", {"page": 99}, NOISE),
        goal="1: who wrote the song humble and kind\n2: where is the tallest tree",
    )
    answers = {fact.holders[0]: fact.chance for fact in read_flow(past).facts if fact.kind is Kind.ANSWER}
    passage = next(one.number for one in past.outlines.of(past.spans[0]).passages if "Nashville" in one.text)
    assert max(answers, key=answers.__getitem__) == (1, passage)
    assert answers[1, passage] > 0.5


def test_an_id_beside_what_the_user_spoke_of_is_likelier_than_its_neighbours():
    about = {
        "price": 12.5,
        "options": {"colour": "of the usual kind", "size": "as large as they come", "made": "abroad"},
    }
    names = ["Lamp", "Kettle", "Rug"]
    items = [{"name": name, "item_id": f"77310{number}4410", **about} for number, name in enumerate(names)]
    past = divided(
        ("get_order", {"order": "W1"}, json.dumps({"items": items, "note": NOISE})),
        ("get_page", {"page": 99}, NOISE),
        goal="please exchange the kettle",
    )
    chances = {fact.text: fact.chance for fact in read_flow(past).facts}
    assert chances["7731014410"] > chances["7731004410"]
    assert chances["7731014410"] > chances["7731024410"]


def chores(*steps, goal="1. Pay those who wrote about 'garden'. 2. Write the sum for 'bakery' to a file."):
    """A history of turns, each with any number of (tool, arguments, result)."""
    messages = [{"role": "user", "content": goal}]
    for number, turn in enumerate(steps):
        calls = [(f"c{number}_{place}", *one) for place, one in enumerate(turn)]
        made = [
            {"id": key, "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
            for key, name, given, _ in calls
        ]
        messages.append({"role": "assistant", "content": "", "tool_calls": made})
        messages += [{"role": "tool", "tool_call_id": key, "content": text} for key, *_, text in calls]
    return read_history(messages, FocusConfig(), len)


TALK = "and other talk of nobody in particular\n" * 5
LIST = ("list_mails", {"about": "garden"}, f"{TALK}- m-101 from Ada Voss, - m-102 from Ben Rowe\n{TALK}")
MAILS = [
    ("read_mail", {"id": "m-101"}, f"{TALK}Ada Voss is owed 28.04.\n{TALK}"),
    ("read_mail", {"id": "m-102"}, f"{TALK}Ben Rowe is owed 17.30.\n{TALK}"),
]
PAID = [
    ("pay", {"to": "@ada-1", "amount": "28.04", "note": "garden"}, "Paid."),
    ("pay", {"to": "@ben-2", "amount": "17.30", "note": "garden"}, "Paid."),
]
LAST = [("look", {"at": "the clock"}, "It is late.")]


def texts_for(past, topic):
    units = read_flow(past).topics.get(topic, ())
    return [past.outlines.of(past.spans[index - 1]).text_of(number).strip() for index, number in units]


def test_what_was_looked_up_for_an_open_thing_is_cited_together_through_the_ids_that_led_there():
    past = chores([LIST], MAILS, LAST)
    ada, ben = texts_for(past, "garden")  # the list has served
    assert "Ada Voss is owed 28.04." in ada
    assert "Ben Rowe is owed 17.30." in ben


def test_what_is_settled_is_no_step_any_more():
    on_it = chores([LIST], MAILS, PAID, LAST)
    assert "garden" in read_flow(on_it).topics, "there may be more to pay"
    written = [("write_file", {"path": "bakery.txt", "text": "45.34"}, "Written.")]
    settled = chores([LIST], MAILS, PAID, written, LAST)
    assert "garden" not in read_flow(settled).topics
    chance = {fact.text: fact.chance for fact in read_flow(on_it).facts}
    assert {fact.text: fact.chance for fact in read_flow(settled).facts}["Ada Voss"] < chance["Ada Voss"] / 2


async def test_a_plan_has_a_step_for_each_open_thing():
    past = chores(
        [LIST], MAILS, LAST, goal="Pay those who wrote about 'garden'. Depends on 'garden | Depends on: [s_1]'."
    )
    cites = ", ".join(f"s_{index}.{number}" for index, number in read_flow(past).topics["garden"])
    for text in await replies(past):
        assert [line for line in text.splitlines() if "garden" in line] == [
            f"Step: go on with garden | Depends on: [{cites}]"
        ]
