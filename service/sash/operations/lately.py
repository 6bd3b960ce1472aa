"""A worker's requests of the last fifteen minutes, for ``GET /status``: by minute, by problem, and by conversation.

A refused request is kept with the names of its tenant and conversation, which can be read with the metrics key. Nothing
here contains message text.
"""

import re
import time
from collections import Counter, defaultdict, deque
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from sash.problems import problem_types
from sash.store.data.entries import wall_ms
from sash.store.data.layout import Target

MINUTES: Final = 15
_REFUSALS: Final = 50
_SEEN: Final = 500  # conversations; a minute may exceed it, and the next one removes the oldest
_TITLES: Final = {kind.slug: kind.title for kind in problem_types()}
_PART: Final = re.compile(r"(?<=/)(?![A-Za-z0-9_.:~$-]{1,40}(?:/|$))[^/]+")
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


class Lately:
    """The last fifteen minutes and the current one. Minutes are numbered since 1970."""

    def __init__(self) -> None:
        self.minutes: dict[int, defaultdict[str, int]] = {}
        """The requests of each minute by class of status."""
        self.seen: dict[tuple[str, str], tuple[int, int, int]] = {}
        """By tenant and conversation: the minute of its latest window, the history's messages, and the window's tokens."""
        self._problems: dict[int, Counter[str]] = {}
        self._refusals: deque[Refusal] = deque(maxlen=_REFUSALS)

    def begin(self, minute: int) -> defaultdict[str, int]:
        """Begin a minute, and remove what is older than fifteen."""
        for kept in (self.minutes, self._problems):
            for old in [each for each in kept if each < minute - MINUTES]:
                del kept[old]
        seen = [named for named, (at, _, _) in self.seen.items() if at < minute - MINUTES]
        for named in [*seen, *list(self.seen)[:-_SEEN]]:
            self.seen.pop(named, None)
        while self._refusals and self._refusals[0].at_ms < (minute - MINUTES) * 60_000:
            self._refusals.popleft()
        return self.minutes.setdefault(minute, defaultdict(int))

    def refuse(
        self, line: Mapping[str, Any], pointer: str | None, tenant: str | None, conversation: str | None
    ) -> None:
        """Count and keep a refused request by its log line."""
        problem = line["problem"]
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
        self._refusals.append(refusal)
        self._problems.setdefault(refusal.at_ms // 60_000, Counter())[problem] += 1

    def forget(self, target: Target) -> None:
        """Remove the name of an erased conversation."""
        name = target.tenant, target.id
        self.seen.pop(name, None)
        kept = [each for each in self._refusals if (each.tenant, each.conversation) != name]
        self._refusals.clear()
        self._refusals.extend(kept)

    def by_minute(self) -> list[Minute]:
        """The requests of each minute, oldest first."""
        now = int(time.time()) // 60
        counted = [(minute, Counter(self.minutes.get(minute))) for minute in range(now - MINUTES, now + 1)]
        return [Minute(minute * 60_000, by.total(), by["4"], by["5"]) for minute, by in counted]

    def by_problem(self) -> list[ProblemCount]:
        """Refused requests by problem type, the most frequent first."""
        oldest = int(time.time()) // 60 - MINUTES
        recent = (by for minute, by in self._problems.items() if minute >= oldest)
        return counts(sum(recent, Counter()))

    def refusals(self) -> list[Refusal]:
        """The latest refused requests, newest first."""
        return [*reversed(self._refusals)]

    def conversations(self) -> list[Seen]:
        """Conversations whose windows were read, latest first."""
        seen = reversed(list(self.seen.items()))
        return [Seen(*named, minute * 60_000, messages, tokens) for named, (minute, messages, tokens) in seen]
