"""Let a small model answer the questions and score the actions that `views.py` packed.

Needs a GPU, torch and transformers:

    python benchmarks/small_model/gpu.py --model FOLDER --data .small-model --out .small-model --tasks questions actions

FOLDER holds the model in the form of transformers' `save_pretrained`. From a GGUF file (`scripts/models
qwen2.5-coder-1.5b` fetches it) it is made with `AutoModelForCausalLM.from_pretrained(folder, gguf_file=name)`, the
same for the tokenizer, and `save_pretrained`.

Writes `questions.out.json.gz` (every answer as text) and `actions.out.json.gz` (for each step after an event the
log-likelihood of its action, the number of its tokens, and how many of those were the likeliest). Temperature 0.
This file imports nothing of this repository, so it can be copied alone to a machine with a GPU.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

SUMMARY = "@@SUMMARY@@"
SUMMARY_TOKENS, ANSWER_TOKENS = 512, 160
GENERATED_AT_ONCE = 500_000
"""Tokens of all prompts of a batch, padding included."""
SCORED_AT_ONCE = 65_536
END = "<|im_end|>"


class Model:
    def __init__(self, folder: str) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).to("cuda").eval()
        self.end = self.tokenizer.convert_tokens_to_ids(END)
        self.pad = self.tokenizer.convert_tokens_to_ids("<|endoftext|>")

    def encode(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def write(self, prompts: Sequence[str], tokens: int) -> list[tuple[str, bool]]:
        """Continue every prompt; return each text, and whether it was cut off at the limit."""
        encoded = [self.encode(prompt) for prompt in prompts]
        found: dict[int, tuple[str, bool]] = {}
        for batch in batches([len(one) + tokens for one in encoded], GENERATED_AT_ONCE):
            longest = max(len(encoded[place]) for place in batch)
            rows = [[self.pad] * (longest - len(encoded[place])) + encoded[place] for place in batch]
            mask = [[0] * (longest - len(encoded[place])) + [1] * len(encoded[place]) for place in batch]
            written = self.model.generate(
                torch.tensor(rows, device="cuda"),
                attention_mask=torch.tensor(mask, device="cuda"),
                max_new_tokens=tokens,
                do_sample=False,
                temperature=None,
                top_p=None,
                top_k=None,
                repetition_penalty=1.0,
                eos_token_id=[self.end, self.pad],
                pad_token_id=self.pad,
            )[:, longest:]
            for place, row in zip(batch, written.tolist(), strict=True):
                ends = [number for number, token in enumerate(row) if token in (self.end, self.pad)]
                text = self.tokenizer.decode(row[: ends[0]] if ends else row)
                found[place] = text, not ends
        return [found[place] for place in range(len(prompts))]

    def score(self, sequences: Sequence[Sequence[tuple[str, int]]]) -> list[dict[int, tuple[float, int, int]]]:
        """Read sequences of texts; return, by step, the log-likelihood, tokens and likeliest tokens of its action."""
        encoded = [[(self.encode(text), step) for text, step in parts] for parts in sequences]
        rows = [[token for tokens, _ in parts for token in tokens] for parts in encoded]
        steps = [[step for tokens, step in parts for _ in tokens] for parts in encoded]
        found: dict[int, dict[int, tuple[float, int, int]]] = {}
        for batch in batches([len(row) for row in rows], SCORED_AT_ONCE):
            longest = max(len(rows[place]) for place in batch)
            # Padding stands on the right, where no earlier token sees it: no mask is needed.
            ids = torch.tensor([rows[place] + [self.pad] * (longest - len(rows[place])) for place in batch])
            states = self.model.model(input_ids=ids.to("cuda"), use_cache=False).last_hidden_state
            for number, place in enumerate(batch):
                wanted = [token for token, step in enumerate(steps[place]) if step]
                own = self._logs(states[number], wanted, ids[number])
                found[place] = {}
                for token, (log, likeliest) in zip(wanted, own, strict=True):
                    total, count, hits = found[place].get(steps[place][token], (0.0, 0, 0))
                    found[place][steps[place][token]] = total + log, count + 1, hits + likeliest
        return [found[place] for place in range(len(sequences))]

    def _logs(self, states: Any, wanted: Sequence[int], ids: Any) -> list[tuple[float, bool]]:
        """Return the log-likelihood of each wanted token, and whether it is the likeliest one."""
        found: list[tuple[float, bool]] = []
        for start in range(0, len(wanted), 2048):
            places = torch.tensor(wanted[start : start + 2048])
            logits = self.model.lm_head(states[places.to("cuda") - 1]).float()
            tokens = ids[places].to("cuda")
            logs = logits.log_softmax(-1).gather(1, tokens[:, None])[:, 0]
            found += zip(logs.tolist(), (logits.argmax(-1) == tokens).tolist(), strict=True)
        return found


def batches(lengths: Sequence[int], at_once: int) -> Iterator[list[int]]:
    """Return places by falling length, as many at once as fit after padding."""
    batch: list[int] = []
    for place in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
        if batch and lengths[batch[0]] * (len(batch) + 1) > at_once:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch


def chat(system: str, user: str) -> str:
    return f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{user}<|im_end|>\n<|im_start|>assistant\n"


def summaries(model: Model, items: Sequence[Any]) -> list[tuple[str, bool]]:
    """Write a summary for every item that has a prompt for one."""
    return model.write([chat(*item["summary"]) for item in items], SUMMARY_TOKENS)


def questions(model: Model, data: Path, out: Path, arms: Sequence[str] | None, groups: int | None) -> None:
    packed = read(data / "questions.json.gz")
    some, texts = packed["groups"][:groups], packed["texts"]
    began = time.time()
    names = [name for name in some[0]["arms"] if not arms or name in arms]
    written = summaries(model, some) if "summary" in names else []
    print(f"summaries: {time.time() - began:.0f} s, cut off: {sum(cut for _, cut in written)}", flush=True)
    prompts, keys = [], []
    for number, group in enumerate(some):
        for name in names:
            prompt = "".join(texts[place] for place in group["arms"][name]["texts"])
            if name == "summary":
                prompt = prompt.replace(SUMMARY, written[number][0].strip())
            prompts.append(prompt)
            keys.append((number, name))
    answers = model.write(prompts, ANSWER_TOKENS)
    for (number, name), prompt, (text, cut) in zip(keys, prompts, answers, strict=True):
        arm = some[number]["arms"][name]
        arm |= {"answer": text, "cut": cut, "read": len(model.encode(prompt))}
        arm.pop("texts")
    for number, group in enumerate(some):
        group["summary"] = written[number] if written else None
        group["arms"] = {name: group["arms"][name] for name in names}
    write(out / "questions.out.json.gz", some)
    print(f"questions: {time.time() - began:.0f} s", flush=True)


def actions(model: Model, data: Path, out: Path, arms: Sequence[str] | None, limit: int | None) -> None:
    packed = read(data / "actions.json.gz")
    events, texts = packed["events"], packed["texts"]
    events = events[:: max(len(events) // limit, 1)] if limit else events
    began = time.time()
    names = [name for name in events[0]["arms"] if not arms or name in arms]
    written = summaries(model, events) if "summary" in names else []
    print(f"summaries: {time.time() - began:.0f} s, cut off: {sum(cut for _, cut in written)}", flush=True)
    sequences: dict[tuple[Any, ...], list[tuple[str, int]]] = {}
    keys = []
    for number, event in enumerate(events):
        event["arms"] = {name: event["arms"][name] for name in names}
        for name, arm in event["arms"].items():
            key = (number if name == "summary" else None, *((text, step) for text, step in arm["texts"]))
            keys.append((number, name, key))
            if key not in sequences:  # some views are the same
                parts = [(texts[text], step) for text, step in arm["texts"]]
                if name == "summary":
                    parts = [(text.replace(SUMMARY, written[number][0].strip()), step) for text, step in parts]
                sequences[key] = parts
    scored = dict(zip(sequences, model.score(list(sequences.values())), strict=True))
    for number, name, key in keys:
        arm = events[number]["arms"][name]
        arm.pop("texts")
        arm["scores"] = scored[key]
    for number, event in enumerate(events):
        event["summary"] = written[number] if written else None
    write(out / "actions.out.json.gz", events)
    print(f"actions: {time.time() - began:.0f} s for {len(sequences)} texts", flush=True)


def read(path: Path) -> Any:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return json.load(file)


def write(path: Path, value: Any) -> None:
    with gzip.open(path, "wt", encoding="utf-8") as file:
        json.dump(value, file, ensure_ascii=False)


def main() -> None:
    parser = argparse.ArgumentParser(description="Answer questions and score actions with a small model.")
    parser.add_argument("--model", required=True, metavar="FOLDER")
    parser.add_argument("--data", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--tasks", nargs="+", choices=("questions", "actions"), default=("questions", "actions"))
    parser.add_argument("--arms", nargs="+", help="only these arms")
    parser.add_argument("--groups", type=int, help="only the first groups")
    parser.add_argument("--events", type=int, help="only about so many events")
    arguments = parser.parse_args()
    began = time.time()
    model = Model(arguments.model)
    print(f"loaded: {time.time() - began:.0f} s", flush=True)
    kinds = torch.nn.attention.SDPBackend
    # cuDNN would make a new plan for each length.
    with torch.inference_mode(), torch.nn.attention.sdpa_kernel([kinds.FLASH_ATTENTION, kinds.EFFICIENT_ATTENTION]):
        if "questions" in arguments.tasks:
            questions(model, arguments.data, arguments.out, arguments.arms, arguments.groups)
        if "actions" in arguments.tasks:
            actions(model, arguments.data, arguments.out, arguments.arms, arguments.events)


if __name__ == "__main__":
    main()
