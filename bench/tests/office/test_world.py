"""The office itself: what calls do, what they cost, what counts as done."""

import json
from datetime import datetime
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from focusctx_bench.benchmarks.office import Office, make
from focusctx_bench.benchmarks.office.apps import TOOLS
from focusctx_bench.benchmarks.office.world import APPS, Effects, Meeting, Payment, Sent, World
from office.runs import act, start


def test_the_same_seed_makes_the_same_office() -> None:
    few, many = Office(7, 6).tasks(), Office(7, 30).tasks()
    assert list(few) == list(many[:6])
    assert make(7, 3).world == make(7, 3).world
    assert make(7, 3).words != make(8, 3).words


def test_tasks_are_of_three_classes_with_limits_of_their_own() -> None:
    tasks = Office().tasks()
    assert len(tasks) == 120
    assert len({task.id for task in tasks}) == 120
    for difficulty, limit in (("easy", 40), ("medium", 70), ("hard", 120)):
        found = [task for task in tasks if task.difficulty == difficulty]
        assert len(found) == 40
        assert {task.step_limit for task in found} == {limit}


def test_every_kind_of_chore_occurs() -> None:
    kinds = {kind for task in Office().tasks() for kind in task.data["kinds"]}
    assert kinds == {
        "pay_group", "pay_writers", "tally", "receipts", "meetings", "announce", "trail", "approval", "invoice",
    }  # fmt: skip


def test_tools_are_defined_as_chat_completions_wants_them() -> None:
    for definition in start(0).tools:
        function = definition["function"]
        assert definition["type"] == "function"
        assert set(function["parameters"]["required"]) == set(function["parameters"]["properties"])
        assert ("token" in function["parameters"]["properties"]) == bool(TOOLS[function["name"]].app)


def test_the_third_wrong_password_locks_the_account() -> None:
    office = start(0)
    right = office.world.passwords["mail"]
    assert act(office, "login", app="mail", password="x1").startswith("Error: wrong password x1 for mail. 2 wrong")
    assert "Token for mail" in act(office, "login", app="mail", password=right)
    assert "1 wrong" in act(office, "login", app="mail", password="x2")
    assert "The account for mail is locked." in act(office, "login", app="mail", password="x3")
    assert act(office, "login", app="mail", password=right) == "Error: the account for mail is locked."
    assert "account locked: mail" in office.world.complaints()


@pytest.mark.parametrize("app", APPS)
def test_no_app_works_without_its_token(app: str) -> None:
    office = start(0)
    for tool in TOOLS.values():
        if tool.app != app:
            continue
        arguments = {name: 1 if kind == "integer" else "x" for name, kind in tool.parameters.items()}
        assert act(office, tool.name, **arguments) == f"Error: no valid token for {app}. Log in first."
    assert office.world.done == Effects()


def test_an_approval_code_is_shown_once() -> None:
    office = start(2)
    purpose, code = next(iter(office.world.codes.items()))
    assert f"Approval code for '{purpose}': {code}" in act(office, "desk_approval", purpose=purpose)
    assert act(office, "desk_approval", purpose=purpose).startswith("Error: the approval code")


def test_a_payment_to_a_closed_handle_costs_a_fee() -> None:
    office = start(1)
    person = next(person for person in office.world.people.values() if person.closed)
    act(office, "login", app="pay", password=office.world.passwords["pay"])
    token = office.world.tokens["pay"]
    pay = {"token": token, "to": person.closed, "amount": "1.00", "note": "x"}
    assert act(office, "pay_send", **pay).startswith(f"Error: {person.closed} is closed")
    assert f"fee paid 1 times for {person.closed}" in office.world.complaints()
    assert not office.world.done.payments


@pytest.mark.parametrize("number", range(0, 30, 4))
def test_ids_dates_and_places_in_lists_agree_on_which_mail_is_newer(number: int) -> None:
    office = start(number, seed=11)
    mails = office.world.mails
    assert [mail.number for mail in mails] == sorted({mail.number for mail in mails})
    times = [datetime.strptime(f"2026 {mail.date}", "%Y %d %B, %H:%M") for mail in mails]
    assert times == sorted(set(times))
    act(office, "login", app="mail", password=office.world.passwords["mail"])
    for about in {mail.about for mail in mails}:
        show = partial(act, office, "mail_list", token=office.world.tokens["mail"], about=about)
        pages = int(show(page=1).partition("\n")[0].rpartition(" ")[2].rstrip("."))
        listed = [line for page in range(1, pages + 1) for line in show(page=page).split("\n- ")[1:]]
        expected = [mail for mail in mails if mail.about == about]
        assert len(listed) == len(expected)
        for line, mail in zip(listed, expected, strict=True):
            head, _, preview = line.partition(f", {mail.date}: ")
            assert head.startswith(f"m-{mail.number} ")
            assert " ".join(mail.text.split()).startswith(preview.removesuffix(" …"))


def test_the_contacts_say_which_pay_handle_is_open() -> None:
    office = start(1)
    act(office, "login", app="contacts", password=office.world.passwords["contacts"])
    for person in office.world.people.values():
        line = f"{person.name} takes payments at {person.handle}"
        line += f", no longer at {person.closed}." if person.closed else "."
        assert line in act(office, "contacts_find", token=office.world.tokens["contacts"], name=person.name)


@pytest.mark.parametrize("app", APPS)
def test_help_describes_the_tools_of_its_app(app: str) -> None:
    page = act(start(0), "help_read", app=app)
    for tool in TOOLS.values():
        assert (f"- {tool.name}({', '.join(tool.parameters)}): {tool.description}" in page) == (tool.app == app)


def test_another_seed_makes_other_people_ids_and_amounts() -> None:
    for number in range(6):
        one, other = make(11, number).world, make(12, number).world
        assert one.passwords != other.passwords
        assert {person.handle for person in one.people.values()}.isdisjoint(
            person.handle for person in other.people.values()
        )
        assert one.notes != other.notes
        for kind in ("payments", "sent", "meetings"):
            wanted = getattr(one.wanted, kind)
            assert not wanted or wanted != getattr(other.wanted, kind)


@given(st.dictionaries(st.text(max_size=5), st.none() | st.text(max_size=5) | st.integers() | st.lists(st.none())))
def test_no_arguments_can_break_a_tool(arguments: dict[str, object]) -> None:
    office = start(0)
    for tool in TOOLS.values():
        assert tool.run(office.world, arguments).startswith("Error: ")
        given = {name: arguments.get(name, "x") for name in tool.parameters}
        assert isinstance(tool.run(office.world, given), str)


@given(st.lists(st.sampled_from([Payment("@a", "1.00", "x"), Payment("@b", "1.00", "x")])), st.booleans())
def test_effects_are_wanted_exactly_as_often_as_they_are_wanted(payments: list[Payment], written: bool) -> None:
    world = World()
    world.wanted.payments[Payment("@a", "1.00", "x")] = 1
    world.wanted.written["/f"] = "text"
    world.done.payments.update(payments)
    if written:
        world.done.written["/f"] = "text"
    assert (not world.complaints()) == (payments == [Payment("@a", "1.00", "x")] and written)


def test_what_was_not_wanted_is_named() -> None:
    world = World()
    world.done.sent[Sent("a@b", "x", "y")] += 1
    world.wanted.meetings[Meeting("Monday", "9:00", "x")] += 1
    world.done.written["/other"] = ""
    assert world.complaints() == [
        "sent, not wanted: a@b | x | y",
        "meetings, missing: Monday | 9:00 | x",
        "file not as wanted: /other",
    ]


def test_what_is_recorded_of_a_score_is_json() -> None:
    import asyncio

    office = start(0)
    score = asyncio.run(office.score())
    assert score.success == 0
    assert json.loads(json.dumps(score.details))["complaints"]
