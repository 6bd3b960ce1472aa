"""Calls of the endpoints that Sash asks: the summariser's, a vendor's compaction, and embeddings.

A call carries the id and the trace of the request that caused it, also long after that request was answered. Its log line
says which conversation (by its hash) and tenant it was for, and its model, tokens and price. What an endpoint answered
instead of serving is in the log, in ``GET /status``, and in a metric.
"""

import time
from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec

from sash.core.counts.models.models import find_model
from sash.operations.genai import of_call
from sash.operations.logging import best_effort, get_logger
from sash.operations.metrics import LINE, Metrics
from sash.operations.requests import Pseudonyms
from sash.operations.tracing import HERE, context_of
from sash.problems import UnknownModel
from sash.store.data.layout import Target

Name = Literal["summarizer", "embeddings"]
NAMES: Final[tuple[Name, ...]] = ("summarizer", "embeddings")
_log = get_logger()


class Away(msgspec.Struct, frozen=True):
    """An endpoint that did not serve when it was last asked, and what it answered."""

    upstream: Name
    why: str


class _Usage(msgspec.Struct):
    """Tokens of an answer, in OpenAI's names of either interface or in Anthropic's."""

    prompt_tokens: int | None = None
    input_tokens: int | None = None
    completion_tokens: int | None = None
    output_tokens: int | None = None


class _Answer(msgspec.Struct):
    usage: _Usage | None = None


_decode = msgspec.json.Decoder(_Answer).decode


class Upstreams:
    """The endpoints of this process, and whether each served when it was last asked."""

    def __init__(self, metrics: Metrics, pseudonyms: Pseudonyms) -> None:
        self._metrics = metrics
        self._pseudonyms = pseudonyms
        self._why: dict[Name, str] = {}
        self._away = metrics.registry.gauge(
            "sash_upstream_away",
            "Whether an endpoint that Sash asks did not serve when it was last asked: 1 or 0.",
            "upstream",
            workers="livemax",
        )
        for name in NAMES:
            self._away(name).set(0)

    @property
    def away(self) -> Sequence[Away]:
        """The endpoints that did not serve when they were last asked."""
        return [Away(name, why) for name, why in self._why.items()]

    def served(self, name: Name) -> None:
        """Note that an endpoint serves."""
        self._why.pop(name, None)
        self._away(name).set(0)

    def failed(self, name: Name, why: str) -> None:
        """Note why an endpoint did not serve."""
        self._why[name] = why
        self._away(name).set(1)

    def begin(self, name: Name, target: Target | None, model: str) -> "UpstreamCall":
        """A call that begins now, for a conversation; None where it is for several."""
        return UpstreamCall(self._metrics, self._pseudonyms, name, target, model)


class UpstreamCall:
    """One call of an endpoint. ``headers`` are sent with it."""

    def __init__(self, metrics: Metrics, pseudonyms: Pseudonyms, name: Name, target: Target | None, model: str) -> None:
        self._metrics = metrics
        self._began = time.monotonic()
        cause, parent = LINE.get() or {}, HERE.get()
        self._operation = "embeddings" if name == "embeddings" else "chat"
        self._span = metrics.spans.ask(f"{self._operation} {model}".rstrip()) if metrics.spans is not None else None
        if self._span is not None:
            parent = context_of(self._span)
        trace = parent.child() if parent is not None and self._span is None else parent
        request_id = cause.get("request_id")
        self.headers = {
            **({"X-Request-ID": request_id} if request_id else {}),
            **({"traceparent": trace.traceparent} if trace is not None else {}),
        }
        self._model = model
        self._target = target
        self._fields: dict[str, Any] = {
            "upstream": name,
            "model": model,
            **({"request_id": request_id} if request_id else {}),
            **({"trace_id": trace.trace_id} if trace is not None else {}),
            **({"tenant": target.tenant, "conversation": pseudonyms.of(target.tenant, target.id)} if target else {}),
        }

    def answered(self, body: bytes | bytearray) -> None:
        """Log the call with the tokens and the price of its answer."""
        with best_effort:
            usage = _usage_of(body)
            read = usage.prompt_tokens if usage.prompt_tokens is not None else usage.input_tokens
            written = usage.completion_tokens if usage.completion_tokens is not None else usage.output_tokens
            figures = {"input_tokens": read, "output_tokens": written, "input_usd": _price(self._model, read)}
            self._end(failed=False, figures={name: value for name, value in figures.items() if value is not None})

    def failed(self, why: str) -> None:
        """Log the call with what was answered instead."""
        with best_effort:
            self._end(failed=True, figures={"why": why})

    def _end(self, *, failed: bool, figures: dict[str, Any]) -> None:
        seconds = time.monotonic() - self._began
        event = "upstream failed" if failed else "upstream asked"  # the warning is the endpoint's, with its pause
        _log.info(event, **self._fields, **figures, seconds=round(seconds, 3))
        if self._metrics.spans is not None and self._span is not None:
            attributes = of_call(self._operation, self._model, figures)
            self._metrics.spans.asked(self._span, self._target, attributes, failed=failed)


def _usage_of(body: bytes | bytearray) -> _Usage:
    try:
        return _decode(body).usage or _Usage()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _Usage()


def _price(model: str, tokens: int | None) -> float | None:
    """Dollars of an input at list price; None where it is not listed."""
    if tokens is None:
        return None
    try:
        found = find_model(model)
    except UnknownModel:
        return None
    price = None if found.assumed else found.prices_at(tokens).input_price
    return None if price is None else round(tokens * price / 1e6, 9)
