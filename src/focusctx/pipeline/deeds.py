"""What an agent must not forget, whatever the sketches say: deeds, what cannot be got again, rules, open questions.

A look-up that is lost costs another call. A code shown once, the id of something made, a payment already sent, a rule
or the question behind a user's "yes" cost the task. Each is found by plain evidence in the step itself.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence

from ..drafts.dataflow import Kind, facts_in, has_failed, kind_of
from ..types import Call, History, Span, Unit
from ..wire import Role, results_by_call
from ..wire.part import join
from .outline import Outline, Outlines, Passage

_READING = re.compile(
    r"get|list|search|find|read|look|lookup|view|show|check|query|fetch|describe|calculate|compute|think|plan|grep|ls"
    r"|cat|glob|browse|scroll|screenshot|recall|help|count|status|inspect|explain|preview|summarize|verify|wait|open"
    r"|load|retrieve|select|peek|info|details|history|validate|compare|analy[sz]e"
)
_CHANGING = re.compile(
    r"create|update|delete|remove|add|set|send|write|book|cancel|pay|transfer|modify|edit|put|post|submit|buy|mark|move"
    r"|rename|save|insert|replace|apply|reset|register|login|authorize|approve|reject|assign|close|refund|exchange"
    r"|upload|execute|run|install|commit|push|merge"
)
_SHELL = re.compile(r"(?:execute_|run_|local_)?(?:bash|shell|sh|terminal|command)", re.IGNORECASE)
_QUIET_COMMAND = re.compile(
    r"ls|cat|[ef]?grep|rg|find|head|tail|wc|pwd|cd|echo|printf|which|type|tree|file|stat|diff|cmp|sort|uniq|cut|tr|awk"
    r"|env|printenv|ps|du|df|date|true|false|test|less|more|nl|xargs|jq|column|basename|dirname|realpath|pytest"
    r"|python3?|node|ruff|mypy|flake8|sleep|export|source|set|whoami|hostname|id|uname|history|man"
)
"""Commands that only show something. Running a program or a test is one: what it prints is its result."""
_QUIET_GIT = re.compile(r"status|log|diff|show|branch|blame|grep|ls-files|rev-parse|remote|describe")
_REDIRECTED = re.compile(r"(?<![0-9&<>])>{1,2}\s*(?!&|/dev/null)\S")
_INNER_COMMANDS = re.compile(r"&&|\|\||[;|\n]")
_FENCED = re.compile(r"```(?:bash|sh|shell|console)?[ \t]*\n(.*?)```", re.DOTALL)
_NAME_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")

_ONCE = re.compile(
    r"\b(?:shown|displayed|visible|sent|given|valid|usable|available)\s+(?:only\s+)?once\b|\bonly\s+once\b"
    r"|\b(?:not|never|won't|n't)\s+(?:be\s+)?(?:shown|displayed|visible|available|repeated|able to see)\b.*\bagain\b"
    r"|\bone[- ]time\b|\b(?:save|store|copy|note)\s+(?:it|this|them|these)\s+(?:down|now|safely|somewhere|code|key)\b"
    r"|\bwrite\s+(?:it|this)\s+down\b|\bcannot be (?:retrieved|recovered|shown)\b|\bkeep (?:it|this) safe\b",
    re.IGNORECASE,
)
_RULE = re.compile(
    r"^\W*(?:rule\b[^:\n]*:|never\b|do not\b|don't\b|always\b|you (?:must|may not|should never|are not allowed)\b"
    r"|at most\b|no more than\b|it is forbidden\b|must (?:not|never|always)\b)"
    r"|\b(?:must not|must never|is not allowed|are not allowed|is forbidden|may not be)\b",
    re.IGNORECASE | re.MULTILINE,
)
_RULE_BOOK = re.compile(r"polic(?:y|ies)|rules?\b|guideline|convention|terms|instructions|CONTRIBUTING|AGENTS|CLAUDE")
_SHORT_SPEECH = 240
"""Characters up to which what was said to the user stays whole if the user answered it."""
_MOST_NEW = 3
"""Most passages of one result that are kept for the ids in them."""


def required_units(history: History, outlines: Outlines, reads: Collection[str] = ()) -> dict[Unit, str]:
    """Return the parts of a history that no event may leave out, each with the reason. `(7, 0)` is a record."""
    found: dict[Unit, str] = {}
    answered = {turn.after for turn in history.user_turns}
    seen: set[str] = set(facts_in("\n".join([history.goal, *(turn.text for turn in history.user_turns)])))
    for span in history.spans:
        outline = outlines.of(span)
        failed = failed_calls(span, history.format)
        for call in span.calls or _text_calls(span):
            if not is_reading(call, reads) and call.id not in failed:
                found[span.index, 0] = f"{call.name} changed something"
                made = [passage.number for passage in _results(outline, call) if _has_new_id(passage.text, seen)]
                found |= {(span.index, number): "it holds an id that was made here" for number in made[:_MOST_NEW]}
        found |= _said_once(span, outline)
        found |= _rules(span, outline)
        if span.index in answered and not span.calls:
            found |= _questions(span, outline)
        seen |= facts_in(join([span.thought, span.action, span.observation]))
    return found


def repeated_lookups(spans: Sequence[Span], cut_at: Mapping[int, int], reads: Collection[str] = ()) -> dict[int, str]:
    """Return the spans that repeated a look-up after its result had been cut, each with the reason.

    `cut_at` holds the spans that were cut, with the newest span at that time. Of several repetitions the latest counts.
    """
    if not cut_at:
        return {}
    made: dict[str, int] = {}
    found: dict[str, int] = {}
    for span in spans:
        for call in span.calls or _text_calls(span):
            name = " ".join(call.text.split())
            before = made.get(name)
            if before is not None and span.index > cut_at.get(before, span.index) and is_reading(call, reads):
                found[name] = span.index
            else:
                made[name] = span.index
    return dict.fromkeys(sorted(found.values()), "looked up again after its result was cut")


def is_reading(call: Call, reads: Collection[str] = ()) -> bool:
    """True if a call only looks something up: by the user's list, its own name, or the command it runs."""
    if call.name in reads:
        return True
    arguments = _arguments(call)
    if _SHELL.fullmatch(call.name):
        return _only_shows(_command(arguments, call))
    words = [word.lower() for word in _NAME_WORDS.findall(call.name)]
    if isinstance(command := arguments.get("command"), str) and not {"edit", "editor"}.isdisjoint(words):
        return command == "view"
    return any(map(_READING.fullmatch, words)) and not any(map(_CHANGING.fullmatch, words))


def failed_calls(span: Span, format: str) -> frozenset[str]:
    """Return the ids of the calls whose results report a failure; "" stands for a text agent's action."""
    results = results_by_call(span.messages, format) if span.calls else {"": span.observation}
    return frozenset(call for call, result in results.items() if has_failed(result))


def _said_once(span: Span, outline: Outline) -> dict[Unit, str]:
    """Return the passages that say they will not be shown again, with the one before where the value may be."""
    found: dict[Unit, str] = {}
    before = None
    for passage in outline.passages:
        if passage.role is Role.RESULT and _ONCE.search(passage.text):
            found[span.index, passage.number] = "it was shown once"
            if before is not None and before.call == passage.call and not _has_new_id(passage.text, ()):
                found[span.index, before.number] = "it was shown once"
        before = passage
    return found


def _rules(span: Span, outline: Outline) -> dict[Unit, str]:
    book = any(_RULE_BOOK.search(call.text) for call in span.calls)
    return {
        (span.index, passage.number): "it states a rule"
        for passage in outline.passages
        if passage.role is Role.RESULT and book and _RULE.search(passage.text)
    }


def _questions(span: Span, outline: Outline) -> dict[Unit, str]:
    """Return what was said to the user before an answer: all of it if it is short, else the asking part."""
    speech = [passage for passage in outline.passages if passage.role is Role.SPEECH]
    if sum(len(passage.text) for passage in speech) > _SHORT_SPEECH:
        speech = [passage for passage in speech if "?" in passage.text] or speech[-1:]
    why = "the user answered it"
    return {(span.index, 0): why, **{(span.index, passage.number): why for passage in speech}}


def _results(outline: Outline, call: Call) -> Iterator[Passage]:
    return (one for one in outline.passages if one.call == call.id and one.role is Role.RESULT)


def _has_new_id(text: str, seen: Collection[str]) -> bool:
    return any(kind_of(fact) is Kind.ID and fact not in seen for fact in facts_in(text))


def _text_calls(span: Span) -> Iterator[Call]:
    """Yield the action of an agent that acts in plain text, as calls."""
    if not span.action or span.calls:
        return
    commands = _FENCED.findall(span.action)
    if commands:
        yield from (Call("", f"bash({json.dumps({'command': command})})") for command in commands)
    else:
        name = re.search(r"Action\s*:\s*(\w+)", span.action)
        yield Call("", f"{name[1] if name else 'the action'}()")


def _arguments(call: Call) -> Mapping[str, object]:
    try:
        value = json.loads(call.text[len(call.name) + 1 : -1])
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _command(arguments: Mapping[str, object], call: Call) -> str:
    for key in ("command", "cmd", "code", "script"):
        value = arguments.get(key)
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            return " ".join(map(str, value))
    return call.text[len(call.name) + 1 : -1]


def _only_shows(command: str) -> bool:
    """True if every command in a shell line only shows something."""
    if _REDIRECTED.search(command) or "<<" in command:
        return False
    return all(_is_quiet(one) for one in _INNER_COMMANDS.split(command) if one.strip())


def _is_quiet(command: str) -> bool:
    try:
        words = [word for word in shlex.split(command, comments=True) if "=" not in word.split("/")[0]]
    except ValueError:
        words = command.split()
    if not words:
        return True
    name, rest = words[0].rsplit("/", 1)[-1], words[1:]
    if name == "sed":
        return not any(word.startswith(("-i", "--in-place")) for word in rest)
    if name == "git":
        return bool(_QUIET_GIT.fullmatch(next((word for word in rest if not word.startswith("-")), "")))
    return bool(_QUIET_COMMAND.fullmatch(name)) and not (name == "find" and "-delete" in rest)
