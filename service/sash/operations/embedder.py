"""Embeddings of texts, from any endpoint with OpenAI's ``/v1/embeddings``.

A vector is cut to its first 256 numbers, as models are trained to put most information first (Kusupati et al. 2022). The
numbers are stored as signed bytes, scaled so that the largest becomes 127: only the vector's direction is compared.

After a failure or a timeout, all embedding pauses (``endpoint.py``).
"""

import asyncio
import time
from array import array
from collections.abc import Sequence
from typing import Final

import msgspec

from sash.operations.endpoint import Endpoint, EndpointFailed
from sash.operations.metrics import Metrics
from sash.operations.upstreams import Upstreams
from sash.processor import PROCESSOR
from sash.store.data.layout import Target

DIMENSIONS: Final = 256
BATCH: Final = 64
"""Texts of one request."""
_CHARACTERS: Final = 8_000
"""Only this start of each text is sent: endpoints refuse texts over their model's limit, usually 8,192 tokens."""
_TIMEOUT_SECONDS: Final = 30.0
_QUESTION_SECONDS: Final = 0.5
_LIMIT_BYTES: Final = 32 * 1024 * 1024


class NotEmbedded(Exception):  # noqa: N818 - it reads as what happened
    """The endpoint gave no embeddings, or is paused. The message gives the reason and quotes no text."""


class _Embedding(msgspec.Struct):
    embedding: list[float]
    index: int


class _Answer(msgspec.Struct):
    data: list[_Embedding]


_decode = msgspec.json.Decoder(_Answer).decode


class Embedder:
    """Asks the endpoint for vectors."""

    def __init__(self, metrics: Metrics, upstreams: Upstreams, *, url: str, model: str, key: str | None) -> None:
        self.model = model
        self._metrics = metrics
        self._endpoint = Endpoint(
            "embeddings", upstreams, url=url, key=key, timeout_seconds=_TIMEOUT_SECONDS, limit_bytes=_LIMIT_BYTES
        )

    @property
    def pause_seconds(self) -> float:
        """How long the endpoint must not be asked, in seconds."""
        return self._endpoint.pause_seconds

    async def embed(
        self, texts: Sequence[str], *, target: Target | None = None, timeout_seconds: float | None = None
    ) -> list[bytes]:
        """The vector of each text of a conversation, empty for a blank text. Raises NotEmbedded."""
        wanted = [index for index, text in enumerate(texts) if text.strip()]
        vectors = [b""] * len(texts)
        for start in range(0, len(wanted), BATCH):
            batch = wanted[start : start + BATCH]
            found = await self._ask([texts[index][:_CHARACTERS] for index in batch], target, timeout_seconds)
            for index, vector in zip(batch, found, strict=True):
                vectors[index] = vector
        return vectors

    async def vector_of(self, text: str, target: Target | None) -> bytes:
        """The vector of a question, during a request; empty if the endpoint fails or takes over half a second."""
        try:
            return (await self.embed([text], target=target, timeout_seconds=_QUESTION_SECONDS))[0]
        except NotEmbedded:
            return b""

    async def close(self) -> None:
        """Close the connections."""
        await self._endpoint.close()

    async def _ask(self, texts: list[str], target: Target | None, timeout_seconds: float | None) -> list[bytes]:
        if self.pause_seconds:
            raise NotEmbedded("the endpoint failed a moment ago")
        body = msgspec.json.encode({"model": self.model, "input": texts, "encoding_format": "float"})
        started = time.perf_counter()
        try:
            async with asyncio.timeout(timeout_seconds or self._endpoint.timeout_seconds):
                answer = await self._endpoint.post(body, target, self.model)
                vectors = await PROCESSOR.run(_vectors_of, answer, len(texts))
        except (EndpointFailed, TimeoutError) as error:
            self._metrics.embedded(0, time.perf_counter() - started)
            # A short timeout that has passed does not show that the endpoint is down.
            if timeout_seconds is None or not isinstance(error, TimeoutError):
                self._endpoint.failed(error)
            raise NotEmbedded(str(error) or type(error).__name__) from None
        self._endpoint.succeeded()
        self._metrics.embedded(len(texts), time.perf_counter() - started)
        return vectors


def _vectors_of(body: bytes, count: int) -> list[bytes]:
    """The vectors of an answer, in the order of the texts. Raises EndpointFailed."""
    try:
        data = sorted(_decode(body).data, key=lambda each: each.index)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise EndpointFailed("an answer that is no list of embeddings") from None
    if [each.index for each in data] != list(range(count)):
        raise EndpointFailed("an answer for other texts")
    return [quantized(each.embedding) for each in data]


def quantized(vector: Sequence[float]) -> bytes:
    """A vector's first 256 numbers as signed bytes; empty if they are all 0."""
    cut = vector[:DIMENSIONS]
    largest = max(map(abs, cut), default=0.0)
    return array("b", [round(value / largest * 127) for value in cut]).tobytes() if largest > 0 else b""
