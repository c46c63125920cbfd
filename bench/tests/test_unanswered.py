"""Methods tell a model that gave no answer from one that gave a useless one."""

import asyncio

import pytest

from focusctx.baselines.focus import FocusMethod
from focusctx.baselines.method import Compressed, Method
from focusctx.baselines.rules import Retrieval
from focusctx.errors import DraftUnavailable
from focusctx.types import Prompt, Reply
from focusctx_bench.baselines.summary import Ask, Prompting
from helpers import histories


def compressed(method: Method) -> Compressed:
    return asyncio.run(method.compress(histories.run(12)))


def dead(prompt: Prompt) -> str:
    raise DraftUnavailable("nobody there")


def chatty(prompt: Prompt) -> str:
    return "I feel fine, thank you."


def writer(text: str | None) -> Ask:
    async def ask(system: str, user: str) -> Reply:
        if text is None:
            raise DraftUnavailable("nobody there")
        return Reply(text)

    return ask


async def no_vectors(texts: object) -> None:
    raise DraftUnavailable("nobody there")


@pytest.mark.parametrize("method", [FocusMethod(dead, 10), Prompting(writer(None), 10), Retrieval(no_vectors, 10)])  # type: ignore[arg-type]
def test_no_answer(method: Method) -> None:
    found = compressed(method)
    assert found.unanswered
    assert "nobody there" in (found.failure or "")


@pytest.mark.parametrize("method", [FocusMethod(chatty, 10), Prompting(writer(" "), 10)])
def test_an_answer_that_is_of_no_use(method: Method) -> None:
    found = compressed(method)
    assert found.failure
    assert not found.unanswered


def test_no_failure() -> None:
    found = compressed(FocusMethod(lambda prompt: "Step: go on | Depends on: [s_2]", 10))
    assert found.happened
    assert (found.failure, found.unanswered) == (None, False)
