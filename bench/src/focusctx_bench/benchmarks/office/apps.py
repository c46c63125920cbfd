"""The apps of the office, tool by tool: what each call changes, what the agent reads in return, and the help pages.

A tool is a function of the world and the agent's arguments, with its Chat Completions definition. Its answer can be
understood without the call that asked for it: facts are whole sentences.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ...protocols import tool_definition
from .world import APPS, FEE, MOST_WRONG, Meeting, Payment, Sent, World, banner, prose, token

Handler = Callable[..., str]
_TYPES = {"str": "string", "int": "integer"}


@dataclass(frozen=True, slots=True)
class Tool:
    handler: Handler
    description: str
    app: str
    """The app whose token a call must carry; empty where none is needed."""
    parameters: Mapping[str, str]
    """Name to JSON type."""

    @property
    def name(self) -> str:
        return self.handler.__name__

    def definition(self) -> dict[str, Any]:
        parameters = {name: {"type": kind} for name, kind in self.parameters.items()}
        return tool_definition(self.name, self.description, parameters)

    def run(self, world: World, arguments: Mapping[str, Any]) -> str:
        """Return what the agent sees. A call that cannot be made says why and changes nothing."""
        given = {name: value for name, value in arguments.items() if value is not None}
        if given.keys() != self.parameters.keys():
            return f"Error: {self.name} takes {', '.join(self.parameters) or 'nothing'}."
        if self.app and given.pop("token") != world.tokens.get(self.app):
            return f"Error: no valid token for {self.app}. Log in first."
        try:
            texts = {
                name: int(value) if self.parameters[name] == "integer" else str(value) for name, value in given.items()
            }
        except (TypeError, ValueError):
            return f"Error: {self.name} wants whole numbers where they are asked for."
        return self.handler(world, **texts)


TOOLS: dict[str, Tool] = {}


def tool(description: str, app: str = "") -> Callable[[Handler], Handler]:
    """Make the function a tool; `app` adds the token to its parameters."""

    def register(handler: Handler) -> Handler:
        given = list(inspect.signature(handler).parameters.values())[1:]
        parameters = {"token": "string"} if app else {}
        parameters |= {one.name: _TYPES[str(one.annotation)] for one in given}
        TOOLS[handler.__name__] = Tool(handler, description, app, parameters)
        return handler

    return register


PAGE = 4
"""Mails on one page of a list."""

_ACCOUNTS = (
    "Accounts: call login with the name of the app and the user's password. The answer shows a token, and every call "
    "of the app needs it. The token stays valid for the whole day, and logging in again with the same password shows "
    f"the same token. Wrong password number {MOST_WRONG} locks the account, and nobody can unlock it."
)
_ERRORS = (
    "Errors: an answer that begins with 'Error' says why a call was refused. A refused call changed nothing, with two "
    f"exceptions: wrong passwords are counted, and a payment to a closed handle costs a fee of {FEE}."
)

_RULES = {
    "mail": (
        f"Lists: mail_list shows {PAGE} mails on a page, the oldest first and the newest last. Ids and dates grow "
        "together, so of two mails the one with the higher id is the newer. A list shows the first words of a mail: "
        "use mail_read for all of it.",
        "Sending: mails can be sent to addresses in the contacts. They leave at once and cannot be taken back. "
        "mail_sent also lists mails from before today.",
    ),
    "files": (
        "Lists: files_list names every file below a folder. A path begins with a slash.",
        "Writing: files_write makes the file or replaces all of it, so a file can be written again until it is right. "
        "The last version counts. Folders are made as they are needed.",
    ),
    "contacts": (
        "Finding: contacts_find shows everybody with the same first name. Ask with the whole name and read the line "
        "of the person you want.",
        "Pay handles: each person takes payments at one handle. A handle named after 'no longer at' is closed.",
    ),
    "pay": (
        "Payments: an amount is written with a point and two decimals. A payment is final, and paying twice is not "
        "prevented: the same call again pays again.",
        f"Handles: pay to the handle that the contacts give. A payment to a closed handle bounces, costs {FEE}, and "
        "bounces again however often it is tried.",
    ),
    "calendar": (
        "Meetings: a meeting has a weekday, a time such as 9:00 or 14:30, and a title. Meetings may overlap.",
        "Changes: a meeting cannot be moved or removed, and the same call again makes a second meeting.",
    ),
}


def manual(app: str) -> str:
    tools = (f"- {tool.name}({', '.join(tool.parameters)}): {tool.description}" for tool in TOOLS.values())
    own = [line for line in tools if line.startswith(f"- {app}_")]
    return "\n".join([_ACCOUNTS, f"Tools of {app}:", *own, *_RULES[app], _ERRORS])


PREVIEW = 9
"""Words of a mail that a list shows."""


@tool("Read how an app is used.")
def help_read(world: World, app: str) -> str:
    if app not in world.passwords:
        return f"Error: no app {app!r}. Apps: {', '.join(APPS)}."
    return f"Help for {app}.\n{manual(app)}"


@tool("Read a note of the user. No account is needed.")
def notes_read(world: World, title: str) -> str:
    text = world.notes.get(title)
    return f"Error: no note {title!r}. Notes: {', '.join(world.notes)}." if text is None else f"Note '{title}'.\n{text}"


@tool("Ask the desk for an approval code. A code is shown once.")
def desk_approval(world: World, purpose: str) -> str:
    if purpose not in world.codes:
        return f"Error: nobody at the desk knows of {purpose!r}."
    if purpose in world.issued:
        return f"Error: the approval code for '{purpose}' was issued already and is not shown again."
    world.issued.add(purpose)
    return f"{banner('desk', purpose)}\nApproval code for '{purpose}': {world.codes[purpose]}\nIt is not shown again."


@tool(f"Log in to an app ({', '.join(APPS)}). The third wrong password locks the account.")
def login(world: World, app: str, password: str) -> str:
    if app not in world.passwords:
        return f"Error: no app {app!r}. Apps: {', '.join(APPS)}."
    if world.wrong[app] >= MOST_WRONG:
        return f"Error: the account for {app} is locked."
    if password != world.passwords[app]:
        world.wrong[app] += 1
        left = MOST_WRONG - world.wrong[app]
        state = f"{left} wrong passwords left before it is locked." if left else f"The account for {app} is locked."
        return f"Error: wrong password {password} for {app}. {state}"
    world.tokens[app] = token(app, password)
    return f"{banner(app, password)}\nToken for {app}: {world.tokens[app]}\nEvery call of {app} needs it."


@tool("List the mails about a subject, newest last, page by page from 1.", "mail")
def mail_list(world: World, about: str, page: int) -> str:
    found = [mail for mail in world.mails if mail.about == about]
    pages = max(1, -(-len(found) // PAGE))
    if not 1 <= page <= pages:
        return f"Error: the list about '{about}' has {pages} pages."
    shown = found[(page - 1) * PAGE : page * PAGE]
    lines = [
        f"- m-{mail.number} about '{about}' from {mail.sender}, {mail.date}: {' '.join(mail.text.split()[:PREVIEW])} …"
        for mail in shown
    ]
    return "\n".join([f"Mails about '{about}', page {page} of {pages}.", *lines])


@tool("Read a mail by its id, such as m-12.", "mail")
def mail_read(world: World, id: str) -> str:
    mail = next((mail for mail in world.mails if f"m-{mail.number}" == id), None)
    if mail is None:
        return f"Error: no mail {id!r}."
    return f"Mail m-{mail.number} about '{mail.about}' from {mail.sender}, {mail.date}.\n{mail.text}"


@tool("List who was written to about a subject.", "mail")
def mail_sent(world: World, about: str) -> str:
    new = [sent.to for sent in world.done.sent if sent.about == about]
    addresses = [*world.outbox.get(about, []), *new]
    return f"Mails sent about '{about}': {', '.join(addresses) or 'none'}.\n{prose(about, 40)}"


@tool("Send a mail to an address.", "mail")
def mail_send(world: World, to: str, about: str, text: str) -> str:
    if to not in {person.address for person in world.people.values()}:
        return f"Error: {to} cannot be reached."
    world.done.sent[Sent(to, about, text)] += 1
    return f"Sent to {to} about '{about}'.\n{prose(to + about, 25)}"


@tool("List the files in a folder.", "files")
def files_list(world: World, folder: str) -> str:
    inside = [path for path in world.files if path.startswith(f"{folder.rstrip('/')}/")]
    return f"Files in {folder}: {', '.join(inside) or 'none'}.\n{prose(folder, 30)}"


@tool("Read a file by its path.", "files")
def files_read(world: World, path: str) -> str:
    text = world.files.get(path)
    return f"Error: no file {path}." if text is None else f"File {path}.\n{text}"


@tool("Write a file, in place of what was there.", "files")
def files_write(world: World, path: str, text: str) -> str:
    world.files[path] = text
    world.done.written[path] = text
    return f"Wrote {path}, {len(text.splitlines())} lines.\n{prose(path, 20)}"


@tool("Find people in the contacts by a name or a part of it.", "contacts")
def contacts_find(world: World, name: str) -> str:
    first = name.partition(" ")[0]
    found = [person for person in world.people.values() if person.name.startswith(f"{first} ")]
    if not found:
        return f"Error: nobody called {name}."
    lines = []
    for person in found:
        closed = f", no longer at {person.closed}" if person.closed else ""
        lines += [
            f"{person.name} has the mail address {person.address}.",
            f"{person.name} takes payments at {person.handle}{closed}.",
            prose(person.name, 45),
        ]
    return "\n".join(lines)


@tool("Pay an amount, such as 12.50, to a pay handle. Payments are final.", "pay")
def pay_send(world: World, to: str, amount: str, note: str) -> str:
    if to in {person.closed for person in world.people.values()}:
        world.bounced[to] += 1
        return f"Error: {to} is closed, the payment bounced. A fee of {FEE} was charged."
    world.done.payments[Payment(to, amount, note)] += 1
    return f"Paid {amount} to {to} with the note '{note}'.\n{prose(to + note, 40)}"


@tool("Put a meeting into the calendar.", "calendar")
def calendar_add(world: World, day: str, time: str, title: str) -> str:
    world.done.meetings[Meeting(day, time, title)] += 1
    return f"Added '{title}' on {day} at {time}.\n{prose(title, 30)}"
