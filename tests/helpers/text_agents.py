"""Histories of agents that act in plain text, in the spellings that their authors use, and of people who do not."""

import json
from collections.abc import Callable

from .histories import Messages

TASK = "Find out why checkout fails for orders with a voucher, and fix it."
FILES = ("cart.py", "voucher.py", "prices.py", "orders.py", "tax.py", "models.py")


def output(step: int, lines: int = 25) -> str:
    """Return what grep would print, without a word that a person would write."""
    name = FILES[step % len(FILES)]
    return "\n".join(
        f"src/shop/{name}:{17 * line + step}:    total_{step} = apply(rate_{line}, order[{line}].net)"
        for line in range(1, lines)
    )


def _conversation(opening: Messages, turn: Callable[[int], str], answer: Callable[[int], str], steps: int) -> Messages:
    messages = list(opening)
    for step in range(1, steps + 1):
        messages.append({"role": "assistant", "content": turn(step)})
        messages.append({"role": "user", "content": answer(step)})
    return [*messages, {"role": "assistant", "content": "Thought: I know enough now. The rate is applied twice."}]


def _system(content: str) -> Messages:
    return [{"role": "system", "content": content}, {"role": "user", "content": TASK}]


def _react(step: int) -> str:
    return f"Thought: rate_{step} may be wrong, so I look at it.\nAction: search\nAction Input: rate_{step}"


def _bash(step: int) -> str:
    return f"Let me look for rate_{step}.\n\n```bash\ngrep -rn rate_{step} src/shop\n```"


def _json(step: int) -> str:
    call = json.dumps({"action": "search", "action_input": {"query": f"rate_{step}"}}, indent=2)
    return f"I look for rate_{step}.\n```json\n{call}\n```"


def _tag(step: int) -> str:
    return f"I look for rate_{step}.\n<tool>search</tool><tool_input>rate_{step}</tool_input>"


def _calling(step: int) -> str:
    call = {
        "id": f"call_{step}",
        "type": "function",
        "function": {"name": "search", "arguments": {"q": f"rate_{step}"}},
    }
    return f"Calling tools:\n[{call}]"


def _swe(step: int) -> str:
    return f"DISCUSSION\nLet's open the file with rate_{step}.\n\n```\nopen {FILES[step % 6]} {step}\n```"


ALONE: Messages = [{"role": "user", "content": TASK}]
RUNS = "You are a software agent. Reply with exactly one bash block; it is executed, and you see its output."
SWE = (
    "SETTING: you work in a special interface with a file editor. Reply with DISCUSSION and a command in a code block."
)
INLINE = f"{TASK} Answer with Thought: and Action: lines, with the tools search and open, until you know it."
ASKS = "Your tools: search, open.\nUse this format:\nThought: what to do\nAction: the tool\nAction Input: its input"

SPELLINGS: dict[str, tuple[Messages, Callable[[int], str], Callable[[int], str]]] = {
    "asked inline": ([{"role": "user", "content": INLINE}], _react, lambda n: f"Observation: {output(n)}"),
    "no system prompt": (ALONE, _react, lambda n: f"Observation: {output(n)}"),
    "tool result": (_system(ASKS), _react, lambda n: f"Tool result: {output(n)}"),
    "result of": (_system(ASKS), _react, lambda n: f"Result of search:\n{output(n)}"),
    "lowercase": (_system(ASKS), _react, lambda n: f"observation: {output(n)}"),
    "JSON actions": (_system("Reply with a JSON action."), _json, lambda n: f"Observation: {output(n)}"),
    "raw output": (_system(RUNS), _bash, output),
    "tags": (_system("Use <tool> tags."), _tag, lambda n: f"<observation>\n{output(n)}\n</observation>"),
    "output": (_system(ASKS), _react, lambda n: f"Output:\n{output(n)}"),
    "numbered": (
        ALONE,
        lambda n: f"Thought {n}: look\nAction {n}: search[rate_{n}]",
        lambda n: f"Observation {n}: {output(n)}",
    ),
    "calling tools": (_system("You solve tasks with tools."), _calling, lambda n: f"Observation:\n{output(n)}"),
    "open file": (
        _system(SWE),
        _swe,
        lambda n: f"{output(n)}\n(Open file: /shop/{FILES[n % 6]})\n(Current directory: /shop)\nbash-$",
    ),
    "open file first": (_system(SWE), _swe, lambda n: f"(Open file: /shop/{FILES[n % 6]})\n{output(n)}"),
    "labelled fence, no prompt": (ALONE, _bash, lambda n: f"Output:\n```\n{output(n)}\n```"),
    "tags, no prompt": (ALONE, _bash, lambda n: f"<output>\n{output(n)}\n</output>"),
    "bare JSON": (
        ALONE,
        lambda n: json.dumps({"thought": "look", "action": "search", "args": {"q": n}}),
        lambda n: f"Tool output: {output(n)}",
    ),
}


def text_run(spelling: str, steps: int = 14) -> Messages:
    """A run of an agent with this spelling."""
    return _conversation(*SPELLINGS[spelling], steps)


CHAT = "You are a helpful programming assistant. Put code into fenced blocks."
REMARKS = (
    "Hm, that did not work. Could you look at the tax rules as well?",
    "Please do not touch voucher 77-B, it is a customer's.",
    "Nein, nimm bitte die andere Datei, die alte ist falsch.",
    "yes",
    "The deadline is Friday 17:00, and the branch is called fix/voucher-9.",
)


def _quotes(step: int) -> str:
    return f"Observation: in lesson {step} you wrote 'Action: search' and then nothing. {REMARKS[step % 5]}"


def _teaches(step: int) -> str:
    return (
        f"In ReAct, step {step} looks like this:\nThought: I need x\nAction: search[x]\nObservation: x is {step}\n\n"
        "The observation is written by the environment, never by the model."
    )


def _suggests(step: int) -> str:
    return f"{_bash(step)}\n\nRun that and tell me what you see."


HUMANS: dict[str, Messages] = {
    "quotes observations": _conversation(_system("You teach how agents work."), _teaches, _quotes, 14),
    "pastes logs with a remark": _conversation(
        _system(CHAT), _suggests, lambda n: f"This is what I get:\n{output(n)}\n{REMARKS[n % 5]}", 14
    ),
    "pastes logs alone": _conversation(_system(CHAT), _suggests, output, 14),
    "pastes labelled logs": _conversation(_system(CHAT), _bash, lambda n: f"Output:\n{output(n)}\n{REMARKS[0]}", 14),
    "answers every turn": _conversation(_system(ASKS), _react, lambda n: REMARKS[n % 5] + " " + "And so on. " * 40, 14),
    "answers an agent that runs commands": _conversation(
        _system(RUNS), _bash, lambda n: f"{output(n)}\n\n{REMARKS[n % 5]}", 14
    ),
    "remarks first": _conversation(_system(RUNS), _bash, lambda n: f"{REMARKS[n % 5]}\n{output(n)}", 14),
}
