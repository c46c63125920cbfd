"""The task for agents made of LangChain's parts."""

import asyncio
from typing import Any

from langchain_core.tools import StructuredTool, ToolException

from helpers import task

DIFFERENT = {"id", "usage_metadata", "response_metadata"}
"""Fields of a message that are other ones in every run."""


def tools() -> list[StructuredTool]:
    return [_made(tool) for tool in task.TOOLS]


def _made(tool: task.Tool) -> StructuredTool:
    def call(**arguments: Any) -> str:
        try:
            return task.run_tool(tool.name, arguments)
        except task.ToolFailure as failure:
            raise ToolException(str(failure)) from failure

    return StructuredTool(
        name=tool.name, description=tool.description, args_schema=tool.schema, func=call, handle_tool_error=True
    )


def graph_run(agent: Any, mode: str) -> tuple[str, list[Any]]:
    """Runs a compiled graph; the history is what its checkpoint holds."""
    config = {"configurable": {"thread_id": "1"}, "recursion_limit": 200}
    given = {"messages": [{"role": "user", "content": task.TASK}]}
    if mode == "ainvoke":
        asyncio.run(agent.ainvoke(given, config))
    elif mode == "stream":
        for _ in agent.stream(given, config, stream_mode="messages"):
            pass
    else:
        agent.invoke(given, config)
    messages = agent.get_state(config).values["messages"]
    return messages[-1].text, [message.model_dump(exclude=DIFFERENT) for message in messages]
