"""The apps of the office, tool by tool: what each call changes and what the agent reads in return.

What one tool says can be understood without the call that asked for it: facts are whole sentences.
"""

from __future__ import annotations

from .filler import banner, prose, token
from .manual import PAGE, manual
from .tool import tool
from .world import APPS, FEE, MOST_WRONG, Meeting, Payment, Sent, World

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
