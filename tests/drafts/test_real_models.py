"""Both local drafts with a real model: FOCUSCTX_GGUF names its file (`scripts/models` fetches one).

These run a small model on the CPU, so they ask for little: that some sketch is a plan, and that the compressed history
is legal whatever the sketches say.
"""

import json
import os
import time

import pytest

from focusctx import Focus
from focusctx.config import FocusConfig
from focusctx.drafts import LlamaCppDraft, TransformersDraft
from focusctx.invariants import violations

GGUF = os.environ.get("FOCUSCTX_GGUF", "")
CONFIG = FocusConfig(budget=100, sketch_tokens=128, deadline=500)

pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(not GGUF, reason="set FOCUSCTX_GGUF to a GGUF file; scripts/models fetches one"),
]

TASK = "Send Maya the invoice for order 8841 by e-mail. Her current address is in the contacts, not in the order."
STEPS = [
    ("I sign in first.", "login", {"user": "sam"}, "access_token: tok_51fa9c"),
    ("Let me see what the apps offer.", "list_apps", {}, "mail, files, contacts, orders, weather, music"),
    ("The weather is of no use, but I check it.", "weather", {"city": "Oslo"}, "12 degrees, light rain until noon"),
    ("I look up the order.", "get_order", {"id": 8841}, "order 8841, paid, invoice file: inv_8841_final.pdf"),
    ("I look for Maya's address.", "find_contact", {"name": "Maya"}, "Maya Lind, maya.lind@fjordmail.example"),
    ("I try to send without a token.", "send_mail", {"to": "?"}, "error 401: access_token is required"),
]


def messages():
    start = [{"role": "system", "content": "You use tools."}, {"role": "user", "content": TASK}]
    return start + [message for number, step in enumerate(STEPS) for message in turn(number, *step)]


def turn(number, thought, tool, arguments, observation):
    call = {
        "id": f"call_{number}",
        "type": "function",
        "function": {"name": tool, "arguments": json.dumps(arguments)},
    }
    return [
        {"role": "assistant", "content": thought, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{number}", "content": observation},
    ]


@pytest.fixture(scope="module", params=["llama_cpp", "transformers"])
def draft(request):
    if request.param == "llama_cpp":
        pytest.importorskip("xllamacpp", reason="needs the extra `llama-cpp`")
        draft = LlamaCppDraft(GGUF, context=4096)
        yield draft
        draft.close()
    else:
        pytest.importorskip("transformers", reason="needs the extra `transformers`")
        yield TransformersDraft(GGUF)


@pytest.fixture(scope="module")
def result(draft):
    return Focus(draft=draft, config=CONFIG).compress(messages())


def test_some_sketch_is_a_plan_that_cites_only_what_exists(result):
    assert len(result.sketches) == 3
    assert result.usage.requests == 1
    assert 3 <= result.usage.output_tokens <= 3 * CONFIG.sketch_tokens
    good = [plan for plan in result.sketches if plan.problem is None and plan.cited and not plan.unknown]
    assert good, "\n---\n".join(f"{plan.problem}\n{plan.text}" for plan in result.sketches)


def test_the_history_is_compressed_legally_or_passed_on_with_the_reason(result):
    if result.failure is not None:
        assert result.messages == messages()
        assert "sketches usable" in result.failure
    else:
        assert violations(result.messages, "chat_completions") == []
        assert len(STEPS) in result.kept, "the newest span is never dropped"
        assert result.compressed == (len(result.kept) < len(STEPS))


def test_a_deadline_is_kept_and_the_draft_works_on(draft, result):
    started = time.perf_counter()
    late = Focus(draft=draft, config=CONFIG, deadline=0.2).compress(messages())
    assert time.perf_counter() - started < 5
    assert "within 0.2 s" in (late.failure or "")
    after = Focus(draft=draft, config=CONFIG, rollouts=1, sketch_tokens=8).compress(messages())
    assert after.usage.requests == 1
