"""Text ReAct: agents that act in plain text and get the environment's answer as the next `user` message.

A `user` message then has two readings: the user's own words, which must never be lost, or an observation, which belongs
to its span. `TextRun.read` decides by evidence: does the task (system prompt or first user message) ask for actions
written as text, did the turn before write one, does the message have the form of tool output, and did most answers
before it have that form? In doubt the message stays as the user's words, and the doubt is reported. Later messages are
never considered, so the reading of a message does not change as the history grows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

_FORMAL = (
    r"^[ \t>*]*Action(?:[ \t]*Input)?(?:[ \t]*\d{1,4})?[ \t*]*:"  # ReAct's own form
    r"|^[ \t]*Calling tools?[ \t]*:"
    r"|^[ \t]*\{\s*+\"(?:action|tool|tool_name|function|function_name|command|thoughts?)\"\s*+:"  # JSON
    r"|<(?:tool|tool_calls?|tool_use|tool_code|use_tool|function|function_calls?|function=|execute|execute_\w+|invoke"
    r"|action|command|bash|code)\b[^<>]*>"  # tags
)
"""Actions in a notation of their own: a person rarely answers those with tool output."""
_FENCE = r"```[\w+-]*[ \t]*\n.*?```"
_FLAGS = re.DOTALL | re.MULTILINE | re.IGNORECASE
_TEXT_ACTION = re.compile(f"{_FENCE}|{_FORMAL}", _FLAGS)
_FORMAL_ACTION = re.compile(
    rf"{_FORMAL}|```[\w+-]*[ \t]*\n\s*+\{{\s*+\"(?:action|tool|tool_name|function|thoughts?)\"\s*+:", _FLAGS
)
_INLINE_ACTION = re.compile(
    r"\bThought\b.{0,400}?\bAction\b[`*\"']*[ \t]*:|\bThought\b[`*\"']*[ \t]*:.{0,400}?\bAction\b", re.DOTALL
)
"""The notation described in running text: "answer with Thought: and Action: lines"."""
_OBSERVED_INSIDE = re.compile(r"^[ \t>*]*Observation\b", re.MULTILINE | re.IGNORECASE)

_PLACE = "computer|shell|terminal|environment|system|container|sandbox|command line|repl"
_RUN_FOR_THE_AGENT = re.compile(
    r"\b(?:will|is|are|gets?|to) be(?:ing)? (?:executed|run\b|evaluated)|\b(?:is|are|gets?) (?:then )?executed\b"
    r"|\bI(?:'ll| will| shall)? (?:then )?(?:execute|run)\b|\bwe (?:will )?(?:execute|run)\b"
    r"|\byou (?:can|may|must|should|are able to) (?:execute|run)\b|(?:^|[.!?:]\s)(?:execute|run) (?:\w+ )?commands?\b"
    r"|\b(?:exactly|only) one (?:\w+ )?(?:command|action|block|code block|tool call)\b"
    r"|\b(?:a single|one) (?:\w+ )?(?:command|action|tool|block) (?:at a time|each|per (?:turn|step|message|reply))"
    rf"|\binteract(?:s|ing)? with (?:a|an|the) (?:\w+ )?(?:{_PLACE})\b"
    rf"|\baccess to (?:a|an|the) (?:\w+ )?(?:{_PLACE})\b"
    r"|\b(?:autonomous|coding|software|shell|bash|computer) agent\b|\bspecial interface\b"
    r"|\b(?:output|result|observation)s? (?:of (?:the|your|each|every|that) \w+ )?(?:will be|is|are) (?:then )?"
    r"(?:returned|given|shown|provided|sent|fed)\b"
    r"|\byou(?: will|'ll) (?:then )?(?:get|see|receive) (?:back )?(?:the|its|their|an?) (?:output|result|observation)",
    re.IGNORECASE | re.MULTILINE,
)
_RUN_BY_THE_USER = re.compile(
    r"\b(?:the )?(?:user|human|customer|operator)s? (?:will|can|may|must|should|then )*\s*(?:run|execute|paste|copy)",
    re.IGNORECASE,
)

_TAGS = (
    "tool_response|tool_result|tool_output|function_results?|function_response|observation|output|stdout|result"
    "|execution_result"
)
_FORMS = {
    "returncode": r"<returncode>-?\d+</returncode>\s*+(?:<\w+>.*</\w+>)?",
    "tag": rf"<({_TAGS})\b[^>]*>.*</\1>",
    "observation": r"[#>*_ \t]{0,8}observation(?:[ \t]*\d+)?[*_ \t]{0,4}:.*",
    "tool result": r"[#>*_ \t]{0,8}(?:tool|function|command|shell) (?:output|result|response)s?(?:[ \t]+\d+)?"
    r"[*_ \t]{0,4}:.*",
    "logs": r"(?:Execution result|Execution logs|Code output)[ \t]*:\s*```.*```",
    "exitcode": r"exitcode: -?\d+ \(execution \w+\).*|EXECUTION RESULT of \[.*",
    "open file": r"\(Open file: [^\n]*\)\s*\n.*|\[File: [^\n]*\(\d+ lines total\)\]\s*\n.*",
}
_TOOL_OUTPUT = {
    form: re.compile(
        rf"\s*(?:{pattern})\s*", re.DOTALL | (re.IGNORECASE if form in ("observation", "tool result") else 0)
    )
    for form, pattern in _FORMS.items()
}
_SHELL_STATE = re.compile(r"\(Open file: [^\n]*\)\s*\n\(Current directory: [^\n]*\)(?:\s*\nbash-\$)?\s*\Z")
_RESULT_OF = re.compile(r"\s*results? (?:of|from|for) [`'\"]?(\w[\w.-]{0,60})[^:\n]{0,80}:", re.IGNORECASE)
_WORDED = ("tool result", "result of")
"""Forms in words that a person may begin a remark with."""
_PLAIN_LABEL = re.compile(r"\s*(output|results?|response|returned|stdout)(?:[ \t]+\d+)?[ \t]*:", re.IGNORECASE)
"""Labels that people write, too: they need more evidence."""

_TASK = 1_000_000
"""Characters of a task that are searched for an action."""
_ENOUGH = 2
"""Number of earlier answers with the same label that make it the environment's."""
_LONG = 400
"""Characters from which an answer to an action is in doubt although it has no form of tool output."""


class Reading(Enum):
    """Ways to read a user message."""

    OBSERVATION = "observation"
    WORDS = "words"
    DOUBT = "doubt"
    """It may be an observation, but not surely: it is kept like words, and reported."""


@dataclass(frozen=True, slots=True)
class TextRun:
    """The evidence so far: how the agent of a conversation acts, and how its environment answers."""

    asks: bool = False
    """True if the task shows or describes actions written as text."""
    runs: bool = False
    """True if the task says that commands, code or actions are executed for the agent."""
    labels: frozenset[str] = frozenset()
    """Plain labels ("output") that the task itself names."""
    answers: int = 0
    """Number of user messages that came right after an action."""
    forms: Mapping[str, int] = field(default_factory=dict)
    """Number of those by form; `""` counts output without a label."""

    def with_task(self, task: str) -> TextRun:
        """Return the evidence with another part of the task: a system prompt or the user's first words."""
        task = task[:_TASK]
        return replace(
            self,
            asks=self.asks or asks_for_text_actions(task),
            runs=self.runs or (bool(_RUN_FOR_THE_AGENT.search(task)) and not _RUN_BY_THE_USER.search(task)),
            labels=self.labels | {found[1].lower() for found in map(_PLAIN_LABEL.match, task.splitlines()) if found},
        )

    def read(self, action: str, text: str) -> tuple[Reading, TextRun]:
        """Read a user message that follows a turn with this action ("" for none); return the evidence with it, too."""
        form = form_of(text, action)
        if not action:
            return (Reading.DOUBT if form or is_printed(text) else Reading.WORDS), self
        counted = form or ("" if is_printed(text) else None)
        forms = self.forms if counted is None else {**self.forms, counted: self.forms.get(counted, 0) + 1}
        return self._judge(form, action, text), replace(self, answers=self.answers + 1, forms=forms)

    def _judge(self, form: str | None, action: str, text: str) -> Reading:
        if form is None:
            return self._judge_unlabelled(action, text)
        settled = self._is_usual(form)
        if form.startswith("label:"):
            named = form.removeprefix("label:") in self.labels and (self.asks or self.runs)
            sure = (settled or named) and not may_be_spoken(text)
        elif self.asks or self.runs:
            first = text.strip().partition("\n")[0]
            sure = settled or form not in _WORDED or not may_be_spoken(first)
        elif _is_formal(action):
            sure = settled or not may_be_spoken(text)
        else:
            sure = settled and ends_in_action(action)
        return Reading.OBSERVATION if sure else Reading.DOUBT

    def _judge_unlabelled(self, action: str, text: str) -> Reading:
        """Read a message without a label: output only if commands are executed, no label is in use, and no line of it
        may be a person's."""
        if is_printed(text):
            labelled = any(self.forms.keys() - {""})
            mostly_words = self.forms.get("", 0) * 2 < self.answers
            sure = self.runs and ends_in_action(action) and not labelled and not mostly_words
            return Reading.OBSERVATION if sure else Reading.DOUBT
        return Reading.DOUBT if len(text) >= _LONG and (self.asks or self.runs) else Reading.WORDS

    def _is_usual(self, form: str) -> bool:
        """True if most answers so far had this form."""
        count = self.forms.get(form, 0)
        return count >= _ENOUGH and count * 2 > self.answers


def asks_for_text_actions(task: str) -> bool:
    """True if a system prompt or task shows the agent how to write an action as text.

    Only its beginning is searched: scanning many megabytes would block all other threads.
    """
    return bool(_TEXT_ACTION.search(task, 0, _TASK) or _INLINE_ACTION.search(task, 0, _TASK))


def form_of(text: str, action: str = "") -> str | None:
    """Return the form of tool output that the whole message has, or None.

    "Result of search:" counts only after an action that names `search`. `label:output` and the like are forms that
    people write as well.
    """
    for form, pattern in _TOOL_OUTPUT.items():
        if pattern.fullmatch(text):
            return form
    if _SHELL_STATE.search(text, max(len(text) - 2000, 0)):
        return "open file"
    if (found := _RESULT_OF.match(text)) and found[1].lower() in action.lower():
        return "result of"
    plain = _PLAIN_LABEL.match(text)
    return f"label:{plain[1].lower()}" if plain else None


def split_turn(text: str) -> tuple[str, str]:
    """Split a text turn into (thought, action): the action starts where the first one is written."""
    found = _TEXT_ACTION.search(text)
    if found is None:
        return text, ""
    return text[: found.start()].rstrip(), text[found.start() :]


def ends_in_action(action: str) -> bool:
    """True if nothing follows the last action of a turn: the agent waits for its output, not for a person."""
    end = action.rstrip()
    paragraph = end[end.rfind("\n\n") + 1 :]
    return end.endswith(("```", ">", "}", "]", ")")) or _TEXT_ACTION.search(paragraph) is not None


def named_actions(action: str) -> Iterator[tuple[str, str]]:
    """Yield the tools that a text action names, in any of the notations, each with the text of its input."""
    found = list(_NAMES.finditer(action))
    ends = [*(one.start() for one in found[1:]), len(action)]  # one too many if no tool is named
    for one, end in zip(found, ends, strict=False):
        yield next(filter(None, one.groups())), _INPUT_LABEL.sub("", action[one.end() : end]).strip()


_INPUT_LABEL = re.compile(r"^\s*+(?:Action[ \t]*)?Input[ \t]*:", re.IGNORECASE)
_NAMES = re.compile(
    r"^[ \t>*]*Action(?:[ \t]*\d{1,4})?[ \t*]*:[ \t*`]*(\w+)"
    r"|\"(?:action|tool|tool_name|function_name|name)\"\s*+:\s*+\"(\w+)\""
    r"|'name'\s*+:\s*+'(\w+)'"
    r"|<(?:function=|invoke name=[\"']|tool name=[\"'])(\w+)"
    r"|<tool>\s*+(\w+)",
    re.MULTILINE | re.IGNORECASE,
)


def _is_formal(action: str) -> bool:
    """True if a turn ends in an action in a notation of its own, and does not itself tell what came of it."""
    return (
        _FORMAL_ACTION.search(action) is not None and ends_in_action(action) and _OBSERVED_INSIDE.search(action) is None
    )


# Was a text printed by a program, or may a person have written it? Both tests err on the person's side: a text is
# printed only if nothing in it may be a person's words, in any language.

_PERSON = re.compile(
    r"^[^\s\W\d_][^\n]*?\b(?:please|pls|thanks|thank|sorry|hello|hey|let's|don't|(?-i:I)|I'm|I've|I'll|me|my|mine|we|our"
    r"|you|your|could|should|why)\b|^(?-i:I)\b|^(?:you|we|my|please|why|hi|hello|hey|thanks|sorry)\b",
    re.IGNORECASE | re.MULTILINE,
)
"""An unindented line with a word that people use to each other."""
_SYMBOL = re.compile(r"[{}<>=;|\\$#@~^\[\]+*%]|\w\(|/\w|\w/|_|\t|::|\w\.\w|--|:\d|\d|^[-\"']|  \S")
_CODE = re.compile(
    r"(?:from|import|def|class|return|public|private|static|package|func|fn|const|let|var|if|elif|else|for|while|try"
    r"|except|with|async|await|export|include|use|struct|enum|type|raise|yield|end|begin)\b"
    r"|[\w.]*(?:Error|Exception|Warning)\b|(?:error|warning|fatal|INFO|DEBUG|WARN|ERROR|Traceback)\b"
)
_WORD = re.compile(r"[(\"'‘“]?[^\W\d_]+(?:['’-][^\W\d_]+)*[)\"'’”]?[,.;:!?…]*")
_LEAST_LINES = 3


def may_be_spoken(text: str) -> bool:
    """True if a line of the text addresses somebody in English."""
    return _PERSON.search(text) is not None


def is_printed(text: str) -> bool:
    """True if a text of some lines is surely the output of a program.

    Its first and last lines and the first of every paragraph must look printed: that is where people add remarks.
    """
    lines = text.strip("\n").split("\n")
    if len(lines) < _LEAST_LINES or may_be_spoken(text):
        return False
    edges = {0, len(lines) - 1}
    for place, line in enumerate(lines):
        if not line.strip():
            continue
        begins = place in edges or (not lines[place - 1].strip() and not line[0].isspace())
        if begins and not _looks_printed(line.strip()):
            return False
        if not line[0].isspace() and _is_sentence(line):
            return False
    return True


def _looks_printed(line: str) -> bool:
    if _CODE.match(line):
        return True
    words = line.split()
    plain = sum(_WORD.fullmatch(word) is not None for word in words)
    return _SYMBOL.search(line) is not None and plain * 10 < len(words) * 6


def _is_sentence(line: str) -> bool:
    """True for a line of three plain words or more and nothing else."""
    if _CODE.match(line):
        return False
    words = line.split()
    return len(words) >= 3 and all(map(_WORD.fullmatch, words))
