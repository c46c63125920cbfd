"""Ask a draft one small question before a long job, so that a server that is down shows at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ..baselines.drafts import PATIENCE, patient
from ..config import FocusConfig
from ..drafts.anthropic import AnthropicDraft
from ..drafts.openai_compatible import OpenAICompatibleDraft
from ..errors import DraftError
from ..pipeline.draft import build_prompt, sample
from ..pipeline.split import read_history
from ..tokens import Counter
from ..types import Message

_RETRIES = 3
"""Fewer than in a job: seconds, not minutes, until a server counts as down."""

_HISTORY: list[Message] = [
    {"role": "user", "content": "Greet Ann, then greet Bob."},
    {"role": "assistant", "content": "Good morning, Ann."},
    {"role": "user", "content": "Go on."},
]


async def probe_drafts(drafts: Iterable[str]) -> None:
    """Ask each draft for one small sketch. Raises a `DraftError` with what the server, or the network, said.

    Models in this process are not asked: they are loaded when they are needed, and only once.
    """
    config = FocusConfig()
    prompt = build_prompt(read_history(_HISTORY, config, Counter().count), config)
    for name in dict.fromkeys(drafts):
        draft = patient(name)
        if not isinstance(draft, OpenAICompatibleDraft | AnthropicDraft):
            continue
        draft.endpoint = replace(draft.endpoint, retries=_RETRIES)
        replies, problem = await sample(draft, prompt, 1, PATIENCE)
        if not replies:
            raise DraftError(f"{name}: {problem or 'the server sent no answer'}")
