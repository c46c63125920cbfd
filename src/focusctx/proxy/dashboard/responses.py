"""Responses to the browser, with headers so that no other page may frame or read them, and nothing is cached."""

from __future__ import annotations

import json
from functools import cache
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from aiohttp import web

from ..answer import refusal as plain_refusal

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    ),
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_FORM = """\
<form method="post" action="/ui/login">
<label for="token">Admin token</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus>
<button>Open the dashboard</button>
</form>"""


@cache
def page_files() -> dict[str, str]:
    """Return the page's files by name. They contain nothing about any conversation."""
    shared = files("focusctx").joinpath("look.css")
    own = files(__package__).joinpath("page").iterdir()
    return {file.name: file.read_text("utf-8") for file in (shared, *own)}


def page(name: str) -> web.Response:
    kind = _KINDS[name.rpartition(".")[2]]
    return web.Response(text=page_files()[name], content_type=kind, charset="utf-8", headers=HEADERS)


def login_page(words: str, *, form: bool) -> web.Response:
    """Return the page for visitors without access: `words`, and the login form if `form` is set."""
    text = Template(page_files()["login.html"]).substitute(words=escape(words), form=_FORM if form else "")
    # Under `no-referrer` a browser does not send the page that a form came from.
    headers = {**HEADERS, "Referrer-Policy": "same-origin"}
    return web.Response(status=403, text=text, content_type="text/html", charset="utf-8", headers=headers)


def data(value: Any, status: int = 200) -> web.Response:
    return web.Response(status=status, text=json.dumps(value), content_type="application/json", headers=HEADERS)


def refusal(status: int, why: str) -> web.Response:
    return plain_refusal(status, why, HEADERS.items())
