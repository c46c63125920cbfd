"""Step 2: what may not be dropped, whatever the sketches say; and whether compression is due at all.

Spans are pinned: the newest, those not complete, those of the user's rule. Others must stay because these do: the
reasoning that a step continues, the turns around a system message. Beyond that, single parts of steps must not be
forgotten. A look-up that is lost costs another call; a code shown once, the id of something made, a payment already
sent, a rule or the question behind a user's "yes" cost the task. Each is found by plain evidence in the step itself.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence

from ..config import FocusConfig
from ..drafts.reading import Kind, facts_in, kind_of, states_rule
from ..errors import FocusError
from ..types import Call, History, PinRule, Span, Unit
from ..wire import Role
from ..wire.calls import calls_of, is_shell, may_be_reading
from .outline import Outline, Outlines, Passage

NEWEST = "newest span"
NEWER = "newer than the sketches"

_RULE_BOOK = re.compile(r"polic(?:y|ies)|rules?\b|guideline|convention|terms|instructions|CONTRIBUTING|AGENTS|CLAUDE")
_ASKS = re.compile(
    r"\?|\b(?:please|to) (?:confirm|reply|choose|say yes)\b|\bdo you (?:want|agree|confirm)\b", re.IGNORECASE
)
_SHORT_BOOK = 1200
"""Characters up to which a policy that the agent opened stays whole: its rules need no word that gives them away."""
_SHORT_SPEECH = 160
"""Characters up to which what was said to the user stays whole if the user answered it."""
_MOST_NEW = 3
"""Most passages of one result that are kept for the ids in them."""
_RULES = "it states a rule"
_MADE = "it holds an id that was made here"
_RECENT = 20
"""Number of newest steps with deeds that keep their records."""


def over_budget(history: History, config: FocusConfig) -> bool:
    """True if the history exceeds the budget: `|H_t| > δ`."""
    return history.tokens > config.budget


def pinned_spans(history: History, pin: PinRule | None) -> dict[int, str]:
    """Return the spans that stay whatever the sketches say, each with the reason."""
    newest = history.newest
    pinned = {span.index: reason for span in history.spans if (reason := _reason(span, newest, pin))}
    return {**leaders_of(history, pinned.keys()), **pinned}


def companions_of(history: History, chosen: Collection[int]) -> dict[int, str]:
    """Return the spans that must stay, at least as a record, besides the chosen ones, each with the reason."""
    neighbours = _neighbours(history, chosen) if history.format == "anthropic" else {}
    return {**neighbours, **leaders_of(history, {*chosen, *neighbours})}


def leaders_of(history: History, chosen: Collection[int]) -> dict[int, str]:
    """Return the spans that must stay because a chosen one continues their hidden reasoning."""
    return {
        span.needs: f"holds the reasoning that {span.label} goes on from"
        for span in history.spans
        if span.index in chosen and span.needs is not None and span.needs not in chosen
    }


def required_units(history: History, outlines: Outlines, reads: Collection[str] = ()) -> dict[Unit, str]:
    """Return the parts of a history that no event may leave out, each with the reason. `(7, 0)` is a record."""
    found: dict[Unit, str] = {}
    rules: dict[str, Unit] = {}
    answered = {turn.after for turn in history.user_turns}
    seen: set[str] = set(facts_in("\n".join([history.goal, *(turn.text for turn in history.user_turns)])))
    for span in history.spans:
        outline = outlines.of(span)
        reading = outline.reading
        for call, only_reads in ((one.call, one.only_reads) for one in reading.calls):
            if not (only_reads or call.name in reads or call.id in reading.failed):
                found[span.index, 0] = f"{call.name} changed something"
                made = [passage.number for passage in _results(outline, call) if _has_new_id(passage, seen)]
                found |= {(span.index, number): _MADE for number in made[:_MOST_NEW]}
        found |= _said_once(span, outline)
        for unit, text in _rules(span, outline).items():
            if (earlier := rules.get(text)) is not None and found.get(earlier) == _RULES:
                del found[earlier]  # it was read again
            found[unit] = _RULES
            rules[text] = unit
        if span.index in answered and not span.calls:
            found |= _questions(span, outline)
        seen |= reading.facts
    return found


def rules_in_passing(history: History, outlines: Outlines, room: int) -> dict[Unit, str]:
    """Return the passages of any result in which a line states a rule, each rule once; as many as `room` holds.

    What looks like a rule outside of a policy may be none, so the newest come first and room is set.
    """
    found: dict[Unit, str] = {}
    known: set[str] = set()
    for span in reversed(history.spans):
        outline = outlines.of(span)
        for passage in reversed(outline.passages if outline.may_state_rules else ()):
            if passage.role is not Role.RESULT or passage.call in outline.reading.failed:  # an error is about its call
                continue
            if rules := passage.rules - known:
                known |= rules
                room -= passage.tokens
                if room < 0:
                    return found
                found[span.index, passage.number] = _RULES
    return found


def old_deeds(
    history: History, outlines: Outlines, required: Mapping[Unit, str], whole: Collection[int]
) -> list[tuple[Span, int]]:
    """Return the steps whose deeds can be given in a line, oldest first, each with the step to put that line behind.

    `whole` are the steps that stay whole. A line does not move past the user's words: in each turn of the user the
    first step that must stay keeps its record, and those after it can follow in a line. Steps with other text that
    must stay keep theirs, too.
    """
    leaders = {span.needs for span in history.spans}
    fixed = {index for (index, number), why in required.items() if number and why != _MADE} | leaders | set(whole)
    turns = sorted(turn.after for turn in history.user_turns)
    carriers: dict[int, int] = {}
    found = []
    for span in history.spans:
        if (span.index, 0) not in required or span.index in whole or not outlines.has_result(span):
            continue
        carrier = carriers.setdefault(bisect_left(turns, span.index), span.index)
        if outlines.deeds(span) and not span.waiting:
            found.append((span, carrier))
    return [(span, carrier) for span, carrier in found[:-_RECENT] if span.index not in {*fixed, carrier}]


def repeated_lookups(spans: Sequence[Span], cut_at: Mapping[int, int], reads: Collection[str] = ()) -> dict[int, str]:
    """Return the spans that repeated a look-up after its result had been cut, each with the reason.

    `cut_at` holds the spans that were cut, with the newest span at that time. Of several repetitions the latest counts.
    A call that is not known to change something counts as a look-up: what matters here is that it was made again.
    """
    if not cut_at:
        return {}
    made: dict[str, int] = {}
    found: dict[str, int] = {}
    for span in spans:
        for call in calls_of(span):
            name = " ".join(call.text.split())
            before = made.get(name)
            if before is not None and span.index > cut_at.get(before, span.index) and may_be_reading(call, reads):
                found[name] = span.index
            else:
                made[name] = span.index
    return dict.fromkeys(sorted(found.values()), "looked up again after its result was cut")


def results_like(history: History, outlines: Outlines, regrets: Collection[int]) -> dict[Unit, str]:
    """Return the results of calls to the tools whose results the agent missed before, the newest first.

    `regrets` are the spans that looked something up again. A shell is many tools in one, so it does not count.
    """
    tools = {call.name for span in history.spans if span.index in regrets for call in calls_of(span)}
    tools = {name for name in tools if not is_shell(name)}
    found: dict[Unit, str] = {}
    for span in reversed(history.spans) if tools else ():
        names = {call.id: call.name for call in calls_of(span) if call.name in tools}
        passages = (one for one in outlines.of(span).passages if one.role is Role.RESULT and one.call in names)
        found |= {
            (span.index, one.number): f"another result of {names[one.call]} was cut and looked up again"
            for one in passages
        }
    return found


def _reason(span: Span, newest: int, pin: PinRule | None) -> str | None:
    if span.index == newest:
        return NEWEST
    if span.waiting:
        return "not complete: a tool call waits for its result, or a reference stands for what is not seen"
    if pin is not None and _is_pinned(span, pin):
        return "your pin rule"
    return None


def _is_pinned(span: Span, pin: PinRule) -> bool:
    try:
        return bool(pin(span))
    except Exception as error:
        name = getattr(pin, "__name__", repr(pin))
        problem = f"the function given as pin ({name}) raised {type(error).__name__} for {span.label}: {error}"
        raise FocusError(problem) from error


def _neighbours(history: History, chosen: Collection[int]) -> dict[int, str]:
    """Return the spans that must stay around a system message.

    Anthropic accepts one only between a user's turn and the model's. If dropping would put two system messages
    together, the step before the second stays; if it would put one before the user's words, the step after it stays.
    """
    stays = {0, *chosen}
    found: dict[int, str] = {}
    last, first_gone, last_gone = "", 0, 0  # the last kept role, and the first and last span dropped since
    for message, owner in zip(history.messages, history.owners, strict=True):
        role = message.get("role", "")
        owners = (owner,) if isinstance(owner, int) else owner
        if stays.isdisjoint(owners):
            first_gone, last_gone = first_gone or max(owners), max(owners)
            continue
        if role == "system" and last != "user" and last_gone:
            found[last_gone] = "a system message follows it"
        elif role == "user" and last == "system" and first_gone:
            found[first_gone] = "it answers a system message"
        last, first_gone, last_gone = role, 0, 0
    return found


def _said_once(span: Span, outline: Outline) -> dict[Unit, str]:
    """Return the passages that say they will not be shown again, with the one before where the value may be."""
    found: dict[Unit, str] = {}
    before = None
    for passage in outline.passages:
        if passage.role is Role.RESULT and passage.is_shown_once:
            found[span.index, passage.number] = "it was shown once"
            if before is not None and before.call == passage.call and not _has_new_id(passage, ()):
                found[span.index, before.number] = "it was shown once"
        if passage.text.strip():
            before = passage
    return found


def _rules(span: Span, outline: Outline) -> dict[Unit, str]:
    """Return what a policy or the like says that the agent opened: all of it if it is short, else its rules.

    Each passage comes with its words, and its call's: two policies may say the same about different things.
    """
    found: dict[Unit, str] = {}
    for call in calls_of(span):
        if _RULE_BOOK.search(call.text):
            book = [*_results(outline, call)]
            if sum(len(passage.text) for passage in book) > _SHORT_BOOK:
                book = [passage for passage in book if states_rule(passage.text)]
            found |= {(span.index, passage.number): f"{call.text}\n{passage.text}" for passage in book}
    return found


def _questions(span: Span, outline: Outline) -> dict[Unit, str]:
    """Return what was said to the user before an answer: all of it if it is short, else the asking part."""
    speech = [passage for passage in outline.passages if passage.role is Role.SPEECH]
    if sum(len(passage.text) for passage in speech) > _SHORT_SPEECH:
        speech = [passage for sentence in _sentences(speech) for passage in sentence if _asks(sentence)]
    why = "the user answered it"
    return {(span.index, 0): why, **{(span.index, passage.number): why for passage in speech}}


def _sentences(speech: Sequence[Passage]) -> list[list[Passage]]:
    """Group passages that belong to one sentence: speech is also cut after a colon."""
    found: list[list[Passage]] = []
    for passage in speech:
        if found and found[-1][-1].text.rstrip(" ").endswith(":"):
            found[-1].append(passage)
        else:
            found.append([passage])
    return found


def _asks(sentence: Sequence[Passage]) -> bool:
    return any(_ASKS.search(passage.text) for passage in sentence)


def _results(outline: Outline, call: Call) -> Iterator[Passage]:
    return (one for one in outline.passages if one.call == call.id and one.role is Role.RESULT)


def _has_new_id(passage: Passage, seen: Collection[str]) -> bool:
    return any(kind_of(fact) is Kind.ID and fact not in seen for fact in passage.facts)
