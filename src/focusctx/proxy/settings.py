"""Settings of the proxy, from the command line or one TOML file; the budgets and the certificate that they name."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
import ssl
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ..checks import check_types
from ..compressor import Focus
from ..egress import is_loopback
from ..errors import ConfigError
from .access import SHORTEST_TOKEN, NamedCaller
from .upstream import Upstream

PORT = 8400


@dataclass(frozen=True, slots=True)
class ModelBudget:
    """The budget for models whose name fits a pattern such as `gpt-5*`."""

    pattern: str
    budget: int

    def __post_init__(self) -> None:
        if self.budget < 0:
            raise ConfigError(f"the budget for the models {self.pattern} must be 0 or more, got {self.budget}")


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings for serving. `FocusConfig` says how to compress, and the session decides when."""

    upstreams: tuple[Upstream, ...]
    """The providers that requests may go to; the first is the default."""
    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = PORT
    """Port to listen on; 0 for any free one."""
    token: str | None = None
    """Token that callers must send; required to listen anywhere but on loopback."""
    admin_token: str | None = None
    """Token for the dashboard, its API and the metrics. If `token` is set, these are closed without this one."""
    store: str = ""
    """URL of the store of decisions; empty for a file in the user's data folder, or for memory in a dry run."""
    recall: bool = False
    """Offer the model the recall tool, and answer its calls in the proxy."""
    dry_run: bool = False
    """Forward everything unchanged, and show what would have been dropped."""
    body_limit: int = 64 * 1024 * 1024
    """Most bytes of a request that are held in memory; longer bodies are forwarded as they arrive."""
    only_if_it_pays: bool = False
    """Put money before the budget: never compress where that costs more than it saves."""
    log_text: bool = False
    """Write the text of dropped spans to the log."""
    refuse_websockets: bool = False
    """Refuse WebSockets. Agents that would keep their history at the provider then send it each time (Codex does)."""
    otel: bool = False
    """Send OpenTelemetry traces and metrics; the `OTEL_…` variables say where."""
    grace: float = 60.0
    """Seconds that streams have to finish when the proxy stops."""
    tls_cert: str | None = None
    """File with the certificate to show to callers; without one they call over plain HTTP."""
    tls_key: str | None = None
    """File with the certificate's key, if the file of the certificate does not hold it."""
    callers: tuple[NamedCaller, ...] = ()
    """Callers with their own tokens; if there are any, every request needs a token."""
    model_budgets: tuple[ModelBudget, ...] = ()
    """Budgets by model; the first pattern that fits counts."""

    def __post_init__(self) -> None:
        check_types(Settings, {setting.name: getattr(self, setting.name) for setting in fields(self)})
        if not self.token and not self.callers and not is_loopback(self.host):
            raise ConfigError(
                f"listening on {self.host} lets others in: set an access token first (FOCUSCTX_TOKEN), "
                "or listen on 127.0.0.1"
            )
        for name, token in (("access", self.token), ("admin", self.admin_token)):
            if token is not None and len(token) < SHORTEST_TOKEN:
                raise ConfigError(f"the {name} token is shorter than {SHORTEST_TOKEN} characters: use a longer one")
        self._check_tokens_differ()
        if not 0 <= self.port < 65536:
            raise ConfigError(f"port must be between 0 and 65535, got {self.port}")
        if self.tls_key is not None and self.tls_cert is None:
            raise ConfigError("a TLS key was given without a certificate: add --tls-cert")
        for name in ("body_limit", "grace"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} must be 0 or more, got {getattr(self, name)!r}")
        if loop := next((upstream.name for upstream in self.upstreams if self.is_own(upstream.url)), None):
            raise ConfigError(f"upstream {loop} is this proxy itself: set the URL of a provider, or another port")

    def _check_tokens_differ(self) -> None:
        tokens = [caller.token for caller in self.callers] + ([self.token] if self.token is not None else [])
        if self.admin_token is not None and self.admin_token in tokens:
            raise ConfigError(
                "the admin token is the access token, so every caller could open the dashboard: choose another"
            )
        if len(set(tokens)) < len(tokens):
            raise ConfigError("two callers have the same token: give each a token of its own")

    def is_own(self, url: str) -> bool:
        """True if requests to this URL would reach this proxy."""
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        names = {self.host, machine()} if is_everywhere(self.host) else {self.host}
        is_here = is_loopback(host) or is_everywhere(host)
        reaches = host in names or (is_here and (is_loopback(self.host) or is_everywhere(self.host)))
        return reaches and port == self.port

    @property
    def rule(self) -> str:
        """A sentence that says when histories are compressed."""
        if self.only_if_it_pays:
            return "only if it pays: over the budget, a history is compressed only where that saves money"
        return (
            "the budget is kept: a history waits for a cheaper moment until it is a quarter over the budget, "
            "and for the answer to large results until it is half over it"
        )

    @property
    def store_url(self) -> str:
        if self.store:
            return self.store
        return "memory" if self.dry_run else f"sqlite:///{_own_file()}"


class Budgets:
    """Chooses a conversation's compressor: by its caller, else by its model, else by its upstream, else the usual one.

    Of several patterns that fit a model, the first counts.
    """

    def __init__(self, focus: Focus, settings: Settings) -> None:
        self._focus = focus
        self._callers = {caller.name: caller.budget for caller in settings.callers}
        self._models = settings.model_budgets
        self._upstreams = {upstream.name: upstream.budget for upstream in settings.upstreams}
        self._made = {focus.config.budget: focus}

    def focus_for(self, caller: str, model: str, upstream: str) -> Focus:
        """Return the compressor with the budget of a conversation."""
        budget = self._budget(caller, model, upstream)
        if budget not in self._made:
            self._made[budget] = Focus(self._focus.draft, config=self._focus.config.with_changes(budget=budget))
        return self._made[budget]

    def _budget(self, caller: str, model: str, upstream: str) -> int:
        of_model = next((each.budget for each in self._models if fnmatchcase(model, each.pattern)), None)
        for budget in (self._callers.get(caller), of_model, self._upstreams.get(upstream)):
            if budget is not None:
                return budget
        return self._focus.config.budget


_IN_FILE: dict[str, type] = {
    "listen": str,
    "token": str,
    "admin_token": str,
    "store": str,
    "recall": bool,
    "dry_run": bool,
    "body_limit": int,
    "only_if_it_pays": bool,
    "log_text": bool,
    "refuse_websockets": bool,
    "otel": bool,
    "grace": float,
    "tls_cert": str,
    "tls_key": str,
    "upstreams": dict,
    "compress": dict,
    "callers": dict,
    "budgets": dict,
}


@dataclass(frozen=True, slots=True)
class File:
    """Contents of a TOML file: settings for serving and for compressing."""

    serve: dict[str, Any] = field(default_factory=dict)
    compress: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> File:
        try:
            serve = tomllib.loads(path.read_text("utf-8"))
            check(serve, _IN_FILE)
            compress = serve.pop("compress", {})
            if "listen" in serve:
                serve["host"], serve["port"] = address(serve.pop("listen"))
            serve |= {name: _secret(serve[name]) for name in ("token", "admin_token") if name in serve}
            if upstreams := serve.pop("upstreams", {}):
                serve["upstreams"] = tuple(_upstream(name, table) for name, table in upstreams.items())
            if callers := serve.pop("callers", {}):
                serve["callers"] = tuple(_caller(name, table) for name, table in callers.items())
            if budgets := serve.pop("budgets", {}):
                check(budgets, dict.fromkeys(budgets, int), "[budgets] ")
                serve["model_budgets"] = tuple(ModelBudget(pattern, number) for pattern, number in budgets.items())
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, ConfigError) as error:
            raise ConfigError(f"{path}: {error}") from error
        return cls(serve, compress)


_KINDS = {str: "a text", bool: "true or false", int: "a whole number", float: "a number", dict: "a table"}


def check(content: dict[str, Any], kinds: Mapping[str, type], where: str = "") -> None:
    """Reject unknown names and values of the wrong type."""
    for name, value in content.items():
        if name not in kinds:
            raise ConfigError(f"{where}unknown {name}; known: {', '.join(sorted(kinds))}")
        kind = kinds[name]
        if type(value) is not kind and not (kind is float and type(value) is int):
            raise ConfigError(f"{where}{name} must be {_KINDS[kind]}, not {value!r}")


_ADDRESS = re.compile(r"(\[(?P<six>[^\]\s]+)\]|(?P<host>[^:/\[\]\s]*))(:(?P<port>[0-9]+))?")


def address(text: str) -> tuple[str, int]:
    """Parse `HOST:PORT`, `HOST` or `PORT`; IPv6 in brackets."""
    if text.isascii() and text.isdigit():
        return "127.0.0.1", int(text)
    parts = _ADDRESS.fullmatch(text)
    if not parts or not text:
        raise ConfigError(f"{text!r} is not an address: write HOST:PORT, with IPv6 in brackets")
    return parts["six"] or parts["host"] or "127.0.0.1", int(parts["port"] or PORT)


def machine() -> str:
    """Return the name by which others may know this machine."""
    return socket.gethostname().lower()


def is_everywhere(host: str) -> bool:
    """True if listening on this host means listening on every address of the machine."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def _upstream(name: str, table: object) -> Upstream:
    if not isinstance(table, dict):
        raise ConfigError(f"[upstreams.{name}] must be a table with url, key and budget")
    check(table, {"url": str, "key": str, "budget": int}, f"[upstreams.{name}] ")
    text = f"{name}={table['url']}" if "url" in table else name
    upstream = Upstream.named(text, _secret(table["key"]) if "key" in table else None)
    return replace(upstream, budget=table.get("budget"))


def _caller(name: str, table: object) -> NamedCaller:
    if not isinstance(table, dict) or "token" not in table:
        raise ConfigError(f"[callers.{name}] must be a table with token and, if you like, budget")
    check(table, {"token": str, "budget": int}, f"[callers.{name}] ")
    return NamedCaller(name, _secret(table["token"]), table.get("budget"))


def _secret(text: str) -> str:
    """Read a secret from the environment (`env:NAME`) or from a separate file (`file:PATH`).

    The settings themselves get copied around, so secrets are not written into them.
    """
    kind, _, name = text.partition(":")
    if kind == "file":
        return _secret_file(Path(name))
    if kind != "env":
        raise ConfigError(
            "a secret must be given as env:NAME, the environment variable that holds it, or as file:PATH, the file"
        )
    if not (value := os.environ.get(name)):
        raise ConfigError(f"the environment variable {name} is not set")
    return value


def _secret_file(path: Path) -> str:
    try:
        value = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not a text file"
        raise ConfigError(f"the file of a secret cannot be read: {path}: {why}") from error
    if not value:
        raise ConfigError(f"the file of a secret is empty: {path}")
    return value


def _own_file() -> Path:
    folder = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "focusctx"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder / "proxy.db"


def tls_context(settings: Settings) -> ssl.SSLContext | None:
    """Return the context with the certificate to show to callers; None if they call over plain HTTP."""
    if settings.tls_cert is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.set_alpn_protocols(["http/1.1"])
    load_certificate(context, settings.tls_cert, settings.tls_key)
    return context


def load_certificate(context: ssl.SSLContext, certificate: str, key: str | None) -> None:
    """Show this certificate (PEM) on connections that begin from now on; without `key`, its file holds the key, too."""
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key, _no_password)
        context.load_cert_chain(certificate, key, _no_password)  # after one that works: it may change half of it
    except ssl.SSLError as error:
        why = "certificate and key do not belong together" if "MISMATCH" in str(error) else "it must be in PEM format"
        raise ConfigError(f"the certificate {certificate} cannot be used: {why} ({error.reason})") from error
    except OSError as error:
        name = key if key and error.filename is None else error.filename or certificate
        raise ConfigError(f"the certificate or its key cannot be read: {name}: {error.strerror or error}") from error


def _no_password() -> str:
    """Refuse an encrypted key: a server cannot ask for its password."""
    raise ConfigError("the key of the certificate is encrypted: save it without a password, readable by its owner only")
