"""Embeddings of texts, from any endpoint with OpenAI's ``/v1/embeddings``.

A vector is cut to its first 256 numbers, as models are trained to put most information first (Kusupati et al. 2022). The
numbers are stored as signed bytes, scaled so that the largest becomes 127: only the vector's direction is compared.

After a failure or a timeout, all embedding pauses: for one second at first, then twice as long each time, up to five
minutes. The log never contains the texts.
"""

import asyncio
import time
from array import array
from collections.abc import Sequence
from typing import Final

import httpx2
import msgspec

from service.operations.logging import get_logger
from service.operations.metrics import Metrics

DIMENSIONS: Final = 256
BATCH: Final = 64
"""Texts of one request."""
_CHARACTERS: Final = 8_000
"""The start of each text that is sent: endpoints refuse texts over their model's limit, usually 8,192 tokens."""
_QUESTION_SECONDS: Final = 0.5
_LARGEST_ANSWER: Final = 32 * 1024 * 1024
_log = get_logger()


class NotEmbedded(Exception):  # noqa: N818 - named after the outcome
    """The endpoint gave no embeddings, or is paused. The message gives the reason and quotes no text."""


class _Embedding(msgspec.Struct):
    embedding: list[float]
    index: int


class _Answer(msgspec.Struct):
    data: list[_Embedding]


_decode = msgspec.json.Decoder(_Answer).decode


class Embedder:
    """A client of the endpoint. ``first_pause_seconds`` is the pause after a first failure."""

    def __init__(
        self,
        metrics: Metrics,
        *,
        url: str,
        model: str,
        key: str | None,
        timeout_seconds: float = 30.0,
        first_pause_seconds: float = 1.0,
    ) -> None:
        self.model = model
        self._metrics = metrics
        self._url = url
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._timeout_seconds = timeout_seconds
        self._first_pause_seconds = first_pause_seconds
        self._http: httpx2.AsyncClient | None = None
        self._failures = 0
        self._rests_until = 0.0

    @property
    def rests_seconds(self) -> float:
        """Seconds until the pause ends; 0 if there is none."""
        return max(0.0, self._rests_until - time.monotonic())

    async def embed(self, texts: Sequence[str], *, timeout_seconds: float | None = None) -> list[bytes]:
        """The vector of each text, empty for a blank text. Raises NotEmbedded."""
        wanted = [index for index, text in enumerate(texts) if text.strip()]
        vectors = [b""] * len(texts)
        for start in range(0, len(wanted), BATCH):
            batch = wanted[start : start + BATCH]
            found = await self._ask([texts[index][:_CHARACTERS] for index in batch], timeout_seconds)
            for index, vector in zip(batch, found, strict=True):
                vectors[index] = vector
        return vectors

    async def vector_of(self, text: str) -> bytes:
        """The vector of a question, during a request; empty if the endpoint fails or takes over half a second."""
        try:
            return (await self.embed([text], timeout_seconds=_QUESTION_SECONDS))[0]
        except NotEmbedded:
            return b""

    async def close(self) -> None:
        """Close the connections."""
        if self._http is not None:
            await self._http.aclose()

    async def _ask(self, texts: list[str], timeout_seconds: float | None) -> list[bytes]:
        if self.rests_seconds:
            raise NotEmbedded("the endpoint failed a moment ago")
        if self._http is None:
            self._http = httpx2.AsyncClient(timeout=self._timeout_seconds, headers=self._headers)
        body = msgspec.json.encode({"model": self.model, "input": texts, "encoding_format": "float"})
        started = time.perf_counter()
        try:
            async with asyncio.timeout(timeout_seconds or self._timeout_seconds):
                vectors = await asyncio.to_thread(_vectors_of, await self._post(self._http, body), len(texts))
        except (NotEmbedded, httpx2.HTTPError, TimeoutError) as error:
            self._metrics.embedded(0, time.perf_counter() - started)
            # A request's shorter timeout is no failure of the endpoint.
            if timeout_seconds is None or not isinstance(error, TimeoutError):
                self._fail(error)
            raise NotEmbedded(str(error) or type(error).__name__) from None
        self._failures = 0
        self._metrics.embedded(len(texts), time.perf_counter() - started)
        return vectors

    def _fail(self, error: Exception) -> None:
        self._failures += 1
        pause = min(300.0, self._first_pause_seconds * 2 ** min(self._failures - 1, 20))
        self._rests_until = time.monotonic() + pause
        why = str(error) if isinstance(error, NotEmbedded) else type(error).__name__
        _log.warning("not embedded", why=why, failures=self._failures, pause_seconds=round(pause, 2))

    async def _post(self, http: httpx2.AsyncClient, body: bytes) -> bytes:
        headers = {"Content-Type": "application/json"}
        async with http.stream("POST", self._url, content=body, headers=headers) as answer:
            if answer.status_code != 200:
                raise NotEmbedded(f"status {answer.status_code}")
            received = bytearray()
            async for chunk in answer.aiter_bytes():
                received += chunk
                if len(received) > _LARGEST_ANSWER:
                    raise NotEmbedded("an answer of more than 32 megabytes")
            return bytes(received)


def _vectors_of(body: bytes, count: int) -> list[bytes]:
    """The vectors of an answer, in the order of the texts. Raises NotEmbedded."""
    try:
        data = sorted(_decode(body).data, key=lambda each: each.index)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise NotEmbedded("an answer that is no list of embeddings") from None
    if [each.index for each in data] != list(range(count)):
        raise NotEmbedded("an answer for other texts")
    return [quantized(each.embedding) for each in data]


def quantized(vector: Sequence[float]) -> bytes:
    """A vector's first 256 numbers as signed bytes; empty if they are all 0."""
    cut = vector[:DIMENSIONS]
    largest = max(map(abs, cut), default=0.0)
    return array("b", [round(value * 127 / largest) for value in cut]).tobytes() if largest > 0 else b""
