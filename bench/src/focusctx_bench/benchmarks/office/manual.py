"""The help page of each app: its tools as they are defined, and the rules that its calls follow."""

from __future__ import annotations

from .tool import TOOLS
from .world import FEE, MOST_WRONG

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
