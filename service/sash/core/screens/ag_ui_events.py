"""AG-UI's events for what changed between two lists of messages that a screen has.

::

    before   … m1 "At no"          TEXT_MESSAGE_CONTENT m1 "on."      TEXT_MESSAGE_END m1
    after    … m1 "At noon." u2    TEXT_MESSAGE_START u2 user, …_CONTENT u2 "and?", …_END u2

A reply that is being written is open: its text begins, and is not ended. Whoever applies the events to the list before has
the list after, as AG-UI's client does. What no events say, such as that a message is gone, needs a snapshot.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from sash.core.screens.screen_form import KEPT, Object

_BEGUN, _ADDED, _ENDED = "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"
_OF: Final = {
    "user": {"content"},
    "assistant": {"content", "toolCalls"},
    "tool": {"content", "toolCallId"},
    "reasoning": {"content"},
    "activity": {"activityType", "content"},
}
_EVERY: Final = frozenset({"id", "role", "metadata"})
_OF_CALL: Final = frozenset({"id", "type", "function"})


class NoEvents(Exception):  # noqa: N818 - the list needs a snapshot, which is no fault
    """No events say what changed."""


def events_between(before: Sequence[Object], after: Sequence[Object], first_seq: int) -> Sequence[Object]:
    """The events that make a list that ends with ``before`` one that ends with ``after``, where the first entry that is
    another has ``first_seq``. Raises NoEvents."""
    begin = next((place for place, each in enumerate(before) if after and each["id"] == after[0]["id"]), None)
    told = [seq for each in after if (seq := each.get("metadata", {}).get(KEPT, {}).get("seq"))]
    if before and (begin is None or not told or first_seq < told[0] or len(after) < len(before) - begin):
        raise NoEvents
    events: list[Object] = []
    known = before[begin:]
    for old, new in zip(known, after, strict=False):
        events += _changed(old, new) if old != new else ()
    for new in after[len(known) :]:
        events += _added(new)
    return events


def opened(messages: Sequence[Object]) -> Sequence[Object]:
    """The events behind a snapshot: the text of each reply that is being written is open."""
    return [_start(each) for each in messages if is_open(each)]


def is_open(message: Object) -> bool:
    """Whether more of a message's text may come."""
    status = message.get("metadata", {}).get(KEPT, {}).get("status")
    return message["role"] == "assistant" and status == "in_progress" and not message.get("toolCalls")


def ended(identity: str) -> Object:
    """The event that ends the text of a message."""
    return {"type": _ENDED, "messageId": identity}


def open_after(before: Iterable[str], events: Iterable[Object]) -> dict[str, None]:
    """The ids of messages whose text is open behind these events, of which ``before`` were open."""
    found = dict.fromkeys(before)
    for event in events:
        if event["type"] == _BEGUN:
            found[event["messageId"]] = None
        elif event["type"] == _ENDED:
            found.pop(event["messageId"], None)
    return found


def _end(message: Object) -> Object:
    return ended(message["id"]) | _metadata(message)


def _start(message: Object) -> Object:
    return {"type": _BEGUN, "messageId": message["id"], "role": message["role"]} | _metadata(message)


def _content(message: Object, more: str) -> Object:
    return {"type": _ADDED, "messageId": message["id"], "delta": more}


def _metadata(message: Object) -> Object:
    """The message's metadata, which an event says anew."""
    return {"metadata": message["metadata"]} if "metadata" in message else {}


def _changed(old: Object, new: Object) -> Iterator[Object]:
    """The events for a message that is another: a reply that has grown, or has ended."""
    same = {name for name in old if old[name] == new.get(name)}
    is_grown = {name for name in (*old, *new) if name not in same} <= {"content", "metadata", "toolCalls"}
    if not (is_open(old) and is_grown and old.get("metadata", {}).keys() <= new.get("metadata", {}).keys()):
        raise NoEvents
    said: Any = new["content"]
    if not (isinstance(said, str) and said.startswith(old["content"])):
        raise NoEvents
    is_told = old.get("metadata") == new.get("metadata")
    if more := said[len(old["content"]) :]:
        yield _content(new, more) | ({} if is_told else _metadata(new))
    if not is_open(new):
        yield _end(new)
        yield from _calls(new)
    elif not (more or is_told):
        yield _end(new)
        yield _start(new)


def _added(message: Object) -> Iterator[Object]:
    """The events for a new message."""
    role, content = message["role"], message.get("content")
    if not message.keys() <= _EVERY | _OF[role]:
        raise NoEvents
    if role == "activity":
        activity = {"activityType": message["activityType"], "content": content}
        yield {"type": "ACTIVITY_SNAPSHOT", "messageId": message["id"], **activity}
        return
    if not isinstance(content, str):
        raise NoEvents
    if role == "tool":
        event = {"type": "TOOL_CALL_RESULT", "messageId": message["id"], "toolCallId": message["toolCallId"]}
        yield {**event, "content": content, **_metadata(message)}
    elif role == "reasoning":
        yield from _thought(message["id"], content)
    else:
        yield _start(message)
        if content:
            yield _content(message, content)
        if not is_open(message):
            yield _end(message)
            yield from _calls(message)


def _thought(identity: str, content: str) -> Iterator[Object]:
    yield {"type": "REASONING_START", "messageId": identity}
    yield {"type": "REASONING_MESSAGE_START", "messageId": identity, "role": "reasoning"}
    if content:
        yield {"type": "REASONING_MESSAGE_CONTENT", "messageId": identity, "delta": content}
    yield {"type": "REASONING_MESSAGE_END", "messageId": identity}
    yield {"type": "REASONING_END", "messageId": identity}


def _calls(message: Object) -> Iterator[Object]:
    for call in message.get("toolCalls") or ():
        if not call.keys() <= _OF_CALL:
            raise NoEvents
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        event: Object = {"type": "TOOL_CALL_START", "toolCallId": call["id"], "toolCallName": name}
        yield event | {"parentMessageId": message["id"]}
        if arguments:
            yield {"type": "TOOL_CALL_ARGS", "toolCallId": call["id"], "delta": arguments}
        yield {"type": "TOOL_CALL_END", "toolCallId": call["id"]}
