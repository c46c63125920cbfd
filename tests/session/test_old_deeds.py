"""Old deeds have a line each in the views of a session, also in another process and when steps are restored."""

import json
from pathlib import Path
from typing import Any

from focusctx import Focus
from focusctx.invariants import violations
from helpers.oracles import check_verbatim

LISTING = "".join(f"{number}: a line of a listing\n" for number in range(12))
DEEDS = 45
Json = dict[str, Any]


def conversation() -> list[Json]:
    found: list[Json] = [{"role": "user", "content": "Write to everybody."}]
    for number in range(DEEDS):
        text = f"Dear {number}, " + "this is what I have to say. " * 8
        made = [
            ("get_page", {"page": number}, LISTING),
            ("mail_send", {"to": f"p{number}@x.example", "text": text}, "Sent."),
        ]
        for place, (name, arguments, result) in enumerate(made):
            call = {"id": f"c{number}-{place}", "type": "function"}
            function = {"name": name, "arguments": json.dumps(arguments)}
            found.append({"role": "assistant", "content": "", "tool_calls": [{**call, "function": function}]})
            found.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    return found


def focus() -> Focus:
    return Focus("offline", budget=12_000, target=0.4, tokens=len)


def check_view(messages: list[Json], view: Any) -> None:
    assert violations(view, "chat_completions") == []
    check_verbatim(messages, view)
    shown = json.dumps(list(view))
    sent = [number for number in range(DEEDS) if f"p{number}@x.example" in json.dumps(messages)]
    assert all(f"p{number}@x.example" in shown for number in sent), "a deed is forgotten"


def test_every_view_tells_of_every_deed(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'store.db'}"
    messages = conversation()
    with focus().session(store) as session:
        for end in range(1, len(messages) + 1, 2):
            view = session.view(messages[:end])
            check_view(messages[:end], view)
        assert any("Done in them" in str(message.get("content")) for message in view)
        assert session.size[1] < session.size[0] / 2
        last = [dict(message) for message in view]
    with focus().session(store) as session:
        assert [dict(message) for message in session.view(messages)] == last, "another process sends the same"
        carriers = sorted(view.conversation.left_out.shown)
        for index in carriers:
            session.restore(index)
        check_view(messages, session.view(messages))
