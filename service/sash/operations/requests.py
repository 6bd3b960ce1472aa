"""Records each finished request: in metrics, in a log line, and in this worker's figures of the last fifteen minutes.

A refused request is kept with the names of its tenant and conversation, which can be read with the metrics key. A log
line has only a hash of the conversation. Neither contains message text.
"""

import re
import time
from collections import Counter, deque
from http import HTTPStatus
from typing import Any

import msgspec

from sash.operations.logging import RequestLog, log_beside
from sash.operations.metrics import Metrics
from sash.operations.pseudonyms import Pseudonyms
from sash.operations.registry import SECONDS
from sash.problems import problem_types
from sash.store.data.entries import wall_ms
from sash.store.data.layout import Target

MINUTES = 15
_REFUSALS = 50
_TENANTS = 1000
_TITLES = {kind.slug: kind.title for kind in problem_types()}
_SEEN = 500  # conversations; a minute may exceed it, and the next one removes the oldest


_TIMES = ("milliseconds", "store_milliseconds", "tokenise_milliseconds")
"""Fields of a log line that are written with two decimals."""
READS = frozenset({"GET", "HEAD"})
"""Methods that change nothing. Of their lines only those with a window, or with a problem, name a conversation."""
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
        self._answered = metrics.registry.counter(
            "sash_requests_total",
            "Requests answered, by operation and status. Status 0: the client disconnected before the answer.",
            *("operation", "status"),
        )
        self._window_seconds = metrics.registry.histogram(
            "sash_window_request_duration_seconds",
            "From start to end of requests whose answer has a window: reads, appends, and POST /window.",
            SECONDS,
        )
        self._seconds = metrics.registry.histogram(
            "sash_request_duration_seconds", "From a request's start to its answer's end.", SECONDS, "operation"
        )

    def answered(self, line: dict[str, Any], seconds: float, scope: Any, *, quiet: bool) -> None:
        """Record an answered request. ``line`` is its log line, with status and operation; a ``quiet`` one is not logged."""
        status, operation = line["status"], line["operation"] or "none"
        try:
            self._answered(operation, status).inc()
            self._seconds(operation).observe(seconds)
            if "window_tokens" in line:
                self._window_seconds.observe(seconds)
            if quiet:
                return
            kind = self._refused_as(line, scope) if "problem" in line else str(status // 100)
            now, tenant = int(time.time()) // 60, scope.get("sash.tenant")
            minute = self._minutes.get(now) or self._begin(now)
            minute[kind] += 1
            tokens = line.get("window_tokens")
            if tenant is not None and ((tenant, kind) in self._tenants or len(self._tenants) < _TENANTS):
                self._tenants[tenant, kind] += 1
                self._tenants[tenant, "tokens"] += tokens or 0
            if tokens is not None or "problem" in line or line["method"] not in READS:
                self._name(line, tenant, _conversation(scope["path"]), now)
        except Exception as error:  # noqa: BLE001 - no figure of a request fails it
            log_beside(error)
        if self._log is not None and not quiet:
            line["milliseconds"] = 1000 * seconds
            for name in _TIMES:
                if name in line:
                    line[name] = int(line[name] * 100 + 0.5) / 100  # ``round`` with decimals takes a microsecond
            self._log(line)

    def _name(self, line: dict[str, Any], tenant: str | None, conversation: str | None, minute: int) -> None:
        """Add the tenant and the conversation's pseudonym to a line, and keep the conversation of a window."""
        line["tenant"] = tenant
        if tenant is None or conversation is None:
            return
        line["conversation"] = self._pseudonyms.of(tenant, conversation)
        if "window_tokens" in line:
            self._seen.pop((tenant, conversation), None)
            self._seen[tenant, conversation] = minute, line["kept"] + line["dropped"], line["window_tokens"]

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
        tenant, conversation, problem = scope.get("sash.tenant"), _conversation(scope["path"]), line["problem"]
        refusal = Refusal(
            at_ms=wall_ms(),
            request_id=line["request_id"],
            operation=line["operation"],
            status=line["status"],
            problem=problem,
            title=_TITLES[problem],
            pointer=pointer and _PART.sub("…", pointer),
            tenant=tenant,
            conversation=conversation,
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


def _conversation(path: str) -> str | None:
    """The conversation's id in a path. Read from the path, because a request may be refused before routing."""
    parts = path.split("/", 3)
    return parts[2] if len(parts) > 2 and parts[1] == "conversations" and parts[2] not in {"", "import"} else None
