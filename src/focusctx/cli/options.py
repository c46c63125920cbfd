"""Options that several commands share, and the compressor they describe."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import ConfigError
from ..wire import WIRES
from ..wire.foreign import UNDERSTOOD
from .command import Problem

if TYPE_CHECKING:
    from ..compressor import Focus

DRAFTS = """\
drafts:
  offline                      data flow only: no model, no key, no network
  openai:MODEL                 OpenAI, or the server OPENAI_BASE_URL names
  openai:MODEL@http://HOST/v1  any OpenAI-compatible server
  anthropic:MODEL, azure:DEPLOYMENT
  deepseek|gemini|groq|mistral|ollama|openrouter|vllm:MODEL
  transformers:PATH_OR_NAME    in this process, with focusctx[transformers]
  llama-cpp:FILE.gguf          beside this process, with focusctx[llama-cpp]
"""

METHODS = """\
methods:
  none                         the full history
  fifo                         the newest 5 turns
  retrieval                    the 5 turns most like the newest, by --embedder
  masking-10, masking-5, masking-3
                               all turns, but only the newest observations
  clear-tool-uses              old tool results cleared, as context editing does
  prompting                    a summary, written by --compressor (focusctx-bench)
  llmlingua                    fewer words, with focusctx-bench[llmlingua]
  focus-o, focus-d             the paper's FOCUS, optimistic and defensive
  random, newest, retrieval-matched
                               as many tokens as FOCUS at its events, chosen so
  focus-note                   FOCUS with a note of the agreed plan (focusctx-bench)
"""

EMBEDDERS = """\
for retrieval: wordllama, openai:MODEL[@URL], sentence-transformers:PATH_OR_NAME, or words, which embeds nothing and
counts shared words (default: wordllama where it is installed, else words)"""

TRACES = f"""\
TRACE holds a list of messages, an object with such a list as its "messages"
("input", "contents"; all other fields are left alone), or one of these per
line (JSONL). Recognised: {UNDERSTOOD}.
"""

DEFAULTS = {
    "draft": "offline",
    "budget": 4096,
    "rollouts": 3,
    "threshold": 0.3,
    "optimistic": False,
    "target": 0.5,
    "whole_steps": False,
    "deadline": 30.0,
    "observations": "auto",
}
"""The default settings."""


@dataclass(frozen=True, slots=True)
class Setup:
    """The draft and settings behind a result, for reports."""

    draft: str
    budget: int
    target: int | None
    rollouts: int
    threshold: float
    defensive: bool


def add_trace_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace", metavar="TRACE", help="a JSON or JSONL file, or - for standard input")
    parser.add_argument("--goal", help="the agent's goal (default: the user's first message)")
    parser.add_argument("--format", choices=tuple(WIRES), help="the message format (default: detected)")


def add_settings(parser: argparse.ArgumentParser, *, draft: str | None = "offline") -> None:
    settings = parser.add_argument_group("how to compress")
    add = settings.add_argument
    add("--draft", help=f"the model that sketches plans, see below (default: {draft or 'recorded sketches'})")
    add(
        "--budget",
        type=int,
        metavar="TOKENS",
        help="δ: compress a history that is larger than this, see --target (default: 4096)",
    )
    add("--rollouts", type=int, metavar="N", help="how many sketches to sample (default: 3)")
    add_threshold(settings)
    add("--optimistic", action="store_true", help="FOCUS-O: plan citations only, no rescued spans")
    add(
        "--target",
        type=float,
        metavar="SIZE",
        help="size afterwards: a share of the budget up to 1, or a number of tokens; only what may never go can exceed "
        "it (default: 0.5; 0: whatever the sketches ask for)",
    )
    add(
        "--whole-steps",
        action="store_true",
        help="keep or drop whole steps, as the paper does, instead of cutting long results to the passages that matter",
    )
    add(
        "--deadline",
        type=float,
        metavar="SECONDS",
        help="time limit for the sketches; a large local model may need more (default: 30)",
    )
    add(
        "--observations",
        choices=("auto", "always", "never"),
        help="of an agent that acts in plain text: are user messages after its turns tool output? auto: those that "
        "surely are (default: auto)",
    )
    parser.set_defaults(**{**DEFAULTS, "draft": draft})


def add_threshold(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--threshold",
        type=float,
        metavar="TAU",
        default=0.3,
        help="τ: keep spans that at least this share of the sketches cites (default: 0.3)",
    )


def focus_from(arguments: argparse.Namespace) -> Focus:
    """Create the compressor that the options describe."""
    from ..compressor import Focus
    from ..drafts.registry import draft_from

    try:
        draft = draft_from(arguments.draft)
    except ConfigError as error:
        # If the error lists all forms, refer to the help, which does it better.
        what = str(error).split(" Known forms:")[0].rstrip(".")
        raise Problem(f"{what}; `focusctx compress --help` lists the drafts") from error
    return Focus(
        draft,
        budget=arguments.budget,
        rollouts=arguments.rollouts,
        threshold=arguments.threshold,
        defensive=not arguments.optimistic,
        levels=not arguments.whole_steps,
        target=arguments.target or None,
        deadline=arguments.deadline,
        observations=arguments.observations,
    )


def setup_of(focus: Focus) -> Setup:
    from ..pipeline.keep import target_tokens

    config = focus.config
    target = target_tokens(config)
    return Setup(focus.draft.name, config.budget, target, config.rollouts, config.threshold, config.defensive)
