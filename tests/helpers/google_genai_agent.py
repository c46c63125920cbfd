"""An agent made with the google-genai SDK and one shell tool. Arguments: base URL, task, mode.

Modes: `whole` sends results without ids, `stream` appends every streamed content and sends ids, `automatic` leaves the
loop to the SDK. It prints the model's last words. Run by `coding_agents.py`, with the Python that has the SDK.
"""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from google import genai
from google.genai import types

SYSTEM = "You run the stock report."


def shell(command: str) -> str:
    """Run a shell command and return what it prints.

    Args:
        command: The command line.
    """
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=False).stdout


def main(url: str, task: str, mode: str) -> str:
    client = genai.Client(api_key="key-of-a-test", http_options=types.HttpOptions(base_url=url))
    if mode == "automatic":
        calls = types.AutomaticFunctionCallingConfig(maximum_remote_calls=100)
        config = types.GenerateContentConfig(system_instruction=SYSTEM, tools=[shell], automatic_function_calling=calls)
        return client.chats.create(model="gemini-3.8-flash", config=config).send_message(task).text or ""
    contents: list[Any] = [types.Content(role="user", parts=[types.Part.from_text(text=task)])]
    while True:
        new = list(ask(client, contents, mode))
        contents += new
        parts = [part for content in new for part in content.parts or []]
        calls = [part.function_call for part in parts if part.function_call]
        if not calls:
            return "".join(part.text for part in parts if part.text and not part.thought)
        results = [result(call, with_id=mode == "stream") for call in calls]
        contents.append(types.Content(role="user", parts=results))


def ask(client: genai.Client, contents: list[Any], mode: str) -> Iterator[types.Content]:
    schema = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
    declared = types.FunctionDeclaration(name="shell", description="Run a command.", parameters_json_schema=schema)
    config = types.GenerateContentConfig(
        system_instruction=SYSTEM, tools=[types.Tool(function_declarations=[declared])], temperature=0
    )
    if mode == "stream":
        for chunk in client.models.generate_content_stream(model="gemini-3.8-flash", contents=contents, config=config):
            yield chunk.candidates[0].content
    else:
        answer = client.models.generate_content(model="gemini-3.8-flash", contents=contents, config=config)
        yield answer.candidates[0].content


def result(call: types.FunctionCall, *, with_id: bool) -> types.Part:
    response = types.FunctionResponse(name=call.name, response={"output": shell(**(call.args or {}))})
    if with_id:
        response.id = call.id
    return types.Part(function_response=response)


print(main(*sys.argv[1:]))
