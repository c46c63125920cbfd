"""What a model on this machine manages as a draft: how many of its sketches can be read, and what one reading saves.

    python benchmarks/local_models.py llama-cpp:.models/qwen2.5-coder-0.5b.gguf
    python benchmarks/local_models.py transformers:.models/qwen2.5-coder-0.5b.gguf
    python benchmarks/local_models.py random:1.5B --prompt 12000 --sketch 256    # speed only: random weights

1. `readable`: sketches that can be read, on recorded histories of about 1,100 to 1,500 tokens (not for `random:`).
2. `reading`: three sketches over one reading of the prompt against three separate runs, as a ratio.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from focusctx import DraftModel, FocusConfig, History, Prompt, Reply
from focusctx.drafts import draft_from
from focusctx.pipeline.draft import build_prompt, read_sketch
from focusctx.pipeline.split import read_history
from focusctx.tokens import Counter
from page import SHARED

CONFIG = FocusConfig(sketch_tokens=160)
RUNS = {
    "tau2_gpt-4.1_retail": (0, 7, 21),
    "tau2_gpt-4.1_airline": (2,),
    "tau2_gpt-4.1_telecom": (5,),
    "swebench_deepseek": (3,),
    "swebench_gemini-3-pro": (10,),
}
TARGET = {"tau2": 1100, "swebench": 1500}
SHAPES = {
    "0.5B": {"hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14},
    "1.5B": {"hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28, "num_attention_heads": 12},
}


def histories(data: Path) -> Iterator[tuple[str, History]]:
    """The first point of each run at which there are four whole spans and about the wanted number of tokens."""
    count = Counter(CONFIG.tokens).count
    for name, lines in RUNS.items():
        rows = (data / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        for line in lines:
            messages = json.loads(rows[line])["messages"]
            for end in range(2, len(messages) + 1):
                history = read_history(messages[:end], CONFIG, count)
                whole = len(history.spans) >= 4 and not history.spans[-1].waiting
                if whole and (history.tokens > TARGET[name.split("_")[0]] or end == len(messages)):
                    yield f"{name}:{line}", history
                    break


async def sample(draft: DraftModel, prompt: Prompt, n: int) -> tuple[list[Reply], float]:
    started = time.perf_counter()
    replies = [reply async for reply in draft.sample(prompt, n)]
    return replies, time.perf_counter() - started


def readable(draft: DraftModel, data: Path) -> None:
    print("| history | tokens | readable | cite what does not exist | seconds |\n|---|---|---|---|---|")
    total = usable = events = 0
    for name, history in histories(data):
        replies, seconds = asyncio.run(sample(draft, build_prompt(history, CONFIG), 3))
        sketches = [read_sketch(reply.text, history.newest, truncated=reply.truncated) for reply in replies]
        plans = [sketch for sketch in sketches if sketch.problem is None]
        wrong = sum(bool(sketch.unknown) for sketch in sketches)
        total, usable, events = total + len(plans), usable + (len(plans) > 1), events + 1
        print(f"| {name} | {history.tokens} | {len(plans)} of 3 | {wrong} | {seconds:.0f} |", flush=True)
    print(f"\n{total} of {3 * events} sketches readable, {usable} of {events} events usable\n")


def one_reading(draft: DraftModel, words: int, sketch: int) -> None:
    """Each prompt begins differently, so that no cache of an earlier one helps."""
    text = " ".join(f"line {number}: value {number * 7 % 101}." for number in range(words // 10))

    def prompt(tag: str) -> Prompt:
        return Prompt(f"({tag}) You describe logs.", f"{text} Describe it at length.", History("", ()), 0.7, sketch)

    asyncio.run(sample(draft, replace(prompt("warm"), user="Hello.", max_tokens=2), 1))
    replies, together = asyncio.run(sample(draft, prompt("all"), 3))
    apart = sum(asyncio.run(sample(draft, replace(prompt(f"only {k}"), seed=42 + k), 1))[1] for k in range(3))
    size = replies[0].usage.input_tokens
    print("| prompt / sketch, tokens | three apart | together | ratio |\n|---|---|---|---|")
    print(f"| {size:,} / {sketch} | {apart:.1f} s | {together:.1f} s | {apart / together:.2f} |")


def random_model(shape: str, folder: str) -> DraftModel:
    """A model of that shape that has learnt nothing: it costs as much as one that has."""
    import torch
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    bytewise = Tokenizer(models.BPE({letter: number for number, letter in enumerate(letters)}, []))
    bytewise.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytewise.decoder = decoders.ByteLevel()
    sizes: dict[str, Any] = {"num_key_value_heads": 2, "vocab_size": 151_936, "max_position_embeddings": 32_768}
    config = transformers.Qwen2Config(eos_token_id=256, bos_token_id=None, **sizes, **SHAPES[shape])
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        transformers.Qwen2ForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    transformers.PreTrainedTokenizerFast(tokenizer_object=bytewise, eos_token="<end>").save_pretrained(folder)
    return draft_from(f"transformers:{folder}")


def main() -> int:
    parser = argparse.ArgumentParser(description="What a local model manages as a draft.")
    parser.add_argument("draft", help="llama-cpp:FILE.gguf, transformers:PATH, or random:0.5B|1.5B")
    parser.add_argument("--data", type=Path, default=SHARED / "trajectories")
    parser.add_argument("--prompt", type=int, default=1100, help="tokens of the prompt for the ratio, roughly")
    parser.add_argument("--sketch", type=int, default=64, help="tokens a sketch may have there")
    parser.add_argument("--only", choices=["readable", "reading"], help="one part")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if arguments.draft.startswith("random:"):
            draft = random_model(arguments.draft.removeprefix("random:"), folder)
        else:
            draft = draft_from(arguments.draft)
            if arguments.only in (None, "readable"):
                if not arguments.data.is_dir():
                    print(f"no recorded runs at {arguments.data}; give their folder with --data", file=sys.stderr)
                    return 2
                readable(draft, arguments.data)
        if arguments.only in (None, "reading"):
            one_reading(draft, arguments.prompt, arguments.sketch)
    return 0


if __name__ == "__main__":
    sys.exit(main())
