"""How agents are pointed to the proxy."""

import json

import pytest

from focusctx.cli.agents import KNOWN, agent_for, bases_of, environment_for, usual_upstreams
from focusctx.cli.command import Problem
from focusctx.proxy.upstream import Upstream

ADDRESS = "http://127.0.0.1:9"


def bases(*upstreams: str) -> dict[str, str]:
    return dict(bases_of(ADDRESS, [Upstream.named(text) for text in upstreams]))


def test_base_urls_of_the_proxy() -> None:
    assert bases("anthropic") == {"anthropic": ADDRESS}
    assert bases("openai") == {"openai": f"{ADDRESS}/v1"}
    every = bases("openai", "anthropic", "gemini")
    assert every == {"openai": f"{ADDRESS}/v1", "anthropic": ADDRESS, "gemini": f"{ADDRESS}/gemini"}
    assert bases("anthropic", "openai")["openai"] == f"{ADDRESS}/openai/v1"


@pytest.mark.parametrize("program", ["claude", "/usr/local/bin/claude", "claude.exe", "claude.cmd"])
def test_an_agent_is_known_by_its_name(program: str) -> None:
    assert agent_for(program) is agent_for("claude")
    assert agent_for(program) is not agent_for("another")


def test_each_gets_what_it_reads_and_no_more() -> None:
    every = bases("openai", "anthropic", "gemini")

    def given(program: str) -> set[str]:
        return set(environment_for(agent_for(program), every, {}))

    assert given("claude") == {"ANTHROPIC_BASE_URL"}
    assert given("gemini") == {"GOOGLE_GEMINI_BASE_URL"}
    assert given("qwen") == {"OPENAI_BASE_URL"}
    assert given("opencode") == {"OPENCODE_CONFIG_CONTENT"}
    assert given("codex") == set()
    assert agent_for("codex").arguments(every) == ["-c", f'openai_base_url="{ADDRESS}/v1"']
    assert given("anything") > given("aider") > given("claude")


def test_a_provider_that_is_not_there_gets_no_variable() -> None:
    assert environment_for(agent_for("anything"), bases("openai"), {}).keys() == {"OPENAI_BASE_URL", "OPENAI_API_BASE"}
    assert agent_for("codex").arguments(bases("anthropic")) == []


@pytest.mark.parametrize("program", KNOWN)
def test_every_default_can_be_used(program: str) -> None:
    agent = agent_for(program)
    upstreams = [Upstream.named(text) for text in usual_upstreams(agent, {})]
    known = bases_of(ADDRESS, upstreams)
    assert environment_for(agent, known, {}) or agent.arguments(known)


def test_a_base_url_that_is_set_becomes_the_upstream() -> None:
    environment = {"OPENAI_API_BASE": "http://gateway/v1", "ANTHROPIC_BASE_URL": "http://other"}
    assert usual_upstreams(agent_for("claude"), environment) == ["anthropic=http://other"]
    assert usual_upstreams(agent_for("codex"), environment) == ["openai=http://gateway/v1"]
    assert usual_upstreams(agent_for("codex"), {"OPENAI_BASE_URL": ""}) == ["openai"]


def test_what_opencode_is_configured_with_stays() -> None:
    mine = {"theme": "dark", "provider": {"openai": {"options": {"timeout": 5}}}}
    environment = {"OPENCODE_CONFIG_CONTENT": json.dumps(mine)}
    found = environment_for(agent_for("opencode"), bases("openai", "anthropic"), environment)
    config = json.loads(found["OPENCODE_CONFIG_CONTENT"])
    assert config["theme"] == "dark"
    assert config["provider"]["openai"]["options"] == {"timeout": 5, "baseURL": f"{ADDRESS}/v1"}
    assert config["provider"]["anthropic"]["options"] == {"baseURL": f"{ADDRESS}/v1"}


@pytest.mark.parametrize("content", ["{", "[]", '"text"', '{"provider": []}'])
def test_a_broken_configuration_of_opencode_is_reported(content: str) -> None:
    with pytest.raises(Problem, match="OPENCODE_CONFIG_CONTENT"):
        environment_for(agent_for("opencode"), bases("openai"), {"OPENCODE_CONFIG_CONTENT": content})


def test_requests_to_this_machine_do_not_take_a_proxy() -> None:
    claude, known = agent_for("claude"), bases("anthropic")
    assert "NO_PROXY" not in environment_for(claude, known, {})
    for name in ("HTTPS_PROXY", "http_proxy"):
        found = environment_for(claude, known, {name: "http://proxy:3128", "no_proxy": "intranet"})
        assert found["NO_PROXY"] == found["no_proxy"] == "intranet,127.0.0.1,localhost"
