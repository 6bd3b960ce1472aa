"""This process's metrics: requests, the store, the process itself, and windows (window_metrics.py).

Labels have fixed sets of values: operations, statuses, scripts, and published or configured models; any other model is
``other``. A label never contains a tenant, an id or text.
"""

import math
import time
from contextvars import ContextVar
from functools import cache
from typing import Any

from prometheus_client.process_collector import ProcessCollector

from sash import __version__
from sash.operations.event_metrics import EventMetrics
from sash.operations.logging import best_effort, log_beside
from sash.operations.registry import SECONDS, Registry
from sash.operations.tracing import OpenTelemetry
from sash.operations.window_metrics import WindowMetrics
from sash.problems import StoreFull
from sash.processor import PROCESSOR

LINE: ContextVar[dict[str, Any] | None] = ContextVar("line", default=None)
"""The log line of the current request, also in its threads; None outside of a request."""

_SIZES = tuple(float(2**power) for power in range(13))


class Metrics:
    """The metrics of one process."""

    def __init__(self, spans: OpenTelemetry | None = None) -> None:
        self.registry = registry = Registry()
        self.running: set[Any] = set()
        """Requests in progress."""
        self.spans = spans
        self.windows = WindowMetrics(registry, spans)
        self.events = EventMetrics(registry)
        counter, histogram = registry.counter, registry.histogram
        self.tool_calls = counter(
            "sash_history_tool_calls_total",
            "Calls of the history tools that were answered, by http or mcp.",
            "tool",
            "via",
        )
        self.tool_tokens = counter("sash_history_tool_tokens_total", "Tokens of the answers' texts.")
        self.append_seconds = histogram("sash_append_duration_seconds", "Appends, from body to answer.", SECONDS)
        self.tokenise_seconds = histogram("sash_tokenise_duration_seconds", "Counting the tokens of an input.", SECONDS)
        self.refused = counter("sash_refused_total", "Requests answered with a problem, by its type.", "problem")
        self.full_at = -math.inf
        """When a request was last refused because the store is full, in seconds of ``time.monotonic``."""
        self.appended_messages = counter("sash_appended_messages_total", "Messages stored.")
        seconds = histogram("sash_store_duration_seconds", "Calls of the store, by script.", SECONDS, "call")
        failures = counter("sash_store_failures_total", "Calls that the store refused or did not answer.", "call")
        self._store = cache(lambda call: (seconds(call).observe, failures(call)))
        """The series of a call. Failures are created at 0, so that a rate includes the first one."""
        self.store_lately: list[float] = []
        """The seconds of each call of the store since the watch looked last."""
        self.sent = histogram("sash_store_batch_commands", "Commands sent in one write.", _SIZES).observe
        """Records the number of commands sent in one write."""
        self.reconnected = counter(
            "sash_store_reconnects_total", "Connections to the store that were lost or failed."
        ).inc
        """Counts a connection to the store that was lost or failed."""
        self.embedding_seconds = histogram(
            "sash_embedding_duration_seconds", "Requests to the embeddings endpoint.", SECONDS
        )
        self.embedding_failures = counter("sash_embedding_failures_total", "Failed requests to the endpoint.")
        self.embedded_texts = counter("sash_embedded_texts_total", "Texts that were embedded.")
        self.flush_failures = counter(
            "sash_statistics_failures_total", "Failures to write statistics to the store. They are written later."
        )
        self._present = _Present(registry)

    def present(self, *, waiting: int, idle: int, busy: int, down: int) -> None:
        """Set all gauges, those of the store's client to these values, and share changes with the other workers."""
        self._present.set(len(self.running), waiting, {"idle": idle, "busy": busy, "down": down})
        self.registry.share()

    def refuse(self, problem: str) -> None:
        """Count a request that was answered with a problem of this type."""
        self.refused(problem).inc()
        if problem == StoreFull.slug:
            self.full_at = time.monotonic()

    def append(self, messages: int, *, seconds: float, tokenise_seconds: float) -> None:
        """Record an append; ``messages`` does not include duplicates."""
        self.appended_messages.value += messages
        self.append_seconds.observe(seconds)
        self.counted(tokenise_seconds)
        if self.spans is not None:
            self.spans.did("append", seconds)

    def counted(self, seconds: float) -> None:
        """Record the counting of an input's tokens. A request may count repeatedly."""
        self.tokenise_seconds.observe(seconds)
        line = LINE.get()
        if line is not None:
            line["tokenise_milliseconds"] = line.get("tokenise_milliseconds", 0.0) + 1000 * seconds

    def answered(self, call: str, seconds: float, *, failed: bool) -> None:
        """Record a call of the store: a script, or plain commands."""
        try:
            observe, failures = self._store(call)
            observe(seconds)
            self.store_lately.append(seconds)
            if failed:
                failures.inc()
            line = LINE.get()
            if line is not None:
                line["store_milliseconds"] = line.get("store_milliseconds", 0.0) + 1000 * seconds
            if self.spans is not None:
                self.spans.asked_store(call, seconds, failed=failed)
        except Exception as error:  # noqa: BLE001 - no figure of a call fails it
            log_beside(error)

    def answered_tool(self, tool: str, via: str, tokens: int) -> None:
        """Count a call of a history tool that was answered with a text of so many tokens."""
        with best_effort:
            self.tool_calls(tool, via).inc()
            self.tool_tokens.inc(tokens)

    def embedded(self, texts: int, seconds: float) -> None:
        """Record a request to the embeddings endpoint; ``texts`` is 0 if it failed."""
        self.embedding_seconds.observe(seconds)
        self.embedded_texts.inc(texts)
        if not texts:
            self.embedding_failures.inc()


class _Present:
    """Gauges of the current load, memory and files."""

    def __init__(self, registry: Registry) -> None:
        gauge = registry.gauge
        gauge("sash_build_info", "The running version.", "version", workers="max")(__version__).set(1)
        gauge("sash_workers", "Worker processes.").set(1)
        self._in_progress = gauge("sash_requests_in_progress", "Requests in progress.")
        self._jobs = gauge("sash_jobs_waiting", "Long jobs that wait for the processor of their worker.")
        self._waiting = gauge("sash_store_commands_waiting", "Commands that wait for the store, queued or sent.")
        self._connections = gauge(
            "sash_store_connections", "Connections to the store: idle, busy, or down and being opened.", "state"
        )
        self._process = ProcessCollector(registry=None)
        self._cpu_seconds = 0.0
        self._cpu = registry.counter("process_cpu_seconds_total", "User and system processor time of all workers.")
        self._of_process = {
            name: gauge(name, meaning, workers=workers)
            for name, meaning, workers in (
                ("process_resident_memory_bytes", "Resident memory of all workers.", "livesum"),
                ("process_open_fds", "Open file descriptors of all workers.", "livesum"),
                ("process_max_fds", "The smallest limit of open file descriptors among the workers.", "livemin"),
                ("process_start_time_seconds", "The start of the oldest worker, in seconds since 1970.", "livemin"),
            )
        }

    def set(self, in_progress: int, waiting: int, connections: dict[str, int]) -> None:
        self._in_progress.set(in_progress)
        self._jobs.set(PROCESSOR.waiting)
        self._waiting.set(waiting)
        for state, number in connections.items():
            self._connections(state).set(number)
        for family in self._process.collect():
            value = family.samples[0].value
            if family.name == "process_cpu_seconds":
                self._cpu.inc(max(0.0, value - self._cpu_seconds))
                self._cpu_seconds = value
            elif family.name in self._of_process:
                self._of_process[family.name].set(value)
