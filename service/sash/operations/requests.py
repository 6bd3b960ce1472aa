"""Records each finished request: in metrics, in this worker's last fifteen minutes, and in a log line.

The line names a conversation only by a keyed hash, and contains no message text. It is encoded and written directly,
without the guards of ``logging.py``: its values are numbers, and names that Sash chose or checked.
"""

import logging
import os
import secrets
import time
from collections import defaultdict
from collections.abc import Callable
from functools import cache, partial
from hashlib import blake2b
from http import HTTPStatus
from typing import Any, Literal

import msgspec

from sash.operations.lately import Lately
from sash.operations.logging import get_logger, log_beside
from sash.operations.metrics import Metrics
from sash.operations.registry import SECONDS
from sash.store.redis.client import Client

RequestLog = Callable[[dict[str, Any]], None]
"""Writes the line of a request: its fields in their order."""

READS = frozenset({"GET", "HEAD"})
"""Methods that change nothing. Of their lines only those with a window, or with a problem, name a conversation."""
ASKING = frozenset({"getWindow", "listMessages"})
"""Operations with which a client asks whether a conversation began: 404 is their answer, and no mistake."""
PSEUDONYMS_KEY = "sash:{logs}:key"
"""Where the store keeps the key of pseudonyms."""

_TENANTS = 500
_KEY_BYTES = 32
_HASH_BYTES = 8
_SERVER_ERROR = 500
_NO_IDS = ("", "import")
"""Words behind ``/conversations/`` that are no conversation's id."""
_TIMES = ("store_milliseconds", "tokenise_milliseconds")
"""Sums of durations in a log line, which are written with two decimals."""


class Pseudonyms:
    """Names of conversations in log lines: keyed hashes, by which a conversation's lines are found.

    The key is made once and kept in the store, so that all workers and ``sash logs-hash`` share it. Until a worker has read
    the key, its lines have no pseudonym.
    """

    def __init__(self, key: bytes | None = None) -> None:
        self._keyed = _keyed(key)

    async def read(self, store: Client) -> None:
        """Read the key once from the store, which creates it if missing. Raises StoreUnavailable, StoreFull."""
        if self._keyed is not None:
            return
        (found,) = await store.commands([("GET", PSEUDONYMS_KEY)])
        if found is None:
            await store.commands([("SET", PSEUDONYMS_KEY, secrets.token_bytes(_KEY_BYTES), "NX")])
            (found,) = await store.commands([("GET", PSEUDONYMS_KEY)])
        self._keyed = _keyed(found)

    def of(self, tenant: str, conversation: str) -> str | None:
        """The pseudonym, 16 hexadecimal digits; None until the key has been read."""
        if self._keyed is None:
            return None
        hashed = self._keyed.copy()
        hashed.update(f"{tenant}/{conversation}".encode())
        return hashed.hexdigest()


def _keyed(key: bytes | None) -> blake2b | None:
    """A hash with the key, of nothing yet: a copy of it costs half of another one."""
    return None if key is None else blake2b(key=key, digest_size=_HASH_BYTES)


class Requests:
    """Counts and logs answered requests."""

    def __init__(self, metrics: Metrics, pseudonyms: Pseudonyms, log: RequestLog | None) -> None:
        self.lately = Lately()
        self._metrics = metrics
        self._pseudonyms = pseudonyms
        self._log = log
        self._tenants: dict[str, defaultdict[str, int]] = {}
        answered = metrics.registry.counter(
            "sash_requests_total",
            "Requests answered, by operation and status. Status 0: the client disconnected before the answer.",
            *("operation", "status"),
        )
        self._window_seconds = metrics.registry.histogram(
            "sash_window_request_duration_seconds",
            "From start to end of requests whose answer has a window: reads, appends, and POST /window.",
            SECONDS,
        ).observe
        lasted = metrics.registry.histogram(
            "sash_request_duration_seconds", "From a request's start to its answer's end.", SECONDS, "operation"
        )
        self._series = cache(
            lambda operation, status: (answered(operation, status), lasted(operation).observe, str(status // 100))
        )
        """By operation and status: the number of requests, their durations, and the class of the status."""

    def answered(self, line: dict[str, Any], seconds: float, scope: Any, *, quiet: bool) -> None:
        """Record an answered request. ``line`` is its log line, with status and operation; a ``quiet`` one is not logged."""
        tokens = line.get("window_tokens")
        try:
            number, lasted, kind = self._series(line["operation"] or "none", line["status"])
            number.value += 1
            lasted(seconds)
            if quiet:
                return
            now, lately, tenant = int(time.time()) // 60, self.lately, scope.get("sash.tenant")
            figures, name, has_problem = self._tenants.get(tenant) or self._begin(tenant), None, "problem" in line
            if tokens is not None or has_problem or line["method"] not in READS:
                line["tenant"] = tenant
                # From the path: a request may be refused before it is routed, and then no handler knows the id.
                words = scope["path"].split("/", 3)
                if len(words) > 2 and words[1] == "conversations" and words[2] not in _NO_IDS and tenant is not None:
                    name = tenant, words[2]
                    line["conversation"] = self._pseudonyms.of(*name)
                kind = self._refused(line, scope, name and name[1]) if has_problem else kind
            if tokens is not None:
                self._window_seconds(seconds)
                figures["tokens"] += tokens
                if name is not None:
                    lately.seen.pop(name, None)
                    lately.seen[name] = now, line["kept"] + line["dropped"], tokens
            minute = lately.minutes.get(now) or lately.begin(now)
            minute[kind] += 1
            figures[kind] += 1
        except Exception as error:  # noqa: BLE001 - no figure of a request fails it
            log_beside(error)
        if self._log is not None and not quiet:
            line["milliseconds"] = int(seconds * 100_000 + 0.5) / 100  # ``round`` with decimals takes a microsecond
            for time_field in _TIMES:
                if time_field in line:
                    line[time_field] = int(line[time_field] * 100 + 0.5) / 100
            self._log(line)

    def _refused(self, line: dict[str, Any], scope: Any, conversation: str | None) -> str:
        """The class of a refusal's status, after it was recorded. To ask whether something is stored is no mistake."""
        pointer, status = line.pop("pointer", None), line["status"]
        asks = scope.get("sash.asks_whether") or line["operation"] in ASKING
        if asks and status == HTTPStatus.NOT_FOUND:
            return "2"
        self.lately.refuse(line, pointer, scope.get("sash.tenant"), conversation)
        self._metrics.refuse(line["problem"])
        return str(status // 100)

    def _begin(self, tenant: str | None) -> defaultdict[str, int]:
        """The figures of a tenant that has none; of the first _TENANTS they are kept."""
        figures = defaultdict[str, int](int)
        if tenant is not None and len(self._tenants) < _TENANTS:
            self._tenants[tenant] = figures
        return figures

    def by_tenant(self) -> dict[str, int]:
        """Requests by class of status, and window tokens, of each tenant since the process started, as flat figures."""
        tenants = self._tenants.items()
        return {f"tenants|{tenant}|{kind}": number for tenant, by in tenants for kind, number in by.items()}


def request_log(form: Literal["json", "console"], level: str) -> RequestLog | None:
    """What writes the lines of requests to standard output; None if ``level`` excludes all of them."""
    threshold = logging.getLevelNamesMapping()[level.upper()]
    if threshold > logging.ERROR:
        return None
    write = in_json(partial(os.write, 1)) if form == "json" else log_request
    return write if threshold <= logging.INFO else _failures_to(write)


def in_json(write: Callable[[bytes], object]) -> RequestLog:
    """A function that hands a request's line to ``write``, all at once, so that lines of several workers do not mix."""
    encode = msgspec.json.Encoder().encode_lines
    second = text = ""

    def write_line(line: dict[str, Any]) -> None:
        nonlocal second, text
        now = str(time.time_ns())
        if now[:-9] != second:  # the text of a second is made once
            second, text = now[:-9], time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(int(now[:-9])))
        level = "error" if line["status"] >= _SERVER_ERROR else "info"
        start = f'{{"timestamp":"{text}.{now[-9:-3]}Z","level":"{level}","event":"request",'
        try:  # noqa: SIM105 - no context manager on the way of every request
            write(encode((line,)).replace(b"{", start.encode(), 1))
        except OSError:  # a full disk ends no request
            pass

    return write_line


def log_request(line: dict[str, Any]) -> None:
    """Write a request's line through structlog, like other lines."""
    level = "error" if line["status"] >= _SERVER_ERROR else "info"
    getattr(get_logger(), level)("request", **line)


def _failures_to(write: RequestLog) -> RequestLog:
    """A function that writes only lines with a status of 500 or more."""

    def write_line(line: dict[str, Any]) -> None:
        if line["status"] >= _SERVER_ERROR:
            write(line)

    return write_line
