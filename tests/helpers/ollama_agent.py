"""An agent made with the `ollama` package and one shell tool. Arguments: the server's URL, the task, whole or stream.

It prints the model's last words. Run by `coding_agents.py`, with the Python that has the package.
"""

import subprocess
import sys
from typing import Any

import ollama

MODEL = "qwen3:8b"


def shell(command: str) -> str:
    """Run a shell command and return what it prints.

    Args:
        command: The command line.
    """
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=False).stdout


def main(url: str, task: str, mode: str) -> str:
    client = ollama.Client(host=url)
    messages: list[Any] = [
        {"role": "system", "content": "You run the stock report."},
        {"role": "user", "content": task},
    ]
    while True:
        message = streamed(client, messages) if mode == "stream" else whole(client, messages)
        messages.append(message)
        if not message.tool_calls:
            return message.content or ""
        for call in message.tool_calls:
            text = shell(**call.function.arguments)
            messages.append({"role": "tool", "tool_name": call.function.name, "content": text})


def whole(client: ollama.Client, messages: list[Any]) -> ollama.Message:
    return client.chat(MODEL, messages=messages, tools=[shell], think=True).message


def streamed(client: ollama.Client, messages: list[Any]) -> ollama.Message:
    content, thinking, calls = "", "", []
    for chunk in client.chat(MODEL, messages=messages, tools=[shell], think=True, stream=True):
        content += chunk.message.content or ""
        thinking += chunk.message.thinking or ""
        calls += chunk.message.tool_calls or ()
    return ollama.Message(role="assistant", content=content, thinking=thinking, tool_calls=calls or None)


print(main(*sys.argv[1:]))
