"""Real coding agents, headless, with a scripted model that works through their own shell tool.

The task is thirty-two shell commands in an empty folder; some agents do more or fewer. Every command writes its number
down, so that the folder tells what was really done. `scripts/test-agents` installs the agents.
"""

import json
import os
import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from helpers.provider import Call, Received, Say

INSTALLED = Path(__file__).parents[2] / ".agents"
STEPS = 32
FAILING = 7
TASK = "Run the stock report, step by step."
FINAL = "The stock report is done."
_DONE = re.compile(r"Step (\d+) of \d+\b")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run left behind: the agent's last words, and the numbers its commands wrote down."""

    answer: str
    done: str


@dataclass(frozen=True, slots=True)
class Agent:
    """`start` is given the base URL of the provider, an empty home and an empty folder to work in."""

    name: str
    format: str
    program: str
    tool: str
    call: Callable[[str], Call]
    start: Callable[[Path, str, Path, Path], str]
    end: Callable[[str], Say] = Say
    """How the model ends the run."""
    steps: int = STEPS

    @property
    def outcome(self) -> Outcome:
        """The outcome of a run in which all went well."""
        return Outcome(FINAL, "".join(f"{step}\n" for step in range(1, self.steps + 1)))

    @property
    def path(self) -> Path:
        return INSTALLED / self.program

    def run(self, url: str, folder: Path) -> Outcome:
        home, work = folder / "home", folder / "work"
        home.mkdir(parents=True)
        work.mkdir()
        answer = self.start(self.path, url, home, work)
        return Outcome(answer.strip(), (work / "done.txt").read_text())

    def model(self, received: Received) -> Say:
        """Goes on after the newest step that the request shows; side calls, which offer no tools, get a word."""
        if not self.works(received):
            return Say("Stock report")
        step = _newest(received) + 1
        if step > self.steps:
            return self.end(FINAL)
        calls = [self.call(_command(step, self.steps))]
        if step % 5 == 0:
            calls.append(self.call(f"echo Step {step} of {self.steps}, checked"))
        return Say(f"Now step {step}.", tuple(calls), f"Step {step} is next.")

    def works(self, received: Received) -> bool:
        offered = f'"{self.tool}"'.encode() in received.raw
        if received.format == "gemini":  # Gemini CLI asks beside its work whether it is in a loop
            return offered and "tools" in received.body
        return received.format == self.format and (_newest(received) > 0 or offered)


def _newest(received: Received) -> int:
    for message in reversed(received.messages):
        if steps := _DONE.findall(json.dumps(message)):
            return int(steps[-1])
    return 0


def _command(step: int, steps: int) -> str:
    entries = (
        f"seq -f 'entry %04.0f: lot {step * 7919 % 9000}, counted, signed and filed' {step * 100} {step * 100 + 17}"
    )
    return f"echo {step} >> done.txt; echo Step {step} of {steps}; {entries}" + ("; false" if step == FAILING else "")


def _launch(arguments: Sequence[str | Path], home: Path, work: Path, **environment: str) -> str:
    """What the program printed. It sees nothing of our environment but the way to its interpreters."""
    everything = {"PATH": os.environ["PATH"], "HOME": str(home), **environment}
    run = partial(subprocess.run, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False)
    done = run(arguments, cwd=work, env=everything)
    assert done.returncode == 0, f"{arguments[0]} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout


def _claude_code(program: Path, url: str, home: Path, work: Path) -> str:
    arguments: list[str | Path] = [program, "-p", TASK, "--output-format", "json", "--dangerously-skip-permissions"]
    quiet = {"DISABLE_TELEMETRY": "1", "DISABLE_ERROR_REPORTING": "1", "DISABLE_AUTOUPDATER": "1"}
    key = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "key-of-a-test"}
    return str(json.loads(_launch(arguments, home, work, IS_SANDBOX="1", **key, **quiet))["result"])


def _gemini_cli(program: Path, url: str, home: Path, work: Path) -> str:
    (home / ".gemini").mkdir()
    quiet = {"privacy": {"usageStatisticsEnabled": False}, "general": {"enableAutoUpdate": False}}
    chosen = {"security": {"auth": {"selectedType": "gemini-api-key"}}, **quiet}
    (home / ".gemini" / "settings.json").write_text(json.dumps(chosen))
    arguments: list[str | Path] = [program, "-p", TASK, "--output-format", "json", "--yolo", "--skip-trust"]
    key = {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": "key-of-a-test"}
    return str(json.loads(_launch(arguments, home, work, **key))["response"])


def _codex(configuration: str) -> Callable[[Path, str, Path, Path], str]:
    def start(program: Path, url: str, home: Path, work: Path) -> str:
        (home / ".codex").mkdir()
        (home / ".codex" / "config.toml").write_text(f"analytics.enabled = false\n{configuration.replace('URL', url)}")
        options = ("--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")
        key = "key-of-a-test"
        printed = _launch([program, "exec", *options, TASK], home, work, OPENAI_API_KEY=key, CODEX_API_KEY=key)
        items = [line["item"] for line in map(json.loads, printed.splitlines()) if line["type"] == "item.completed"]
        return [str(item["text"]) for item in items if item["type"] == "agent_message"][-1]

    return start


_CODEX_OVER_SSE = """
model = "gpt-5.5"
model_provider = "proxy"
[model_providers.proxy]
name = "proxy"
base_url = "URL/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
"""

_CODEX_AS_IT_COMES = """
openai_base_url = "URL/v1"
"""


def _javascript(command: str) -> Call:
    return Call("exec", {}, custom=f"text((await tools.exec_command({{cmd: {json.dumps(command)}}})).output)")


def _mini_swe_agent(program: Path, url: str, home: Path, work: Path) -> str:
    options = ("-m", "openai/gpt-4.1", "-y", "-l", "0", "--exit-immediately")
    quiet = {"MSWEA_CONFIGURED": "true", "MSWEA_SILENT_STARTUP": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    arguments: list[str | Path] = [program, *options, "-t", TASK, "-o", home / "run"]
    _launch(arguments, home, work, OPENAI_BASE_URL=f"{url}/v1", OPENAI_API_KEY="key-of-a-test", **quiet)
    return str(json.loads((home / "run").read_text())["info"]["submission"])


def _bash(command: str) -> Call:
    return Call("bash", {"command": command})


def _submit(words: str) -> Say:
    return Say(words, (_bash(f"echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo {words}"),))


def _python_sdk(script: str, mode: str) -> Callable[[Path, str, Path, Path], str]:
    def start(program: Path, url: str, home: Path, work: Path) -> str:
        return _launch([program, Path(__file__).with_name(script), url, TASK, mode], home, work)

    return start


def _ai_sdk(kind: str, mode: str) -> Callable[[Path, str, Path, Path], str]:
    def start(program: Path, url: str, home: Path, work: Path) -> str:
        script, modules = Path(__file__).with_name("ai_sdk_agent.mjs"), program.parents[1]
        return _launch(["node", script, modules, f"{url}/v1", TASK, kind, mode], home, work)

    return start


CLAUDE_CODE = Agent(
    "Claude Code",
    "anthropic",
    "node_modules/.bin/claude",
    "Bash",
    lambda command: Call("Bash", {"command": command, "description": "The next step"}),
    _claude_code,
)
CODEX = Agent(
    "Codex",
    "responses",
    "node_modules/.bin/codex",
    "exec_command",
    lambda command: Call("exec_command", {"cmd": command}),
    _codex(_CODEX_OVER_SSE),
)
CODEX_AS_IT_COMES = Agent(
    "Codex as it comes", "responses", "node_modules/.bin/codex", "exec", _javascript, _codex(_CODEX_AS_IT_COMES)
)
MINI_SWE_AGENT = Agent(
    "mini-swe-agent", "chat_completions", "mini/bin/mini", "bash", _bash, _mini_swe_agent, end=_submit
)
AI_SDK = Agent(
    "AI SDK",
    "responses",
    "node_modules/ai/package.json",
    "shell",
    lambda command: Call("shell", {"command": command}),
    _ai_sdk("function", "whole"),
)
AI_SDK_CUSTOM_TOOL = Agent(
    "AI SDK, custom tool, streamed",
    "responses",
    "node_modules/ai/package.json",
    "shell",
    lambda command: Call("shell", {}, custom=command),
    _ai_sdk("custom", "stream"),
)
GEMINI_CLI = Agent(
    "Gemini CLI",
    "gemini",
    "node_modules/.bin/gemini",
    "run_shell_command",
    lambda command: Call("run_shell_command", {"command": command, "description": "The next step"}),
    _gemini_cli,
    steps=24,  # it takes seconds for each
)
GOOGLE_GENAI = [
    Agent(
        f"google-genai, {mode}",
        "gemini",
        "native/bin/python",
        "shell",
        lambda command: Call("shell", {"command": command}),
        _python_sdk("google_genai_agent.py", mode),
        steps=40,
    )
    for mode in ("whole", "stream", "automatic")
]
OLLAMA = [
    Agent(
        f"ollama, {mode}",
        "ollama",
        "native/bin/python",
        "shell",
        lambda command: Call("shell", {"command": command}),
        _python_sdk("ollama_agent.py", mode),
        steps=40,
    )
    for mode in ("whole", "stream")
]
