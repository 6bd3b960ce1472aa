"""One request and its answer, as the middleware keeps them while the request runs."""

import asyncio
import math
import time
from typing import Any

import msgspec

from sash.api.middleware.asgi import Headers, Send
from sash.api.middleware.callers import Callers
from sash.api.middleware.drain import Drain
from sash.api.middleware.large import Making, Sending
from sash.api.middleware.request_body import RequestBody
from sash.operations.tracing import Span
from sash.problems import DeadlineExceeded, Problem, RequestTimeout
from sash.store.data.claims import Claim


class Shared(msgspec.Struct, frozen=True):
    """What all exchanges of a process share: keys, the deadline, draining, and the budgets of large answers."""

    keys: Callers
    timeout_seconds: float
    drain: Drain
    making: Making
    sending: Sending


class Exchange(msgspec.Struct, eq=False):
    """One request and its answer."""

    shared: Shared
    pass_on: Send
    task: asyncio.Task[Any]
    method: str
    http_version: str
    started: float
    deadline: float
    """In seconds of ``time.monotonic``, like ``started``."""
    line: dict[str, Any]
    headers: dict[bytes, bytes]
    """The request's headers; the first of a repeated name."""
    more: Headers
    """Headers of every answer, and those that this request adds."""
    claim: Claim | None = None
    """The claim of its Idempotency-Key, once it is taken."""
    shown: bytes = b""
    """A digest of the message that the answer shows, of an operation that a key binds to it."""
    body: RequestBody | None = None
    span: Span | None = None
    charge: int = 0
    """Bytes charged to the budget of answers being made (``large.Making``)."""
    is_page: bool = True
    """Whether the charge is that of a page, whose size was not known."""
    was_cut: bool = False
    cut_because: str = ""
    """Why it was cut, if not at the deadline."""
    begun_seconds: float = 0.0
    """Seconds until the answer began, of one that goes on for as long as its reader stays; else 0."""
    status: int = 0
    size_bytes: int = 0

    async def send_piece(self, body: bytes, *, more: bool) -> None:
        """Pass on a piece of a large body."""
        self.size_bytes += len(body)
        await self.pass_on({"type": "http.response.body", "body": body, "more_body": more})

    def extend(self) -> None:
        """Move the deadline to a full timeout from now: a transfer that makes progress may go on."""
        if not self.was_cut:
            self.deadline = max(self.deadline, time.monotonic() + self.shared.timeout_seconds)

    def goes_on(self, running: set[Any]) -> None:
        """Note that the answer goes on for as long as its reader stays: it has no deadline, and is not in progress."""
        self.begun_seconds, self.deadline = time.monotonic() - self.started, math.inf
        running.discard(self)

    def cut(self, why: str = "") -> None:
        """Cancel the request's task, at the deadline or for another reason, which is a sentence."""
        if not self.was_cut:
            self.was_cut, self.deadline, self.cut_because = True, math.inf, why
            self.task.cancel()

    def ends_by_cut(self) -> bool:
        """Whether only ``cut`` cancelled the request's task. The cancellation is withdrawn."""
        return self.was_cut and self.task.uncancel() == 0

    def too_slow(self) -> Problem:
        """The problem of a request that was cut: RequestTimeout if the client's body did not arrive."""
        if self.cut_because:
            return DeadlineExceeded(self.cut_because)
        seconds = self.shared.timeout_seconds
        if self.body is not None and self.body.waiting:
            return RequestTimeout(f"The body did not arrive within {seconds:g} seconds.")
        return DeadlineExceeded(f"The request did not finish in {seconds:g} seconds; try again.")

    async def make_room(self, size_bytes: int = 0) -> None:
        """Wait until the budget of answers being made has room for so many bytes of this one, or for a page."""
        self.made(None)  # first: two answers that each hold a part, and wait for more, would wait for ever
        self.charge = await self.shared.making.take(size_bytes)
        self.is_page = not size_bytes

    def made(self, size_bytes: int | None) -> None:
        """Give the charge back. ``size_bytes`` is the size of the answer, and None if none was made."""
        charge, self.charge = self.charge, 0
        if charge:
            self.shared.making.give(charge, size_bytes if self.is_page else None)
