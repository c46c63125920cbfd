"""Beyond the paper, curtailed sampling: no sketch is asked for that can change nothing.

Once enough sketches cite a span, or too few are left to make it enough, the others do not matter to it. So as many
are asked for as could settle every span, and the rest only where they did not.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from ..config import FocusConfig
from ..types import DraftModel, Prompt, Reply, Sketch
from .cite import read_sketch
from .draft import sample


async def sample_enough(
    draft: DraftModel, prompt: Prompt, spans: Collection[int], config: FocusConfig
) -> tuple[list[Reply], str | None]:
    """The replies that decide, and what went wrong if they are too few."""
    first = _fewest(config)
    started = time.monotonic()
    replies, problem = await sample(draft, prompt, first, config.deadline)
    spent = time.monotonic() - started
    if first == config.rollouts or problem or spent >= config.deadline:
        return replies, problem
    if settled([read_sketch(reply.text, spans, truncated=reply.truncated) for reply in replies], config):
        return replies, None
    rest = replace(prompt, seed=prompt.seed + first)
    more, problem = await sample(draft, rest, config.rollouts - first, config.deadline, spent=spent)
    return replies + more, problem


def settled(sketches: Sequence[Sketch], config: FocusConfig) -> bool:
    """Whether the sketches still to come, whatever they say, leave what is kept as it is."""
    plans = [sketch for sketch in sketches if sketch.problem is None]
    to_come = config.rollouts - len(sketches)
    most = len(plans) + to_come
    if len(plans) <= config.rollouts // 2 or to_come / most >= config.threshold:  # one nobody named could still get in
        return False
    votes = [Counter(index for plan in plans for index in plan.cited)]
    if config.defensive:
        votes.append(Counter(index for plan in plans for index in plan.rescued))
    return all(
        any(count[index] / most >= config.threshold for count in votes)
        or all((count[index] + to_come) / most < config.threshold for count in votes)
        for index in {index for count in votes for index in count}
    )


def _fewest(config: FocusConfig) -> int:
    """How many sketches could settle every span at best; all of them where another step looks at each."""
    if not config.curtail or config.repair is not None or config.members or config.limit is not None:
        return config.rollouts
    possible = range(config.rollouts // 2 + 1, config.rollouts)
    enough = (first for first in possible if (config.rollouts - first) / config.rollouts < config.threshold)
    return next(enough, config.rollouts)
