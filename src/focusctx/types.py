"""The values that pass through focusctx. All are frozen: a step returns a new value and never edits one.

A `History` is what the agent has seen: the goal, what the user said, and numbered `Span`s. A `Prompt` asks a draft for
plan sketches; each `Reply` is parsed into a `Sketch`. A `Decision` gives the outcome for one span and the reason, and a
`Result` carries the compressed messages with all of that evidence.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from .drafts.dataflow import SharedFlow
    from .pipeline.outline import Outlines

Message: TypeAlias = Mapping[str, Any]
"""One message (or Responses item) exactly as the agent sends it. Never changed."""

Owner: TypeAlias = int | tuple[int, ...]
"""The span a message belongs to, 0 for none. A tuple gives one owner per content block, for the
Anthropic user message that holds tool results and the user's own words at once."""

Unit: TypeAlias = tuple[int, int]
"""A part of a span: `(7, 2)` is the passage cited as `s_7.2`, `(7, 0)` what its record shows."""

Fate: TypeAlias = Literal["kept", "rescued", "pinned", "excerpt", "record", "dropped"]
"""The outcome for a span: whole, because plans cite it, the defensive check rescues it or no method may shorten it; an
excerpt (its action and some passages of its results); a record (its action and how it ended); or dropped."""


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call of a step."""

    id: str
    text: str
    """The call in words: `name(arguments)`."""

    @property
    def name(self) -> str:
        return self.text.partition("(")[0]


@dataclass(frozen=True, slots=True)
class Span:
    """One step of the agent: its thought, its action and the observation."""

    index: int
    """1-based and increasing: the span that sketches cite as `s_1` has index 1. Spans dropped earlier leave gaps."""
    thought: str = ""
    """The agent's words before it acts."""
    action: str = ""
    """The action: tool calls as `name(arguments)`, or text."""
    observation: str = ""
    """The environment's answer."""
    messages: tuple[Message, ...] = ()
    """The original messages; empty when the agent has no chat format."""
    tokens: int = 0
    waiting: bool = False
    """True if a tool call in this span has no result yet, or parts of it may be outside the messages (references)."""
    needs: int | None = None
    """The earlier span whose hidden reasoning this one continues: providers require both or neither."""
    calls: tuple[Call, ...] = ()
    """Its tool calls, in order; empty if the agent acts in plain text or only speaks."""
    reasons: bool = False
    """True if it holds hidden reasoning: providers want to see such a turn exactly as the model wrote it."""

    @property
    def label(self) -> str:
        return f"s_{self.index}"

    def __repr__(self) -> str:
        return f"Span({self.index}, action={_short(self.action)}, tokens={self.tokens})"


@dataclass(frozen=True, slots=True)
class UserTurn:
    """A user's message after `after` spans (0: before the first one). Never dropped."""

    after: int
    """Number of spans before it."""
    text: str
    """The user's words."""


@dataclass(frozen=True, slots=True)
class History:
    """`H_t`: the goal, the user's words and the agent's spans, with the messages they were read from."""

    goal: str
    """The task."""
    spans: tuple[Span, ...]
    """The agent's steps, oldest first."""
    user_turns: tuple[UserTurn, ...] = ()
    """The user's words between them."""
    messages: tuple[Message, ...] = ()
    """The messages that all of it was read from."""
    owners: tuple[Owner, ...] = ()
    """For each message, the span it belongs to; 0 marks messages that are never dropped."""
    format: str = "spans"
    """The wire format of the messages; `spans` if there are none."""
    tokens: int = 0
    """The size that is compared with the budget: everything but system and developer messages."""
    outlines: Outlines | None = field(default=None, compare=False, repr=False)
    """The passages of the spans, if they may be shown in part; None if a span stays or goes whole."""
    doubts: str | None = field(default=None, compare=False, repr=False)
    """A warning about user messages that may be tool output; None if there are none."""
    gone: tuple[Span, ...] = field(default=(), repr=False)
    """Spans of which earlier events left nothing; they are counted in lines behind other steps."""

    @property
    def every(self) -> list[Span]:
        """All spans in order, those that are gone included."""
        return sorted((*self.gone, *self.spans), key=lambda span: span.index)

    @property
    def newest(self) -> int:
        """The index of the newest span; 0 in an empty history."""
        return self.spans[-1].index if self.spans else 0

    def __repr__(self) -> str:
        return f"History(goal={_short(self.goal)}, spans={len(self.spans)}, tokens={self.tokens})"


@dataclass(frozen=True, slots=True)
class Prompt:
    """The prompt to a draft, the same for each of the N sketches."""

    system: str
    """Instructions."""
    user: str
    """The goal and the trace."""
    history: History
    """The history behind the text, for drafts that need no text (the offline one)."""
    temperature: float = 0.7
    """Temperature of sampling."""
    max_tokens: int = 1024
    """Most tokens of a reply."""
    seed: int = 42
    """Seed of the first sketch, for drafts that accept one."""
    flow: SharedFlow | None = field(default=None, compare=False, repr=False)
    """The data flow of that history, if others read it, too."""

    @property
    def messages(self) -> list[dict[str, str]]:
        """The prompt as chat messages, ready for any client."""
        return [{"role": "system", "content": self.system}, {"role": "user", "content": self.user}]

    def __str__(self) -> str:
        return f"{self.system}\n\n{self.user}"

    def __repr__(self) -> str:
        return f"Prompt(history={self.history!r}, temperature={self.temperature}, seed={self.seed})"


@dataclass(frozen=True, slots=True)
class Usage:
    """Requests, tokens and USD spent on sketches. Can be added; `cost` is None if any part has no known price."""

    requests: int = 0
    """Number of requests."""
    input_tokens: int = 0
    """Tokens read."""
    output_tokens: int = 0
    """Tokens written."""
    cost: float | None = 0.0
    """USD; None if some part has no known price."""

    def __add__(self, other: Usage) -> Usage:
        known = self.cost is not None and other.cost is not None
        return Usage(
            self.requests + other.requests,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            (self.cost or 0.0) + (other.cost or 0.0) if known else None,
        )


@dataclass(frozen=True, slots=True)
class Reply:
    """One raw answer of a draft. If one request gave several, the first carries the request's usage."""

    text: str
    """The draft's words."""
    usage: Usage = Usage()
    """Tokens of its request."""
    truncated: bool = False
    """True if the draft hit its output limit: the last line may be cut in the middle of a citation."""


class DraftModel(Protocol):
    """The cheap model that sketches plans. It has one method, so that anything can be wrapped as one."""

    @property
    def name(self) -> str:
        """The name used in logs and reports, e.g. `openai:gpt-5-mini`."""

    def sample(self, prompt: Prompt, n: int) -> AsyncIterator[Reply]:
        """Yield up to `n` independent replies, each as soon as it arrives.

        The caller may stop early (deadline) and then closes the iterator. A draft that can give only some of the
        replies yields those and then raises `DraftError`.
        """


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a plan sketch and the spans it depends on."""

    text: str
    cites: tuple[int, ...]
    """Spans that it needs whole."""
    parts: tuple[Unit, ...] = ()
    """Passages that it needs of other spans."""


@dataclass(frozen=True, slots=True)
class Rescue:
    """Spans a sketch wants kept although no step cites them, and the risk it sees."""

    spans: tuple[int, ...]
    reason: str
    parts: tuple[Unit, ...] = ()
    """Passages that it wants kept of other spans."""


@dataclass(frozen=True, slots=True)
class Sketch:
    """`p_k`: one sampled plan for the rest of the task, read from a reply."""

    text: str
    """The reply as the draft wrote it."""
    steps: tuple[Step, ...] = ()
    """The steps of the plan, with the spans they depend on."""
    rescues: tuple[Rescue, ...] = ()
    """Spans it wants kept although no step cites them."""
    unknown: tuple[str, ...] = ()
    """Citations that name no span of this history: reported, never guessed."""
    problem: str | None = None
    """Why the reply is not a plan; such a sketch does not vote."""

    @property
    def cited(self) -> frozenset[int]:
        """`Dep(p_k)`: every span that some step depends on, whole or in part."""
        return _spans_of((step.cites, step.parts) for step in self.steps)

    @property
    def rescued(self) -> frozenset[int]:
        """Every span that the sketch rescues, whole or in part."""
        return _spans_of((rescue.spans, rescue.parts) for rescue in self.rescues)

    def __repr__(self) -> str:
        if self.problem is not None:
            return f"Sketch(problem={_short(self.problem)})"
        return f"Sketch(steps={len(self.steps)}, cited={_first(self.cited)}, rescued={_first(self.rescued)})"


def _spans_of(named: Iterable[tuple[Iterable[int], Iterable[Unit]]]) -> frozenset[int]:
    return frozenset(index for spans, parts in named for index in (*spans, *(span for span, _ in parts)))


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome for one span, and the evidence for it."""

    index: int
    """The span's number: `s_7` has index 7."""
    fate: Fate
    """`kept`, `rescued` or `pinned` (whole), `excerpt`, `record`, or `dropped`."""
    utility: float
    """The share of sketches whose plan cites the span."""
    rescue: float
    """The share of sketches that rescue it."""
    pinned: str | None
    """Why no method may drop it, or None."""
    cited_by: tuple[int, ...]
    """The sketches (1-based) that cite it in a step."""
    rescued_by: tuple[int, ...]
    """The sketches (1-based) that rescue it."""
    reasons: tuple[str, ...]
    """The steps that need it and the risks named for it, in the sketches' own words."""
    tokens: int
    """Tokens of the whole span."""
    note: str | None = None
    """Why it stays though too few sketches ask for it, in part or whole, or goes though enough of them do."""
    parts: tuple[int, ...] = ()
    """The passages that an excerpt shows."""
    left: int = 0
    """Tokens that stay of it."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """Bound on what dropping the set can change: `loss <= m_max * (kappa * (set_utility + radius) + epsilon)`."""

    set_utility: float
    """`û_S`: the share of sketches that cite any dropped span."""
    radius: float
    """Width of the confidence interval around `set_utility`; it shrinks with the root of N."""
    confidence: float
    """Confidence level of the radius."""
    rollouts: int
    """Number of sketches that voted."""
    m_max: float
    """The most that dropping a needed set can change."""
    bound: float
    """The bound itself, at most `m_max`."""
    assumptions: tuple[str, ...]
    """The conditions under which it holds, in words."""
    kappa: float = 1.0
    """Factor by which the agent may need the set more often than the draft says."""
    epsilon: float = 0.0
    """Added for needs that the draft never cites."""


@dataclass(frozen=True, slots=True)
class Result:
    """One event: the messages to send, and the evidence that led to them."""

    messages: Sequence[Message]
    """The messages to send: the input list itself unless `compressed`."""
    compressed: bool
    """True if the messages differ from the input."""
    kept: tuple[int, ...] = ()
    """Spans that stay whole."""
    dropped: tuple[int, ...] = ()
    """Spans of which nothing stays."""
    shortened: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Spans that stay in part, with the passages they show; a span that shows none is a record."""
    rescued: tuple[int, ...] = ()
    """Spans that stay whole because sketches see a risk in losing them."""
    pinned: tuple[int, ...] = ()
    """Spans that no method may drop."""
    utilities: Mapping[int, float] = field(default_factory=dict)
    """`û_i` of every span, if sketches were sampled."""
    sketches: tuple[Sketch, ...] = ()
    """The plans that were sampled, those that do not vote included."""
    decisions: Sequence[Decision] = ()
    """One for every span, if sketches were sampled; computed on first access."""
    certificate: Certificate | None = None
    """Bound on the loss; None without sketches."""
    tokens_before: int = 0
    """Size of the history that came in, without system prompts."""
    tokens_after: int = 0
    """Size of `messages`, counted in the same way."""
    usage: Usage = Usage()
    """Requests, tokens and USD that the sketches took."""
    latency: float = 0.0
    """Seconds that the event took, the draft included."""
    target: int | None = None
    """Most tokens that the event was to leave; None without a target."""
    regrets: tuple[int, ...] = ()
    """Spans that repeated a look-up whose result had been cut; they stay whole."""
    failure: str | None = None
    """Why nothing was compressed although it was due; None on success or if nothing was due."""
    warnings: tuple[str, ...] = ()
    """Remarks that did not stop the event: messages that are not understood, a target that could not be met, …"""
    history: History | None = None
    """The history that the decisions refer to; None if nothing was due."""
    prompt: str | None = None
    """Name of the prompt that the sketches were sampled with, `focusctx` or `paper`; None without sketches."""

    def explain(self) -> str:
        """Explain the event in words: which spans were kept, dropped, rescued or pinned, by which sketch and why."""
        from .explain import explain

        return explain(self)

    def to_json(self) -> str:
        """Return the event with its evidence as JSON."""
        from .serialise import to_json

        return to_json(self)

    @classmethod
    def from_json(cls, text: str) -> Result:
        """Return the event that `to_json` wrote."""
        from .serialise import result_from_json

        return result_from_json(text)

    def __repr__(self) -> str:
        size = f"tokens={self.tokens_before}→{self.tokens_after}"
        if not self.compressed:
            return f"Result(compressed=False, {size}, failure={self.failure and _short(self.failure)})"
        return f"Result(compressed=True, {size}, kept={_first(self.kept)}, dropped={_first(self.dropped)})"


PinRule: TypeAlias = Callable[[Span], bool]
"""A custom rule: True keeps the span, whatever the sketches say."""


def _short(text: str) -> str:
    """Return the beginning of a text, quoted, for the one line of a `repr`."""
    return repr(text if len(text) <= 60 else f"{text[:59]}…")


def _first(spans: Collection[int]) -> str:
    """Return the first few span numbers for the one line of a `repr`."""
    few = ", ".join(map(str, sorted(spans)[:8]))
    return f"[{few}]" if len(spans) <= 8 else f"[{few}, … {len(spans)} spans]"
