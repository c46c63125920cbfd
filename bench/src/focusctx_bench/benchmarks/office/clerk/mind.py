"""The agent's questions: each is answered from what is known, or with the calls to make first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .knowledge import Knowledge

Call = tuple[str, dict[str, Any]]
AT_ONCE = 4
"""The most calls of one turn."""


class Do(Exception):
    """Something has to be done first."""

    def __init__(self, why: str, *calls: Call) -> None:
        super().__init__(why)
        self.calls = calls


class GiveUp(Exception):
    """There is no way on."""


class Mind:
    """Asked by one chore at one step."""

    def __init__(self, known: Knowledge) -> None:
        self.known = known
        self.complete: list[str] = []
        """Lists that the agent will say it has gone through: later it believes that, in sight or not."""

    def do(self, why: str, tool: str, *arguments: dict[str, Any]) -> Do:
        """Return calls of one tool, one for each of the arguments, with the token of its app."""
        app = tool.partition("_")[0]
        token = {} if app in ("help", "notes", "desk") else {"token": self._token(app)}
        return Do(why, *((tool, token | given) for given in arguments[:AT_ONCE]))

    def rule(self, kind: str) -> Any:
        rule = self.known.get("rule", kind)
        if rule is None:
            raise self.do("reading the house rules", "notes_read", {"title": "house rules"})
        return rule

    def people(self, kind: str, topic: str, path: str) -> tuple[str, ...]:
        names: tuple[str, ...] | None = self.known.get(kind, topic)
        if names is None:
            raise self.do(f"reading who belongs to {topic}", "files_read", {"path": path})
        return names

    def writers(self, topic: str) -> list[str]:
        """Return the people who wrote about it, as far as the lists in sight say."""
        return list(dict.fromkeys(self._listed(topic).values()))

    def read_mails(self, topic: str, senders: Sequence[str]) -> None:
        """Each mail about it from these people, once."""
        what = f"mails about {topic}"
        if not self.known.has("complete", what):
            listed = self._listed(topic)
            if unread := self._unread(mail for mail, sender in listed.items() if sender in senders):
                raise self.do(f"reading the mails about {topic}", "mail_read", *unread)
        self.complete.append(what)

    def mailed(self, kind: str, topic: str, name: str) -> Any:
        """Return what the newest mail in sight says; it is looked up again when none is."""
        found = self.known.get(kind, topic, name)
        if found is not None:
            return found
        mails = [mail for mail, sender in self._listed(topic).items() if sender == name]
        if not mails:
            self._list_missing_pages(topic)
        if unread := self._unread(mails):
            raise self.do(f"reading what {name} wrote about {topic}", "mail_read", *unread)
        return None

    def find(self, names: Sequence[str]) -> None:
        """Sees to it that the contacts of these people are known."""
        missing = [name for name in names if not self.known.has("handle", name)]
        if missing:
            raise self.do(f"looking up {missing[0]}", "contacts_find", *({"name": name} for name in missing))

    def was_paid(self, name: str, word: str) -> bool:
        stem = f"@{_stem(name)}-"
        return any(key[0].startswith(stem) for key, _ in self.known.under("paid", word) if key[0].startswith(stem))

    def was_written_to(self, name: str, topic: str) -> bool:
        address = f"{_stem(name)}@post.example"
        before = self.known.get("sent list", topic) or ()
        return self.known.has("sent", topic, address) or address in before

    def pay(self, name: str, amount: str, word: str) -> Do:
        self.find([name])
        payment = {"to": self.known.get("handle", name), "amount": amount, "note": f"{word} {self.rule('payments')}"}
        return self.do(f"paying {name}", "pay_send", payment)

    def _listed(self, topic: str) -> dict[str, str]:
        """The mails about it: all of them the first time, later those that are still in sight."""
        what = f"list of mails about {topic}"
        seen = any(True for _ in self.known.under("page", topic))
        if not (self.known.has("complete", what) and seen):
            self._list_missing_pages(topic)
        self.complete.append(what)
        return {key[0]: sender for key, sender in self.known.under("listed", topic)}

    def _list_missing_pages(self, topic: str) -> None:
        pages = {int(key[0]): total for key, total in self.known.under("page", topic)}
        missing = [page for page in range(1, max(pages.values(), default=1) + 1) if page not in pages]
        if missing:
            raise self.do(f"listing the mails about {topic}", "mail_list", {"about": topic, "page": missing[0]})

    def _unread(self, mails: Iterable[str]) -> list[dict[str, Any]]:
        return [{"id": mail} for mail in mails if not self.known.has("mail", mail)]

    def _token(self, app: str) -> str:
        token: str | None = self.known.get("token", app)
        if token is not None:
            return token
        if not (self.known.has("help", app) or self.known.has("tried", app)):
            raise self.do(f"reading how {app} is used", "help_read", {"app": app})
        raise Do(f"logging in to {app}", ("login", {"app": app, "password": self._password(app)}))

    def _password(self, app: str) -> str:
        if self.known.has("locked", app):
            raise GiveUp(f"the account for {app} is locked")
        candidates: tuple[str, ...] | None = self.known.get("passwords", app)
        if candidates is None:
            raise self.do("reading my passwords", "notes_read", {"title": "passwords"})
        possible = [password for password in candidates if not self.known.has("failed", app, password)]
        tried = self.known.get("tried", app)
        if tried in possible:  # the last one tried, and no failure in sight: it must have worked
            return str(tried)
        if not possible:
            raise GiveUp(f"no password left for {app}")
        return possible[0]


def _stem(name: str) -> str:
    return name.lower().replace(" ", "-")
