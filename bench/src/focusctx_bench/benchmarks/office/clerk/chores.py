"""Needs of each chore, in order. A chore that runs through without `Do` is done."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal

from .mind import GiveUp, Mind

Chore = Callable[..., None]


def pay_group(mind: Mind, topic: str, settled: str) -> None:
    members = mind.people("Members", topic, f"/groups/{topic}.txt")
    _pay_all(mind, topic, [name for name in members if name != settled])


def pay_writers(mind: Mind, topic: str) -> None:
    _pay_all(mind, topic, mind.writers(topic))


def _pay_all(mind: Mind, topic: str, people: Sequence[str]) -> None:
    mind.read_mails(topic, people)
    unpaid = [name for name in people if not mind.was_paid(name, topic)]
    mind.find(unpaid)
    for name in unpaid:
        amount = mind.mailed("owed", topic, name)
        if amount is not None:
            raise mind.pay(name, amount, topic)


def tally(mind: Mind, topic: str) -> None:
    path = f"/events/{topic}-answers.txt"
    if mind.known.has("wrote", path):
        return
    guests = mind.people("Guests", topic, f"/events/{topic}.txt")
    mind.read_mails(topic, guests)
    lines = [f"{guest}: {mind.mailed('answer', topic, guest) or 'no answer'}" for guest in guests]
    raise mind.do(f"writing down the answers to {topic}", "files_write", {"path": path, "text": "\n".join(lines)})


def receipts(mind: Mind, topic: str) -> None:
    folder, path = f"/receipts/{topic}", f"/reports/{topic}.txt"
    if mind.known.has("wrote", path):
        return
    files = mind.known.get("files", folder)
    if files is None:
        raise mind.do(f"looking into {folder}", "files_list", {"folder": folder})
    totals = {file: mind.known.get("total", file) for file in files}
    if unread := [file for file, total in totals.items() if total is None]:
        raise mind.do(f"reading the receipts of {topic}", "files_read", {"path": unread[0]})
    total = sum(map(Decimal, totals.values()), Decimal(0))
    raise mind.do(f"writing the sum for {topic}", "files_write", {"path": path, "text": f"Total: {total}"})


def meetings(mind: Mind, topic: str) -> None:
    team = mind.people("Team", topic, f"/teams/{topic}.txt")
    mind.read_mails(topic, team)
    for name in team:
        title = f"{topic} with {name}"
        if mind.known.has("meeting", title):
            continue
        if wish := mind.mailed("wish", topic, name):
            blocked, instead = mind.rule("meetings")
            day = instead if wish[0] == blocked else wish[0]
            raise mind.do(
                f"planning the talk with {name}", "calendar_add", {"day": day, "time": wish[1], "title": title}
            )


def announce(mind: Mind, topic: str) -> None:
    readers = mind.people("Readers", topic, f"/lists/{topic}.txt")
    what = f"check of mails sent about {topic}"
    if not (mind.known.has("complete", what) or mind.known.has("sent list", topic)):
        raise mind.do(f"looking whom I wrote to about {topic}", "mail_sent", {"about": topic})
    mind.complete.append(what)
    untold = [name for name in readers if not mind.was_written_to(name, topic)]
    mind.find(untold)
    for name in untold:
        mail = {
            "to": mind.known.get("address", name),
            "about": topic,
            "text": f"The {topic} is on. {mind.rule('mails')}",
        }
        raise mind.do(f"writing to {name}", "mail_send", mail)


def trail(mind: Mind, topic: str, start: str) -> None:
    path = f"/reports/{topic}.txt"
    if mind.known.has("wrote", path):
        return
    word = mind.known.get("word", topic)
    if word is None:
        here = mind.known.get("stop", topic) or start
        raise mind.do(f"following the trail of {topic}", "files_read", {"path": here})
    raise mind.do(f"writing the word of {topic}", "files_write", {"path": path, "text": f"Word: {word}"})


def ask_approval(mind: Mind, topic: str) -> None:
    if mind.known.has("code", topic):
        return
    if mind.known.has("code gone", topic):
        raise GiveUp(f"the approval code for {topic} is not to be had again")
    raise mind.do(f"asking for the approval code for {topic}", "desk_approval", {"purpose": topic})


def write_approval(mind: Mind, topic: str) -> None:
    path = f"/reports/{topic}-approval.txt"
    if mind.known.has("wrote", path):
        return
    ask_approval(mind, topic)
    line = mind.known.get("rule", "approvals")
    text = f"Approved: {mind.known.get('code', topic)}" + (f"\n{line}" if line else "")
    raise mind.do(f"writing the approval code for {topic}", "files_write", {"path": path, "text": text})


def read_invoice(mind: Mind, firm: str) -> None:
    mind.read_mails(firm, [f"{firm} Works"])
    path = f"/invoices/{firm}.txt"
    if not mind.known.has("file", path):
        raise mind.do(f"reading the invoice of {firm}", "files_read", {"path": path})


def pay_invoice(mind: Mind, firm: str) -> None:
    invoice = mind.known.get("invoice", firm)
    if invoice is None:
        raise mind.do(f"reading the invoice of {firm}", "files_read", {"path": f"/invoices/{firm}.txt"})
    number, amount = invoice
    begin = mind.known.get("rule", "firms")
    if not mind.was_paid(f"{firm} Works", begin or number):
        raise mind.pay(f"{firm} Works", amount, f"{begin} {number}" if begin else number)
    entry = mind.known.get("rule", "invoices")
    if entry and not mind.known.has("meeting", number):
        meeting = {"day": entry[0], "time": entry[1], "title": number}
        raise mind.do(f"putting the invoice of {firm} into the calendar", "calendar_add", meeting)


def read_note(mind: Mind, title: str) -> None:
    if not mind.known.has("note", title):
        raise mind.do(f"reading the note {title}", "notes_read", {"title": title})


_BY_WORDS: dict[str, Chore] = {
    r"Pay every member of '(\w+)'.* and not (\w+ \w+): that is settled": pay_group,
    r"Pay everyone who wrote me a mail about '(\w+)'": pay_writers,
    r"Gather the answers to '(\w+)'": tally,
    r"Add up the totals of all receipts in the folder /receipts/(\w+)": receipts,
    r"Plan the talks about '(\w+)'": meetings,
    r"Write a mail about '(\w+)'": announce,
    r"Follow the trail of '(\w+)' from (\S+) on": trail,
    r"Ask the desk for the approval code for '(\w+)'": ask_approval,
    r"Write the approval code for '(\w+)'": write_approval,
    r"Read the invoice of '(\w+)'": read_invoice,
    r"Read the note '(\w+)' before anything else": read_note,
    r"Pay the invoice of '(\w+)'": pay_invoice,
}


def go_about(mind: Mind, words: str) -> None:
    """The chore that these words ask for."""
    for pattern, chore in _BY_WORDS.items():
        if match := re.match(pattern, words):
            return chore(mind, *match.groups())
    raise GiveUp(f"I do not understand: {words}")
