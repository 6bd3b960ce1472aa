"""The errors of the client of a Sash server, and when a request is worth another attempt.

``problem`` may be passed on to a browser, as ``application/problem+json`` with the ``headers``: it names no address. The
message, which goes to a log, names the server.
"""

import logging
from collections.abc import Mapping
from typing import Any, Final, Self

import httpx2

_log = logging.getLogger("sash_client.client")
PASSING: Final = frozenset({408, 429, 502, 503, 504})
"""Statuses after which the same request may be answered otherwise, also without ``Retry-After``."""
LONGEST_WAIT_SECONDS: Final = 10.0
_SOON_SECONDS: Final = 2


class SashError(Exception):
    """The server refused a request; ``status`` and ``problem`` (RFC 9457) are its answer."""

    def __init__(
        self,
        status: int,
        problem: Mapping[str, Any],
        *,
        message: str = "",
        retry_after_seconds: int | None = None,
    ) -> None:
        """``message`` is by default the problem's ``detail``."""
        super().__init__(message or problem.get("detail") or problem.get("title") or f"HTTP {status}")
        self.status = status
        self.problem: dict[str, Any] = {"type": "about:blank", "title": "The request failed", "status": status or 503}
        self.problem |= problem
        self.retry_after_seconds = retry_after_seconds

    @property
    def headers(self) -> dict[str, str]:
        """The headers of an answer that passes ``problem`` on."""
        after = self.retry_after_seconds
        return {"Content-Type": "application/problem+json", **({} if after is None else {"Retry-After": str(after)})}

    @property
    def exists(self) -> bool:
        """Whether the conversation to create exists. Another 409 means that a first attempt is still running."""
        return self.problem.get("type") == "/problems/conversation-exists"

    def is_absent(self, path: str) -> bool:
        """Whether there is nothing at this path. With a path in the URL given, another path is not found."""
        return (self.problem["type"], self.problem.get("instance")) == ("/problems/not-found", path)

    def also(self, **members: Any) -> Self:
        """The same error, with more members of ``problem``."""
        return type(self)(
            self.status,
            {**self.problem, **members},
            message=str(self),
            retry_after_seconds=self.retry_after_seconds,
        )


class SashUnreachable(SashError):  # noqa: N818 - it reads as what happened
    """The server did not answer, or its answer broke off: ``status`` is 0. A change may or may not be stored."""


def unreachable(error: httpx2.RequestError) -> SashUnreachable:
    """The error that says which server did not answer."""
    server = error.request.url.copy_with(raw_path=b"/", userinfo=b"")
    why = str(error) or type(error).__name__
    problem = {
        "type": "/problems/unreachable",
        "title": "Sash does not answer",
        "status": 503,
        "detail": "The service that stores the chat does not answer: send the request again after Retry-After seconds, "
        "with the same ids.",
    }
    message = f"{server} does not answer ({why}). Is the server running there (sash serve)?"
    return SashUnreachable(0, problem, message=message, retry_after_seconds=_SOON_SECONDS)


def refusal(response: httpx2.Response) -> SashError:
    """The refusal in a response. Where it is no problem of Sash, the message says what came instead."""
    value, url = read_json(response), response.url.copy_with(query=None, userinfo=b"")
    status = response.status_code
    if isinstance(value, dict) and not response.is_success and not response.has_redirect_location:
        return SashError(status, value, retry_after_seconds=_asked_seconds(response))
    message = f"HTTP {status} without JSON of Sash: {url} may be no Sash server."
    if response.has_redirect_location:
        message = f"{url} leads to {response.headers['location']}: use the address of the server there."
    problem = {
        "type": "/problems/foreign-answer",
        "title": "Another program answered in place of Sash",
        "status": 502,
        "detail": "The service that stores the chat cannot be reached: another program answers in its place.",
    }
    return SashError(status, problem, message=message, retry_after_seconds=_asked_seconds(response))


def pause_seconds(response: httpx2.Response, wait: float | None) -> float | None:
    """How long to wait before the request is sent again, at least ``wait``; None when the answer is final.

    An answer is final if the server asks for a longer pause than ``LONGEST_WAIT_SECONDS``.
    """
    if wait is None or response.status_code < 400:
        return None
    asked = _asked_seconds(response)
    if asked is not None:
        return max(wait, float(asked)) if asked <= LONGEST_WAIT_SECONDS else None
    return wait if response.status_code in PASSING else None


def _asked_seconds(response: httpx2.Response) -> int | None:
    asked = response.headers.get("retry-after", "")
    return int(asked) if asked.isascii() and asked.isdigit() and len(asked) < 10 else None


def tell_pause(answer: object, seconds: float) -> None:
    """Log that a request is sent again after a pause. Without a handler, Python prints it on standard error."""
    _log.warning("%s Trying again in %g s.", answer, seconds)


def read_json(response: httpx2.Response) -> Any:
    """The response's JSON; None if it is none."""
    try:
        return response.json()
    except (ValueError, RecursionError):
        return None
