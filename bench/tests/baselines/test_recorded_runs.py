"""Every method along recorded runs of real agents, step by step, where they are at hand."""

import json
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from bench_helpers.answers import Scripted, every_third_word
from focusctx.baselines.embedders import embedder_from
from focusctx.baselines.focus import FocusMethod
from focusctx.baselines.method import Method
from focusctx.baselines.rules import Fifo, Masking, Retrieval
from focusctx.config import FocusConfig
from focusctx.invariants import violations
from focusctx.pipeline.split import read_history
from focusctx_bench.baselines.summary import LLMLingua, Prompting
from focusctx_bench.sizes import size
from helpers.histories import Messages

RECORDED = Path(__file__).parents[4] / "shared" / "trajectories"
FILES = ("swebench_deepseek.jsonl", "swebench_gemini-3-pro.jsonl", "tau2_gpt-4.1_retail.jsonl")
BUDGET = 1024

pytestmark = pytest.mark.skipif(not RECORDED.is_dir(), reason=f"no recorded runs at {RECORDED}")

METHODS: dict[str, Callable[[], Method]] = {
    "fifo": Fifo,
    "retrieval": lambda: Retrieval(embedder_from("words"), BUDGET),
    "llmlingua": lambda: LLMLingua(every_third_word, BUDGET),
    "prompting": lambda: Prompting(Scripted("Reasoning: it goes on. Completed: the first steps."), BUDGET),
    "masking-3": lambda: Masking(3),
    "focus-d": lambda: FocusMethod("offline", BUDGET),
}


def recorded(file: str) -> Messages:
    """The first run long enough to compress."""
    with (RECORDED / file).open(encoding="utf-8") as lines:
        for line in islice(lines, 50):
            messages: Messages = [m for m in json.loads(line)["messages"] if m["role"] != "exit"]
            if size(messages) > 4 * BUDGET:
                return messages
    raise AssertionError(f"no long run in {file}")


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("name", METHODS)
async def test_a_run_goes_on_in_less_room(name: str, file: str) -> None:
    messages = recorded(file)
    method, events, full, sent = METHODS[name](), 0, 0, 0
    for end in (place for place, message in enumerate(messages) if message["role"] == "assistant" and place > 1):
        compressed = await method.compress(messages[:end])
        assert compressed.failure is None
        assert violations(compressed.messages, "chat_completions") == []
        history = read_history(messages[:end], FocusConfig(), len, format="chat_completions")
        said = [message for message, owner in zip(history.messages, history.owners, strict=True) if owner == 0]
        assert [message for message in compressed.messages if any(message is words for words in said)] == said
        events += compressed.happened
        full, sent = full + size(messages[:end]), sent + size(compressed.messages)
    assert events > 0
    assert sent < 0.95 * full
