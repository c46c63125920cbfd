"""Real coding agents do a long task through the proxy: the same run, and valid, smaller, prefix-stable histories."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from focusctx import Focus
from focusctx.types import Prompt
from helpers.coding_agents import (
    AI_SDK,
    AI_SDK_CUSTOM_TOOL,
    CLAUDE_CODE,
    CODEX,
    CODEX_AS_IT_COMES,
    GEMINI_CLI,
    GOOGLE_GENAI,
    MINI_SWE_AGENT,
    OLLAMA,
    STEPS,
    Agent,
)
from helpers.prefixes import moves
from helpers.provider import Provider, Received
from helpers.proxied import events, every_third_and_the_newest, proxied

pytestmark = pytest.mark.agents

HOP = {"connection", "content-length"}


@pytest.fixture(scope="module")
def without_proxy(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Agent], list[Received]]:
    """What an agent sends when it asks the provider itself, found out once for each."""

    @cache
    def run(agent: Agent) -> list[Received]:
        with Provider(agent.model, websocket=False) as provider:
            assert agent.run(provider.url, tmp_path_factory.mktemp("direct")) == agent.outcome
            return steps_of(agent, provider)

    return run


def steps_of(agent: Agent, provider: Provider) -> list[Received]:
    refused = [received for received in provider.refused if agent is not GEMINI_CLI or agent.works(received)]
    assert refused == [], "only Gemini CLI's question whether it is in a loop may be: it sends a piece of the history"
    return [received for received in provider.received if agent.works(received)]


def need(agent: Agent) -> None:
    if not agent.path.exists():
        pytest.skip(f"{agent.name} is not installed: scripts/test-agents installs it")


@pytest.mark.parametrize("draft", ["offline", every_third_and_the_newest], ids=["offline", "scripted"])
@pytest.mark.parametrize(
    "agent",
    [
        CLAUDE_CODE,
        CODEX,
        CODEX_AS_IT_COMES,
        MINI_SWE_AGENT,
        AI_SDK,
        AI_SDK_CUSTOM_TOOL,
        GEMINI_CLI,
        *GOOGLE_GENAI,
        *OLLAMA,
    ],
    ids=lambda agent: agent.name,
)
def test_an_agent_runs_the_same(
    agent: Agent,
    draft: str | Callable[[Prompt], str],
    without_proxy: Callable[[Agent], list[Received]],
    tmp_path: Path,
) -> None:
    need(agent)
    whole = without_proxy(agent)
    assert len(whole) == agent.steps + 1
    assert moves(whole) == []
    focus = Focus(draft, budget=2500)
    with Provider(agent.model, websocket=False) as provider, proxied(focus, provider.url) as (proxy, url):
        assert agent.run(url, tmp_path) == agent.outcome
        sent = steps_of(agent, provider)
        moved = moves(sent)
        assert len(moved) == len(events(proxy)) > 1
    assert len(sent) == len(whole)
    for before, after in zip(whole, sent, strict=True):
        assert after.headers.keys() - HOP == before.headers.keys() - HOP
        assert after.query == before.query
        assert after.body.keys() == before.body.keys()
    pairs = [(before.messages, after.messages) for before, after in zip(whole, sent, strict=True)]
    assert all(len(after) == len(before) for before, after in pairs[: moved[0]])
    assert all(len(str(after)) < len(str(before)) for before, after in pairs[moved[0] :])
    assert len(sent[-1].raw) < 0.8 * len(whole[-1].raw)


def test_codex_talks_to_its_provider_over_a_websocket(tmp_path: Path) -> None:
    """As it does where it can; the history then stays with the provider, and there is nothing to compress."""
    agent = CODEX_AS_IT_COMES
    need(agent)
    with Provider(agent.model) as provider, proxied(Focus("offline", budget=2500), provider.url) as (proxy, url):
        assert agent.run(url, tmp_path) == agent.outcome
        assert len(steps_of(agent, provider)) == STEPS + 1
        assert {received.method for received in provider.received} == {"GET"}
        assert events(proxy) == []


@pytest.mark.parametrize("agent", [AI_SDK, AI_SDK_CUSTOM_TOOL], ids=lambda agent: agent.name)
def test_no_reference_of_the_ai_sdk_is_left_without_its_step(agent: Agent, tmp_path: Path) -> None:
    """The provider knows which items it made together: they go up together or not at all."""
    need(agent)
    focus = Focus(every_third_and_the_newest, budget=2500)
    with Provider(agent.model) as provider, proxied(focus, provider.url) as (proxy, url):
        assert agent.run(url, tmp_path) == agent.outcome
        assert provider.rejected == []
        assert len(events(proxy)) > 1
    last = steps_of(agent, provider)[-1].messages
    referred = [item["id"] for item in last if item.get("type") == "item_reference" and item["id"].startswith("rs_")]
    assert 0 < len(referred) < STEPS, "references go with the steps that are dropped, and the others stay"
