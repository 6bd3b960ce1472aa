"""Records each finished request: in metrics, in a log line, and in this worker's figures of the last fifteen minutes.

A refused request is kept with the names of its tenant and conversation, which can be read with the metrics key. A log
line has only a hash of the conversation. Neither contains message text.
"""

import re
import secrets
import time
from collections import Counter, deque
from functools import cache
from hashlib import blake2b
from http import HTTPStatus
from typing import Any

import msgspec

from sash.operations.logging import RequestLog, log_beside
from sash.operations.metrics import Metrics
from sash.operations.registry import SECONDS
from sash.problems import problem_types
from sash.store.data.entries import wall_ms
from sash.store.data.layout import Target
from sash.store.redis.client import Client

MINUTES = 15
_REFUSALS = 50
_TENANTS = 1000
_TITLES = {kind.slug: kind.title for kind in problem_types()}
_SEEN = 500  # conversations; a minute may exceed it, and the next one removes the oldest


_TIMES = frozenset({"store_milliseconds", "tokenise_milliseconds"})
"""Sums of durations in a log line, which are written with two decimals."""
_CONVERSATION = re.compile(r"/conversations/(?!import(?:/|\Z))([^/]+)")
"""Finds the conversation's id in a path: a request may be refused before it is routed, and then no handler knows the id."""
READS = frozenset({"GET", "HEAD"})
"""Methods that change nothing. Of their lines only those with a window, or with a problem, name a conversation."""
PSEUDONYMS_KEY = "sash:{logs}:key"
"""Where the store keeps the key of pseudonyms."""
_KEY_BYTES = 32
_HASH_BYTES = 8
_PART = re.compile(r"(?<=/)(?![A-Za-z0-9_.:~$-]{1,40}(?:/|$))[^/]+")
"""A part of a pointer that is not a plain name or number."""


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A request that was answered with a problem."""

    at_ms: int
    request_id: str
    operation: str | None
    status: int
    problem: str
    """The problem's type, the last part of its URI."""
    title: str
    pointer: str | None = None
    """The first wrong place in the request, as an RFC 6901 pointer; a name that may be text is left out."""
    tenant: str | None
    conversation: str | None


class Seen(msgspec.Struct, frozen=True):
    """A conversation whose window was read: its number of messages, and the window's tokens."""

    tenant: str
    conversation: str
    at_ms: int
    messages: int
    window_tokens: int


class Minute(msgspec.Struct, frozen=True):
    """A minute of this worker's requests."""

    at_ms: int
    requests: int
    client_errors: int
    server_errors: int


class ProblemCount(msgspec.Struct, frozen=True):
    """The number of requests answered with a problem of one type; ``problem`` is the last part of its URI."""

    problem: str
    requests: int


def counts(problems: Counter[str]) -> list[ProblemCount]:
    """Problem types with their numbers of requests, the largest first."""
    return [ProblemCount(problem, number) for problem, number in problems.most_common()]


ASKING = frozenset({"getWindow", "listMessages"})
"""Operations with which a client asks whether a conversation began: 404 is their answer, and no mistake."""


class Pseudonyms:
    """Names of conversations in log lines: keyed hashes, by which a conversation's lines are found.

    The key is made once and kept in the store, so that all workers and ``sash logs-hash`` share it. Until a worker has read
    the key, its lines have no pseudonym.
    """

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key

    async def read(self, store: Client) -> None:
        """Read the key once from the store, which creates it if missing. Raises StoreUnavailable, StoreFull."""
        if self._key is not None:
            return
        (found,) = await store.commands([("GET", PSEUDONYMS_KEY)])
        if found is None:
            await store.commands([("SET", PSEUDONYMS_KEY, secrets.token_bytes(_KEY_BYTES), "NX")])
            (found,) = await store.commands([("GET", PSEUDONYMS_KEY)])
        self._key = found

    def of(self, tenant: str, conversation: str) -> str | None:
        """The pseudonym, 16 hexadecimal digits; None until the key has been read."""
        if self._key is None:
            return None
        return blake2b(f"{tenant}/{conversation}".encode(), key=self._key, digest_size=_HASH_BYTES).hexdigest()


class Requests:
    """Counts and logs answered requests."""

    def __init__(self, metrics: Metrics, pseudonyms: Pseudonyms, log: RequestLog | None) -> None:
        self.refusals: deque[Refusal] = deque(maxlen=_REFUSALS)
        """The latest refusals, newest last."""
        self._metrics = metrics
        self._pseudonyms = pseudonyms
        self._log = log
        self._minutes: dict[int, Counter[str]] = {}
        self._problems: dict[int, Counter[str]] = {}
        self._tenants: Counter[tuple[str, str]] = Counter()
        self._seen: dict[tuple[str, str], tuple[int, int, int]] = {}
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
        status, tokens = line["status"], line.get("window_tokens")
        try:
            number, lasted, by_status = self._series(line["operation"] or "none", status)
            number.value += 1
            lasted(seconds)
            if tokens is not None:
                self._window_seconds(seconds)
            if quiet:
                return
            now, tenant, figures = int(time.time()) // 60, scope.get("sash.tenant"), self._tenants
            has_problem = "problem" in line
            kind = self._refused_as(line, scope) if has_problem else by_status
            minute = self._minutes.get(now) or self._begin(now)
            minute[kind] += 1
            if tenant is not None and ((tenant, kind) in figures or len(figures) < _TENANTS):
                figures[tenant, kind] += 1
                figures[tenant, "tokens"] += tokens or 0
            if tokens is not None or has_problem or line["method"] not in READS:
                line["tenant"] = tenant
                found = _CONVERSATION.match(scope["path"])
                if found is not None and tenant is not None:
                    name = tenant, found[1]
                    line["conversation"] = self._pseudonyms.of(*name)
                    if tokens is not None:
                        self._seen.pop(name, None)
                        self._seen[name] = now, line["kept"] + line["dropped"], tokens
        except Exception as error:  # noqa: BLE001 - no figure of a request fails it
            log_beside(error)
        if self._log is not None and not quiet:
            line["milliseconds"] = int(seconds * 100_000 + 0.5) / 100  # ``round`` with decimals takes a microsecond
            for time_field in _TIMES & line.keys():
                line[time_field] = int(line[time_field] * 100 + 0.5) / 100
            self._log(line)

    def _refused_as(self, line: dict[str, Any], scope: Any) -> str:
        """The first digit of a refusal's status, after it was recorded. To ask whether something is stored is no mistake."""
        pointer, status = line.pop("pointer", None), line["status"]
        asks = scope.get("sash.asks_whether") or line["operation"] in ASKING
        if asks and status == HTTPStatus.NOT_FOUND:
            return "2"
        self._refused(line, scope, pointer)
        return str(status // 100)

    def _refused(self, line: dict[str, Any], scope: Any, pointer: str | None) -> None:
        """Count and keep a refusal."""
        tenant, found, problem = scope.get("sash.tenant"), _CONVERSATION.match(scope["path"]), line["problem"]
        refusal = Refusal(
            at_ms=wall_ms(),
            request_id=line["request_id"],
            operation=line["operation"],
            status=line["status"],
            problem=problem,
            title=_TITLES[problem],
            pointer=pointer and _PART.sub("…", pointer),
            tenant=tenant,
            conversation=found and found[1],
        )
        self._metrics.refuse(problem)
        self.refusals.append(refusal)
        self._problems.setdefault(refusal.at_ms // 60_000, Counter())[problem] += 1

    def by_tenant(self) -> dict[str, int]:
        """Requests by class of status, and window tokens, of each tenant since the process started, as flat figures."""
        return {f"tenants|{tenant}|{kind}": number for (tenant, kind), number in self._tenants.items() if number}

    def minutes(self) -> list[Minute]:
        """The last fifteen minutes and the current one, oldest first."""
        now = int(time.time()) // 60
        counted = [(minute, self._minutes.get(minute, Counter())) for minute in range(now - MINUTES, now + 1)]
        return [Minute(minute * 60_000, by.total(), by["4"], by["5"]) for minute, by in counted]

    def conversations(self) -> list[Seen]:
        """Conversations whose windows were read in the last fifteen minutes, latest first."""
        seen = reversed(list(self._seen.items()))
        return [Seen(*named, minute * 60_000, messages, tokens) for named, (minute, messages, tokens) in seen]

    def forget(self, target: Target) -> None:
        """Remove the name of an erased conversation."""
        name = target.tenant, target.id
        self._seen.pop(name, None)
        kept = [each for each in self.refusals if (each.tenant, each.conversation) != name]
        self.refusals.clear()
        self.refusals.extend(kept)

    def problems(self) -> list[ProblemCount]:
        """Refusals of the last fifteen minutes by problem type, the most frequent first."""
        oldest = int(time.time()) // 60 - MINUTES
        recent = (by for minute, by in self._problems.items() if minute >= oldest)
        return counts(sum(recent, Counter()))

    def _begin(self, minute: int) -> Counter[str]:
        for kept in (self._minutes, self._problems):
            for old in [each for each in kept if each < minute - MINUTES]:
                del kept[old]
        seen = [named for named, (at, _, _) in self._seen.items() if at < minute - MINUTES]
        for named in [*seen, *list(self._seen)[:-_SEEN]]:
            self._seen.pop(named, None)
        while self.refusals and self.refusals[0].at_ms < (minute - MINUTES) * 60_000:
            self.refusals.popleft()
        return self._minutes.setdefault(minute, Counter())
