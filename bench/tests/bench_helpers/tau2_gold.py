"""τ²-bench with the answers in hand: an agent and a customer who do what a task's gold actions say, and a judge.

The agent makes its own gold actions and asks for the customer's, one per turn; then it says what is to be said and
goodbye. The judge looks for each expected outcome, word for word, in the conversation.
"""

import ast
import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from focusctx.types import Message
from focusctx_bench.models.scripted import FunctionModel, Say
from focusctx_bench.protocols import Model

PLEASE = "Please do step "
GOODBYE = "Goodbye."


def agent(task: Mapping[str, Any]) -> FunctionModel:
    criteria = task["evaluation_criteria"]
    actions: Sequence[Mapping[str, Any]] = criteria["actions"] or []
    to_say = [*(criteria.get("communicate_info") or []), *(criteria.get("nl_assertions") or [])]

    turns = itertools.count()  # not from the messages: a method may have dropped some

    def decide(_: Sequence[Message]) -> Say:
        number = next(turns)
        if number >= len(actions):
            return Say(" ".join([*to_say, GOODBYE]))
        action = actions[number]
        if action.get("requestor") == "user":
            return Say(f"{PLEASE}{number}")
        return Say(calls=[(action["name"], action["arguments"])])

    return FunctionModel(decide, "gold agent")


def customer(task: Mapping[str, Any]) -> FunctionModel:
    def decide(messages: Sequence[Message]) -> Say:
        last = messages[-1]
        text = last["content"] or ""
        if last["role"] == "tool":
            return Say("Done.")
        if text.startswith(PLEASE):
            action = task["evaluation_criteria"]["actions"][int(text.removeprefix(PLEASE))]
            return Say(calls=[(action["name"], action["arguments"])])
        return Say("###STOP###" if text.endswith(GOODBYE) else "Hello, I need help.")

    return FunctionModel(decide, "gold customer")


def models(task: Mapping[str, Any]) -> dict[str, Model]:
    return {"user": customer(task), "judge": FunctionModel(judge, "judge")}


def judge(messages: Sequence[Message]) -> Say:
    conversation, _, expected = messages[-1]["content"].rpartition("expectedOutcomes:")
    results = [
        {"expectedOutcome": outcome, "reasoning": "said so", "metExpectation": outcome in conversation}
        for outcome in ast.literal_eval(expected.strip())
    ]
    return Say(f"```json\n{json.dumps({'results': results})}\n```")
