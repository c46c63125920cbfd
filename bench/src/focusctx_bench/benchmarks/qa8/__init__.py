"""8-objective QA: eight Natural Questions at once, a search tool, one final answer. See docs/bench.md.

The paper's 100 test groups and its Wikipedia index of 2018 are not public files. Groups made from any questions and
passages are a stand-in, and are to be reported as that; prepared groups and a search server can be given instead.
"""

from __future__ import annotations

from pathlib import Path

from focusctx.errors import BenchError

from ...models.scripted import FunctionModel
from ...protocols import Options
from .data import Passage, Question, groups_from, passages_from, questions_from
from .environment import RENAMED_SYSTEM, EightQuestions, Searching
from .reader import decide
from .renamed import renamed
from .search import FOUND, Bm25, Search, SearchServer

_HOW = (
    "qa8 needs questions and passages. Give --data: a JSONL file (or .jsonl.gz) whose lines have question, answers and "
    "ctxs, or a folder with questions.jsonl and passages.jsonl; or a search server with retriever=URL in place of "
    "passages. See docs/bench.md."
)


def benchmark(options: Options) -> EightQuestions:
    """Return `groups=100` groups by seed. `retriever=URL` asks a search server instead of the passages.

    `renamed=true` replaces answers by made-up ones. `passages` is the number of passages per search; `searches` and
    `per_turn` limit the searches in all and in one turn.
    """
    options.check("qa8", ("groups", "retriever", "renamed", "passages", "searches", "per_turn"))
    if options.data is None or not options.data.exists():
        missing = "" if options.data is None else f"There is no {options.data}. "
        raise BenchError(f"{missing}{_HOW}")
    count = _number(options, "groups") or 100
    most, per_turn = _number(options, "searches"), _number(options, "per_turn")
    searching = Searching(_number(options, "passages") or FOUND, most, per_turn)
    split = options.split or "test"
    questions = questions_from(options.data)
    drawn = f"{options.seed}-" if isinstance(questions[0], Question) else ""
    if not _is_renamed(options):
        groups = groups_from(questions, count, options.seed, split)
        return EightQuestions(groups, _search(options), f"qa8-{drawn}{split}", searching=searching)
    new_questions, search = renamed(questions, _passages(options.data), options.seed)
    groups = groups_from(new_questions, count, options.seed, split)
    return EightQuestions(groups, search, f"qa8-renamed-{drawn}{split}", RENAMED_SYSTEM, searching)


def _number(options: Options, name: str) -> int | None:
    given = options.more.get(name)
    if given is None:
        return None
    if not given.isdecimal() or int(given) == 0:
        raise BenchError(f"{name} must be a whole number above 0, got {given!r}")
    return int(given)


def _is_renamed(options: Options) -> bool:
    given = options.more.get("renamed", "false")
    if given not in ("true", "false"):
        raise BenchError(f"renamed must be true or false, got {given!r}")
    if given == "true" and "retriever" in options.more:
        raise BenchError("renamed=true changes passages, and a search server has its own: leave retriever out")
    return given == "true"


def _search(options: Options) -> Search:
    if url := options.more.get("retriever"):
        return SearchServer(url)
    assert options.data is not None
    return Bm25(_passages(options.data))


def _passages(data: Path) -> list[Passage]:
    passages = passages_from(data)
    if not passages:
        raise BenchError(f"no passages in {data}. {_HOW}")
    return passages


def scripted() -> FunctionModel:
    return FunctionModel(decide, "scripted:qa8")
