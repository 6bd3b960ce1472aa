"""The model: conversations as plain dictionaries and lists, and what each operation does to them.

It follows the HTTP contract as simply as possible: it counts and caches nothing, and is copied as a whole to try an
operation. Only windows are not computed here. The service makes them from a history in a request's body, and other tests
check those windows.
"""

import base64
import copy
import dataclasses
import hashlib
import itertools
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from model.asgi import Request

Name = tuple[str, str]
"""A tenant and a conversation's id."""

MARK = re.compile(rb"mark[0-9]+z")  # long enough that no random name in the store contains one
SETTINGS = (
    "owner",
    "model",
    "reserve",
    "system",
    "few_shots",
    "tools",
    "tool_choice",
    "grounding_template",
    "document_separator",
    "metadata",
    "ttl_seconds",
)
SEQS = frozenset({"seq", "to_seq", "at_seq", "through_seq", "after_seq"})
"""Members that name an entry."""
REDACTED = "[redacted]"
ANYTHING = "anything"
"""What a redacted entry said: an entry under its id counts as a duplicate, whatever it says."""


def marks_of(value: Any) -> frozenset[bytes]:
    """Return the marker words in a JSON value."""
    return frozenset(MARK.findall(json.dumps(value).encode()))


@dataclass
class Entry:
    """A stored message. ``said`` distinguishes a retry from another entry of the same id."""

    id: str
    message: dict[str, Any]
    pinned: bool = False
    documents: list[dict[str, Any]] | None = None
    metadata: dict[str, Any] | None = None
    status: str | None = None
    redacted: bool = False
    said: str = ""
    created_at: str = ""
    author: str | None = None
    audience: tuple[str, ...] = ()
    sent: bool = True
    amended: int = 0
    """How often its metadata or its pin were changed."""

    def __post_init__(self) -> None:
        grounding = None if self.documents is None else {"documents": self.documents}
        self.said = self.said or json.dumps(
            [
                self.message,
                grounding,
                self.pinned,
                self.metadata or None,
                *self._not_ended(),
                *self._named(),
                *self._not_sent(),
            ],
            sort_keys=True,
        )
        self.marks = marks_of([self.message, self.documents, self.metadata])

    def _not_ended(self) -> list[str]:
        return [self.status] if self.status in ("in_progress", "interrupted") else []

    def _not_sent(self) -> list[Any]:
        return [] if self.sent else ["not sent"]

    def _named(self) -> list[Any]:
        return [self.author, sorted(self.audience)] if self.author or self.audience else []

    def is_seen(self, view: str) -> bool:
        """Return whether this agent may see the entry."""
        return not self.audience or view in self.audience or view == self.author

    def is_others(self, view: str | None) -> bool:
        """Return whether the entry is another agent's."""
        return self.author not in (None, view)

    def said_to(self, view: str | None) -> Any:
        """Return what an agent who may see the entry sees of it: of another agent's call what was said with it."""
        makes_calls = self.message.get("tool_calls") or self.message.get("function_call")
        is_text = bool(makes_calls) and self.is_others(view)
        return self.message.get("content") or self.message.get("refusal") if is_text else self.message

    def grows_to(self, other: "Entry") -> bool:
        """Return whether this reply in progress may be replaced by another entry under its id."""
        sizes = [len(json.dumps(each.message, ensure_ascii=False).encode()) for each in (self, other)]
        is_of_the_same = self._named() == other._named()
        return (
            self.status == "in_progress" and is_of_the_same and (other.status != "in_progress" or sizes[0] <= sizes[1])
        )

    def envelope(self) -> dict[str, Any]:
        """Return the entry as a client sends it."""
        sent: dict[str, Any] = {"message": self.message}
        if self.id:
            sent["id"] = self.id
        if self.documents is not None:
            sent["grounding"] = {"documents": self.documents}
        if self.pinned:
            sent["pinned"] = True
        if not self.sent:
            sent["sent"] = False
        if self.metadata is not None:
            sent["metadata"] = self.metadata
        if self.status is not None:
            sent["status"] = self.status
        if self.author is not None:
            sent["author"] = self.author
        if self.audience:
            sent["audience"] = [*self.audience]
        return sent


def entry_of(sent: dict[str, Any]) -> Entry:
    """Return the entry in an envelope that a client sends."""
    return Entry(
        id=sent.get("id", ""),
        message=sent["message"],
        pinned=sent.get("pinned", False),
        sent=sent.get("sent", True),
        documents=(sent.get("grounding") or {}).get("documents"),
        metadata=sent.get("metadata"),
        status=sent.get("status"),
        author=sent.get("author"),
        audience=tuple(sent.get("audience") or ()),
    )


def tool_group(entries: list[Entry], place: int) -> list[int]:
    """Return the places of a message's tool group, whatever stands between its members; else its own."""

    def calls(at: int) -> list[str]:
        return [call["id"] for call in entries[at].message.get("tool_calls") or ()]

    message, head = entries[place].message, place
    if message["role"] == "tool":
        made = (at for at in reversed(range(place)) if message["tool_call_id"] in calls(at))
        head = next(made, place)
    if message["role"] == "function" and place and entries[place - 1].message.get("function_call"):
        return [place - 1, place]
    if message.get("function_call"):
        follows = place + 1 < len(entries) and entries[place + 1].message["role"] == "function"
        return [place, place + 1] if follows else [place]
    found, open_calls = [head], {*calls(head)}
    for at in range(head + 1, len(entries)):
        if entries[at].status != "in_progress":
            open_calls -= {*calls(at)}
        if entries[at].message["role"] == "tool" and entries[at].message["tool_call_id"] in open_calls:
            found.append(at)
    return sorted({*found, place})


def redacted(entry: Entry) -> Entry:
    """Return the entry without its content; its place and its part in a tool group stay."""
    message = entry.message
    role = message["role"]
    stays: dict[str, Any] = {"role": role, "content": REDACTED}
    if role == "tool":
        stays = {"role": role, "tool_call_id": message["tool_call_id"], "content": REDACTED}
    elif role == "function":
        stays = {"role": role, "name": message["name"], "content": REDACTED}
    elif message.get("tool_calls"):
        stays = {"role": role, "content": None, "tool_calls": [_emptied(call) for call in message["tool_calls"]]}
    elif message.get("function_call"):
        call = {"name": message["function_call"]["name"], "arguments": "{}"}
        stays = {"role": role, "content": None, "function_call": call}
    return Entry(
        entry.id,
        stays,
        entry.pinned,
        status=entry.status,
        redacted=True,
        said=ANYTHING,
        created_at=entry.created_at,
        author=entry.author,
        audience=entry.audience,
        sent=entry.sent,
    )


def _emptied(call: dict[str, Any]) -> dict[str, Any]:
    if call["type"] == "custom":
        return {"id": call["id"], "type": "custom", "custom": {"name": call["custom"]["name"], "input": ""}}
    return {"id": call["id"], "type": "function", "function": {"name": call["function"]["name"], "arguments": "{}"}}


def pictures_in(message: dict[str, Any]) -> dict[str, bytes]:
    """Return the pictures that leave a message, in base64, by digest."""
    parts = message["content"] if isinstance(message.get("content"), list) else []
    urls = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    found = [url.partition(",")[2].encode() for url in urls if url.startswith("data:")]
    return {hashlib.sha256(data).hexdigest()[:32]: data for data in found}


def as_shown(message: dict[str, Any], conversation: str) -> dict[str, Any]:
    """Return a message as pages show it: in place of a picture its path, and beside that its facts."""
    shown = copy.deepcopy(message)
    for part in shown["content"] if pictures_in(message) else ():
        if part["type"] == "image_url" and part["image_url"]["url"].startswith("data:"):
            (digest, data), *_ = pictures_in({"content": [part]}).items()
            size = len(base64.b64decode(data))
            facts = {"digest": digest, "type": "image/png", "bytes": size, "width": None, "height": None}
            part["image_url"] |= {"url": f"/conversations/{conversation}/media/{digest}", "media": facts}
    return shown


def waiting(messages: Sequence[dict[str, Any]], *, is_again: bool) -> list[str]:
    """Return the ids of the tool calls that wait for results at the end of a history, or the name of a legacy call.

    ``is_again``: the last message was sent before. Then its legacy call is not named.
    """
    found: list[str] = []
    for message in messages:
        if message["role"] != "tool":
            found = [call["id"] for call in message.get("tool_calls") or ()]
        elif message["tool_call_id"] in found:
            found.remove(message["tool_call_id"])
    last = {} if is_again else messages[-1] if messages else {}
    legacy = last.get("function_call") if last.get("role") == "assistant" and not found else None
    return [legacy["name"]] if legacy else found


def is_compaction(message: dict[str, Any]) -> bool:
    """Return whether a message is a provider's compaction, which stands for all messages before it."""
    return "native" in message


def calls_in(messages: Iterable[dict[str, Any]]) -> list[str]:
    """Return the ids of all tool calls of a history."""
    return [call["id"] for message in messages for call in message.get("tool_calls") or ()]


@dataclass(frozen=True)
class Branch:
    """A tail that was replaced: its number, the branch in which it hangs (0: the log), the seq behind which."""

    number: int
    parent: int
    after: int
    entries: tuple[Entry, ...]

    @property
    def last(self) -> int:
        return self.after + len(self.entries)

    @property
    def marks(self) -> frozenset[bytes]:
        return frozenset().union(*(entry.marks for entry in self.entries))


def is_bare(entry: Entry) -> bool:
    """Return whether this is a reply that was not finished, without a word."""
    is_open = entry.status in ("in_progress", "interrupted") and not entry.redacted
    return is_open and set(entry.message) == {"role", "content"} and not (entry.message["content"] or "").strip()


_lives = itertools.count(1)


@dataclass
class Talk:
    """One life of a conversation. ``tag`` is its current ETag, empty if the conversation was not read since it changed."""

    settings: dict[str, Any]
    entries: list[Entry] = field(default_factory=list)
    summary: tuple[str, int] | None = None
    life: int = field(default_factory=lambda: next(_lives))
    version: int = 0
    tag: str = ""
    changed: bool = True
    branches: tuple[Branch, ...] = ()
    last_branch: int = 0
    left_ms: int = 0
    retold: bool = False
    """Whether documents were stored under another template than the current one."""
    changes: tuple[int, int, int] = (0, 0, 0)
    """The number of rewinds, of changes of settings, and of the summary."""
    before: tuple[tuple[frozenset[bytes], int], ...] = ()
    """Marker words of earlier settings and summaries, which are kept for receipts, with the last message that they cover."""

    def __post_init__(self) -> None:
        self.settings_marks = marks_of(self.settings)
        self.change()

    @property
    def length(self) -> int:
        return len(self.entries)

    @property
    def messages(self) -> list[dict[str, Any]]:
        return [entry.message for entry in self.entries]

    def find(self, identity: str) -> Entry | None:
        return next((entry for entry in self.entries if entry.id == identity), None)

    def marks(self) -> frozenset[bytes]:
        """Return every marker word of the conversation."""
        if self._marks is None:
            self._marks = self.settings_marks.union(marks_of(self.summary), *(entry.marks for entry in self.entries))
        return self._marks

    def count(self, place: int) -> None:
        """Count a rewind, a change of settings, or one of the summary."""
        self.changes = tuple(each + (index == place) for index, each in enumerate(self.changes))  # type: ignore[assignment]

    def known(self) -> frozenset[bytes]:
        """Return every marker word that is stored of the conversation."""
        return self.exported().union(*(marks for marks, _ in self.before))

    def exported(self) -> frozenset[bytes]:
        """Return every marker word of the conversation and of its branches."""
        return self.marks().union(*(branch.marks for branch in self.branches))

    def stored(self) -> list[Entry]:
        """Return all entries, those of branches included."""
        return [*self.entries, *(entry for branch in self.branches for entry in branch.entries)]

    # ---- branches

    def seal(self, keep: int) -> None:
        """Make a branch of the entries behind ``keep``."""
        tail, self.entries = self.entries[keep:], self.entries[:keep]
        is_hung = any(not each.parent and each.after > keep for each in self.branches)
        if not tail or (all(map(is_bare, tail)) and not is_hung):
            return
        self.last_branch += 1
        self.branches = tuple(
            dataclasses.replace(each, parent=self.last_branch) if not each.parent and each.after > keep else each
            for each in self.branches
        )
        ended = (dataclasses.replace(e, status="interrupted") if e.status == "in_progress" else e for e in tail)
        self.branches += (Branch(self.last_branch, 0, keep, tuple(ended)),)

    def chain(self, number: int) -> list[Branch]:
        """Return a branch, and before it those in which it hangs; empty where it is not there."""
        by_number = {each.number: each for each in self.branches}
        found = [by_number[number]] if number in by_number else []
        while found and found[0].parent:
            found.insert(0, by_number[found[0].parent])
        return found

    def swap(self, number: int) -> None:
        """Make a branch the end."""
        chain = self.chain(number)
        self.seal(chain[0].after)
        for branch, end in zip(chain, [*(each.after for each in chain[1:]), chain[-1].last], strict=True):
            used = end - branch.after
            self.entries += branch.entries[:used]
            rest = Branch(branch.number, 0, end, branch.entries[used:])
            is_hung = any(each.parent == branch.number and each.after > end for each in self.branches)
            stays = is_hung or not all(map(is_bare, rest.entries))
            kept = [each if each.number != branch.number else rest for each in self.branches]
            self.branches = tuple(
                dataclasses.replace(each, parent=0) if each.parent == branch.number and each.after <= end else each
                for each in kept
                if stays or each.number != branch.number
            )

    def drop(self, numbers: set[int]) -> None:
        """Drop branches, and those that hang in them."""
        while more := {each.number for each in self.branches if each.parent in numbers} - numbers:
            numbers |= more
        self.branches = tuple(each for each in self.branches if each.number not in numbers)

    def redact_in_branches(self, identity: str, seq: int) -> bool:
        """Redact an entry in all branches, with compactions that may hold it; it has this seq in the log, or 0."""
        places = {0: seq} if seq else {}
        places |= {b.number: s for b in self.branches for s, e in enumerate(b.entries, b.after + 1) if e.id == identity}
        found = []
        for branch in self.branches:
            chain = self.chain(branch.number)
            parents, ends = [0, *(b.number for b in chain)], [*(b.after for b in chain), branch.last]
            first = min(
                (places[p] for p, end in zip(parents, ends, strict=True) if places.get(p, end + 1) <= end), default=0
            )
            entries = tuple(
                redacted(e)
                if not e.redacted and (e.id == identity or (first and at > first and is_compaction(e.message)))
                else e
                for at, e in enumerate(branch.entries, branch.after + 1)
            )
            found.append(dataclasses.replace(branch, entries=entries))
        is_changed, self.branches = self.branches != tuple(found), tuple(found)
        return is_changed

    def forget_before(self, last: int) -> None:
        """Forget earlier summaries that cover more than message ``last``."""
        self.before = tuple((marks, through) for marks, through in self.before if through <= last)

    def seen(self, view: str | None) -> dict[int, str]:
        """Return the ids of the messages that an agent sees, by seq; all without a view."""
        shown = {}
        for seq, entry in enumerate(self.entries, 1):
            caller = self._caller(seq) if entry.message["role"] in ("tool", "function") else None
            is_left = caller is not None and (caller.is_others(view) or not caller.is_seen(view))
            if view is None or (entry.is_seen(view) and not is_left and entry.said_to(view)):
                shown[seq] = entry.id
        return shown

    def _caller(self, seq: int) -> Entry | None:
        """Return the entry whose call a result answers."""
        message, before = self.entries[seq - 1].message, self.entries[: seq - 1]
        if message["role"] == "function":
            return before[-1] if before and before[-1].message.get("function_call") else None
        return next((each for each in reversed(before) if message["tool_call_id"] in calls_in([each.message])), None)

    def seen_summary(self, view: str) -> tuple[str, int] | None:
        """Return the summary, if the agent may see every message that it covers."""
        covered = self.entries[: self.summary[1]] if self.summary else []
        return self.summary if all(entry.is_seen(view) for entry in covered) else None

    def seen_marks(self, view: str) -> frozenset[bytes]:
        """Return the marker words that an agent may read."""
        entries = (self.entries[seq - 1] for seq in self.seen(view))
        told = (marks_of([entry.said_to(view), entry.documents, entry.metadata]) for entry in entries)
        return self.settings_marks.union(marks_of(self.seen_summary(view)), *told)

    def change(self) -> None:
        """Make another version: forget the ETag, and renew the time to live."""
        self.changed, self.tag = True, ""
        self._marks: frozenset[bytes] | None = None
        self._printed = ""
        self.renew()

    def renew(self) -> None:
        self.left_ms = (self.settings.get("ttl_seconds") or 0) * 1000

    def print(self) -> str:
        """Return a text that differs whenever the content or the life differs."""
        if not self._printed:
            said = [
                [e.id, e.message, e.pinned, e.sent, e.documents, e.metadata, e.status, e.redacted, e.author, e.audience]
                for e in self.stored()
            ]
            hangs = [[each.number, each.parent, each.after, len(each.entries)] for each in self.branches]
            self._printed = json.dumps([self.life, self.settings, said, self.summary, hangs])
        return self._printed

    def copy(self) -> "Talk":
        """Return a copy that can change; parts that are never changed in place are shared."""
        other = copy.copy(self)
        other.entries = list(self.entries)
        return other


@dataclass(frozen=True)
class Op:
    """One change that a client asks for. ``if_match`` and ``key`` are the headers' values, empty for none."""

    kind: str
    name: Name
    given: dict[str, Any] = field(default_factory=dict, hash=False)
    query: dict[str, Any] = field(default_factory=dict, hash=False)
    if_match: str = ""
    key: str = ""
    entry_id: str = ""
    """The id by which the request names its entry, in place of the seq in ``given``."""

    @property
    def target(self) -> Name:
        """The conversation that the answer is about."""
        return (self.name[0], self.given["id"]) if self.kind == "fork" else self.name

    def __post_init__(self) -> None:
        """Remove ``format`` from an append of chat messages, because it would make them a provider's own."""
        if self.kind == "append" and "format" in self.query:
            query = {name: value for name, value in self.query.items() if name != "format"}
            object.__setattr__(self, "query", query)

    def request(self) -> Request:  # noqa: C901 - a case for each operation
        path = f"/conversations/{self.name[1]}"
        given, query = self.given, f"?{urlencode(self.query)}" if self.query else ""
        if self.entry_id:
            named = f"id:{self.entry_id}"
            given = {name: named if name in SEQS else value for name, value in given.items()}
        match self.kind:
            case "create":
                return _json("POST", "/conversations", {"id": self.name[1], **given["settings"]})
            case "append":
                body = {"messages": given["entries"]} | {name: given[name] for name in given if name == "after_seq"}
                return _json("POST", f"{path}/messages{query}", body)
            case "amend":
                return _json("PATCH", f"{path}/messages/{given['seq']}", given["patch"])
            case "change":
                return _json("PATCH", path, given["patch"])
            case "erase":
                return Request("DELETE", path)
            case "rewind":
                return _json("POST", f"{path}/rewind", given)
            case "redact":
                return Request("DELETE", f"{path}/messages/{given['seq']}")
            case "redact_away":
                return Request("DELETE", f"{path}/messages/id:{given['id']}")
            case "swap":
                return Request("POST", f"{path}/branches/b-{given['branch']}")
            case "drop":
                return Request("DELETE", f"{path}/branches/b-{given['branch']}")
            case "summarize":
                return _json("PUT", f"{path}/summary", given)
            case "unsummarize":
                return Request("DELETE", f"{path}/summary")
            case "fork":
                return _json("POST", f"{path}/fork", given)
            case "import":
                lines = b"".join(json.dumps(line).encode() + b"\n" for line in given["lines"])
                return Request("POST", f"/conversations/import?id={self.name[1]}", lines, "application/x-ndjson")
            case "usage":
                return _json("POST", f"{path}/usage", given)
            case "forget":
                return Request("DELETE", f"/owners/{given['owner']}")
        raise AssertionError(self.kind)


def _json(method: str, path: str, body: Any) -> Request:
    return Request(method, path, json.dumps(body).encode())


@dataclass(frozen=True)
class Kept:
    """A request under an Idempotency-Key, its answer if it succeeded, and its conversation's life then.

    ``tried`` are the lives in which it was refused before.
    """

    op: Op
    answer: Any = None
    life: int = 0
    tried: frozenset[int] = frozenset()


class World:
    """All conversations and keys of requests of both tenants."""

    def __init__(self) -> None:
        self.talks: dict[Name, Talk] = {}
        self.kept: dict[tuple[str, str], Kept] = {}
        self.erased: dict[Name, set[bytes]] = {}
        """Marker words that were erased from a conversation and are not in it now."""
        self.digests: dict[str, str] = {}
        """What entries said, by the digests in exports. A digest stays true for ever, so copies share this dictionary."""

    def copy(self) -> "World":
        other = World()
        other.talks = {name: talk.copy() for name, talk in self.talks.items()}
        other.kept = dict(self.kept)
        other.erased = {name: set(marks) for name, marks in self.erased.items()}
        other.digests = self.digests
        return other

    # ---- problems of an operation

    def problems(self, op: Op) -> set[str]:  # noqa: C901 - a case for each operation
        """Return the problems from which the service may choose; empty when the operation must succeed."""
        talk = self.talks.get(op.name)
        stateless = {"precondition-failed"} if op.if_match else set()  # nothing that could have the state is there
        if op.kind in ("create", "import"):
            exists = {"conversation-exists"} if talk is not None else set()
            return stateless | exists | (_wrong_lines(op.given["lines"]) if op.kind == "import" else set())
        if op.kind == "forget":
            return stateless
        if op.kind == "append":
            return self._append_problems(op, talk)
        found = set()
        if op.kind == "fork" and (op.target == op.name or op.target in self.talks):
            found.add("conversation-exists")
        if talk is None:
            return found | {"not-found"} | ({"precondition-failed"} if op.if_match else set())
        if op.if_match not in ("", "*", talk.tag):
            found.add("precondition-failed")
        seq = next((op.given[name] for name in ("to_seq", "at_seq", "through_seq") if name in op.given), 0)
        is_written = op.kind == "summarize" and bool(talk.entries) and talk.entries[-1].status == "in_progress"
        if seq > talk.length - is_written and op.given.get("text") != "":
            found.add("unprocessable")
        if op.kind in ("swap", "drop") and not talk.chain(op.given["branch"]):
            found.add("not-found")
        if op.kind == "redact_away":
            ids = {entry.id for entry in talk.entries}.union(*({e.id for e in b.entries} for b in talk.branches))
            found |= set() if op.given["id"] in ids else {"not-found"}
        if op.kind in ("redact", "amend") and not 1 <= op.given["seq"] <= talk.length:
            found.add("not-found")
        elif op.kind == "amend":
            found |= self._amend_problems(op, talk.entries[op.given["seq"] - 1])
        return found

    @staticmethod
    def _amend_problems(op: Op, entry: Entry) -> set[str]:
        is_out = op.given["patch"].get("sent") is False
        is_refused = entry.status == "in_progress" or (is_out and is_compaction(entry.message))
        return {"unprocessable"} if is_refused else set()

    def _append_problems(self, op: Op, talk: Talk | None) -> set[str]:
        after = op.given.get("after_seq", 0)
        if after > (talk.length if talk else 0):
            return {"unprocessable" if talk else "not-found"}
        steps, wrong = self.plan(op)
        if wrong:
            return {wrong} | ({"precondition-failed"} if self._moved(op, talk) else set())
        fresh = any(not duplicate for _, duplicate in steps)
        return {"precondition-failed"} if fresh and self._moved(op, talk) else set()

    def excuses(self, op: Op) -> set[str]:
        """Return problems that the service may answer although the operation may succeed as well.

        An append of nothing new may fail its condition. A request that was refused in another life may be answered for that
        life.
        """
        talk = self.talks.get(op.name)
        kept = self.kept.get((op.name[0], op.key))
        found = {"precondition-failed"} if op.kind == "append" and self._moved(op, talk) else set()
        return found | ({"not-found"} if kept and kept.tried - {talk.life if talk else 0} else set())

    def try_under_key(self, op: Op) -> None:
        """Record that a request came under its key, before it is known whether it succeeds."""
        talk, known = self.talks.get(op.name), self.kept.get((op.name[0], op.key))
        tried = (known.tried if known else frozenset()) | ({talk.life} if talk else frozenset())
        self.kept[op.name[0], op.key] = Kept(op, tried=tried)

    @staticmethod
    def _moved(op: Op, talk: Talk | None) -> bool:
        return bool(op.if_match) and (talk is None or op.if_match not in ("*", talk.tag))

    def plan(self, op: Op) -> tuple[list[tuple[int, bool]], str]:
        """Return each entry's seq and whether it is a duplicate, and the problem of the first that cannot be appended."""
        talk = self.after(op) or Talk({})
        known = {entry.id: (seq, entry.said) for seq, entry in enumerate(talk.entries, 1)}
        messages, length = talk.messages, talk.length
        steps: list[tuple[int, bool]] = []
        for sent in op.given["entries"]:
            entry = entry_of(sent)
            if entry.id and entry.id in known:
                seq, said = known[entry.id]
                if said == ANYTHING and sent.get("continues"):
                    return steps, "reply-gone"
                is_first = all(duplicate for _, duplicate in steps) and seq <= talk.length
                is_other = said not in (entry.said, ANYTHING)  # what is redacted stays so
                is_end = is_other and is_first and talk.entries[seq - 1].grows_to(entry)
                stands = seq <= talk.length and said == talk.entries[seq - 1].said and talk.entries[seq - 1]
                if is_other and not is_end and sent.get("continues") and stands and stands.status == "interrupted":
                    return steps, "reply-gone"
                if is_other and not is_end:
                    return steps, "entry-conflict"
                if is_end:
                    messages[seq - 1], known[entry.id] = entry.message, (seq, entry.said)
                steps.append((seq, not is_end))
                continue
            if sent.get("continues"):
                return steps, "reply-gone"
            if entry.message["role"] == "tool" and entry.message["tool_call_id"] not in calls_in(messages):
                return steps, "orphan-tool-result"
            length += 1
            messages.append(entry.message)
            known[entry.id] = (length, entry.said)
            steps.append((length, False))
        return steps, ""

    def after(self, op: Op) -> Talk | None:
        """Return the conversation to which an append's entries are added: up to ``after_seq``, if it forgets anything.

        Entries that stand right behind that place, or before it, were sent before.
        """
        talk, after = self.talks.get(op.name), op.given.get("after_seq")
        if talk is None or after is None:
            return talk
        known = {entry.id: (seq, entry.said) for seq, entry in enumerate(talk.entries, 1)}
        sent = {entry.id or f"?{number}": entry for number, entry in enumerate(map(entry_of, op.given["entries"]))}
        there = [known[each.id] for each in sent.values() if each.id in known]
        same = all(known[each.id][1] in (each.said, ANYTHING) for each in sent.values() if each.id in known)
        behind = [seq for seq, _ in there if seq > after]
        if same and len(there) == len(sent) and behind == list(range(after + 1, after + 1 + len(behind))):
            return talk
        shorter = talk.copy()
        del shorter.entries[after:]
        return shorter

    # ---- what an operation does

    def apply(self, op: Op, ids: list[str] | None = None) -> None:
        """Do an operation without problems. ``ids`` are those that entries without an id were given."""
        before = {name: set(talk.known()) for name, talk in self.talks.items() if self._may_lose(op, name)}
        getattr(self, f"_{op.kind}")(op, ids or [])
        self._note_erased(before, [op.name, op.target])

    def expire(self, name: Name) -> None:
        """Remove a conversation whose time is over."""
        before = {name: set(self.talks.pop(name).known())}
        self._note_erased(before, [name])

    @staticmethod
    def _may_lose(op: Op, name: Name) -> bool:
        if op.kind == "forget":
            return name[0] == op.name[0]
        loses = op.kind in (
            *("erase", "rewind", "redact", "amend", "append", "unsummarize"),
            *("redact_away", "swap", "drop"),
        )
        return loses and name == op.name

    def _note_erased(self, before: dict[Name, set[bytes]], touched: list[Name]) -> None:
        for name, marks in before.items():
            self.erased.setdefault(name, set()).update(marks)
        for name in {*before, *touched} & self.talks.keys() & self.erased.keys():
            self.erased[name] -= self.talks[name].known()

    def _create(self, op: Op, _: list[str]) -> None:
        self.talks[op.name] = Talk(dict(op.given["settings"]))

    def _append(self, op: Op, ids: list[str]) -> None:
        steps, _ = self.plan(op)
        if all(duplicate for _, duplicate in steps):
            return
        talk, standing = self.talks.setdefault(op.name, Talk({})), self.after(op)
        if standing is not None and standing.length < talk.length:
            self._forget_after(talk, standing.length)
        for index, (sent, (seq, duplicate)) in enumerate(zip(op.given["entries"], steps, strict=True)):
            if not duplicate:
                entry = entry_of(sent)
                entry.id = entry.id or ids[index]
                if seq <= talk.length and talk.summary and talk.summary[1] >= seq:
                    talk.summary = None
                talk.entries[seq - 1 : seq] = [entry]
        talk.change()

    def _change(self, op: Op, _: list[str]) -> None:
        talk = self.talks[op.name]
        template = _template(talk.settings)
        talk.before += ((frozenset(talk.settings_marks), 0),)
        talk.settings = merged(talk.settings, op.given["patch"])
        talk.retold |= _template(talk.settings) != template and any(entry.documents for entry in talk.entries)
        talk.settings_marks = marks_of(talk.settings)
        talk.count(1)
        talk.change()

    def _erase(self, op: Op, _: list[str]) -> None:
        del self.talks[op.name]

    def _rewind(self, op: Op, _: list[str]) -> None:
        talk, keep = self.talks[op.name], op.given["to_seq"]
        if keep < talk.length:
            self._forget_after(talk, keep, forget=op.given.get("forget", False))
            talk.change()

    def _swap(self, op: Op, _: list[str]) -> None:
        talk, number = self.talks[op.name], op.given["branch"]
        fork = talk.chain(number)[0].after
        if fork < talk.length:
            self._forget_summary_after(talk, fork)
        talk.swap(number)
        talk.change()

    def _drop(self, op: Op, _: list[str]) -> None:
        self.talks[op.name].drop({op.given["branch"]})
        self.talks[op.name].change()

    def _redact_away(self, op: Op, _: list[str]) -> None:
        talk = self.talks[op.name]
        seq = next((at for at, entry in enumerate(talk.entries, 1) if entry.id == op.given["id"]), 0)
        if seq:
            self._redact(dataclasses.replace(op, given={"seq": seq}), [])
        elif talk.redact_in_branches(op.given["id"], 0):
            talk.change()

    def _forget_after(self, talk: Talk, keep: int, *, forget: bool = False) -> None:
        if forget:
            del talk.entries[keep:]
            talk.drop({each.number for each in talk.branches if not each.parent and each.after > keep})
        else:
            talk.seal(keep)
        self._forget_summary_after(talk, keep)

    @staticmethod
    def _forget_summary_after(talk: Talk, keep: int) -> None:
        talk.count(0)
        talk.forget_before(keep)
        if talk.summary and talk.summary[1] > keep:
            talk.summary = None

    def _amend(self, op: Op, _: list[str]) -> None:
        talk, place = self.talks[op.name], op.given["seq"] - 1
        entry = talk.entries[place]
        told = merged({"metadata": entry.metadata, "pinned": entry.pinned, "sent": entry.sent}, op.given["patch"])
        sent = told.get("sent") is not False
        for each in tool_group(talk.entries, place) if sent != entry.sent else ():
            talk.entries[each] = dataclasses.replace(talk.entries[each], sent=sent)
        talk.entries[place] = dataclasses.replace(
            talk.entries[place],
            metadata=told.get("metadata") or None,
            pinned=bool(told.get("pinned")) and not is_compaction(entry.message),
            amended=entry.amended + 1,
        )
        talk.change()

    def _redact(self, op: Op, _: list[str]) -> None:
        talk, place = self.talks[op.name], op.given["seq"] - 1
        is_changed = talk.redact_in_branches(talk.entries[place].id, place + 1)
        if talk.entries[place].redacted and is_changed:
            talk.change()
        if not talk.entries[place].redacted:
            for seq, entry in enumerate(talk.entries[place + 1 :], place + 2):
                if is_compaction(entry.message):
                    talk.redact_in_branches(entry.id, seq)
            talk.entries[place:] = [
                redacted(entry) if not behind or is_compaction(entry.message) else entry
                for behind, entry in enumerate(talk.entries[place:])
            ]
            if talk.summary and talk.summary[1] > place:
                talk.summary = None
            talk.forget_before(place)
            talk.change()

    def _summarize(self, op: Op, _: list[str]) -> None:
        text, through = op.given["text"], op.given["through_seq"]
        self._put_summary(self.talks[op.name], (text, through) if text and through else None)

    def _unsummarize(self, op: Op, _: list[str]) -> None:
        self._put_summary(self.talks[op.name], None)

    @staticmethod
    def _put_summary(talk: Talk, summary: tuple[str, int] | None) -> None:
        if talk.summary is not None:
            talk.before += ((frozenset(marks_of(talk.summary)), talk.summary[1]),)
        if summary is None:
            talk.forget_before(0)
        talk.summary = summary
        talk.count(2)
        talk.change()

    def _fork(self, op: Op, _: list[str]) -> None:
        talk = self.talks[op.name]
        last = op.given.get("at_seq", talk.length)
        kept = talk.summary if talk.summary and talk.summary[1] <= last else None
        branches = tuple(each for each in talk.branches if talk.chain(each.number)[0].after <= last)
        copy_of = Talk(dict(talk.settings), talk.entries[:last], kept, retold=talk.retold, branches=branches)
        copy_of.last_branch = max((each.number for each in branches), default=0)
        self.talks[op.target] = copy_of

    def _import(self, op: Op, _: list[str]) -> None:
        head, *lines = entry_lines(op.given["lines"])
        told = head.get("summary")
        summary = (told["text"], told["through_seq"]) if told else None
        settings = {name: head[name] for name in SETTINGS if name in head}
        talk = self.talks[op.name] = Talk(settings, [self._imported(line) for line in lines], summary)
        talk.branches = tuple(
            Branch(*hangs, tuple(map(self._imported, its))) for hangs, its in branch_lines(op.given["lines"])
        )
        talk.last_branch = max((each.number for each in talk.branches), default=0)

    def _imported(self, line: dict[str, Any]) -> Entry:
        entry = entry_of(line)
        entry.created_at = line.get("created_at", "")
        entry.redacted = line.get("redacted", False)
        if entry.redacted:
            entry.said = ANYTHING
        elif "digest" in line:
            entry.said = self.digests[line["digest"]]
        return entry

    def _usage(self, op: Op, _: list[str]) -> None:
        """A usage report changes nothing in a conversation."""

    def _forget(self, op: Op, _: list[str]) -> None:
        for name in self.owned(op.name[0], op.given["owner"]):
            del self.talks[name]

    def owned(self, tenant: str, owner: str) -> list[Name]:
        """Return an owner's conversations."""
        return [n for n, talk in self.talks.items() if n[0] == tenant and talk.settings.get("owner") == owner]


def merged(target: Any, changes: Any) -> Any:
    """Return ``target`` with ``changes`` applied as a JSON merge patch (RFC 7396)."""
    if not isinstance(changes, dict):
        return changes
    found = dict(target) if isinstance(target, dict) else {}
    for name, value in changes.items():
        if value is None:
            found.pop(name, None)
        else:
            found[name] = merged(found.get(name), value)
    return found


def _template(settings: dict[str, Any]) -> tuple[Any, Any]:
    return settings.get("grounding_template"), settings.get("document_separator")


def entry_lines(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return an export's lines up to its first branch."""
    return list(itertools.takewhile(lambda line: "branch" not in line, lines))


def branch_lines(lines: list[dict[str, Any]]) -> list[tuple[tuple[int, int, int], list[dict[str, Any]]]]:
    """Return each branch of an export: its number, its parent's, the seq behind which it hangs, and its entries' lines."""
    found: list[tuple[tuple[int, int, int], list[dict[str, Any]]]] = []
    for line in lines[len(entry_lines(lines)) :]:
        if "branch" in line:
            told = line["branch"]
            found.append(((_number(told["id"]), _number(told.get("parent", "b-0")), told["after_seq"]), []))
        else:
            found[-1][1].append(line)
    return found


def _number(branch: str) -> int:
    return int(branch.removeprefix("b-"))


def _wrong_lines(lines: list[dict[str, Any]]) -> set[str]:
    head, *rest = entry_lines(lines)
    found = set()
    if any(line.get("seq", seq) != seq for seq, line in enumerate(rest, 1)):
        found.add("invalid-entry")
    ids = [line["id"] for line in rest if "id" in line]
    if len(set(ids)) < len(ids):
        found.add("invalid-entry")
    messages = [line["message"] for line in rest]
    for place, message in enumerate(messages):
        if message["role"] == "tool" and message["tool_call_id"] not in calls_in(messages[:place]):
            found.add("orphan-tool-result")
    if "messages" in head and head["messages"]["count"] != len(rest):
        found.add("bad-request")
    if head.get("summary") and head["summary"]["through_seq"] > len(rest):
        found.add("bad-request")
    return found
