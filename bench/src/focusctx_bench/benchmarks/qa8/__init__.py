"""8-objective QA: eight Natural Questions at once, a search tool, one final answer. See docs/bench.md.

The paper's 100 test groups and its Wikipedia index of 2018 are not public files. Groups made from any questions and
passages are a stand-in, and are to be reported as that; prepared groups and a search server can be given instead.
"""

from __future__ import annotations

from focusctx.errors import BenchError

from ...models.scripted import FunctionModel
from ...protocols import Options
from .data import Question, groups_from, passages_from, questions_from
from .environment import EightQuestions
from .reader import decide
from .search import Bm25, Search, SearchServer

_HOW = (
    "qa8 needs questions and passages. Give --data: a JSONL file (or .jsonl.gz) whose lines have question, answers and "
    "ctxs, or a folder with questions.jsonl and passages.jsonl; or a search server with retriever=URL in place of "
    "passages. See docs/bench.md."
)


def benchmark(options: Options) -> EightQuestions:
    """`groups=100` groups by seed; `retriever=URL` asks a search server instead of the passages."""
    options.check("qa8", ("groups", "retriever"))
    if options.data is None or not options.data.exists():
        missing = "" if options.data is None else f"There is no {options.data}. "
        raise BenchError(f"{missing}{_HOW}")
    count = options.more.get("groups", "100")
    if not count.isdecimal() or int(count) == 0:
        raise BenchError(f"groups must be a whole number above 0, got {count!r}")
    split = options.split or "test"
    questions = questions_from(options.data)
    groups = groups_from(questions, int(count), options.seed, split)
    drawn = f"{options.seed}-" if isinstance(questions[0], Question) else ""
    return EightQuestions(groups, _search(options), f"qa8-{drawn}{split}")


def _search(options: Options) -> Search:
    if url := options.more.get("retriever"):
        return SearchServer(url)
    assert options.data is not None
    passages = passages_from(options.data)
    if not passages:
        raise BenchError(f"no passages in {options.data}. {_HOW}")
    return Bm25(passages)


def scripted() -> FunctionModel:
    return FunctionModel(decide, "scripted:qa8")
