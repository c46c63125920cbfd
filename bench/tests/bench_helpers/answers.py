"""Models for the tests of methods: what they answer is known, and so is what they are asked."""

from collections.abc import Sequence

from focusctx.types import Reply, Usage

SPENT = Usage(requests=1, input_tokens=10, output_tokens=5, cost=0.25)


class Scripted:
    """Answers questions one after the other, from the first again at the end; an exception is raised at its place."""

    def __init__(self, *answers: str | Reply | Exception) -> None:
        self._answers = answers
        self.asked: list[tuple[str, str]] = []

    async def __call__(self, system: str, user: str) -> Reply:
        answer = self._answers[len(self.asked) % len(self._answers)]
        self.asked.append((system, user))
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, Reply) else Reply(answer, SPENT)


def every_third_word(text: str) -> str:
    """Stands for LLMLingua where the package is not the point."""
    return " ".join(text.split()[::3])


def by_first_letter(texts: Sequence[str]) -> list[list[float]]:
    """An embedding nobody needs to guess at: texts are alike when their observations begin with the same letter."""
    firsts = [text.rpartition("Observation: ")[2][:1] for text in texts]
    return [[float(first == letter) for letter in "abcdefghij"] for first in firsts]
