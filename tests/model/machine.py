"""A state machine: clients do anything in any order, on few names, and each answer is compared with the model."""

import asyncio
import base64
import dataclasses
import itertools
import json
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import urlencode

from hypothesis import strategies as st
from hypothesis.errors import HypothesisException, StopTest
from hypothesis.stateful import RuleBasedStateMachine, rule
from model.asgi import Answer, App, Listener, Request, ask
from model.behind import Behind, Snapshot
from model.drawn import (
    AGENTS,
    ANY,
    ENTRIES,
    ENTRY,
    FLAG,
    OWNERS,
    QUERIES,
    QUERY,
    SETTINGS,
    SMALL,
    SPENT_ON,
    TURNS,
    Kind,
    Words,
    body_of,
    entries_of,
    lists,
    maybe,
    numbers,
    one_of,
    patch_of,
    reply_of,
    settings_of,
)
from model.world import (
    MARK,
    REDACTED,
    SEQS,
    Entry,
    Kept,
    Name,
    Op,
    Talk,
    World,
    as_shown,
    branch_lines,
    entry_lines,
    is_compaction,
    marks_of,
    pictures_in,
    waiting,
)
from model.world import (
    SETTINGS as SETTINGS_NAMES,
)
from rigs.conformity import find_operation
from rigs.reading_events import applied
from validators import limits

from sash.core.search.words import pack_words, said_in, words_of

SEEDS = st.integers(0, 2**32 - 1)
TENANTS = {"acme": "key-of-acme-0123456789", "beta": "key-of-beta-0123456789"}
PLACES = one_of(*[("acme", 0)] * 6, *[("acme", 1)] * 3, ("acme", 2), ("beta", 0), ("beta", 0), ("beta", 1))
"""Conversations; the first is drawn most often, so that it grows."""
VIEWS = (*AGENTS, "nobody")
HOW = numbers(96)
"""A number that stands for the application, the key and the condition of an operation: see ``conditioned``."""

BEFORE_STORING = {"unknown-model", "unprocessable"}
"""Problems of a window's parameters alone: an append may be refused for them before it stores anything."""
PASSING = {"conflict", "store-unavailable", "deadline-exceeded"}
"""Problems that two operations at once may cause each other: nothing was done, and a client may try again."""
_EXPIRES = re.compile(rb'"expires_at":(?:null|"[^"]*")|,"recall_progress":{[^}]*}')
"""What changes in an answer while the conversation does not: the remaining time, and how much is indexed."""
_MANY = (30, 70, 100)
_HOUR_MS = 3_600_000
"""Longer than an example takes."""


ERASING = frozenset({"erase", "forget", "rewind", "redact", "redact_away", "swap", "drop"})
"""Operations that take messages away, and their pictures with the last of them."""
AT_ONCE = (
    ("rewind", "rewind"),
    ("rewind", "erase"),
    ("append", "rewind"),
    ("erase", "append"),
    ("redact", "rewind"),
    ("append", "append"),
    ("create", "append"),
    ("erase", "erase"),
    ("create", "create"),
    ("redact", "erase"),
    ("change", "change"),
    ("change", "erase"),
    ("summarize", "rewind"),
    ("redact", "redact"),
    ("import", "create"),
    ("erase", "create"),
    ("summarize", "erase"),
    ("fork", "rewind"),
    ("fork", "erase"),
    ("append", "change"),
    ("regenerate", "regenerate"),
    ("append", "regenerate"),
    ("regenerate", "redact"),
    ("amend", "amend"),
    ("amend", "rewind"),
    ("append", "amend"),
    ("swap", "append"),
    ("swap", "rewind"),
    ("swap", "swap"),
    ("swap", "redact"),
    ("drop", "swap"),
    ("drop", "redact_away"),
)
"""Pairs of operations that are asked for at the same time."""


def step(*, grown: bool = False, **kinds: Kind) -> Callable[[Callable[..., None]], Any]:
    """Make a rule whose arguments all come from one seed, so that a step costs one draw and probabilities are as written.

    With ``grown``, a conversation with few messages usually gets some more first.
    """

    def decorate(function: Callable[..., None]) -> Any:
        def run(self: "Machine", seed: int) -> None:
            chance = random.Random(seed)
            given = {name: kind(chance) for name, kind in kinds.items()}
            self.transcript.append(f"-- {function.__name__} {given}")
            if grown and chance.random() < 0.75:
                self.grow(self.name(given["place"]), chance)
            function(self, **given)

        run.__name__, run.__qualname__, run.__doc__ = function.__name__, function.__qualname__, function.__doc__
        return rule(seed=SEEDS)(run)

    return decorate


class Served(NamedTuple):
    """A window that was served: its bytes and its receipt, and what the model had then."""

    name: Name
    body: bytes
    receipt: str
    query: Mapping[str, Any]
    life: int
    changes: tuple[int, int, int]
    entries: tuple[tuple[Any, ...], ...]
    amended: tuple[int, ...]

    @classmethod
    def of(cls, name: Name, body: bytes, query: Mapping[str, Any], talk: Talk) -> "Served":
        return cls(
            name, body, json.loads(body)["receipt"], query, talk.life, talk.changes, stood(talk), amendments(talk)
        )


def stood(talk: Talk) -> tuple[tuple[Any, ...], ...]:
    """What windows depend on of each entry."""
    return tuple((each.redacted, each.status == "in_progress", each.pinned, each.sent) for each in talk.entries)


def amendments(talk: Talk) -> tuple[int, ...]:
    """Return how often each entry was amended."""
    return tuple(each.amended for each in talk.entries)


class Service(NamedTuple):
    """Two applications on one store, the event loop that they run on, and direct access to the store."""

    apps: tuple[App, App]
    loop: asyncio.AbstractEventLoop
    behind: Behind
    encrypted: bool = False


class Steps:
    """Counts over all examples."""

    def __init__(self) -> None:
        self.examples = 0
        self.steps = 0
        self.requests = 0
        self.failure: BaseException | None = None


def chat(query: dict[str, Any]) -> dict[str, Any]:
    """Return the query for an append of chat messages: ``format`` would make them a provider's own."""
    return {name: value for name, value in query.items() if name != "format"}


class Machine(RuleBasedStateMachine):
    """Operations of clients on a few conversations of two tenants, through two applications."""

    service: Service
    done: Steps

    def __init__(self) -> None:
        super().__init__()
        self.done.examples += 1
        self.number = self.done.examples
        self.world = World()
        self.words = Words()
        self.keys = itertools.count(1)
        self.tags: dict[Name, list[str]] = {}
        self.meanings: dict[tuple[Name, str], str] = {}
        self.bodies: dict[tuple[str, str, str], bytes] = {}
        self.cursors: dict[Name, list[tuple[str, str, int, int]]] = {}
        self.sent: list[tuple[Name, list[dict[str, Any]]]] = []
        self.files: list[list[dict[str, Any]]] = []
        self.pictures: dict[str, bytes] = {}
        self.told: dict[tuple[Name, int], dict[int, dict[str | None, dict[int, str]]]] = {}
        """The ids of a life's messages by seq, as each view has them, after each version that was seen."""
        self.snapshots: list[tuple[Snapshot, World]] = []
        self.lost = False
        """Whether the store lost its newest writes."""
        self.served: list[Served] = []
        """Windows that may be asked for again by their receipts."""
        self.transcript: list[str] = []
        self.started = time.monotonic()

    @property
    def slow_ms(self) -> float:
        """The allowed difference in milliseconds between a remaining time and the model's, whose clock stands still."""
        return (time.monotonic() - self.started + 1) * 1000

    # ---- asking

    def ask(self, via: int, tenant: str, request: Request, **headers: str) -> Answer:
        """Send one request, and check that its status is in the contract and that there is no unexpected server error."""
        return self._run(self._asked_of(via, tenant, request, headers))

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.service.loop.run_until_complete(work)

    async def _asked_of(self, via: int, tenant: str, request: Request, headers: Mapping[str, str]) -> Answer:
        given = {name.replace("_", "-"): value for name, value in headers.items() if value}
        self.done.requests += 1
        line = f"{'AB'[via]} {tenant} {request.method} {request.path} {given or ''} {request.body[:600]!r}"
        try:
            answer = await ask(self.service.apps[via], request, {"authorization": f"Bearer {TENANTS[tenant]}", **given})
        except BaseException:
            self.transcript.append(f"{line} → raised")
            raise
        self.transcript.append(f"{line} → {answer.status} {answer.headers.get('etag', '')} {answer.body[:400]!r}")
        assert answer.status < 500 or answer.slug in PASSING, self._told("a server error", answer)
        operation = find_operation(request.method, request.path.partition("?")[0])
        promised = operation["responses"] if operation else {}
        named = {str(answer.status), f"{answer.status // 100}XX"}
        assert named & promised.keys(), self._told("not in the contract", answer)
        return answer

    def _told(self, what: str, answer: Answer | None = None) -> str:
        said = f"{what}: {answer.status} {answer.body[:1500]!r}" if answer else what
        return "\n".join([said, "What was said, newest last:", *self.transcript[-12:]])

    def get(self, via: int, name: Name, path: str = "", tag: str = "") -> Answer:
        """Read one conversation, and check that only present text is shown and that the ETag names one state."""
        path = f"/conversations/{name[1]}{path}"
        answer = self.ask(via, name[0], Request("GET", path), if_none_match=tag)
        talk = self.world.talks.get(name)
        if answer.status in (200, 304):
            assert talk is not None, self._told(f"{name} is not there", answer)
            self._note_tag(name, talk, answer)
        if answer.status == 200:
            has_branches = path.endswith(("/export", "/branches"))
            marks = (talk.exported() if has_branches else talk.marks()) if talk else frozenset()
            self._check_shown(answer, marks)
            self._check_same(name[0], path, answer)
        elif answer.status == 404 and talk is not None:
            assert "/messages/" in path, self._told(f"{name} is gone", answer)
        else:
            self._check_shown(answer, set())
        return answer

    def _check_shown(self, answer: Answer, allowed: AbstractSet[bytes]) -> None:
        shown = set(MARK.findall(answer.body))
        assert shown <= allowed, self._told(f"shown though not there: {shown - allowed}", answer)

    def _note_tag(self, name: Name, talk: Talk, answer: Answer) -> None:
        """Check that the ETag names the model's state and has never named another."""
        tag, printed = answer.headers["etag"], talk.print()
        known = self.meanings.setdefault((name, tag), printed)
        assert known == printed, self._told(f"{tag} of {name} named another state before", answer)
        assert talk.tag in ("", tag), self._told(f"{name} was {talk.tag} and nothing changed", answer)
        talk.tag = tag
        tags = self.tags.setdefault(name, [])
        if tag not in tags:
            tags.append(tag)

    def _check_same(self, tenant: str, path: str, answer: Answer) -> None:
        """Check that one ETag of one path names one body."""
        body = _EXPIRES.sub(b"", answer.body)
        known = self.bodies.setdefault((tenant, path, answer.headers["etag"]), body)
        assert known == body, self._told(f"under this tag it was {known!r}", answer)

    # ---- the state

    def check(self, via: int, name: Name) -> None:
        """Check that a conversation's export equals the model."""
        answer = self.get(via, name, "/export")
        talk = self.world.talks.get(name)
        if talk is None:
            assert answer.status == 404, self._told(f"{name} should not be there", answer)
            return
        assert answer.status == 200, self._told("no export", answer)
        head, *lines = [json.loads(line) for line in answer.body.splitlines()]
        wrong = _wrong_head(talk, name, head) or self._wrong_branches(talk, lines)
        lines = entry_lines(lines)
        wrong = wrong or self._wrong_lines(talk.entries, lines) or _wrong_totals(head, lines)
        wrong = wrong or _wrong_expiry(talk, head, self.slow_ms)
        assert not wrong, self._told(f"{name}: {wrong}", answer)
        grown = head["version"] > talk.version if talk.changed else head["version"] == talk.version
        assert grown, self._told(f"{name}: version {talk.version} before", answer)
        talk.version, talk.changed = head["version"], False
        told = self.told.setdefault((name, talk.life), {})
        for later in [version for version in told if version > talk.version]:
            del told[later]  # the store lost it
        told[talk.version] = {view: talk.seen(view) for view in (None, *VIEWS)}

    def _wrong_branches(self, talk: Talk, lines: list[dict[str, Any]]) -> str:
        found = branch_lines(lines)
        hangs = [(each.number, each.parent, each.after) for each in talk.branches]
        if [each for each, _ in found] != hangs:
            return f"the branches are {hangs}"
        pairs = zip(talk.branches, found, strict=True)
        wrong = (self._wrong_lines(branch.entries, its, branch.after + 1) for branch, (_, its) in pairs)
        return next(filter(None, wrong), "")

    def _wrong_lines(self, entries: Sequence[Entry], lines: list[dict[str, Any]], first: int = 1) -> str:
        if len(lines) != len(entries):
            return f"{len(entries)} entries are there"
        for seq, (line, entry) in enumerate(zip(lines, entries, strict=True), first):
            shown = [line["seq"], line["id"], json.dumps(line["message"]), line["pinned"], line.get("redacted", False)]
            if [*shown, line.get("sent", True)] != [
                *(seq, entry.id, json.dumps(entry.message), entry.pinned, entry.redacted, entry.sent)
            ]:
                return f"entry {seq} is {entry}"
            if (line.get("grounding") or {}).get("documents") != (entry.documents or None):
                return f"documents of {seq} are {entry.documents}"
            if line.get("metadata") != (entry.metadata or None):
                return f"metadata of {seq} is {entry.metadata}"
            entry.created_at = entry.created_at or line["created_at"]
            if line["created_at"] != entry.created_at:
                return f"entry {seq} was made at {entry.created_at}"
            if (line.get("author"), tuple(line.get("audience") or ())) != (entry.author, entry.audience):
                return f"{seq} is of and for {entry.author, entry.audience}"
            if line.get("status") != entry.status:
                return f"the status of {seq} is {entry.status}"
            if not entry.redacted and self.world.digests.setdefault(line["digest"], entry.said) != entry.said:
                return f"the digest of {seq} is another entry's"
        return ""

    # ---- changing

    def conditioned(self, kind: str, name: Name, how: int, which: int, **fields: Any) -> Op:
        """Return an operation with or without a condition and a key."""
        condition, keyed = how // 2 % 8, how // 16
        tags = self.tags.get(name, [])
        talk = self.world.talks.get(name)
        if_match = ""
        if condition == 5 and talk is not None and talk.tag:
            if_match = talk.tag
        elif condition == 6 and tags:
            if_match = tags[which % len(tags)]
        elif condition == 7:
            if_match = ("*", '"nope"', '"1-abc-def"')[which % 3]
        return Op(kind, name, if_match=if_match, key=self.key() if keyed == 0 else "", **fields)

    def key(self) -> str:
        """Return an unused Idempotency-Key."""
        return f"key-{self.number}-{next(self.keys)}"

    def do(self, via: int, op: Op) -> Answer:
        """Ask for a change, and check that it was done, or was refused for a reason that holds and changed nothing."""
        problems, excuses = self.world.problems(op), self.world.excuses(op)
        loose = self.service.behind.loose() if op.kind in ERASING else set()
        answer = self.ask(via, op.name[0], op.request(), if_match=op.if_match, idempotency_key=op.key)
        if op.key:
            self.world.try_under_key(op)
        if answer.ok:
            assert not problems, self._told(f"should be refused for {problems}", answer)
            if op.kind in ERASING:
                left = self.service.behind.loose() - loose
                assert not left, self._told(f"objects that no message has are left: {left}", answer)
            self._done(via, op, answer)
        else:
            assert answer.slug in problems | excuses or self._refused_early(via, op, answer), self._told(
                f"expected {problems or 'success'} of {op.kind}", answer
            )
            self._check_shown(answer, set())
            self.check(1 - via, op.name)
        return answer

    def _refused_early(self, via: int, op: Op, answer: Answer) -> bool:
        """Return whether an append was refused for its window's parameters, before anything was stored."""
        if op.kind != "append" or not op.query or answer.slug not in BEFORE_STORING or "appended" in answer.json:
            return False
        talk = self.world.talks.get(op.name) or Talk({})
        return self._given(via, op.name, op.query, talk).slug == answer.slug

    def _done(self, via: int, op: Op, answer: Answer) -> None:
        """Do a change in the model, and check that its answer and the other application agree."""
        ids = self._check_appended(op, answer) if op.kind == "append" else []
        before = set(self.world.talks)
        self.world.apply(op, ids)
        talk = self.world.talks.get(op.target)
        if talk is not None and "etag" in answer.headers:
            self._note_tag(op.target, talk, answer)
        if op.kind in ("create", "change", "rewind", "summarize", "fork", "import"):
            assert talk is not None
            wrong = _wrong_head(talk, op.target, answer.json)
            assert not wrong, self._told(f"answered {wrong}", answer)
        if talk is not None:
            self._check_shown(answer, talk.marks())
        if op.kind == "append":
            assert talk is not None
            waits = answer.json.get("waiting_for", [])
            last = answer.json["messages"][-1]
            is_again = last["duplicate"] or last["seq"] < talk.length  # a reply in progress behind which others stand
            assert waits == waiting(talk.messages, is_again=is_again), self._told("other calls wait", answer)
            self._check_its_window(via, op, talk, answer)
        touched = before | {op.target} if op.kind == "forget" else {op.name, op.target}
        for name in sorted(touched):
            if op.kind != "forget" or name[0] == op.name[0]:
                self.check(1 - via, name)
        if op.key:
            talk = self.world.talks.get(op.target)
            self.world.kept[op.name[0], op.key] = Kept(op, answer, talk.life if talk else 0)

    def _check_appended(self, op: Op, answer: Answer) -> list[str]:
        """Check an append's answer against the model, and return the entries' ids."""
        steps, _ = self.world.plan(op)
        told = answer.json
        shown = [(message["seq"], message["duplicate"]) for message in told["messages"]]
        assert shown == steps, self._told(f"should be {steps}", answer)
        assert answer.status == (200 if all(duplicate for _, duplicate in steps) else 201), self._told("status", answer)
        seqs = [seq for seq, _ in steps]
        assert (told["first_seq"], told["last_seq"]) == (min(seqs), max(seqs)), self._told("seqs", answer)
        ids = [message["id"] for message in told["messages"]]
        for sent, identity in zip(op.given["entries"], ids, strict=True):
            assert sent.get("id", identity) == identity, self._told("ids", answer)
        return ids

    def _check_its_window(self, via: int, op: Op, talk: Talk, answer: Answer) -> None:
        """Check that an append's window is that of the new history, or that the answer says why there is none."""
        told = answer.json
        if not op.query:
            assert "window" not in told, self._told("a window that nobody asked for", answer)
            return
        expected = self._given(via, op.name, op.query, talk)
        if expected.ok and told["window"] is None:
            over = talk.summary is not None and told["window_error"].get("costs", {}).get("summary", 0) > 0
            assert over, self._told("no window", answer)
        elif expected.ok:
            window = answer.body.split(b',"window":', 1)[1][:-1]
            self.served.append(Served.of(op.name, window, op.query, talk))
            self._check_window(talk, op.name, window, expected.body, told["version"])
        elif talk.summary is None:
            assert told["window"] is None, self._told(f"should not fit: {expected.body!r}", answer)
            assert told["window_error"]["type"] == expected.json["type"], self._told("another problem", answer)

    # ---- windows

    def _given(self, via: int, name: Name, query: dict[str, Any], talk: Talk) -> Answer:
        """Ask for the window of the model's history, which is sent in the body."""
        body = body_of(query, talk.settings, [entry.envelope() for entry in talk.entries])
        body["conversation_id"] = name[1]
        return self.ask(via, name[0], Request("POST", "/window", json.dumps(body).encode()))

    def _check_window(self, talk: Talk, name: Name, stored: bytes, given: bytes, version: int) -> None:
        """Check that a stored conversation's window equals that of the same history in a body, byte for byte."""
        one, other = json.loads(stored), json.loads(given)
        assert (one["conversation_id"], one["version"]) == (name[1], version), self._told("of another state")
        assert one["tokens"]["total"] <= one["budget"], self._told("over budget")
        over = limits.over(one["request"], SMALL) if one["model"].startswith("small") else []
        assert not over, self._told(f"over a limit: {over}")
        if one["summary_used"] and talk.summary is not None:
            sent = marks_of(json.dumps(one["request"]))
            compactions = [marks_of(message) for message in talk.messages if is_compaction(message)]
            assert any(told <= sent for told in (marks_of(talk.summary), *compactions)), self._told("not the summary")
            return
        assert not one["summary_used"] or any(map(is_compaction, talk.messages)), self._told("a summary from nowhere")
        if talk.summary is not None and "recalled" in one:
            return  # what recall searches depends on the summary, and a body has no summary
        for window in (one, other):
            del window["conversation_id"], window["version"], window["etag"]
            window.pop("receipt", None)
            window.pop("unknown_view", None)  # a history in a body has no agents of messages that are gone
            if talk.retold:
                del window["dropped"]["grounding_tokens"]  # counted when stored, under the template of that time
        # The explanation of a stored history ends where its read ended; the lines before that must be the same.
        told, rest = one.pop("explain", None) or [], other.pop("explain", None) or []
        assert [line for line in rest if line in told or line["kept"]] == told, self._told(
            f"explained {told}, not {rest}"
        )
        assert one == other, self._told(f"a window unlike that of its history: {_differences(one, other)}")
        assert _request_of(stored) == _request_of(given), self._told("a request written otherwise")

    def check_windows(self, via: int, name: Name, query: dict[str, Any]) -> None:
        """Check that both applications give the window of the model's history."""
        path = f"/window?{urlencode(query)}" if query else "/window"
        one, other = self.get(via, name, path), self.get(1 - via, name, path)
        same = one.status == other.status and (not one.ok or one.body == other.body)
        assert same, self._told(f"the two differ: {other.body!r}", one)
        talk = self.world.talks.get(name)
        if talk is None:
            assert one.slug in ("not-found", *BEFORE_STORING), self._told("not there", one)
            return
        given = self._given(via, name, query, talk)
        if one.ok:
            self.served.append(Served.of(name, one.body, query, talk))
        if one.ok and given.ok:
            self._check_window(talk, name, one.body, given.body, talk.version)
        elif talk.summary is None or query.get("summary") == "never":
            assert one.slug == given.slug, self._told(f"the same in a body is {given.body!r}", one)

    def grow(self, name: Name, chance: random.Random) -> None:
        """Add messages to a short conversation, so that there is something to edit, copy or erase."""
        via = chance.randrange(2)
        if name not in self.world.talks and chance.random() < 0.6:
            self.do(via, Op("create", name, {"settings": self.settings(SETTINGS(chance))}))
        talk = self.world.talks.get(name)
        if talk is None or talk.length < 3:
            entries = entries_of(TURNS(chance), talk.messages if talk else [], self.words)
            self.do(via, Op("append", name, {"entries": entries}))
        talk = self.world.talks.get(name)
        if talk is not None and talk.length and talk.summary is None and chance.random() < 0.3:
            given = {"text": self.words.text(3), "through_seq": chance.randint(1, talk.length)}
            self.do(via, Op("summarize", name, given))

    # ---- rules: appending

    @step(place=PLACES, how=HOW, which=ANY, entries=ENTRIES, query=maybe(QUERY))
    def append(self, place: Any, how: int, which: int, entries: list[int], query: int | None) -> None:
        """Append entries of every kind; some have used ids, and some tool results answer no call."""
        self._append(place, how, which, entries, {} if query is None else chat(QUERIES[query]))

    @step(place=PLACES, how=HOW, which=ANY, entries=TURNS)
    def append_turns(self, place: Any, how: int, which: int, entries: list[int]) -> None:
        """Append five to nine entries."""
        self._append(place, how, which, entries, {})

    @step(place=PLACES, how=HOW, which=ANY, entries=ENTRIES, query=QUERY)
    def append_and_read(self, place: Any, how: int, which: int, entries: list[int], query: int) -> None:
        """Append entries and read a window in one request."""
        self._append(place, how, which, entries, chat(QUERIES[query]))

    def _append(self, place: Any, how: int, which: int, drawn: list[int], query: dict[str, Any]) -> None:
        name = self.name(place)
        talk = self.world.talks.get(name) or Talk({})
        entries = entries_of(drawn, talk.messages, self.words)
        if which == 1:
            entries = [*entries, entries[0]]
        self.sent.append((name, entries))
        self.do(how % 2, self.conditioned("append", name, how, which, given={"entries": entries}, query=query))

    @step(grown=True, place=PLACES, how=HOW, which=ANY, entries=ENTRIES, query=maybe(QUERY), again=numbers(3))
    def append_after(self, place: Any, how: int, which: int, entries: list[int], query: int | None, again: int) -> None:
        """Append entries after an earlier one, by its seq or its id; now and then the same request comes again."""
        name = self.name(place)
        talk = self.world.talks.get(name) or Talk({})
        after = talk.length + 1 if which >= 60 else talk.length - which % min(5, talk.length + 1)
        drawn = entries_of(entries, talk.messages[:after], self.words)
        given = {"entries": drawn, "after_seq": after}
        op = self.conditioned(
            "append", name, how, which, given=given, query={} if query is None else chat(QUERIES[query])
        )
        self.do(how % 2, self._by_id(op, talk, after))
        if again == 0:
            if which % 2:
                self._append(place, how % 2 + 32, 0, [1], {})
            self.do(1 - how % 2, dataclasses.replace(op, key="", if_match="", entry_id=""))

    @staticmethod
    def _by_id(op: Op, talk: Talk, seq: int) -> Op:
        """Return the operation with the entry at ``seq`` named by its id, for every other seq that is there."""
        return dataclasses.replace(op, entry_id=talk.entries[seq - 1].id) if 0 < seq <= talk.length and seq % 2 else op

    @step(
        place=PLACES, how=HOW, which=ANY, stages=lists(numbers(30), 1, 3), more=lists(ENTRY, 0, 1), query=maybe(QUERY)
    )
    def write_reply(
        self, place: Any, how: int, which: int, stages: list[int], more: list[int], query: int | None
    ) -> None:
        """Begin a reply, write on and end it; between these it may be ended, rewound or erased, or other messages come."""
        name, identity = self.name(place), f"r-{which % 3}"
        for number, stage in enumerate(stages):
            talk = self.world.talks.get(name) or Talk({})
            known = talk.find(identity)
            before = known.message["content"] if known and stage % 7 else ""
            said = "" if stage % 12 == 4 else f"{before} {self.words.text(stage % 4)}".strip()
            reply = reply_of(identity, said, stage, first=known is None)
            entries = [reply, *entries_of(more, [*talk.messages, reply["message"]], self.words)]
            self.sent.append((name, entries))
            asked = {} if query is None or number else chat(QUERIES[query])
            self.do(how % 2, self.conditioned("append", name, how, which, given={"entries": entries}, query=asked))
            edit = (("rewind", {"to_seq": talk.length // 2}), ("redact", {"seq": talk.length}), ("erase", {}))
            if stage in (3, 7, 11) and name in self.world.talks:
                kind, given = edit[stage // 4]
                self.do(1 - how % 2, Op(kind, name, given))

    @step(place=maybe(PLACES), how=HOW, which=ANY, more=lists(ENTRY, 0, 1), query=maybe(QUERY))
    def append_again(self, place: Any, how: int, which: int, more: list[int], query: int | None) -> None:
        """Append the same entries again, in the same or another conversation, alone or with one more."""
        if not self.sent:
            return
        name, entries = self.sent[-1 - which % min(8, len(self.sent))]
        name = self.name(place) if place and which % 3 == 0 else name
        talk = self.world.talks.get(name) or Talk({})
        history = [*talk.messages, *(entry["message"] for entry in entries)]
        entries = [*entries, *entries_of(more, history, self.words)]
        asked = {} if query is None else chat(QUERIES[query])
        self.do(how % 2, self.conditioned("append", name, how, which, given={"entries": entries}, query=asked))

    @step(place=PLACES, via=numbers(2), which=numbers(len(_MANY) * 4), alone=FLAG, query=QUERY)
    def append_many(self, place: Any, via: int, which: int, alone: Any, query: int) -> None:
        """Append more than one read returns, so that the newest question may be far back."""
        if which >= len(_MANY):
            return
        roles = ("assistant",) if alone else ("user", "assistant")
        said = [{"role": roles[n % len(roles)], "content": self.words.text(n % 5)} for n in range(_MANY[which])]
        name = self.name(place)
        self.do(via, Op("append", name, {"entries": [{"message": message} for message in said]}, chat(QUERIES[query])))
        self.check_windows(via, name, QUERIES[query])

    # ---- rules: reading

    @step(place=PLACES, via=numbers(2), query=QUERY)
    def window(self, place: Any, via: int, query: int) -> None:
        """Read a window from both applications."""
        self.check_windows(via, self.name(place), QUERIES[query])

    @step(place=PLACES, via=numbers(2), queries=lists(QUERY, 2, 3), entries=ENTRIES)
    def windows_around_an_append(self, place: Any, via: int, queries: list[int], entries: list[int]) -> None:
        """Read a window before and after an append, of which the other application learns only from the store."""
        query = QUERIES[queries[0]]
        self.check_windows(via, self.name(place), query)
        self._append(place, via + 32, 0, entries, chat(QUERIES[queries[1]] if len(queries) > 2 else query))
        self.check_windows(via, self.name(place), query)

    @step(via=numbers(2), which=ANY, newest=FLAG)
    def receipts(self, via: int, which: int, newest: bool) -> None:  # noqa: FBT001
        """A receipt gives the bytes of its window again, or 410 with a reason that holds."""
        reach = self.served[-8:] if newest else self.served
        for place in range(min(4, len(reach))):
            self._read_again(via, reach[(which + place * 7) % len(reach)])

    def _read_again(self, via: int, served: Served) -> None:
        name, talk = served.name, self.world.talks.get(served.name)
        path = f"/conversations/{name[1]}/window?receipt={served.receipt}"
        answer = self.ask(via, name[0], Request("GET", path))
        if answer.status == 422 and "too long" in answer.json["detail"]:
            path += f"&{urlencode(served.query)}"
            answer = self.ask(via, name[0], Request("GET", path))
        if answer.status == 200:
            assert answer.body == served.body, self._told(f"other bytes than {served.body!r}", answer)
            assert talk is not None, self._told("a window of nothing", answer)
            assert talk.life == served.life, self._told("a window of another life", answer)
            return
        assert answer.status == 410, self._told("neither the window nor why not", answer)
        assert answer.slug == "receipt-gone", self._told("another problem", answer)
        told = answer.json
        assert self._is_true(told["reason"], told.get("seq", 0), served, talk), self._told("not so", answer)

    def _is_true(self, reason: str, seq: int, served: Served, talk: Talk | None) -> bool:
        """Whether the reason holds for which a served window cannot be made again."""
        if talk is None or talk.life != served.life:
            return reason == "erased"
        if self.lost:
            return True
        then, now = served.entries, stood(talk)
        rewinds, patches, summaries = (now > then for then, now in zip(served.changes, talk.changes, strict=True))
        if reason in ("redacted", "replaced", "amended"):
            was, is_now = then[seq - 1], now[seq - 1] if seq <= len(now) else then[seq - 1]
            # Metadata are in no window: with these alone, only what recall finds may be otherwise.
            matters = "recall_max_tokens" in served.query or any(
                a[2:] != b[2:] for a, b in zip(then, now, strict=False)
            )
            amended = matters and served.amended[seq - 1 :][:1] != amendments(talk)[seq - 1 :][:1]
            holds = {"redacted": is_now[0], "replaced": was[1], "amended": amended}
            return rewinds or holds[reason]
        known = {
            "rewound": rewinds,
            "settings": patches,
            "summary": summaries,
            "history": rewinds or then != now[: len(then)],
        }
        return known.get(reason, reason == "index" and "recall_max_tokens" in served.query)

    @step(grown=True, place=PLACES, via=numbers(2), what=numbers(6), which=ANY, query=QUERY)
    def conditional_read(self, place: Any, via: int, what: int, which: int, query: int) -> None:
        """A read under a known ETag answers 304 where the ETag is current, and the present state where it is not."""
        name = self.name(place)
        tags = self.tags.get(name, [])
        tag = ("*", '"nope"', '"1-abc-def"')[which % 3] if which < 6 or not tags else tags[-1 - which % len(tags)]
        asked = QUERIES[query]
        window = f"/window?{urlencode(asked)}" if asked else "/window"
        paths = ("", "/messages?limit=3", "/messages/1", "/export", window, "/messages?order=desc")
        for path in dict.fromkeys(("", window, paths[what])):
            self._read_under(via, name, path, tag, ("{}", "W/{}", '"other", {}', "{}")[which % 4])

    def _read_under(self, via: int, name: Name, path: str, tag: str, form: str) -> None:
        talk = self.world.talks.get(name)
        fresh = self.get(1 - via, name, path)
        answer = self.get(via, name, path, tag=form.format(tag) if tag != "*" else tag)
        if talk is None or fresh.status != 200:
            known = talk is not None and path.startswith("/window") and answer.status == 304 and tag in ("*", talk.tag)
            assert known or answer.status == fresh.status, self._told("a condition on what is not there", answer)
        elif tag in ("*", talk.tag):
            # A window that depends on more than the conversation and the query may be sent each time.
            follows = "model=" in path and "recall_max_tokens=" not in path and fresh.json.get("exact", True)
            sent = path.startswith("/window") and not follows
            assert answer.status in ((200, 304) if sent else (304,)), self._told("not 304", answer)
            assert answer.headers["etag"] == talk.tag, self._told("304 with another tag", answer)
        else:
            assert answer.status == 200, self._told(f"{tag} is an older state", answer)
            assert _EXPIRES.sub(b"", answer.body) == _EXPIRES.sub(b"", fresh.body), self._told("the two differ", answer)

    @step(grown=True, place=PLACES, via=numbers(2), which=ANY)
    def search(self, place: Any, via: int, which: int) -> None:
        """A search finds a marker word in the messages that have it, and nowhere after a redaction, rewind or erasure."""
        name = self.name(place)
        talk = self.world.talks.get(name)
        gone = sorted(self.world.erased.get(name, set()))
        marks = (sorted(talk.marks()) if talk else []) or [b"mark1z"]
        among = gone if which % 2 and gone else marks
        sought = among[which % len(among)].decode()
        path = f"/conversations/{name[1]}/search?query={sought}&limit=100"
        answer = self.ask(via, name[0], Request("GET", path))
        assert answer.status == (200 if talk else 404), self._told("no search", answer)
        self._check_shown(answer, talk.marks() if talk else set())
        if talk is not None:
            words = {seq: words_of(said_in(entry.message)) for seq, entry in enumerate(talk.entries, 1)}
            expected = {seq for seq, said in words.items() if sought.encode() in said}
            assert {each["seq"] for each in answer.json["messages"]} == expected, self._told("found otherwise", answer)

    @step(grown=True, place=PLACES, via=numbers(2), first=numbers(40), more=numbers(6))
    def read_by_tool(self, place: Any, via: int, first: int, more: int) -> None:
        """The tool by which a model reads the history says all that the asked messages say, and nothing that is gone."""
        name, first = self.name(place), first + 1
        talk = self.world.talks.get(name)
        asked = {"call_id": "call-1", "arguments": {"first": first, "last": first + more}, "max_tokens": 1_000_000}
        path = f"/conversations/{name[1]}/tools/history_read"
        answer = self.ask(via, name[0], Request("POST", path, json.dumps(asked).encode()))
        assert answer.status == (200 if talk else 404), self._told("no tool", answer)
        self._check_shown(answer, talk.marks() if talk else set())
        if talk is not None:
            told = set(MARK.findall(answer.body))
            for entry in talk.entries[first - 1 : first + more]:
                said = set(MARK.findall(said_in(entry.message).encode()))
                assert said <= told, self._told(f"not read: {entry}", answer)

    @step(grown=True, place=PLACES, via=numbers(2), view=one_of(*VIEWS), query=QUERY, which=ANY)
    def see(self, place: Any, via: int, view: str, query: int, which: int) -> None:
        """Answers to an agent's view have the messages that it sees, and no word of others."""
        name = self.name(place)
        talk = self.world.talks.get(name)
        allowed = talk.seen_marks(view) if talk is not None else frozenset()
        window = chat({**QUERIES[query], "view": view, "history_tools": "false"})
        paths = (
            f"?view={view}",
            f"/messages?limit=1000&view={view}",
            f"/export?view={view}",
            f"/window?{urlencode(window)}",
        )
        state, page, export, made = (self.get(via, name, path) for path in paths)
        found = self.ask(
            via, name[0], Request("GET", f"/conversations/{name[1]}/search?query=word&limit=100&view={view}")
        )
        asked = {"call_id": "call-1", "arguments": {"first": 1, "last": 100}, "max_tokens": 100_000, "view": view}
        read = Request("POST", f"/conversations/{name[1]}/tools/history_read", json.dumps(asked).encode())
        for answer in (state, page, export, made, found, self.ask(1 - via, name[0], read)):
            self._check_shown(answer, allowed)
        if talk is None:
            return
        seen = talk.seen(view)
        head, *lines = [json.loads(line) for line in export.body.splitlines()]
        for what, shown in (("listed", page.json["messages"]), ("exported", lines)):
            assert {each["seq"]: each["id"] for each in shown} == seen, self._told(f"{what}, and {view} sees {seen}")
        told = [
            each["summary"] and (each["summary"]["text"], each["summary"]["through_seq"]) for each in (head, state.json)
        ]
        assert told == [talk.seen_summary(view)] * 2, self._told(f"the summary of {view} is {told}")
        seq = which % max(1, talk.length) + 1
        answer = self.get(1 - via, name, f"/messages/{seq}?view={view}")
        self._check_shown(answer, allowed)
        assert (answer.status == 200) == (seq in seen), self._told(f"{view} sees {sorted(seen)}", answer)

    @step(grown=True, place=PLACES, via=numbers(2), limit=numbers(7), order=one_of("asc", "desc"), stop=numbers(4))
    def pages(self, place: Any, via: int, limit: int, order: str, stop: int) -> None:
        """Read the history page by page, each page from the other application; some readers stop early."""
        name, limit = self.name(place), limit + 1
        talk = self.world.talks.get(name)
        path, seen = f"/messages?order={order}&limit={limit}", 0
        while True:
            answer = self.get(via, name, path)
            if talk is None:
                assert answer.slug == "not-found", self._told("not there", answer)
                return
            expected = _from(talk, order, seen if order == "asc" else talk.length - seen, limit)
            self._check_page(name, talk, answer, expected)
            seen += len(expected)
            cursor = answer.json["next_cursor"]
            assert (cursor is None) == (seen >= talk.length), self._told("the end of the pages", answer)
            if cursor is None:
                return
            assert cursor in answer.headers["link"], self._told("no link", answer)
            following = seen if order == "asc" else talk.length - seen
            self.cursors.setdefault(name, []).append((order, cursor, following, talk.life))
            path, via = f"/messages?order={order}&limit={limit}&cursor={cursor}", 1 - via
            if stop == 0:
                return

    def _check_page(self, name: Name, talk: Talk, answer: Answer, expected: list[int]) -> None:
        shown = answer.json["messages"]
        assert [message["seq"] for message in shown] == expected, self._told(f"should be {expected}", answer)
        for message in shown:
            entry = talk.entries[message["seq"] - 1]
            said = as_shown(entry.message, name[1])
            told = (message["id"], message["message"], message["pinned"], message.get("sent", True))
            same = told == (entry.id, said, entry.pinned, entry.sent)
            assert same, self._told(f"should be {entry}", answer)

    @step(place=PLACES, via=numbers(2), which=ANY, limit=numbers(7))
    def old_cursor(self, place: Any, via: int, which: int, limit: int) -> None:
        """A cursor continues where it was given, and is refused in another life, and where a rewind took what followed."""
        name, limit = self.name(place), limit + 1
        if name not in self.cursors:
            return
        talk = self.world.talks.get(name)
        order, cursor, following, life = self.cursors[name][-1 - which % len(self.cursors[name])]
        answer = self.get(via, name, f"/messages?order={order}&limit={limit}&cursor={cursor}")
        if talk is None:
            assert answer.slug in ("not-found", "invalid-cursor"), self._told("not there", answer)
        elif life != talk.life:
            assert answer.slug == "invalid-cursor", self._told("a cursor of another life", answer)
        elif order == "asc" and following >= talk.length:
            assert answer.slug == "invalid-cursor", self._told("a cursor of messages that were rewound", answer)
        else:
            self._check_page(name, talk, answer, _from(talk, order, min(following, talk.length), limit))

    @step(place=PLACES, via=numbers(2), which=ANY)
    def message(self, place: Any, via: int, which: int) -> None:
        """Read one entry; a seq without an entry is not found."""
        name = self.name(place)
        talk = self.world.talks.get(name)
        seq = which % (talk.length + 2) if talk else which
        inline = which % 2 == 0
        answer = self.get(via, name, f"/messages/{seq}{'?media=inline' if inline else ''}")
        if talk is None or not 1 <= seq <= talk.length:
            assert answer.slug == "not-found", self._told("no such message", answer)
        else:
            said = talk.entries[seq - 1].message
            expected = said if inline else as_shown(said, name[1])
            assert answer.json["message"] == expected, self._told("another message", answer)

    @step(place=PLACES, via=numbers(2), which=ANY)
    def picture(self, place: Any, via: int, which: int) -> None:
        """Read a picture that a message has, or that one had: it is there as long as the log or a branch has it."""
        name = self.name(place)
        talk = self.world.talks.get(name)
        stored = talk.stored() if talk else ()
        there = {digest: data for entry in stored for digest, data in pictures_in(entry.message).items()}
        self.pictures |= there
        if not self.pictures:
            return
        digest = sorted(self.pictures)[which % len(self.pictures)]
        answer = self.ask(via, name[0], Request("GET", f"/conversations/{name[1]}/media/{digest}"))
        if digest in there:
            assert answer.body == base64.b64decode(there[digest]), self._told("another picture", answer)
        else:
            assert answer.status == 404, self._told("a picture that no message has", answer)

    @step(tenant=one_of(*TENANTS), owner=one_of(*OWNERS), via=numbers(2), limit=numbers(4))
    def listing(self, tenant: str, owner: str, via: int, limit: int) -> None:
        """An owner's list has all conversations of this owner once, and no others."""
        self._list(tenant, owner, via, limit)

    def _list(self, tenant: str, owner: str, via: int, limit: int) -> None:
        for each in (via, 1 - via):  # activity that they have not written yet would move lines between two pages
            self.ask(each, tenant, Request("GET", f"/conversations?owner={self.owner(owner)}"))
        owned = self.world.owned(tenant, self.owner(owner))
        allowed: set[bytes] = set().union(*(self.world.talks[name].marks() for name in owned))
        path = f"/conversations?owner={self.owner(owner)}&limit={limit + 1}"
        found: list[dict[str, Any]] = []
        cursor: Any = ""
        while cursor is not None:
            answer = self.ask(via, tenant, Request("GET", f"{path}&cursor={cursor}" if cursor else path))
            assert answer.status == 200, self._told("no list", answer)
            self._check_shown(answer, allowed)
            found += answer.json["conversations"]
            cursor, via = answer.json["next_cursor"], 1 - via
        listed = sorted(each["id"] for each in found)
        assert listed == sorted(name[1] for name in owned), self._told(f"{owner} has {owned}, not {listed}")
        for head in found:
            wrong = _wrong_head(self.world.talks[tenant, head["id"]], (tenant, head["id"]), head)
            assert not wrong, self._told(f"listed {wrong}")

    # ---- rules: conversations

    @step(place=PLACES, how=HOW, which=ANY, settings=SETTINGS)
    def create(self, place: Any, how: int, which: int, settings: int) -> None:
        """Create a conversation without messages, with or without settings."""
        given = {"settings": self.settings(settings)}
        self.do(how % 2, Op("create", self.name(place), given, key=self.conditioned("", ("", ""), how, which).key))

    @step(grown=True, place=PLACES, how=HOW, which=ANY, settings=SETTINGS)
    def change(self, place: Any, how: int, which: int, settings: int) -> None:
        """Set and remove settings."""
        patch = self._owned(patch_of(settings, self.words))
        self.do(how % 2, self.conditioned("change", self.name(place), how, which, given={"patch": patch}))

    @step(
        grown=True,
        place=PLACES,
        how=HOW,
        which=ANY,
        kind=one_of("rewind", "redact", "amend", "summarize", "unsummarize"),
    )
    def edit(self, place: Any, how: int, which: int, kind: str) -> None:
        """Rewind, redact, pin, annotate or summarize a conversation, or remove its summary."""
        self._edit(place, how, which, kind)

    @step(
        grown=True, place=PLACES, how=HOW, which=ANY, kind=one_of("rewind", "redact", "amend", "summarize"), query=QUERY
    )
    def edit_between_windows(self, place: Any, how: int, which: int, kind: str, query: int) -> None:
        """Edit a conversation between two reads of the same window."""
        self.check_windows(how % 2, self.name(place), QUERIES[query])
        self._edit(place, how, which, kind)
        self.check_windows(how % 2, self.name(place), QUERIES[query])

    def _edit(self, place: Any, how: int, which: int, kind: str) -> None:
        name = self.name(place)
        talk = self.world.talks.get(name)
        length = talk.length if talk else 3
        seq = length + 1 if which >= 60 else length - which % (length + 1)
        given: dict[str, dict[str, Any]] = {
            "rewind": {"to_seq": seq} | ({"forget": True} if how % 5 == 0 else {}),
            "redact": {"seq": seq},
            "amend": {"seq": seq, "patch": self._beside(which)},
            "summarize": {"text": "" if which == 7 else self.words.text(which % 9), "through_seq": seq},
            "unsummarize": {},
        }
        op = self.conditioned(kind, name, how, which, given=given[kind])
        self.do(how % 2, op if talk is None or kind == "unsummarize" else self._by_id(op, talk, seq))

    @staticmethod
    def _branch(talk: Talk, which: int) -> int:
        """Return the number of a branch, seldom of none."""
        numbers = [each.number for each in talk.branches]
        return numbers[which % len(numbers)] if numbers and which % 16 else talk.last_branch + 1

    @staticmethod
    def _entry_away(talk: Talk, which: int) -> str:
        """Return the id of an entry of a branch, which the log may have too; seldom of none."""
        ids = [entry.id for branch in talk.branches for entry in branch.entries]
        return ids[which % len(ids)] if ids and which % 16 else "not-there"

    @step(
        grown=True,
        place=PLACES,
        how=HOW,
        which=ANY,
        kind=one_of("swap", "swap", "swap", "drop", "redact_away"),
        query=QUERY,
    )
    def branch(self, place: Any, how: int, which: int, kind: str, query: int) -> None:
        """List the branches, then go to one, drop one, or redact an entry in one, between two reads of a window."""
        name = self.name(place)
        self.check_branches(how % 2, name)
        self.check_windows(how % 2, name, QUERIES[query])
        talk = self.world.talks.get(name) or Talk({})
        given: dict[str, Any] = (
            {"id": self._entry_away(talk, which)} if kind == "redact_away" else {"branch": self._branch(talk, which)}
        )
        self.do(how % 2, self.conditioned(kind, name, how, which, given=given))
        self.check_windows(1 - how % 2, name, QUERIES[query])
        self.check_branches(1 - how % 2, name)

    def check_branches(self, via: int, name: Name) -> None:
        """Check that the list of branches is the model's, the newest first."""
        answer, talk = self.get(via, name, "/branches"), self.world.talks.get(name)
        if talk is None:
            return
        found = [(each["id"], each["parent"], each["after_seq"], each["messages"]) for each in answer.json["branches"]]
        expected = [
            (f"b-{each.number}", f"b-{each.parent}" if each.parent else None, each.after, len(each.entries))
            for each in talk.branches
        ]
        assert found == expected[::-1], self._told(f"the branches are {expected}", answer)

    def _beside(self, which: int) -> dict[str, Any]:
        """Return a patch of a message's metadata and pin, and of whether it is sent."""
        noted: list[dict[str, Any]] = [
            {"metadata": {"note": self.words.mark()}},
            {"metadata": {"note": None}},
            {"metadata": None},
        ]
        pins: list[dict[str, Any]] = [{"pinned": True}, {"pinned": False}, {"pinned": True}, {}]
        sends: list[dict[str, Any]] = [{}, {"sent": False}, {"sent": True}, {"sent": False}]
        return [{}, *noted][which % 4] | pins[which // 4 % 4] | sends[which // 16 % 4]

    @step(grown=True, place=PLACES, other=PLACES, how=HOW, which=ANY, query=maybe(QUERY))
    def fork(self, place: Any, other: Any, how: int, which: int, query: int | None) -> None:
        """Fork a conversation, as a whole or its beginning."""
        name = self.name(place)
        free = [each for each in (self.name((name[0], n)) for n in (2, 1, 0)) if each not in self.world.talks]
        target = free[0] if free and which % 4 else (name[0], self.name(other)[1])
        talk = self.world.talks.get(name)
        given: dict[str, Any] = {"id": target[1]}
        if which % 3:
            given["at_seq"] = max(0, (talk.length if talk else 3) + (which >= 60) - which // 3 % 8)
        self.do(how % 2, self.conditioned("fork", name, how, which, given=given))
        if query is not None:
            self.check_windows(how % 2, target, QUERIES[query])

    @step(place=PLACES, how=HOW, which=ANY, edit=numbers(9), anew=numbers(3))
    def import_(self, place: Any, how: int, which: int, edit: int, anew: int) -> None:
        """Import an earlier export, as it was or edited by hand, under any name."""
        if not self.files:
            return
        name = self.name(place)
        if anew == 0 and name in self.world.talks:
            self.do(how % 2, Op("erase", name))
        lines = self._edited(self.files[-1 - which % len(self.files)], edit, which)
        self.do(how % 2, Op("import", name, {"lines": lines}, key=self.conditioned("", ("", ""), how, which).key))

    def _edited(self, lines: list[dict[str, Any]], edit: int, which: int) -> list[dict[str, Any]]:
        """Return an export as a person may have edited it."""
        branches = lines[len(entry_lines(lines)) :] if edit not in (3, 4, 5, 6, 8) else []
        head, *rest = json.loads(json.dumps(entry_lines(lines)))
        place = which % len(rest) if rest else 0
        match edit:
            case 1 | 2 if rest:  # another text; its digest stays or is removed
                self._say_otherwise(rest[place])
                if edit == 2:
                    rest[place].pop("digest", None)
            case 3 | 4 if rest:  # an entry is removed; the later ones move up, or leave a gap that is refused
                del rest[place]
                if edit == 3:
                    head.pop("messages", None)
                    for line in rest:
                        del line["seq"]
            case 5:  # settings and entries alone, as a person writes them
                head = {name: head[name] for name in SETTINGS_NAMES if name in head}
                rest = [
                    {n: line[n] for n in ("id", "message", "grounding", "metadata", "pinned", "sent") if n in line}
                    for line in rest
                ]
            case 6:  # the end is missing
                rest = rest[:-1]
            case 7:
                head = {**head, "system": self.words.text(3), "version": 1}
            case 8 if rest:
                rest.append({**rest[place], "seq": len(rest) + 1})
                head.pop("messages", None)
        return [head, *rest, *branches]

    def _say_otherwise(self, line: dict[str, Any]) -> None:
        message = line["message"]
        if isinstance(message.get("content"), str) and message["content"] != REDACTED:
            message["content"] = self.words.text(4)
        for document in (line.get("grounding") or {}).get("documents", ()):
            document["text"] = self.words.text(2)
        if "metadata" in line:
            line["metadata"] = {"note": self.words.mark()}

    @step(grown=True, place=PLACES, how=HOW, which=ANY)
    def usage(self, place: Any, how: int, which: int) -> None:
        """Report what a provider billed."""
        given = {"model": ("gpt-4o", SPENT_ON)[which % 2], "prompt_tokens": 100 + which, "window_tokens": 100}
        self.do(how % 2, self.conditioned("usage", self.name(place), how, which, given=given))

    # ---- rules: keys

    @step(via=numbers(2), which=ANY)
    def replay(self, via: int, which: int) -> None:
        """Repeat a request under its key, perhaps in another life of its conversation."""
        if not self.world.kept:
            return
        self._replay(via, list(self.world.kept.values())[-1 - which % len(self.world.kept)])

    @step(grown=True, place=PLACES, via=numbers(2), which=ANY, kind=numbers(5), entries=ENTRIES, query=QUERY)
    def replay_after_edit(self, place: Any, via: int, which: int, kind: int, entries: list[int], query: int) -> None:
        """Append under a key, edit or erase the conversation, and repeat the request, perhaps in another life."""
        name = self.name(place)
        talk = self.world.talks.get(name) or Talk({})
        given = {"entries": entries_of(entries, talk.messages, self.words)}
        op = Op("append", name, given, QUERIES[query], key=self.key())
        self.do(via, op)
        talk = self.world.talks.get(name)
        if talk is not None and talk.length:
            seq = max(1, talk.length - which % 4)
            edit = (("rewind", {"to_seq": seq - 1}), ("redact", {"seq": seq}), ("unsummarize", {}), ("erase", {}))[
                kind % 4
            ]
            self.do(via, Op(edit[0], name, edit[1]))
        if kind == 3 and name not in self.world.talks:
            self.do(via, Op("append", name, {"entries": entries_of([1], [], self.words)}))
        self._replay(1 - via, self.world.kept[name[0], op.key])

    def _replay(self, via: int, kept: Kept) -> None:
        op, first = kept.op, kept.answer
        if first is None:
            seq = next((op.given[name] for name in SEQS if name in op.given), 0)
            talk = self.world.talks.get(op.name)
            if not op.entry_id or (talk and talk.length >= seq and talk.entries[seq - 1].id == op.entry_id):
                self.do(via, op)  # else its entry's id names none now, or one at another place
            return
        answer = self.ask(via, op.name[0], op.request(), if_match=op.if_match, idempotency_key=op.key)
        talk = self.world.talks.get(op.target)
        if answer.ok:
            assert answer.status == first.status, self._told(f"first it was {first}", answer)
            assert answer.headers.get("idempotency-replayed") == "true", self._told("not said to be a replay", answer)
            self._check_repeated(via, op, talk, answer)
        else:
            assert answer.slug == "conflict", self._told("neither an answer nor what it changed is gone", answer)
        assert answer.ok == self._stands(kept, talk), self._told(
            f"what it did stands, or not: first it was {first}", answer
        )
        self._check_shown(answer, talk.marks() if talk else set())
        for name in {op.name, op.target}:
            self.check(1 - via, name)

    @staticmethod
    def _stands(kept: Kept, talk: Talk | None) -> bool:
        """Return whether what a request did is still there, so that it can be answered again."""
        if kept.op.kind in ("erase", "forget"):
            return True
        if talk is None:
            return False
        if kept.op.kind == "usage":
            return True
        ids = {entry.id for entry in talk.entries}
        return talk.life == kept.life and all(each["id"] in ids for each in _shown(kept.answer))

    def _check_repeated(self, via: int, op: Op, talk: Talk | None, answer: Answer) -> None:
        """Check that an answer that was given again shows what is there now."""
        if op.kind in ("create", "change", "rewind", "summarize", "fork", "import"):
            assert talk is not None
            wrong = _wrong_head(talk, op.target, answer.json)
            assert not wrong, self._told(f"answered {wrong}", answer)
        if op.kind == "append":
            assert talk is not None
            seqs = {entry.id: seq for seq, entry in enumerate(talk.entries, 1)}
            for message, sent in zip(_appended(answer), op.given["entries"], strict=True):
                assert message["seq"] == seqs[message["id"]], self._told("another place", answer)
                assert sent.get("id", message["id"]) == message["id"], self._told("another id", answer)
            self._check_its_window(via, op, talk, answer)

    @step(place=PLACES, via=numbers(2), which=ANY)
    def key_of_another(self, place: Any, via: int, which: int) -> None:
        """A key that came with another request is refused, whatever the result of that request."""
        keys = [key for tenant, key in self.world.kept if tenant == self.name(place)[0]]
        if not keys:
            return
        op = Op(
            "change",
            self.name(place),
            {"patch": {"metadata": {"other": self.words.mark()}}},
            key=keys[which % len(keys)],
        )
        answer = self.ask(via, op.name[0], op.request(), idempotency_key=op.key)
        assert answer.slug == "idempotency-key-reused", self._told("a key of another request", answer)
        self.check(1 - via, op.name)

    # ---- rules: the store

    def _pass_time(self, name: Name, *, over: bool = False) -> None:
        talk = self.world.talks.get(name)
        if talk is not None and talk.left_ms and not over and talk.left_ms < 20_000:
            return  # too little to halve, with the time that tests take
        passed = (talk.left_ms + 1000 if over else talk.left_ms // 2) if talk and talk.left_ms else _HOUR_MS
        self.service.behind.pass_time("/".join(name), passed)
        self.transcript.append(f"{passed} ms pass for {name}")
        if talk is not None and talk.left_ms:
            talk.left_ms -= passed
            if over:
                self.world.expire(name)
                left = self.service.behind.keys_of("/".join(name))
                assert not left, self._told(f"its time is over, and there are {left}")

    @step(grown=True, place=PLACES, via=numbers(2), after=FLAG, entries=ENTRIES, query=QUERY)
    def time_passes(self, place: Any, via: int, after: bool, entries: list[int], query: int) -> None:  # noqa: FBT001
        """Half of a conversation's remaining time passes, once, or before and after an append, which renews the time."""
        name = self.name(place)
        self._pass_time(name)
        if after:
            self._append(place, via + 32, 0, entries, {})
            self._pass_time(name)
        self.check(via, name)
        self.check_windows(1 - via, name, QUERIES[query])

    @step(
        grown=True,
        place=PLACES,
        how=HOW,
        which=ANY,
        entries=ENTRIES,
        changes=numbers(4),
        view=one_of(None, None, *VIEWS),
    )
    def follow(self, place: Any, how: int, which: int, entries: list[int], changes: int, view: str | None) -> None:
        """A follower that knows any version is led to the present one, and to the next, which another application writes.

        With a view it is told of no other message.
        """
        name, via = self.name(place), how % 2
        self.check(via, name)
        talk = self.world.talks.get(name)
        told = self.told.get((name, talk.life), {}) if talk else {}
        version = sorted(told)[-1 - which % min(6, len(told))] if told else 0
        asked = {"after": version} | ({"view": view, "body": "true"} if view else {})
        request = Request("GET", f"/conversations/{name[1]}/events?{urlencode(asked)}")
        headers = {"authorization": f"Bearer {TENANTS[name[0]]}"}
        allowed = talk.seen_marks(view) if talk and view else frozenset()
        self.transcript.append(f"{'AB'[via]} follows {name} after {version} as {view}")

        async def open_stream() -> Listener:
            listener = Listener(self.service.apps[via], request, headers)
            await listener.until(lambda: listener.status != 0)
            return listener

        listener = self._run(open_stream())
        assert (listener.status == 200) == (talk is not None), self._told(f"the stream's status is {listener.status}")
        before = talk.version if talk else 0
        if talk and changes:
            self._append(place, 1 - via + 2 * (how // 2), which, entries, {})
            self.check(via, name)
        after = self.world.talks.get(name)
        if talk and after and after.life == talk.life:
            came = self._run(listener.until(lambda: _reached(listener.events, version) >= after.version))
            assert came, self._told(f"a follower from {version} on has not {after.version}: {listener.events}")
            self._check_followed(name, version, before, listener.events, talk.life, view)
            shown = set(MARK.findall(json.dumps(listener.events).encode())) if view else set()
            allowed |= after.seen_marks(view) if view else frozenset()
            assert shown <= allowed, self._told(f"{view} was told {shown - allowed}: {listener.events}")
        self._run(listener.leave())

    def _check_followed(
        self, name: Name, since: int, before: int, events: list[dict[str, Any]], life: int, view: str | None
    ) -> None:
        """Check that events lead to the messages as they are, each version once, in order."""
        told, resets = self.told[name, life], [place for place, event in enumerate(events) if event["type"] == "reset"]
        versions = [event["version"] for event in events]
        assert versions == sorted(set(versions)), self._told(f"versions {versions}")
        assert not resets or resets == [0], self._told(f"a reset behind other events: {events}")
        start = versions[0] if resets else since
        if start in told:
            now = applied(events[len(resets) :], told[start][view])
            assert now == told[max(told)][view], self._told(f"from {start} on the events lead to {now}: {events}")
        assert not (resets and since == before), self._told(f"a reset, but {since} was the present version: {events}")

    @step(grown=True, place=PLACES, via=numbers(2))
    def look_around(self, place: Any, via: int) -> None:
        """Keep an export and a snapshot of the store for later steps, and check the store's keys."""
        answer = self.get(via, self.name(place), "/export")
        if answer.ok:
            self.files.append([json.loads(line) for line in answer.body.splitlines()])
        if len(self.snapshots) < 3:
            self.snapshots.append((self.service.behind.remember(), self.world.copy()))
        self.look_behind()

    def look_behind(self) -> None:
        """Check that no key holds erased text, that indexes are right, and that a conversation's keys expire together."""
        erased = {mark for marks in self.world.erased.values() for mark in marks}
        there = set().union(*(talk.known() for talk in self.world.talks.values()))
        for key, value in () if self.service.encrypted else self.service.behind.values().items():
            back = set(MARK.findall(value)) & (erased - there)
            assert not back, self._told(f"erased, and still in {key!r}: {back}")
        for name, talk in self.world.talks.items():
            self._check_index(name, talk)
            self._check_media(name, talk)
            for key, left in self.service.behind.times_left("/".join(name)).items():
                together = abs(left - talk.left_ms) < self.slow_ms if talk.left_ms else left == -1
                assert together, self._told(f"{key!r} ends in {left} ms, and {name} in {talk.left_ms or 'no time'}")

    def _check_media(self, name: Name, talk: Talk) -> None:
        """Check that the store has the pictures of the conversation's messages, counts them, and has no others."""
        expected = Counter(digest for entry in talk.stored() for digest in pictures_in(entry.message))
        found = self.service.behind.media("/".join(name))
        same = sorted(found.values()) == sorted(expected.values()) if self.service.encrypted else found == expected
        assert same, self._told(f"pictures of {name} are {found}, and not {expected}")

    def _check_index(self, name: Name, talk: Talk) -> None:
        """Check that the index holds the words of present messages in their order, and no others."""
        index = self.service.behind.words("/".join(name))
        assert len(index) <= talk.length, self._told(f"{name} has {talk.length} messages, {len(index)} are indexed")
        for seq, (found, entry) in enumerate(zip(index, talk.entries, strict=False), 1):
            said = said_in(entry.message)
            expected = len(set(words_of(said))) * 4 if self.service.encrypted else pack_words([said])[0]
            shown = len(found) if self.service.encrypted else found
            assert shown == expected, self._told(f"words of {seq} in {name}: {found!r}")

    # ---- rules: ends

    @step(grown=True, place=PLACES, how=HOW, which=ANY, kind=numbers(9), query=QUERY)
    def end(self, place: Any, how: int, which: int, kind: int, query: int) -> None:
        """A life ends now and then: it is erased, alone or with all of an owner's, it expires, or the store loses it."""
        name, via = self.name(place), how % 2
        self.check_windows(1 - via, name, QUERIES[query])
        match kind:
            case 0 | 1:
                self.do(via, self.conditioned("erase", name, how, which))
            case 2:
                owner = self.owner(OWNERS[which % 2])
                self.do(via, self.conditioned("forget", name, how & ~14, which, given={"owner": owner}))
            case 3 | 4:
                self._pass_time(name, over=True)
                self.check(via, name)
            case 5:
                self._lose(via, which, query)

    def _lose(self, via: int, which: int, query: int) -> None:
        """Reset the store to an earlier state, or to an empty one, under running services."""
        if which % 4 == 0 or not self.snapshots:
            snapshot, world = Snapshot(), World()
        else:
            snapshot, world = self.snapshots[which % len(self.snapshots)]
        before = set(self.world.talks)
        self.service.behind.restore(snapshot)
        self.transcript.append("the store lost its newest writes")
        self.lost = True
        digests = self.world.digests
        self.world = world.copy()
        self.world.digests = digests
        for name in sorted({*before, *self.world.talks}):
            self.check(via, name)
            self.check_windows(1 - via, name, QUERIES[query])

    @step(grown=True, place=PLACES, via=numbers(2), which=ANY, birth=numbers(5), settings=SETTINGS, query=QUERY)
    def begin_anew(self, place: Any, via: int, which: int, birth: int, settings: int, query: int) -> None:
        """One application erases a conversation and begins another life; the other reads its window before and after."""
        name = self.name(place)
        self.check_windows(1 - via, name, QUERIES[query])
        had = self.world.talks.get(name)
        lines = [json.loads(line) for line in self.get(via, name, "/export").body.splitlines()] if had else []
        if had:
            self.do(via, Op("erase", name))
        if birth in (0, 1):
            self.do(via, Op("create", name, {"settings": self.settings(settings)}))
            if birth == 1:
                self.check_windows(via, name, QUERIES[query])
                self._append(place, via + 32, 0, [1], QUERIES[query])
        elif birth in (2, 3) and had:
            self.do(via, Op("import", name, {"lines": self._edited(lines, which % 9, which)}))
        for n in range(min(4, had.version if had else 1) - (birth == 0)):  # up to the version of the life before
            self.do(via, Op("append", name, {"entries": entries_of([1 + n % 2], [], self.words)}))
        self.check_windows(1 - via, name, QUERIES[query])

    # ---- rules: at once

    @step(
        grown=True,
        place=PLACES,
        kinds=one_of(*AT_ONCE),
        which=ANY,
        other=ANY,
        entries=ENTRIES,
    )
    def at_once(self, place: Any, kinds: tuple[str, str], which: int, other: int, entries: list[int]) -> None:
        """Two changes of one conversation at the same time have the result of one after the other."""
        name = self.name(place)
        talk = self.world.talks.get(name)
        if_match = talk.tag if talk and which % 5 == 0 else ""
        ops = tuple(
            Op(
                "append" if kind == "regenerate" else kind,
                name,
                self._at_once(kind, name, number, entries),
                if_match=if_match,
            )
            for kind, number in zip(kinds, (which, other), strict=True)
        )

        async def both() -> list[Answer]:
            asked = (
                self._asked_of(via, op.name[0], op.request(), {"if_match": op.if_match}) for via, op in enumerate(ops)
            )
            answers = await asyncio.gather(*asked, return_exceptions=True)  # both end before either is checked
            for answer in answers:
                if isinstance(answer, BaseException):
                    raise answer
            return answers  # type: ignore[return-value]

        answers = self._run(both())
        touched = {op.name for op in ops} | {op.target for op in ops}
        wrong = []
        for world in self._outcomes(ops, answers):
            standing, self.world = self.world, world
            meanings, bodies = dict(self.meanings), dict(self.bodies)
            try:
                for each in sorted(touched):
                    self.check(which % 2, each)
            except AssertionError as error:
                self.world, self.meanings, self.bodies = standing, meanings, bodies
                wrong.append(str(error).splitlines()[0])
            else:
                return
        told = [
            f"{op.kind} {op.given} {op.if_match} → {answer.status} {answer.slug}"
            for op, answer in zip(ops, answers, strict=True)
        ]
        raise AssertionError(self._told(f"no order explains {told}: {wrong}"))

    def _at_once(  # noqa: C901 - a case for each operation
        self, kind: str, name: Name, number: int, entries: list[int]
    ) -> dict[str, Any]:
        talk = self.world.talks.get(name) or Talk({})
        seq = max(0, talk.length - number % 4)
        match kind:
            case "append" | "regenerate":
                drawn = entries_of(entries, talk.messages if kind == "append" else talk.messages[:seq], self.words)
                named = [{**entry, "id": f"{entry.get('id', 'at-once')}-{number % 2}"} for entry in drawn]
                return {"entries": named} | ({"after_seq": seq} if kind == "regenerate" else {})
            case "amend":
                return {"seq": seq, "patch": self._beside(number)}
            case "rewind":
                return {"to_seq": seq}
            case "redact":
                return {"seq": seq}
            case "swap" | "drop":
                return {"branch": self._branch(talk, number)}
            case "redact_away":
                return {"id": self._entry_away(talk, number)}
            case "summarize":
                return {"text": self.words.text(2), "through_seq": seq}
            case "change":
                return {"patch": {"metadata": {f"n{number}": self.words.mark()}}}
            case "create":
                return {"settings": {"system": self.words.text(1)}}
            case "fork":
                return {"id": self.name((name[0], 2))[1], "at_seq": seq}
            case "import":
                return {
                    "lines": [
                        {"system": self.words.text(1)},
                        {"message": {"role": "user", "content": self.words.text(1)}},
                    ]
                }
        return {}

    def _outcomes(self, ops: tuple[Op, ...], answers: list[Answer]) -> Iterator[World]:
        """Yield the worlds that the answers allow, at most one for each order."""
        for order in ((0, 1), (1, 0)):
            world = self.world.copy()
            for index in order:
                if not _followed(world, ops[index], answers[index], ops[1 - index]):
                    break
            else:
                yield world

    # ---- names, and the end

    def name(self, place: tuple[str, int]) -> Name:
        return place[0], f"c{place[1]}-{self.number}"

    def owner(self, owner: str) -> str:
        return f"{owner}-{self.number}"

    def settings(self, number: int) -> dict[str, Any]:
        return self._owned(settings_of(number, self.words))

    def _owned(self, settings: dict[str, Any]) -> dict[str, Any]:
        if settings.get("owner"):
            settings["owner"] = self.owner(settings["owner"])
        return settings

    def check_invariants(self, *arguments: Any) -> None:
        """Count the step, which the framework does not report."""
        self.done.steps += 1
        super().check_invariants(*arguments)

    def teardown(self) -> None:
        """Erase everything as clients do, and check that only keys that expire remain."""
        raised = sys.exc_info()[1]
        if not isinstance(raised, HypothesisException | StopTest):
            self.done.failure = self.done.failure or raised
        try:
            if raised is None:
                self._leave_nothing()
        except BaseException as failure:
            self.done.failure = self.done.failure or failure
            raise
        finally:
            self.service.behind.clear()

    def _leave_nothing(self) -> None:
        self.look_behind()
        for tenant in TENANTS:
            for owner in OWNERS:
                self._list(tenant, owner, 0, 1)
        for name in sorted(self.world.talks):
            self.check_windows(0, name, {"model": "gpt-4o", "grounding": "all"})
            self.do(1, Op("erase", name))
        names = [f"{tenant}/c{n}-{self.number}" for tenant in TENANTS for n in range(3)]
        left = [key for name in names for key in self.service.behind.keys_of(name)]
        assert not left, self._told(f"erased, and there are {left}")
        unending = self.service.behind.unending()
        assert not unending, self._told(f"these never end: {unending}")


def _followed(world: World, op: Op, answer: Answer, other: Op) -> bool:
    """Do in the world what was answered, and return whether the answer was possible."""
    problems = world.problems(op)
    if answer.ok:
        if op.kind == "erase" and other.kind == "erase" and op.name not in world.talks:
            return True  # it was there and is gone; which of the two erased it cannot be known
        if not problems:
            world.apply(op)
        return not problems
    return answer.slug in problems or (answer.slug in PASSING and "retry-after" in answer.headers)


def _from(talk: Talk, order: str, start: int, limit: int) -> list[int]:
    """Return the seqs of a page: ``start`` is the seq before the page, or with ``desc`` its first seq."""
    if order == "asc":
        return list(range(start + 1, min(talk.length, start + limit) + 1))
    return list(range(start, max(0, start - limit), -1))


def _wrong_head(talk: Talk, name: Name, head: dict[str, Any]) -> str:
    """Return what is wrong with the settings and state in an answer; empty when nothing is."""
    settings = {name: head[name] for name in SETTINGS_NAMES if name in head}
    last = talk.length or None
    expected = {"count": talk.length, "first_seq": 1 if last else None, "last_seq": last}
    summary = head["summary"] and (head["summary"]["text"], head["summary"]["through_seq"])
    if head["id"] != name[1]:
        return f"the id is {name[1]}"
    if settings != talk.settings:
        return f"the settings are {talk.settings}"
    if head["messages"] != expected:
        return f"the messages are {expected}"
    if summary != talk.summary:
        return f"the summary is {talk.summary}"
    if (head["expires_at"] is None) != ("ttl_seconds" not in talk.settings):
        return "expiry and ttl do not agree"
    return ""


def _wrong_expiry(talk: Talk, head: dict[str, Any], slow_ms: float) -> str:
    if head["expires_at"] is None:
        return ""
    left_ms = (datetime.fromisoformat(head["expires_at"]) - datetime.now(UTC)) / timedelta(milliseconds=1)
    return "" if abs(left_ms - talk.left_ms) < slow_ms else f"it has {talk.left_ms} ms left, not {left_ms}"


def _wrong_totals(head: dict[str, Any], lines: list[dict[str, Any]]) -> str:
    for encoding, total in head["tokens"].items():
        if sum(line["tokens"][encoding] for line in lines) != total:
            return f"the entries' {encoding} tokens are not their sum"
    return ""


def _reached(events: list[dict[str, Any]], since: int) -> int:
    """Return the version to which events lead."""
    return int(events[-1]["version"]) if events else since


def _request_of(window: bytes) -> bytes:
    request = window.split(b'"request":', 1)[1]
    stored, receipt, _ = request.rpartition(b',"receipt":"')
    return stored if receipt else request[:-1]


def _appended(answer: Answer) -> list[dict[str, Any]]:
    """Return what an append's answer says of each entry; empty for other answers."""
    return answer.json["messages"] if answer.body and "first_seq" in answer.json else []


def _shown(answer: Answer) -> list[dict[str, Any]]:
    """Return the entries that the answer to a change shows: those of an append, the one of a ``PATCH``, or none."""
    is_entry = answer.body and "seq" in answer.json
    return [answer.json] if is_entry else _appended(answer)


def _differences(one: dict[str, Any], other: dict[str, Any]) -> str:
    names = [name for name in {**one, **other} if one.get(name) != other.get(name)]
    return "; ".join(f"{name} {one.get(name)} against {other.get(name)}" for name in names)
