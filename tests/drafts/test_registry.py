import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from focusctx import Focus, drafts
from focusctx.drafts import AnthropicDraft, FunctionDraft, OpenAICompatibleDraft, ScriptedDraft, draft_from
from focusctx.drafts.registry import _PRESETS, price_of_draft
from focusctx.errors import ConfigError


def test_openai(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-env")
    draft = draft_from("openai:gpt-4.1-mini")
    assert isinstance(draft, OpenAICompatibleDraft)
    assert (draft.name, draft.model) == ("openai:gpt-4.1-mini", "gpt-4.1-mini")


def test_any_server():
    draft = draft_from("openai:org/model@v2:free@http://127.0.0.1:8080/v1")
    assert draft.model == "org/model@v2:free"
    assert draft.endpoint.url == "http://127.0.0.1:8080/v1/chat/completions"
    assert draft.name == "openai:org/model@v2:free@http://127.0.0.1:8080/v1"
    assert draft_from(draft.name).name == draft.name


def test_anthropic():
    draft = draft_from("anthropic:claude@http://127.0.0.1:8080")
    assert isinstance(draft, AnthropicDraft)
    assert draft.endpoint.url == "http://127.0.0.1:8080/v1/messages"


@pytest.mark.parametrize(
    ("text", "module", "kind", "arguments"),
    [
        ("offline", "offline", "OfflineDraft", ()),
        ("transformers:org/model", "transformers", "TransformersDraft", ("org/model", {})),
        ("llama-cpp:models/a.gguf", "llama_cpp", "LlamaCppDraft", ("models/a.gguf", {})),
        (
            "transformers:a/b?dtype=bfloat16&min_p=0.1&device=cuda:1",
            "transformers",
            "TransformersDraft",
            ("a/b", {"dtype": "bfloat16", "min_p": 0.1, "device": "cuda:1"}),
        ),
        (
            "llama-cpp:a.gguf?context=4096&threads=2",
            "llama_cpp",
            "LlamaCppDraft",
            ("a.gguf", {"context": 4096, "threads": 2}),
        ),
    ],
)
def test_local_drafts_get_what_stands_behind_the_colon(text, module, kind, arguments, monkeypatch):
    made = SimpleNamespace(**{kind: lambda *given, **options: (kind, (*given, options) if given else ())})
    monkeypatch.setitem(sys.modules, f"focusctx.drafts.{module}", made)
    assert draft_from(text) == (kind, arguments)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("transformers:a/b?colour=red", "unknown option 'colour'.*device, dtype, min_p"),
        ("llama-cpp:a.gguf?grammar=1", "unknown option 'grammar'.*context, threads"),
        ("likelihood:a/b", "unknown draft 'likelihood:a/b'"),
        ("llama-cpp:a.gguf?threads=many", "threads of the draft a.gguf cannot be 'many'"),
    ],
)
def test_wrong_options_are_named(text, complaint):
    with pytest.raises(ConfigError, match=complaint):
        draft_from(text)


@pytest.mark.parametrize("endpoint", ["https://me.openai.azure.com/", "https://me.openai.azure.com/openai/v1/"])
def test_azure(monkeypatch, endpoint):
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "azure-key")
    with pytest.raises(ConfigError, match="AZURE_OPENAI_ENDPOINT"):
        draft_from("azure:mini")
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", endpoint)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-env")
    draft = draft_from("azure:mini")
    assert draft.name == "azure:mini"
    assert draft.endpoint.url == "https://me.openai.azure.com/openai/v1/chat/completions"
    assert draft.endpoint.headers == {"api-key": "azure-key"}


def test_presets_use_their_own_key_and_no_other(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-env")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    with pytest.raises(ConfigError, match="OPENROUTER_API_KEY"):
        draft_from("openrouter:vendor/model")
    monkeypatch.setenv("OPENROUTER_API_KEY", "or-key")
    draft = draft_from("openrouter:vendor/model:free")
    assert (draft.name, draft.model) == ("openrouter:vendor/model:free", "vendor/model:free")
    assert draft.endpoint.url == "https://openrouter.ai/api/v1/chat/completions"
    assert draft.endpoint.headers == {"Authorization": "Bearer or-key"}
    local = draft_from("vllm:Qwen/Qwen3@http://127.0.0.1:9000/v1")
    assert local.endpoint.url == "http://127.0.0.1:9000/v1/chat/completions"
    assert local.endpoint.headers == {}


@pytest.mark.parametrize(
    ("host", "url"),
    [
        (None, "http://127.0.0.1:11434/v1"),
        ("", "http://127.0.0.1:11434/v1"),
        ("0.0.0.0", "http://127.0.0.1:11434/v1"),
        ("0.0.0.0:9999", "http://127.0.0.1:9999/v1"),
        (":9999", "http://127.0.0.1:9999/v1"),
        ("gpu", "http://gpu:11434/v1"),
        ("gpu:80", "http://gpu:80/v1"),
        ("[::1]", "http://[::1]:11434/v1"),
        ("http://gpu:9999/", "http://gpu:9999/v1"),
        ("https://gpu.example/ollama", "https://gpu.example/ollama/v1"),
    ],
)
def test_ollama_host_as_ollama_writes_it(monkeypatch, host, url):
    if host is not None:
        monkeypatch.setenv("OLLAMA_HOST", host)
    assert draft_from("ollama:qwen3:4b").endpoint.url == f"{url}/chat/completions"


@pytest.mark.parametrize("text", ["", "gpt-4.1", "openai:", "ollama:", "offline:x", "opanai:gpt", ":gpt"])
def test_an_unknown_form_lists_the_known_ones(text):
    with pytest.raises(ConfigError, match=r"openai:MODEL@http://HOST/v1[\s\S]*openrouter[\s\S]*llama-cpp:FILE"):
        draft_from(text)


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("openai:m@notaurl", "openai:m@http://HOST/v1"),
        ("openai:m@localhost:8000/v1", "openai:m@http://HOST/v1"),
        ("vllm:m@gpu", "vllm:m@http://HOST/v1"),
        ("groq:m@ftp://x", "groq:m@http://HOST/v1"),
        ("anthropic:m@gateway.example", "anthropic:m@http://HOST/v1"),
    ],
)
def test_a_wrong_url_is_named_before_a_missing_key(text, right):
    with pytest.raises(ConfigError, match=f"{re.escape(repr(text.rpartition('@')[2]))}.* is not a URL: write {right}"):
        draft_from(text)


@pytest.mark.parametrize("model", ["claude@20240620", "m@v2", "m@latest", "@cf/meta/llama-3"])
def test_an_at_sign_may_belong_to_the_model(model):
    assert draft_from(f"vllm:{model}").model == model


@pytest.mark.parametrize("name", ["openai:m", "anthropic:m", "azure:m", "deepseek:m", "groq:m", "mistral:m"])
def test_a_key_can_be_passed_where_the_message_says_so(monkeypatch, name):
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://me.openai.azure.com")
    with pytest.raises(ConfigError, match="_API_KEY, or pass api_key"):
        Focus(name)
    focus = Focus(name, api_key=" sk-given ")
    assert {"Bearer sk-given", "sk-given"} & set(focus.draft.endpoint.headers.values())
    assert "sk-given" not in repr(focus)


@pytest.mark.parametrize("draft", ["offline", "transformers:a/b", ScriptedDraft(["plan"])])
def test_a_key_for_a_draft_that_takes_none_is_refused(draft):
    with pytest.raises(ConfigError, match="api_key"):
        Focus(draft, api_key="sk-given")


def test_the_docs_name_every_provider_with_its_variables():
    page = (Path(__file__).parents[2] / "docs/drafts.md").read_text("utf-8")
    for name, preset in _PRESETS.items():
        assert f"| `{name}:MODEL` | `{preset.key}`" in page
        assert preset.base_url in page
    for name in (
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_BASE_URL",
    ):
        assert f"`{name}`" in page
    for name in ("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT", "OLLAMA_HOST"):
        assert f"`{name}`" in page


def test_objects_and_functions():
    scripted = ScriptedDraft(["plan"])
    assert draft_from(scripted) is scripted
    assert isinstance(draft_from(lambda prompt: "plan"), FunctionDraft)


@pytest.mark.parametrize("thing", [None, 3, ["openai:gpt"], ScriptedDraft])
def test_what_is_no_draft(thing):
    with pytest.raises(ConfigError):
        draft_from(thing)


def test_public_names():
    assert set(drafts.__all__) <= set(dir(drafts))
    assert set(drafts.__all__) == set(drafts._HOMES)
    with pytest.raises(AttributeError, match="NoDraft"):
        _ = drafts.NoDraft


def test_a_draft_from_a_string_imports_nothing_heavy():
    code = (
        "import sys; from focusctx.drafts import draft_from;"
        "draft_from('openai:m@http://127.0.0.1/v1'); draft_from('anthropic:m@http://127.0.0.1');"
        "heavy = {'aiohttp', 'openai', 'anthropic', 'torch', 'transformers', 'xllamacpp'} & set(sys.modules);"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("name", "cost"),
    [
        ("offline", 0.0),
        ("openai:gpt-5-mini", 0.25),
        ("openai:some-model", None),
        ("openai:some-model@http://127.0.0.1:8000/v1", 0.0),
        ("vllm:some-model", 0.0),
        ("vllm:some-model@http://gpu.example/v1", None),
    ],
)
def test_what_a_draft_costs(name, cost, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    price = price_of_draft(draft_from(name))
    assert (price and price.input) == cost


def test_what_a_function_costs_is_not_known():
    assert price_of_draft(draft_from(lambda prompt: "")) is None
