"""One OpenAI-compatible HTTP endpoint: an answer has a size limit and a time limit, and failures make all requests pause.

The pause is one second after the first failure, twice as long after each further one, and five minutes at most. The log
says why a request failed, and never quotes what was sent or answered.
"""

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from sash.operations.logging import get_logger

if TYPE_CHECKING:
    import httpx2

_LONGEST_PAUSE_SECONDS: Final = 300.0
_log = get_logger()


class EndpointFailed(Exception):  # noqa: N818 - it reads as what happened
    """The endpoint gave no usable answer; the message says why, and quotes nothing."""


class Endpoint:
    """Sends requests to ``url``. ``event`` is a failure's log event. ``headers`` are sent in place of a bearer's key."""

    def __init__(
        self,
        event: str,
        *,
        url: str,
        key: str | None,
        timeout_seconds: float,
        limit_bytes: int,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.timeout_seconds = timeout_seconds
        self.first_pause_seconds = 1.0
        """The pause after the first failure."""
        self._event = event
        self._url = url
        bearer = {"Authorization": f"Bearer {key}"} if key else {}
        self._headers = {"Content-Type": "application/json", **(bearer if headers is None else headers)}
        self._limit_bytes = limit_bytes
        self._http: httpx2.AsyncClient | None = None
        self._failures = 0
        self._pause_ends = 0.0

    @property
    def pause_seconds(self) -> float:
        """How long the endpoint must not be asked, in seconds; 0 when it may be asked now."""
        return max(0.0, self._pause_ends - time.monotonic())

    async def post(self, body: bytes) -> bytes:
        """Return the body of the answer to a JSON ``body``. Raises EndpointFailed."""
        import httpx2  # noqa: PLC0415 - a service without endpoints starts faster

        if self._http is None:
            self._http = httpx2.AsyncClient(timeout=self.timeout_seconds, headers=self._headers)
        try:
            async with self._http.stream("POST", self._url, content=body) as answer:
                return await self._received(answer)
        except httpx2.HTTPError as error:
            raise EndpointFailed(type(error).__name__) from None

    async def _received(self, answer: "httpx2.Response") -> bytes:
        if answer.status_code != 200:
            raise EndpointFailed(f"status {answer.status_code}")
        received = bytearray()
        async for chunk in answer.aiter_bytes():
            received += chunk
            if len(received) > self._limit_bytes:
                raise EndpointFailed(f"an answer of more than {self._limit_bytes // 1024**2} MiB")
        return bytes(received)

    async def ask(self, body: bytes) -> bytes:
        """As ``post``, within the time limit, which is for the whole answer. Raises EndpointFailed."""
        try:
            async with asyncio.timeout(self.timeout_seconds):
                return await self.post(body)
        except TimeoutError:
            raise EndpointFailed(f"no answer within {self.timeout_seconds:g} seconds") from None

    def succeeded(self) -> None:
        """Reset the pauses: the next one is the shortest."""
        self._failures = 0

    def failed(self, error: Exception) -> None:
        """Write the failure to the log, and pause."""
        self._failures += 1
        pause = min(_LONGEST_PAUSE_SECONDS, self.first_pause_seconds * 2 ** min(self._failures - 1, 20))
        self._pause_ends = time.monotonic() + pause
        why = str(error) if isinstance(error, EndpointFailed) else type(error).__name__
        _log.warning(self._event, why=why, failures=self._failures, pause_seconds=round(pause, 2))

    async def close(self) -> None:
        """Close the connections."""
        if self._http is not None:
            await self._http.aclose()
