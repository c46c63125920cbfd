"""mini-swe-agent: its default agent, with models of chat completions, of responses and of plain text."""

import json
import os
import re
from typing import Any

import pytest

from helpers import task
from helpers.provider import Provider, Received, Say
from integrations.conformance import Conformance, compressing, moved

QUIETLY = {"MSWEA_SILENT_STARTUP": "1", "MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": "1"}
os.environ |= {**QUIETLY, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
pytest.importorskip("minisweagent", reason="scripts/test-integrations mini-swe-agent")

import litellm
from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.exceptions import Submitted
from minisweagent.models.litellm_model import LitellmModel
from minisweagent.models.litellm_response_model import LitellmResponseModel
from minisweagent.models.litellm_textbased_model import LitellmTextbasedModel

from focusctx.integrations.mini_swe_agent import FocusModel
from focusctx.integrations.plug import Plug, Source

SETTINGS: dict[str, Any] = {"model_name": "openai/scripted", "cost_tracking": "ignore_errors"}


class Tools(LocalEnvironment):
    """Where an action is a call of one of the task's tools instead of a command."""

    def execute(self, action: dict[str, Any], cwd: str = "") -> dict[str, Any]:
        try:
            return {"output": task.run_tool(action["name"], action["arguments"]), "returncode": 0, "exception_info": ""}
        except task.ToolFailure as failure:
            return {"output": "", "returncode": 1, "exception_info": str(failure)}


class ChatModel(LitellmModel):
    """Offers the task's tools in the place of bash; an answer without calls ends the work."""

    def _query(self, messages: Any, **more: Any) -> Any:
        settings = {**self.config.model_kwargs, "tools": task.chat_tools()}
        return litellm.completion(model=self.config.model_name, messages=messages, **settings, **more)

    def _parse_actions(self, response: Any) -> list[dict[str, Any]]:
        message = response.choices[0].message
        calls = [(call.id, call.function.name, call.function.arguments) for call in message.tool_calls or ()]
        return actions(calls, message.content)


class ResponsesModel(LitellmResponseModel):
    def _query(self, messages: Any, **more: Any) -> Any:
        settings = {**self.config.model_kwargs, "tools": task.responses_tools()}
        return litellm.responses(model=self.config.model_name, input=messages, **settings, **more)

    def _parse_actions(self, response: Any) -> list[dict[str, Any]]:
        calls = [item for item in response.output if item.type == "function_call"]
        return actions([(call.call_id, call.name, call.arguments) for call in calls], response.output_text)


def actions(calls: list[tuple[str, str, str]], text: str) -> list[dict[str, Any]]:
    if not calls:
        raise Submitted({"role": "exit", "content": text, "extra": {"submission": text}})
    return [{"tool_call_id": one, "name": name, "arguments": json.loads(text)} for one, name, text in calls]


class TestMiniSweAgent(Conformance):
    name = "mini_swe_agent"
    modes = ("chat", "responses")
    imports = ("minisweagent",)

    def run(self, mode: str, url: str, focus: Source | None) -> tuple[str, list[Any]]:
        kind = ChatModel if mode == "chat" else ResponsesModel
        agent = agent_with(kind(**SETTINGS), url, focus, Tools())
        answer = agent.run(task.TASK)["submission"]
        different = {"extra", "usage", "id", "created_at", "completed_at"}
        return answer, [{k: v for k, v in message.items() if k not in different} for message in agent.messages]


def agent_with(model: Any, url: str, focus: Source | None, environment: Any) -> Any:
    model.config.model_kwargs = {"api_base": f"{url}/v1", "api_key": "none"}
    model = model if focus is None else FocusModel(model, focus)
    system = "Write one command:\n```mswea_bash_command\nyour command\n```"
    return DefaultAgent(model, environment, system_template=system, instance_template="{{task}}")


def test_steps_written_as_text_are_shortened_too() -> None:
    """Observations are user messages there."""

    def model(received: Received) -> Say:
        done = max([0, *map(int, re.findall(r"Part (\d+):", received.raw.decode()))])
        command = f"echo Part {done + 1}: {'the tests of this part passed. ' * 40}"
        command = command if done < 20 else "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && echo all 20"
        return Say(f"Part {done + 1} is next.\n```mswea_bash_command\n{command}\n```")

    with Provider(model) as provider:
        agent = agent_with(LitellmTextbasedModel(**SETTINGS), provider.url, compressing(), LocalEnvironment())
        assert agent.run("Run the tests of all parts.")["submission"] == "all 20\n"
        assert moved(provider.received)
        sent = provider.received[-1].messages
        sizes = [sum(len(message["content"]) for message in messages) for messages in (sent, agent.messages)]
        assert sizes[0] < 0.3 * sizes[1]
        assert sent[:2] == provider.received[0].messages


def test_in_everything_else_it_is_the_model_it_was_made_of() -> None:
    model = LitellmModel(**SETTINGS)
    focused = FocusModel(model, compressing())
    assert focused.config is model.config
    assert focused.serialize() == model.serialize()


def test_it_can_be_looked_at() -> None:
    plug = Plug(compressing())
    assert FocusModel(object(), plug).focusctx is plug
