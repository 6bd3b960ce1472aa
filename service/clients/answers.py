"""What an answer of the server means to the adapters: JSON, an error that says why, or "ask again"."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any
from uuid import uuid4

import httpx2
import msgspec

from service.commands.sources.conversation import safe_id

TIMEOUT_SECONDS = 30.0
WAITS_SECONDS = (0.1, 0.5, 2.0)
"""Before the second, third and fourth attempt. What is sent may be sent twice: entries carry ids, other changes a key."""
_PASSING = {409, 429, 502, 503, 504}
_MOST_ENTRIES = 100
_LONGEST_WAIT_SECONDS = 10.0


class SashError(Exception):
    """The server said no: ``status``, and ``problem``, its answer (RFC 9457)."""

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        super().__init__(problem.get("detail") or problem.get("title") or f"HTTP {status}")
        self.status = status
        self.problem = problem


def options(url: str, api_key: str | None) -> dict[str, Any]:
    """How a client of httpx2 is made for a server."""
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    return {"base_url": url, "headers": headers, "timeout": TIMEOUT_SECONDS}


def path_of(session_id: str) -> str:
    """Where a session's conversation is: under its own id where that may be one, else under one made from it."""
    return f"/conversations/{safe_id(session_id)}"


def window_of(model: str | None, window: dict[str, Any], **fixed: str) -> dict[str, Any] | None:
    """What is asked of a window for ``model``; None without one. Raises ValueError for parameters without a model."""
    if model is None and window:
        raise ValueError(f"{', '.join(window)}: only a window has these, and a window needs a model")
    return None if model is None else query({"model": model, **fixed, **window})


def query(parameters: dict[str, Any]) -> dict[str, Any]:
    """Window parameters as they stand in a URL: those that are None are left to the server."""
    return {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in parameters.items()
        if value is not None
    }


def request_headers(method: str, path: str) -> dict[str, str]:
    """Headers of one request, however often it is sent: under its key a change is made once, whatever others do between.

    Entries have ids, so that an append needs no key.
    """
    headers = {"Content-Type": "application/json"}
    return headers if method == "GET" or path == "/messages" else {**headers, "Idempotency-Key": uuid4().hex}


def read(response: httpx2.Response) -> Any:
    """The answer's JSON, None for an empty one. Raises SashError."""
    if response.status_code < 400:
        return msgspec.json.decode(response.content) if response.content else None
    try:
        problem = msgspec.json.decode(response.content, type=dict[str, Any])
    except (msgspec.DecodeError, msgspec.ValidationError):
        problem = {"detail": f"HTTP {response.status_code} without a problem in it: that may be no Sash server."}
    raise SashError(response.status_code, problem)


def is_passing(response: httpx2.Response) -> bool:
    """Whether the same request may be answered in a moment: 409 says so where it has Retry-After."""
    return response.status_code in _PASSING and (response.status_code != 409 or "retry-after" in response.headers)


def wait_seconds(response: httpx2.Response, wait: float) -> float:
    """How long to wait: what the server asks for, when that is longer."""
    text = response.headers.get("retry-after", "")
    return max(wait, min(float(text), _LONGEST_WAIT_SECONDS)) if text.isascii() and text.isdigit() else wait


def appends(entries: Sequence[dict[str, Any]]) -> Iterator[bytes]:
    """The bodies of the appends for ``entries``, as many in each as a server takes.

    An entry without an id gets one, so that an append which is sent again, because its answer was lost, is stored once.
    """
    rest = iter({"id": uuid4().hex, **entry} for entry in entries)
    while part := list(islice(rest, _MOST_ENTRIES)):
        yield msgspec.json.encode({"messages": part})
