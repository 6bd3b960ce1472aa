"""Chats that agree: a log in memory, which takes agreements as the store does, and what frontends were seen to send.

``AGREE`` has captured requests of frontends: ``{"put": [message]}`` is what one sent, ``{"holds": [message]}`` what its
screen held then. AI SDK's are ``UIMessage``s in named runs, AG-UI's and LangGraph's a list of steps.
"""

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from recordings import DATA

from sash.core.agree.agreement import Agreement, AskWays, Given, IsPart, More, agree
from sash.core.agree.chat_lines import REPLY, RESULT, UNFINISHED, ChatLine, ChatLines
from sash.core.agree.chat_units import units_of
from sash.core.agree.chat_walk import Longer
from sash.core.agree.ways import Way, Ways

AGREE = DATA.parent / "agree"
NO_AGREE = "needs captured requests: TEST_DATA names the folder that holds agree/"

Message = dict[str, Any]
"""A bare chat message with its entry's ``id`` and ``status``, and ``hidden`` where the sender does not see it."""

_BESIDE = ("id", "status", "hidden", "redacted")


def said(message: Mapping[str, Any]) -> ChatLine:
    """Return a message as a comparison reads it."""
    content = {name: value for name, value in message.items() if name not in _BESIDE}
    return ChatLine(
        body=content,
        role=message["role"],
        named=message.get("id"),
        status=message.get("status"),
        is_hidden=bool(message.get("hidden")),
        is_redacted=bool(message.get("redacted")),
    )


def chat_lines(messages: Sequence[Mapping[str, Any]]) -> ChatLines:
    """Return a list's messages as a comparison reads them."""
    lines = [said(each) for each in messages]
    odd = frozenset(place for place, each in enumerate(lines) if each.status or each.is_hidden or each.is_redacted)
    bodies = [json.dumps(dict(each.message)).encode() for each in lines]
    return ChatLines(lambda: bodies, [each.role for each in lines], odd, lines.__getitem__)


def visible(messages: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return what is seen of a chat: each user's words, and each turn's, if it has some."""
    units = units_of([said(each) for each in messages])
    return [(unit.kind, unit.words) for unit in units if unit.kind != REPLY or unit.words]


def unseen(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what no screen need show of a chat: calls, results, reasoning, hidden and system messages, in order."""
    found = []
    for each in messages:
        if each.get("hidden") or each["role"] in ("system", "tool"):
            found.append(f"{each['role']} {each['content']}")
        found += [f"call {call['id']}" for call in each.get("tool_calls") or ()]
        if each.get("reasoning_content"):
            found.append(f"reasoning {each['reasoning_content']}")
    return found


class Sealed(NamedTuple):
    """A branch: its number, the one in which it hangs (0: the log), the seq behind which, and its messages."""

    number: int
    parent: int
    after: int
    messages: list[Message]


class Log:
    """A log in memory, with its branches, the oldest first. ``displaced`` are the messages that agreements took away."""

    def __init__(self, messages: Sequence[Message] = ()) -> None:
        self.messages: list[Message] = []
        self.branches: list[Sealed] = []
        self.displaced: list[Message] = []
        self._last = 0
        self.system = ""
        self._count = 0
        self.append(messages)

    def append(self, messages: Sequence[Message]) -> None:
        """Append messages; those without an id get one."""
        for each in messages:
            self._count += 1
            self.messages.append({**copy.deepcopy(each), "id": each.get("id") or f"own-{self._count}"})

    def put(self, sender: Sequence[Message], **how: Any) -> Agreement | IsPart:
        """Make the log agree with the sender's list."""
        log = chat_lines(self.messages)
        lines = [chat_lines(branch.messages) for branch in self.branches]
        ways = [Way(*branch[:3], its) for branch, its in zip(self.branches, lines, strict=True)]
        found = agree(log, chat_lines(sender), system=self.system, ways=Ways(1, ways), **how)
        assert not isinstance(found, More | AskWays)
        if isinstance(found, Agreement):
            self._take(found, sender)
        return found

    def _take(self, found: Agreement, sender: Sequence[Message]) -> None:
        for way in found.taken:
            self.displaced += self.messages[way.after_seq :]
            self.swap(way.number)
        old, kept = self.messages, set[int]()
        carried = {piece.at for piece in found.pieces if not isinstance(piece, Given)}
        self.seal(found.keep, replaced=not carried.issuperset(range(found.keep, len(old))))
        for piece in found.pieces:
            if isinstance(piece, Given):
                self.append([sender[piece.place]])
                continue
            kept.add(piece.at)
            message = copy.deepcopy(old[piece.at])
            if message.get("status") == "in_progress":
                message["status"] = "interrupted"
            self.append([{**message, "content": piece.text} if isinstance(piece, Longer) else message])
        self.displaced += [each for index, each in enumerate(old) if index >= found.keep and index not in kept]
        if found.system is not None:
            self.system = found.system

    # ---- branches

    def seal(self, keep: int, *, replaced: bool = True) -> None:
        """Make a branch of the messages behind ``keep``, but for replies without a word in which no other one hangs."""
        tail, self.messages = self.messages[keep:], self.messages[:keep]
        is_hung = any(not each.parent and each.after > keep for each in self.branches)
        lines = [said(each) for each in tail]
        if not tail or not (is_hung or (replaced and not all(each.is_bare and each.is_unfinished for each in lines))):
            return
        self._last += 1
        self.branches = [
            each._replace(parent=self._last) if not each.parent and each.after > keep else each
            for each in self.branches
        ]
        ended = [{**each, "status": "interrupted"} if each.get("status") == "in_progress" else each for each in tail]
        self.branches.append(Sealed(self._last, 0, keep, ended))

    def swap(self, number: int) -> None:
        """Make a branch the log's end; its parents first."""
        branch = next(each for each in self.branches if each.number == number)
        if branch.parent:
            self.swap(branch.parent)
            branch = next(each for each in self.branches if each.number == number)
        self.branches.remove(branch)
        self.seal(branch.after)
        self.messages += copy.deepcopy(branch.messages)
        self.branches = [each._replace(parent=0) if each.parent == number else each for each in self.branches]

    def drop(self, number: int) -> None:
        """Drop a branch, and those that hang in it."""
        self.branches = [each for each in self.branches if each.number != number]
        for each in [each for each in self.branches if each.parent == number]:
            self.drop(each.number)

    def hanging(self) -> list[tuple[list[int], list[Message]]]:
        """Return each branch as the seqs behind which it and its parents hang, and its messages; sorted."""
        by_number = {each.number: each for each in self.branches}

        def places(branch: Sealed) -> list[int]:
            return [*(places(by_number[branch.parent]) if branch.parent else []), branch.after]

        found = [(places(each), each.messages) for each in self.branches]
        return sorted(found, key=json.dumps)


# ---- what frontends send, as chat messages


def from_ui(messages: Sequence[Mapping[str, Any]]) -> list[Message]:
    """Return AI SDK's messages as chat messages: a message of a turn with steps becomes several."""
    return [each for message in messages for each in _from_ui(message)]


def _from_ui(message: Mapping[str, Any]) -> Iterator[Message]:
    parts, identity = message["parts"], message["id"] or None
    if message["role"] != "assistant":
        content: list[Any] = [{"type": "text", "text": part["text"]} for part in parts if part["type"] == "text"]
        content += [
            {"type": "image_url", "image_url": {"url": part["url"]}} for part in parts if part["type"] == "file"
        ]
        yield {"role": message["role"], "content": content, "id": identity}
        return
    if not parts:
        yield {"role": "assistant", "content": "", "id": identity, "status": "interrupted"}
        return
    for step in _steps(parts):
        yield from _from_step(step, identity)
        identity = None


def _steps(parts: Sequence[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """Yield the parts of each step: a model's answer with its calls, and their results."""
    step: list[Mapping[str, Any]] = []
    for part in parts:
        is_next = part["type"] == "step-start" or (part["type"] == "text" and any(map(_result_of, step)))
        if is_next and step:
            yield step
            step = []
        if part["type"] != "step-start":
            step.append(part)
    if step:
        yield step


def _from_step(step: Sequence[Mapping[str, Any]], identity: str | None) -> Iterator[Message]:
    reply: Message = {"role": "assistant", "content": None, "id": identity}
    results = []
    for part in step:
        if part["type"] == "text":
            reply["content"] = (reply["content"] or "") + part["text"]
            if part.get("state") == "streaming":
                reply["status"] = "interrupted"
        elif part["type"] == "reasoning":
            reply["reasoning_content"] = part["text"]
        elif part["type"].startswith("tool-") or part["type"] == "dynamic-tool":
            name = part.get("toolName") or part["type"].removeprefix("tool-")
            called = {"name": name, "arguments": json.dumps(part.get("input"))}
            reply.setdefault("tool_calls", []).append(
                {"id": part["toolCallId"], "type": "function", "function": called}
            )
            if (text := _result_of(part)) is not None:
                results.append({"role": "tool", "tool_call_id": part["toolCallId"], "content": text})
    yield reply
    yield from results


def _result_of(part: Mapping[str, Any]) -> str | None:
    has_ended = part.get("state") in ("output-available", "output-error", "output-denied")
    return str(part.get("output", part.get("errorText"))) if has_ended else None


def from_ag_ui(messages: Sequence[Mapping[str, Any]]) -> list[Message]:
    """Return AG-UI's messages as chat messages: a thought is a member of the reply behind it."""
    found: list[Message] = []
    thought = None
    for each in messages:
        if each["role"] == "reasoning":
            thought = each["content"]
        elif each["role"] != "activity":
            message = {"role": each["role"], "content": each.get("content"), "id": each["id"]}
            if each.get("toolCalls"):
                message["tool_calls"] = each["toolCalls"]
            if each["role"] == "tool":
                message["tool_call_id"] = each["toolCallId"]
            if thought is not None and each["role"] == "assistant":
                message["reasoning_content"], thought = thought, None
            found.append(message)
    return found


def richer(sent: Sequence[Message], log: Log) -> list[Message]:
    """Return what a server stores of the reply that a screen holds at its end: its own ids, and nothing twice."""
    reply: list[Message] = []
    for each in reversed(sent):
        if each["role"] == "user":
            break
        reply.insert(0, each)
    units = units_of([said(each) for each in log.messages])
    there = units[-1].of if units and units[-1].kind == REPLY else []
    calls = {word for each in there for call in each.calls for word in call}
    words = {each.words for each in there}
    results = {each.answers for each in there if each.kind == RESULT}
    new = []
    for each in reply:
        one = said(each)
        is_known = (
            one.answers in results if one.kind == RESULT else any(word in calls for call in one.calls for word in call)
        )
        if not is_known and not (one.kind == REPLY and not one.calls and one.words in words):
            new.append({**each, "id": None})
    return new


def is_unfinished(messages: Sequence[Message]) -> bool:
    """Return whether a reply of the chat is."""
    return any(each.get("status") in UNFINISHED for each in messages)
