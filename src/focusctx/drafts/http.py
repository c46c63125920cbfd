"""Ask a model server: JSON posted with retries, several requests at once, and what its answers and refusals say."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import random
import re
from collections.abc import AsyncGenerator, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from time import time
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from ..egress import proxy_for
from ..errors import ConfigError, DraftError, DraftRefused, DraftTimeout, DraftUnavailable

if TYPE_CHECKING:
    import aiohttp

_log = logging.getLogger(__name__)
RETRIES = 2
"""Times that a request is repeated after a transient failure."""

_LONGEST_WAIT = 10.0
"""Longest wait before a retry in seconds, whatever the server asks for: the event's deadline is near."""

_PASSING = frozenset({408, 409, 425, 429})

T = TypeVar("T")


class BadRequest(DraftRefused):
    """The server rejects the request itself. It may name the parameter at fault."""

    def __init__(self, text: str, param: str | None, body: str) -> None:
        super().__init__(text)
        self.param = param
        self.body = body


class _Passing(DraftUnavailable):
    """A transient failure: a retry may succeed."""

    def __init__(self, text: str, retry_after: float | None = None) -> None:
        super().__init__(text)
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A URL to post to, with its timeout and retries."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    timeout: float | None = None
    """Seconds that one request may take; None for as long as the event's own `deadline` allows."""
    retries: int = RETRIES
    backoff: float = 0.5
    """Seconds before the first retry; doubled for each further one."""

    def __post_init__(self) -> None:
        if self.timeout is not None and self.timeout <= 0:
            raise ConfigError(f"timeout must be above 0, got {self.timeout!r}")
        if self.retries < 0:
            raise ConfigError(f"retries must be 0 or more, got {self.retries!r}")
        proxy_for(self.url)  # an unusable proxy shows at the start, not in the first event

    async def post(self, session: aiohttp.ClientSession, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the JSON object that the server answers. Raises a `DraftError` if there is none."""
        for attempt in range(self.retries):
            try:
                return await self._post_once(session, body)
            except _Passing as failure:
                await asyncio.sleep(self._wait(attempt, failure.retry_after))
        try:
            return await self._post_once(session, body)
        except _Passing as failure:
            raise DraftUnavailable(f"{failure} (tried {self.retries + 1} times)") from failure.__cause__

    async def _post_once(self, session: aiohttp.ClientSession, body: Mapping[str, Any]) -> dict[str, Any]:
        import aiohttp

        try:
            async with session.post(
                self.url,
                json=body,
                headers=self.headers,
                timeout=aiohttp.ClientTimeout(total=self.timeout),
                proxy=proxy_for(self.url),
                allow_redirects=False,  # the key must not reach any other server
            ) as response:
                status, headers, raw = response.status, response.headers, await response.read()
        except TimeoutError as error:
            said = f"{self._host} gave no answer within {self.timeout:g} s, the `timeout` given to this draft"
            raise DraftTimeout(said) from error
        except (aiohttp.ClientError, OSError) as error:
            # For a failed connection, aiohttp's message would repeat the host and add its TLS settings.
            cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
            reason = str(cause) or type(cause).__name__
            raise _Passing(self._say(f"no answer from {self._host}: {reason}")) from error
        if 200 <= status < 300:
            return self._read(raw)
        raise self._refusal(status, headers, raw)

    def malformed(self, what: str, sent: object) -> DraftUnavailable:
        """Return the error for an answer that arrived but is not what was requested."""
        return DraftUnavailable(self._say(f"{self._host} sent {what}: {sent}"))

    def _read(self, raw: bytes) -> dict[str, Any]:
        try:
            answer = json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise self.malformed("an answer that is not JSON", _one_line(raw)) from error
        if not isinstance(answer, dict):
            raise self.malformed("an answer that is not a JSON object", _one_line(raw))
        return answer

    def _refusal(self, status: int, headers: Mapping[str, str], raw: bytes) -> DraftUnavailable | DraftRefused:
        message, details = _complaint(raw)
        text = self._say(f"{self._host} answered {status}: {message}")
        # OpenAI reports an empty account with the status of a busy server; waiting does not fill it.
        if (status in _PASSING or status >= 500) and details.get("code") != "insufficient_quota":
            return _Passing(text, retry_after(headers.get("Retry-After")))
        if status in {400, 422}:
            param = details.get("param")
            return BadRequest(text, param if isinstance(param, str) else None, raw.decode(errors="replace"))
        return DraftRefused(text)

    def _wait(self, attempt: int, retry_after: float | None) -> float:
        if retry_after is not None:
            return min(retry_after, _LONGEST_WAIT)
        # Jitter, or all sketches of all agents would retry at the same moment.
        return min(self.backoff * 2.0**attempt * random.uniform(0.5, 1.0), _LONGEST_WAIT)

    def _say(self, text: str) -> str:
        """Cut the text to a readable length, and mask the values of our headers: keys are among them."""
        for value in self.headers.values():
            secret = value.removeprefix("Bearer ")
            if len(secret) >= 8:
                text = text.replace(secret, "***")
        return text if len(text) <= 300 else text[:299] + "…"

    @property
    def _host(self) -> str:
        return urlsplit(self.url).netloc


async def as_they_come(calls: Iterable[Coroutine[Any, Any, T]]) -> AsyncGenerator[T, None]:
    """Run calls in parallel: yield the result of each that succeeds, then raise the first `DraftError`, if one failed.

    Closing the generator early cancels the calls that are still running and waits until they have ended.
    """
    tasks = [asyncio.create_task(call) for call in calls]
    failure: DraftError | None = None
    try:
        for finished in asyncio.as_completed(tasks):
            try:
                result = await finished
            except DraftError as error:
                failure = failure or error
            else:
                yield result
        if failure is not None:
            raise failure
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def open_session() -> aiohttp.ClientSession:
    """Open a session for one call of `sample`: events are rare, and each may run in its own loop."""
    import aiohttp

    return aiohttp.ClientSession()


def base_url(text: str) -> str:
    """Return the URL without a trailing slash, or raise a `ConfigError` if it is not valid."""
    text = text.strip().rstrip("/")
    try:
        parts = urlsplit(text)
        _ = parts.port  # raises if it is not a number
    except ValueError as error:
        raise ConfigError(f"invalid base URL {text!r}: {error}") from error
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigError(f"a base URL starts with http:// or https:// and names a host, got {text!r}")
    if parts.username is not None:
        raise ConfigError("put credentials in api_key or headers, not in the base URL")
    return text


def _complaint(raw: bytes) -> tuple[str, Mapping[str, Any]]:
    """Return the server's error message, and the fields that came with it."""
    try:
        answer = json.loads(raw)
    except (ValueError, RecursionError):
        return _one_line(raw), {}
    details = answer.get("error", answer) if isinstance(answer, dict) else answer
    if not isinstance(details, dict):
        return str(details), {}
    message = details.get("message") or details.get("detail") or details
    return message if isinstance(message, str) else json.dumps(message), details


def _one_line(raw: bytes) -> str:
    """Return a body as one line of text; error pages have a lot of white space."""
    return re.sub(r"\s+", " ", raw.decode(errors="replace")).strip() or "an empty body"


def retry_after(value: str | None) -> float | None:
    """Return the seconds to wait, from a header that holds seconds or a date."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time()
        except (ValueError, OverflowError):
            return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None


class RejectedParameters:
    """The optional parameters that one draft's server has refused so far."""

    def __init__(self, optional: Iterable[str]) -> None:
        self._optional = frozenset(optional)
        self._names: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def add(self, name: str) -> None:
        self._names.add(name)

    def strip(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the body without the parameters that the server has refused."""
        return {name: value for name, value in body.items() if name not in self._names}

    def learn(self, refusal: BadRequest, body: Mapping[str, Any]) -> str | None:
        """Return the optional parameter of `body` that the refusal names, if any, and leave it out from now on."""
        name = _named(refusal, self._optional.intersection(body))
        if name is not None:
            _log.info("the draft's server does not take %r, leaving it out: %s", name, refusal)
            self._names.add(name)
        return name


def _named(refusal: BadRequest, names: Iterable[str]) -> str | None:
    if re.search(r"context.(length|window)", refusal.body, re.IGNORECASE):
        return None  # the prompt is too long: leaving out max_tokens, if that is named too, does not help
    if refusal.param is not None:
        return refusal.param if refusal.param in names else None
    # The first name is the refused one: the parameter to use instead is named after it.
    # After a backslash it is not a name, but the n of a JSON \n.
    found = ((re.search(rf"(?<![\w\\-]){re.escape(name)}(?![\w-])", refusal.body), name) for name in names)
    return min(((match.start(), name) for match, name in found if match), default=(0, None))[1]


def text_of(content: object) -> str:
    """Return the text of a message's content: a string, or the text blocks among others; "" if there is none."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = (block.get("text") for block in content if isinstance(block, dict) and block.get("type") == "text")
    return "".join(text for text in texts if isinstance(text, str))


def count(value: object) -> int:
    """Return a token count from a server's JSON; 0 for anything else."""
    return value if isinstance(value, int) and value > 0 else 0
