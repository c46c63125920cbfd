from __future__ import annotations

import base64
import hashlib
import json
import random
import runpy
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import tiktoken
import tiktoken_ext.openai_public as definitions
from hypothesis import example, given, settings
from hypothesis import strategies as st

from focusctx import tokens, vocabulary
from focusctx.errors import ConfigError
from focusctx.tokens import Counter, counter, encoding

NAMES = ["cl100k_base", "o200k_base"]
TRAJECTORIES = Path(__file__).parents[2] / "shared" / "trajectories"
SCRIPT = Path(__file__).parents[1] / "scripts" / "vocabulary.py"

# Whatever the encodings' patterns treat apart: blanks, line ends, signs, apostrophes, digits, scripts, marks.
TRICKY = [*" \t\n\r/.,:;='\"_-(){}`~aAsStTé019½漢。ァー\u0301\u00a0\x1c\x85\u2028😀", "'s", "'LL", "\r\n", "  ", "    "]
TEXTS = st.one_of(st.text(), st.lists(st.sampled_from(TRICKY), max_size=30).map("".join))


def theirs(name: str) -> tiktoken.Encoding:
    """The encoding as tiktoken defines it, over the carried vocabulary in place of a download."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(definitions, "load_tiktoken_bpe", lambda *args, **kwargs: vocabulary.ranks(name))
        return tiktoken.Encoding(**definitions.ENCODING_CONSTRUCTORS[name]())


THEIRS = {name: theirs(name) for name in NAMES}


def published(name: str) -> bytes:
    return b"".join(b"%s %d\n" % (base64.b64encode(token), rank) for token, rank in vocabulary.ranks(name).items())


@pytest.mark.parametrize("name", NAMES)
class TestVocabulary:
    def test_is_the_published_one(self, name):
        assert hashlib.sha256(published(name)).hexdigest() == vocabulary.SHA256[name]

    def test_the_hash_is_the_one_tiktoken_expects(self, name, monkeypatch):
        expected = []
        monkeypatch.setattr(
            definitions, "load_tiktoken_bpe", lambda *args, expected_hash: expected.append(expected_hash)
        )
        definitions.ENCODING_CONSTRUCTORS[name]()
        assert expected == [vocabulary.SHA256[name]]

    def test_the_script_packs_the_published_file(self, name, tmp_path):
        source = tmp_path / "any-name"
        source.write_bytes(published(name))
        runpy.run_path(str(SCRIPT))["main"]([source], tmp_path)
        assert vocabulary.unpack((tmp_path / f"{name}.ranks").read_bytes()) == vocabulary.ranks(name)

    def test_the_script_refuses_a_damaged_file(self, name, tmp_path):
        source = tmp_path / f"{name}.tiktoken"
        source.write_bytes(published(name)[:-1])
        with pytest.raises(SystemExit, match="no known vocabulary"):
            runpy.run_path(str(SCRIPT))["main"]([source], tmp_path)


@pytest.mark.parametrize(
    ("text", "cl100k", "o200k"),
    [
        ("", 0, 0),
        ("hello world", 2, 2),
        ("tiktoken is great!", 6, 6),
        ("2 + 2 = 4", 7, 7),
        ("antidisestablishmentarianism", 6, 6),
        ("お誕生日おめでとう", 9, 8),
    ],
)
def test_known_counts(text, cl100k, o200k):
    assert (counter("cl100k_base")(text), counter("o200k_base")(text)) == (cl100k, o200k)


@pytest.mark.parametrize("name", NAMES)
class TestCounting:
    @settings(deadline=None)
    @given(text=TEXTS)
    def test_agrees_with_tiktoken(self, name, text):
        expected = THEIRS[name].encode_ordinary(text)
        assert encoding(name).encode_ordinary(text) == expected
        assert encoding(name).decode(expected) == text
        assert counter(name)(text) == len(expected)

    @settings(deadline=None)
    @given(text=TEXTS)
    @example(text="=\n/\n/x")
    @example(text="I'LL say don't")
    @example(text="a \n  b")
    def test_a_cut_at_an_edge_changes_nothing(self, name, text):
        encode = THEIRS[name].encode_ordinary
        for end in range(1, len(text) + 1):
            if edge := tokens._LAST_EDGE.match(text, 0, end):
                assert encode(text[: edge.end()]) + encode(text[edge.end() :]) == encode(text)

    def test_long_ordinary_texts_are_exact(self, name):
        noise = random.Random(1)
        prose = " ".join(
            noise.choice(["the", "Span", "x_1", "déjà", "42", "don't", "\n\n", "path/to"]) for _ in range(9000)
        )
        lists = ",".join(str(noise.randrange(10_000)) for _ in range(9000))
        for text in [
            prose,
            lists,
            json.dumps(prose),
            base64.b64encode(noise.randbytes(40_000)).decode(),
            "漢字、" * 9000,
        ]:
            assert counter(name)(text) == len(THEIRS[name].encode_ordinary(text))

    @pytest.mark.parametrize("piece", ["x", "=", "\n", " ", "\t", "1", "é", "\n ", "/\n", "'", "\u00a0"])
    def test_a_cut_elsewhere_costs_at_most_a_token_on_average(self, name, piece):
        text = piece * (9000 // len(piece))
        cuts = len(text) // tokens.CHUNK
        assert abs(counter(name)(text) - len(THEIRS[name].encode_ordinary(text))) <= cuts

    @pytest.mark.parametrize(
        "text",
        [
            pytest.param("x" * 2_000_000, id="letters"),
            pytest.param("=" * 1_000_000, id="signs"),
            pytest.param("\n" * 1_000_000, id="lines"),
            pytest.param(" " * 1_100_000 + "x", id="blanks"),  # tiktoken alone panics here
            pytest.param(base64.b64encode(random.Random(2).randbytes(1_000_000)).decode(), id="base64"),
        ],
    )
    def test_endless_texts_take_no_endless_time(self, name, text):
        start = time.perf_counter()
        assert 0 < counter(name)(text) < len(text)
        assert time.perf_counter() - start < 10

    def test_special_tokens_are_text(self, name):
        assert counter(name)("<|endoftext|>") == len(THEIRS[name].encode_ordinary("<|endoftext|>")) > 1

    @pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "\ud83d\ude00", "\udc00\ud800 " * 2000])
    def test_surrogates_count(self, name, text):
        assert counter(name)(text) > 0

    def test_real_histories_are_exact(self, name):
        if not TRAJECTORIES.is_dir():
            pytest.skip(f"no trajectories beside the checkout ({TRAJECTORIES.name}/)")
        texts = {text for text in real_texts() if len(text) > tokens.CHUNK}
        wrong = [text for text in texts if counter(name)(text) != len(THEIRS[name].encode_ordinary(text))]
        assert texts
        assert wrong == []


def real_texts() -> list[str]:
    found: list[str] = []
    for path in sorted(TRAJECTORIES.glob("*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            found += [message["content"] for message in json.loads(line)["messages"] if message.get("content")]
    return found


class TestCounter:
    def test_a_function_is_used_as_it_is(self):
        assert counter(len) is len
        assert Counter(len).count("four") == 4

    @pytest.mark.parametrize("name", ["p50k_base", "", "gpt-4o", None, ["cl100k_base"]])
    def test_an_unknown_name_lists_the_known_ones(self, name):
        with pytest.raises(ConfigError, match="cl100k_base, o200k_base"):
            counter(name)

    def test_importing_is_light(self):
        code = "import sys, focusctx.tokens as t; t.counter('o200k_base'); sys.exit('tiktoken' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

    def test_threads_build_an_encoding_once(self, monkeypatch):
        read = []
        carried = vocabulary.ranks("cl100k_base")
        monkeypatch.setattr(vocabulary, "ranks", lambda name: read.append(name) or carried)
        monkeypatch.setattr(tokens, "_built", {})
        with ThreadPoolExecutor(8) as pool:
            assert set(pool.map(counter("cl100k_base"), ["tiktoken is great!"] * 16)) == {6}
        assert read == ["cl100k_base"]


class TestMemo:
    def test_counts_each_text_once(self):
        counted: list[str] = []
        memo = Counter(lambda text: counted.append(text) or 0)  # a count of 0 is remembered too
        assert [memo.count(text) for text in ["a", "b", "a", "", ""]] == [0] * 5
        assert counted == ["a", "b", ""]

    def test_forgets_the_text_unused_longest(self):
        counted: list[str] = []
        memo = Counter(lambda text: counted.append(text) or 1, room=2500)
        a, b, c = "a" * 1000, "b" * 1000, "c" * 1000
        for text in [a, b, a, c, a, b]:
            memo.count(text)
        assert counted == [a, b, c, b]

    def test_a_text_too_long_to_remember_evicts_nothing(self):
        counted: list[str] = []
        memo = Counter(lambda text: counted.append(text) or 1, room=1000)
        for text in ["a", "b" * 1001, "a"]:
            memo.count(text)
        assert counted == ["a", "b" * 1001]

    @given(texts=st.lists(st.text(max_size=300), max_size=60))
    def test_stays_within_its_room(self, texts):
        counted: list[str] = []
        memo = Counter(lambda text: counted.append(text) or len(text), room=1500)
        assert [memo.count(text) for text in texts] == list(map(len, texts))
        kept = remembered(memo, counted, texts)
        assert sum(map(len, kept)) <= 1500
        assert kept or not texts, "the latest text is remembered"

    def test_short_texts_are_bounded_too(self):
        counted: list[str] = []
        memo = Counter(lambda text: counted.append(text) or 1, room=10_000)
        texts = [str(number) for number in range(1000)]
        for text in texts:
            memo.count(text)
        assert 10 < len(remembered(memo, counted, texts)) < 100

    def test_threads_share_it(self):
        counted: list[str] = []
        memo = Counter(lambda text: counted.append(text) or len(text), room=5000)
        texts = [str(number) * 50 for number in range(40)] * 50
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(memo.count, texts)) == [len(text) for text in texts]
        distinct = sorted(set(texts))
        for text in distinct:
            memo.count(text)
        assert 0 < sum(map(len, remembered(memo, counted, distinct))) <= 5000


def remembered(memo: Counter, counted: list[str], used: list[str]) -> list[str]:
    """Return the texts used last that the memo does not count again, newest first. `counted` is what it counted."""
    kept = []
    for text in dict.fromkeys(reversed(used)):
        before = len(counted)
        memo.count(text)
        if len(counted) > before:
            break
        kept.append(text)
    return kept
