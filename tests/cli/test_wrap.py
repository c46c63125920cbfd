"""`focusctx wrap` with a plain script as the agent, in processes and on terminals of their own."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.histories import run
from helpers.provider import Provider, Received, Say
from helpers.served import environment

AGENT = """
import json, os, sys, urllib.request
base = os.environ["OPENAI_BASE_URL"]
assert base == os.environ["OPENAI_API_BASE"]
body = json.loads(sys.stdin.read())
for length in range(2, len(body["messages"]) + 1, 2):
    data = json.dumps({**body, "messages": body["messages"][:length]}).encode()
    headers = {"content-type": "application/json", "authorization": "Bearer key-of-a-test"}
    with urllib.request.urlopen(urllib.request.Request(base + "/chat/completions", data, headers)) as answer:
        said = json.load(answer)["choices"][0]["message"]["content"]
print(said, sys.argv[1:])
sys.exit(7)
"""


def say(_received: Received) -> Say:
    return Say("Done.")


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider(say) as running:
        yield running


def wrap(home: Path, *arguments: str, stdin: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "focusctx", "wrap", *arguments]
    variables = environment(home, **variables)
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, check=False, env=variables)


def script(folder: Path, text: str) -> list[str]:
    (folder / "agent.py").write_text(text)
    return ["--", sys.executable, str(folder / "agent.py")]


def conversation(model: str = "gpt-4.1") -> str:
    return json.dumps({"model": model, "messages": run(30)})


def test_an_agent_runs_and_the_savings_are_said(provider: Provider, tmp_path: Path) -> None:
    agent = script(tmp_path, AGENT)
    done = wrap(tmp_path, "--upstream", f"one={provider.url}", "--budget", "60", *agent, "-x", stdin=conversation())
    assert done.stdout == "Done. ['-x']\n", "the agent's own output, and nothing else"
    assert done.returncode == 7
    first, saved, worth, dashboard = done.stderr.splitlines()
    address = re.search(r"http://127\.0\.0\.1:\d+", first)
    assert address is not None
    sizes = r"([\d,]+) of ([\d,]+) tokens of history sent \(([\d,]+) saved, \d+%\)"
    found = re.fullmatch(rf"focusctx: 31 requests, (\d+) events?: {sizes}", saved)
    assert found is not None, saved
    events, sent, received, fewer = (int(each.replace(",", "")) for each in found.groups())
    assert events > 0
    assert received - sent == fewer > 0
    assert re.fullmatch(r"focusctx: worth -?\d+\.\d\d USD, the draft's 0\.00 USD already taken off", worth)
    assert f"{address[0]}/ui" in dashboard
    assert len(provider.received) == 31
    assert len(provider.received[-1].messages) < len(run(30))
    assert provider.received[0].headers["authorization"] == "Bearer key-of-a-test"


def test_nothing_saved_is_said_plainly(provider: Provider, tmp_path: Path) -> None:
    agent = script(tmp_path, AGENT)
    done = wrap(tmp_path, "--upstream", f"one={provider.url}", *agent, stdin=conversation())
    assert "31 requests, nothing saved: no history was larger than the budget of 4,096 tokens" in done.stderr
    done = wrap(tmp_path, "--upstream", f"one={provider.url}", "--", sys.executable, "-c", "print('hello')")
    assert done.stdout == "hello\n"
    assert done.returncode == 0
    assert "nothing saved: no request came through the proxy. Does the agent's own configuration" in done.stderr


def test_an_unknown_price_is_said(provider: Provider, tmp_path: Path) -> None:
    agent = script(tmp_path, AGENT)
    given = conversation(model="a-model-without-a-price")
    done = wrap(tmp_path, "--upstream", f"one={provider.url}", "--budget", "60", *agent, stdin=given)
    assert "worth in USD unknown: no price for a-model-without-a-price" in done.stderr


def test_a_dry_run_saves_nothing(provider: Provider, tmp_path: Path) -> None:
    agent = script(tmp_path, AGENT)
    options = ["--upstream", f"one={provider.url}", "--budget", "60", "--dry-run"]
    done = wrap(tmp_path, *options, *agent, stdin=conversation())
    assert "would have been sent" in done.stderr
    assert len(provider.received[-1].messages) == len(run(30))


def test_a_base_url_that_is_set_already_stays_in_use(provider: Provider, tmp_path: Path) -> None:
    agent = script(tmp_path, AGENT)
    done = wrap(tmp_path, *agent, stdin=conversation(), OPENAI_BASE_URL=f"{provider.url}/v1")
    assert done.returncode == 7, done.stderr
    assert len(provider.received) == 31


def test_the_log_is_kept_off_the_terminal(tmp_path: Path) -> None:
    agent = script(tmp_path, AGENT.replace("sys.exit(7)", ""))
    log = tmp_path / "proxy.log"
    gone = ["--upstream", "one=http://127.0.0.1:1", "--log", str(log), "--draft", "openai:m@http://127.0.0.1:1/v1"]
    done = wrap(tmp_path, *gone, *agent, stdin=conversation())
    assert done.returncode == 1
    assert "a warning: " in done.stderr
    assert "one" in log.read_text()
    assert "Traceback" not in "".join(line for line in done.stderr.splitlines() if line.startswith("focusctx"))


def test_a_file_of_settings_for_serve_does(provider: Provider, tmp_path: Path) -> None:
    file = tmp_path / "focusctx.toml"
    secret = "a token of more than 16 characters"
    file.write_text(
        f'listen = "127.0.0.1:0"\nstore = "memory"\ntoken = "env:T"\n[upstreams.one]\nurl = "{provider.url}"\n'
        "[compress]\nbudget = 60\n"
    )
    agent = script(tmp_path, AGENT)
    done = wrap(tmp_path, "--config", str(file), *agent, stdin=conversation(), T=secret)
    assert done.returncode == 7, done.stderr
    assert " saved, " in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "no agent to run"),
        (["--"], "no agent to run"),
        (["--", "no-such-program"], "there is no program 'no-such-program' to run"),
        (["--upstream", "nonsense", "--", "true"], "unknown upstream 'nonsense'"),
        (["--listen", "0.0.0.0:0", "--", "true"], "set an access token"),
    ],
)
def test_what_cannot_be_run(arguments: list[str], said: str, tmp_path: Path) -> None:
    done = wrap(tmp_path, *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


# ---------------------------------------------------------------------------------------------- signals and terminals

WAITING = """
import os, signal, sys, time
got = []
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, lambda number, frame: got.append(signal.Signals(number).name))
print("tty" if os.isatty(0) and os.isatty(1) and os.isatty(2) else "no tty", flush=True)
end = time.time() + 20
while not got and time.time() < end:
    time.sleep(0.02)
time.sleep(0.3)  # a second one would come now
print("got", *got, flush=True)
sys.exit(9)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_are_passed_on(number: signal.Signals, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "focusctx", "wrap", *script(tmp_path, WAITING)]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, env=environment(tmp_path), start_new_session=True, **pipes) as process:  # type: ignore[call-overload]
        assert process.stdout.readline() == "no tty\n"
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
        assert out == f"got {number.name}\n"
        assert process.returncode == 9
        assert "nothing saved" in err


def test_an_agent_that_a_signal_ended(tmp_path: Path) -> None:
    done = wrap(tmp_path, "--", "sh", "-c", "kill -TERM $$")
    assert done.returncode == 128 + signal.SIGTERM


def test_the_terminal_is_the_agents_own_and_ctrl_c_comes_once(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "focusctx", "wrap", *script(tmp_path, WAITING)]
    child, terminal = pty.fork()
    if child == 0:
        os.execvpe(command[0], command, environment(tmp_path))
    printed = b""
    end = time.monotonic() + 30
    sent = False
    while time.monotonic() < end:
        try:
            printed += os.read(terminal, 4096)
        except OSError:  # the other side is closed
            break
        if b"tty\r\n" in printed and not sent:
            os.write(terminal, b"\x03")
            sent = True
    _, status = os.waitpid(child, 0)
    os.close(terminal)
    text = printed.decode()
    assert "no tty" not in text
    assert "got SIGINT\r\n" in text, "once, and not once for each process"
    assert os.waitstatus_to_exitcode(status) == 9
    assert "nothing saved" in text
