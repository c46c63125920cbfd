"""Prices: the shipped figures, how names are matched, and the user's own file."""

import tomllib
from pathlib import Path

import pytest

from focusctx import prices
from focusctx.errors import ConfigError
from focusctx.prices import Price, price_of


@pytest.fixture(autouse=True)
def _no_file_of_our_own(monkeypatch):
    monkeypatch.delenv("FOCUSCTX_PRICES", raising=False)


@pytest.fixture
def own_file(monkeypatch, tmp_path):
    def write(text: str) -> None:
        path = tmp_path / f"prices{len(list(tmp_path.iterdir()))}.toml"  # a new name: files are read once
        path.write_text(text)
        monkeypatch.setenv("FOCUSCTX_PRICES", str(path))

    return write


def test_the_paper_s_models():
    assert price_of("gpt-4.1") == Price(input=2.0, output=8.0, cache_read=0.25, cache_ttl=600, context=1047576)
    mini = price_of("gpt-4.1-mini")
    assert mini is not None
    assert (mini.input, mini.output, mini.cache_read, mini.cache_write) == (0.4, 1.6, 0.25, 1.0)


@pytest.mark.parametrize(
    ("model", "write", "hour", "read"),
    [
        ("claude-opus-4-5", 1.25, 2.0, 0.1),
        ("claude-sonnet-5", 1.25, 2.0, 0.1),
        ("claude-sonnet-5-5", 1.25, 2.0, 0.05),
        ("claude-opus-5-5", 1.25, 2.0, 0.05),
        ("gpt-5", 1.0, None, 0.1),
        ("gpt-5.5", 1.0, None, 0.1),
        ("gpt-5.6", 1.25, None, 0.1),
        ("gpt-6-sol", 1.25, None, 0.1),
        ("deepseek-v4-flash", 1.0, None, 0.02),
        ("deepseek-v4-pro", 1.0, None, 0.0333),
    ],
)
def test_cache_rules(model, write, hour, read):
    price = price_of(model)
    assert price is not None
    assert (price.cache_write, price.cache_write_hour, price.cache_read) == (write, hour, read)


def test_every_shipped_entry_is_plausible():
    shipped = tomllib.loads(Path(prices.__file__).with_name("prices.toml").read_text(encoding="utf-8"))["models"]
    assert len(shipped) > 80
    for name, entry in shipped.items():
        price = price_of(name)
        assert price is not None, name
        assert price.input == pytest.approx(entry["input"]), name
        assert price.input > 0, name
        assert 0 < price.cache_read <= 1 <= price.cache_write <= (price.cache_write_hour or 2), name
        assert price.context is not None, name
        if "embedding" in name:  # they write nothing
            assert price.output == 0, name
            continue
        assert price.input <= price.output, name
        assert price.context > 10_000, name


@pytest.mark.parametrize(
    ("spelled", "plain"),
    [
        ("openai:gpt-4.1-mini", "gpt-4.1-mini"),
        ("openai/gpt-4.1-mini-2025-04-14", "gpt-4.1-mini"),
        ("azure/gpt-4.1", "gpt-4.1"),
        ("litellm:openrouter/anthropic/claude-haiku-4-5", "claude-haiku-4-5"),
        ("anthropic:claude-haiku-4-5-20251001", "claude-haiku-4-5"),
        ("vertex_ai/claude-opus-4-5@20251101", "claude-opus-4-5"),
        ("gemini/gemini-3.1-pro-preview", "gemini-3.1-pro"),
        ("dashscope/qwen3.8-max", "qwen3.8-max"),
        ("OpenAI:GPT-5.4-Mini-2026-03-17", "gpt-5.4-mini"),
        ("mistral/devstral-medium-latest", "devstral-medium"),
    ],
)
def test_vendors_and_release_dates_are_stripped(spelled, plain):
    assert price_of(spelled) is not None
    assert price_of(spelled) == price_of(plain)


@pytest.mark.parametrize(
    "model",
    [
        "",
        "offline",
        "no-such-model",
        "gpt-5.9",  # not gpt-5
        "claude-opus-5-9",  # not claude-opus-5
        "gpt-4.1-audio",  # a word that may change the price
        "ft:gpt-4.1-mini-2025-04-14:acme",  # fine-tuned models cost more
        "together_ai/deepseek-v4-pro",  # a host with prices of its own
        "dashscope/deepseek-v4-pro",
        "openai:gpt-4.1@http://127.0.0.1:8000/v1",  # the same name on another server
    ],
)
def test_a_look_alike_has_no_price(model):
    assert price_of(model) is None


def test_cost_by_hand():
    large, mini = price_of("openai:gpt-4.1"), price_of("openai:gpt-4.1-mini")
    assert large.cost(1_000_000) == pytest.approx(2.0)
    assert mini.cost(30_000, 1_500) == pytest.approx(0.012 + 0.0024)
    assert large.cost(0, 0) == 0.0


def test_own_entries_replace_and_add(own_file):
    own_file('[models]\n"GPT-4.1" = { input = 1, output = 2 }\n"together_ai/My-Model" = { input = 0, output = 0 }\n')
    assert price_of("gpt-4.1") == Price(input=1, output=2)  # whole: no cache rules left over
    assert price_of("together_ai/my-model") == Price(input=0, output=0)
    assert price_of("gpt-4.1-mini") is not None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[models", "prices file"),
        ("[model]\n", r"add a \[models\] table"),
        ("models = 3", r"add a \[models\] table"),
        ("[models]\nx = 3", "model 'x': must be a table"),
        ("[models]\nx = { input = 1 }", "output is missing"),
        ("[models]\nx = { input = 1, output = 2, cahce_read = 0.1 }", "unknown key 'cahce_read'"),
        ("[models]\nx = { input = -1, output = 2 }", "input must be a number, 0 or more"),
        ("[models]\nx = { input = true, output = 2 }", "input must be a number"),
        ("[models]\nx = { input = '1', output = 2 }", "input must be a number"),
        ("[models]\nx = { input = nan, output = 2 }", "input must be a number"),
    ],
)
def test_a_malformed_file_is_a_clear_error(own_file, text, complaint):
    own_file(text)
    with pytest.raises(ConfigError, match=complaint):
        price_of("gpt-4.1")


def test_a_missing_file_is_a_clear_error(monkeypatch, tmp_path):
    monkeypatch.setenv("FOCUSCTX_PRICES", str(tmp_path / "none.toml"))
    with pytest.raises(ConfigError, match=r"none\.toml"):
        price_of("gpt-4.1")
