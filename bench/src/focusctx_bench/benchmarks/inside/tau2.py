"""Runs in τ²-bench's interpreter: its orchestrator, one step at a time, with the agent outside.

Whenever τ²-bench would ask a language model (the customer's next words, the judge of a conversation) we ask back.
Only τ²-bench's own names are used from here on; nothing of it is imported before the first task starts.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from functools import cache
from typing import Any

_Ask = Callable[[Any], Any]
_runs: dict[str, Any] = {}
_preparing = threading.Lock()
"""Threads that import τ²-bench at the same time would see halves of its modules."""
_asking = threading.local()
"""`ask` of the call that this thread works for."""


def start(ask: _Ask, run: str, domain: str, task: str) -> dict[str, Any]:
    """Start a task, up to the customer's first words."""
    _asking.ask = ask
    with _preparing:
        agent_class = _prepare()
    from tau2.orchestrator.orchestrator import Orchestrator
    from tau2.registry import registry
    from tau2.runner.build import build_user
    from tau2.utils.utils import get_now

    environment = registry.get_env_constructor(domain)()
    agent = agent_class(tools=environment.get_tools(), domain_policy=environment.get_policy(), llm="agent", llm_args={})
    told = _tasks(domain)[task]
    user = build_user("user_simulator", environment, told, llm="user", llm_args={})
    orchestrator = Orchestrator(
        domain=domain, agent=agent, user=user, environment=environment, task=told, **_limits(), simulation_id=run
    )
    orchestrator._run_start_time, orchestrator._run_start_perf = get_now(), time.perf_counter()
    orchestrator.initialize()
    said = [message.content for message in orchestrator.trajectory if message.role == "assistant"]
    first = _until_the_agents_turn(orchestrator)
    _runs[run] = orchestrator
    tools = [tool.openai_schema for tool in agent.tools]
    return {"system": agent.system_prompt, "tools": tools, "greeting": (said or [""])[0] or "", **first}


def act(ask: _Ask, run: str, id: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    from tau2.data_model.message import AssistantMessage, ToolCall

    _asking.ask = ask
    orchestrator = _runs[run]
    call = ToolCall(id=id, name=name, arguments=arguments, requestor="assistant")
    orchestrator.agent.next_message = AssistantMessage(role="assistant", tool_calls=[call])
    return _until_the_agents_turn(orchestrator, its_turn=True)


def hear(ask: _Ask, run: str, text: str) -> dict[str, Any]:
    from tau2.data_model.message import AssistantMessage
    from tau2.data_model.simulation import TerminationReason

    _asking.ask = ask
    orchestrator = _runs[run]
    if not text.strip():
        orchestrator.done, orchestrator.termination_reason = True, TerminationReason.AGENT_ERROR
        return {"text": "", "over": True}
    orchestrator.agent.next_message = AssistantMessage(role="assistant", content=text)
    return _until_the_agents_turn(orchestrator, its_turn=True)


def score(ask: _Ask, run: str) -> dict[str, Any]:
    from tau2.data_model.simulation import TerminationReason
    from tau2.evaluator.evaluator import EvaluationType, evaluate_simulation

    _asking.ask = ask
    orchestrator = _runs[run]
    if not orchestrator.done:  # the agent's steps are used up
        orchestrator.termination_reason = TerminationReason.MAX_STEPS
    simulation = orchestrator._finalize()
    reward = evaluate_simulation(
        simulation, orchestrator.task, EvaluationType.ALL, solo_mode=False, domain=orchestrator.domain
    )
    parts = {getattr(kind, "value", kind): value for kind, value in (reward.reward_breakdown or {}).items()}
    return {"reward": reward.reward, "ended": orchestrator.termination_reason.value, "parts": parts}


def close(ask: _Ask, run: str) -> None:  # noqa: ARG001
    _runs.pop(run, None)


HANDLERS = {"start": start, "act": act, "hear": hear, "score": score, "close": close}


def _until_the_agents_turn(orchestrator: Any, *, its_turn: bool = False) -> dict[str, Any]:
    """Let tools run, and the customer speak and use her own tools, until it is the agent's turn again."""
    from tau2.orchestrator.orchestrator import Role

    while its_turn or not (orchestrator.done or orchestrator.to_role == Role.AGENT):
        its_turn = False
        orchestrator.step()
        orchestrator._check_termination()
    return {"text": orchestrator.message.content or "", "over": orchestrator.done}


def _limits() -> dict[str, int]:
    from tau2.config import DEFAULT_MAX_ERRORS, DEFAULT_MAX_STEPS

    return {"max_steps": DEFAULT_MAX_STEPS, "max_errors": DEFAULT_MAX_ERRORS}


@cache
def _tasks(domain: str) -> dict[str, Any]:
    from tau2.registry import registry

    return {task.id: task for task in registry.get_tasks_loader(domain)(None)}


@cache
def _prepare() -> Any:
    """Return the class of an agent that says what it is given, and have models asked outside."""
    from tau2.agent.llm_agent import LLMAgent
    from tau2.evaluator import evaluator, evaluator_nl_assertions
    from tau2.runner import build
    from tau2.user import user_simulator

    del evaluator, build  # imported for later
    for module in (user_simulator, evaluator_nl_assertions):
        if not hasattr(module, "generate"):
            raise RuntimeError(f"another version of τ²-bench: {module.__name__} asks no model by `generate`")
        module.generate = _generate

    class Agent(LLMAgent):  # type: ignore[misc]
        next_message: Any

        def _generate_next_message(self, message: Any, state: Any) -> Any:  # noqa: ARG002
            return self.next_message

    return Agent


def _generate(model: str, messages: Any, tools: Any = None, **_: Any) -> Any:
    """Ask outside: replaces τ²-bench's function of that name, which would ask litellm."""
    from tau2.data_model.message import AssistantMessage, ToolCall
    from tau2.utils.llm_utils import to_litellm_messages

    said = _asking.ask(
        {
            "who": "user" if model == "user" else "judge",
            "messages": [_plain(message) for message in to_litellm_messages(messages)],
            "tools": [tool.openai_schema for tool in tools or ()],
        }
    )
    calls = [
        ToolCall(id=call["id"], name=call["function"]["name"], arguments=json.loads(call["function"]["arguments"]))
        for call in said.get("tool_calls") or ()
    ]
    return AssistantMessage(role="assistant", content=said.get("content"), tool_calls=calls or None, cost=0.0)


def _plain(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message without the fields that only litellm knows."""
    calls = message.get("tool_calls")
    plain = {name: value for name, value in message.items() if name != "tool_calls"}
    if calls:
        plain["tool_calls"] = [{name: call[name] for name in ("id", "type", "function")} for call in calls]
    return plain
