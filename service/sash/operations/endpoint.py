"""One OpenAI-compatible HTTP endpoint: an answer has a size limit and a time limit, and failures make all requests pause.

The pause is one second after the first failure, twice as long after each further one, and five minutes at most. The log
says why a request failed, with the endpoint's own error, and never quotes what was sent.
"""

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from sash.operations.logging import get_logger
from sash.operations.upstream_answers import failure_of
from sash.operations.upstreams import Name, Upstreams
from sash.store.data.layout import Target

if TYPE_CHECKING:
    import httpx2

_LONGEST_PAUSE_SECONDS: Final = 300.0
_LONGEST_ERROR_BYTES: Final = 64 * 1024
_EVENTS: Final[dict[Name, str]] = {"summarizer": "summary not written", "embeddings": "not embedded"}
_log = get_logger()


class EndpointFailed(Exception):  # noqa: N818 - it reads as what happened
    """The endpoint gave no usable answer; the message says why, and quotes nothing that was sent."""


class Endpoint:
    """Sends requests to ``url``. ``headers`` are sent in place of a bearer's key."""

    def __init__(
        self,
        name: Name,
        upstreams: Upstreams,
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
        self._name: Name = name
        self._upstreams = upstreams
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

    async def post(self, body: bytes, target: Target | None, model: str) -> bytes:
        """Return the body of the answer to a JSON ``body``, about a conversation. Raises EndpointFailed."""
        import httpx2  # noqa: PLC0415 - a service without endpoints starts faster

        if self._http is None:
            self._http = httpx2.AsyncClient(timeout=self.timeout_seconds, headers=self._headers)
        call = self._upstreams.begin(self._name, target, model)
        try:
            async with self._http.stream("POST", self._url, content=body, headers=call.headers) as answer:
                received = await self._received(answer, body)
        except httpx2.HTTPError as error:
            why = ": ".join(filter(None, (type(error).__name__, str(error))))
            call.failed(why)
            raise EndpointFailed(why) from None
        except EndpointFailed as error:
            call.failed(str(error))
            raise
        except asyncio.CancelledError:
            call.failed("no answer in time")
            raise
        call.answered(received)
        return received

    async def _received(self, answer: "httpx2.Response", sent: bytes) -> bytes:
        received = bytearray()
        if answer.status_code != 200:
            async for chunk in answer.aiter_bytes():
                received += chunk
                if len(received) > _LONGEST_ERROR_BYTES:
                    break
            raise EndpointFailed(failure_of(answer.status_code, bytes(received), sent))
        async for chunk in answer.aiter_bytes():
            received += chunk
            if len(received) > self._limit_bytes:
                raise EndpointFailed(f"an answer of more than {self._limit_bytes // 1024**2} MiB")
        return bytes(received)

    async def ask(self, body: bytes, target: Target | None, model: str) -> bytes:
        """As ``post``, within the time limit, which is for the whole answer. Raises EndpointFailed."""
        try:
            async with asyncio.timeout(self.timeout_seconds):
                return await self.post(body, target, model)
        except TimeoutError:
            raise EndpointFailed(f"no answer within {self.timeout_seconds:g} seconds") from None

    def succeeded(self) -> None:
        """Reset the pauses: the next one is the shortest."""
        self._failures = 0
        self._upstreams.served(self._name)

    def failed(self, error: Exception) -> None:
        """Write the failure to the log, and pause."""
        self._failures += 1
        pause = min(_LONGEST_PAUSE_SECONDS, self.first_pause_seconds * 2 ** min(self._failures - 1, 20))
        self._pause_ends = time.monotonic() + pause
        why = str(error) if isinstance(error, EndpointFailed) else type(error).__name__
        self._upstreams.failed(self._name, why)
        _log.warning(_EVENTS[self._name], why=why, failures=self._failures, pause_seconds=round(pause, 2))

    async def close(self) -> None:
        """Close the connections."""
        if self._http is not None:
            await self._http.aclose()
