"""One turn of the agent, from the messages alone: what it says and which calls it makes."""

from __future__ import annotations

from collections.abc import Sequence

from focusctx.types import Message

from ....models.scripted import Say
from .chores import go_about
from .knowledge import Knowledge, read
from .mind import Do, GiveUp, Mind


def decide(messages: Sequence[Message]) -> Say:
    return decide_from(read(messages))


def decide_from(known: Knowledge) -> Say:
    """Goes on with the first chore that, as far as the agent can tell, is not done.

    Its words say what is done and what it has gone through, as a language model's do: that is all it has to remember.
    """
    chores = sorted((int(key[0]), words) for key, words in known.under("chore"))
    if not chores:
        return Say("I do not see what I am to do.")
    done = []
    for number, words in chores:
        if known.has("done", str(number)):
            done.append(number)
            continue
        mind = Mind(known)
        try:
            go_about(mind, words)
        except Do as first:
            return Say(_words(done, number, str(first), mind.complete), first.calls)
        except GiveUp as problem:
            return Say(f"I have to stop at chore {number}: {problem}.")
        done.append(number)
    return Say("All chores are done.")


def _words(done: Sequence[int], number: int, doing: str, complete: Sequence[str]) -> str:
    before = f"Chores done: {', '.join(map(str, done))}. " if done else ""
    gone_through = f" Complete: {'; '.join(dict.fromkeys(complete))}." if complete else ""
    return f"{before}Chore {number}: {doing}.{gone_through}"
