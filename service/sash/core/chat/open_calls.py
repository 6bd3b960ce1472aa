"""Find the call of a tool result that has no call id."""

import difflib
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import count, takewhile
from typing import Any, Final

from sash.core.chat.programs import recognise
from sash.core.chat.regular import MADE, UNNAMED
from sash.problems import InvalidEntry, Pointer

Object = dict[str, Any]

_MOST_NAMED: Final = 5


class OpenCalls:
    """The calls that have no result yet, of chat messages in their order. If two calls have one id, the later one counts.

    >>> calls = [{"id": identity, "function": {"name": "look"}} for identity in ("a", "b")]
    >>> opened = OpenCalls([{"role": "assistant", "tool_calls": calls}, {"role": "tool", "tool_call_id": "a"}])
    >>> opened.oldest("look"), opened.oldest("find")
    ('b', '')
    """

    def __init__(self, messages: Iterable[Mapping[str, Any]] = ()) -> None:
        self._open: dict[str, tuple[int, Object]] = {}  # by id: the number of the reply, and the call
        self._replies = 0
        self._is_calling = False
        for message in messages:
            self.follow(message)

    def follow(self, message: Mapping[str, Any]) -> None:
        """Open the calls that a message makes, or close the one that it answers."""
        if (answered := _answered(message)) is not None:
            self._open.pop(answered, None)
        calls = _calls_of(message)
        is_more = self._is_calling and all(map(is_made, calls))  # a reply may come as several contents
        self._replies += bool(calls) and not is_more
        self._is_calling = bool(calls)
        for call in calls:
            self._open.pop(str(call.get("id")), None)  # so that it is the newest
            self._open[str(call.get("id"))] = self._replies, call

    def of_newest(self, behind: Iterable[Mapping[str, Any]] = ()) -> list[Object]:
        """Return the open calls of the newest reply that has any, without those that the results ``behind`` answer."""
        answered = set(map(_answered, takewhile(lambda each: not _calls_of(each), behind)))
        left = [held for identity, held in self._open.items() if identity not in answered]
        newest = max((reply for reply, _ in left), default=0)
        return [call for reply, call in left if reply == newest]

    def name(self, identity: str) -> str:
        """Return the tool's name of the open call with this id."""
        return _name_of(self._open[identity][1])

    def free_id(self, call: Object, taken: Container[str]) -> str:
        """Return the id of a call that came without one, or the next like it that no open call has, and that is not taken.

        >>> call = {"id": "call_look", "function": {"name": "look"}}
        >>> OpenCalls([{"role": "assistant", "tool_calls": [call]}]).free_id(call, ())
        'call_look_1'
        """
        given = str(call["id"])
        if given not in self._open and given not in taken:
            return given
        ids = (made_id(_name_of(call), number) for number in count(1))
        return next(each for each in ids if each not in self._open and each not in taken)

    def oldest(self, name: str) -> str:
        """Return the id of the oldest open call of the newest reply that has one of this name; empty if there is none.

        Calls that came without an id come before others. A result that came without a name answers any call.
        """
        named = [
            (-reply, not is_made(call), identity)
            for identity, (reply, call) in self._open.items()
            if _name_of(call) == name or name == UNNAMED
        ]
        return min(named, key=lambda each: each[:2])[2] if named else ""


def with_call_id(
    result: Mapping[str, Any], opened: OpenCalls, behind: Sequence[Mapping[str, Any]], pointer: str
) -> Object:
    """Return a tool message with the id of the only call that it can answer.

    ``opened`` are the open calls of the messages before it, and ``behind`` are the messages of the request after it. Where
    several calls of the newest reply are open, the function's name decides. Results of one function, and those of calls
    that came without ids, stand in the order of their calls.

    Raises:
        InvalidEntry: no call is open, or it is not clear which one is answered, or this is another program's record.
    """
    message = dict(result)
    if program := recognise(message):
        raise program.refused(pointer)
    is_misspelt = difflib.get_close_matches("tool_call_id", message.keys() - {"tool_call_id"}, n=1)
    if is_misspelt or message.get("tool_call_id") not in (None, ""):
        return message  # validation names it
    calls = opened.of_newest()
    is_ordered = all(map(is_made, calls))
    if not is_ordered:
        calls = opened.of_newest(behind)
    named = message.get("name") or message.get("tool_name")
    if named and len(calls) > 1:
        calls = [call for call in calls if _name_of(call) == named][:1] or calls
    if is_ordered:
        calls = calls[:1]
    if len(calls) != 1:
        raise _unclear(calls, f"{pointer}/tool_call_id" if "tool_call_id" in message else pointer)
    return {**message, "tool_call_id": calls[0].get("id")}


def _answered(message: Mapping[str, Any]) -> str | None:
    """The id of the call that a message answers; None if it is no result."""
    return str(message.get("tool_call_id")) if message.get("role") == "tool" else None


def _calls_of(message: Mapping[str, Any]) -> list[Object]:
    calls = message.get("tool_calls") if message.get("role") == "assistant" else None
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def _name_of(call: Object) -> str:
    body = call.get("function") or call.get("custom")
    return str(body.get("name") or "") if isinstance(body, dict) else ""


def is_made(call: Object) -> bool:
    """Return whether a call's id was made for it: of its place and words, or of the tool's name."""
    return str(call.get("id")).startswith((MADE, made_id(_name_of(call), 0)))


def made_id(name: str, before: int) -> str:
    """Return the id of a call of this name that came without one, with so many ``before`` it in its message.

    >>> made_id("look", 0), made_id("look", 1)
    ('call_look', 'call_look_1')
    """
    return f"call_{name[:200]}" + (f"_{before}" if before else "")


def _unclear(calls: Sequence[Object], pointer: str) -> InvalidEntry:
    ids = ", ".join(repr(str(call.get("id"))[:100]) for call in calls[:_MOST_NAMED])
    which = f"{len(calls)} calls are open ({ids})" if calls else "no call is open"
    what = f"Add 'tool_call_id', the id of the call that this tool message answers: {which}"
    return InvalidEntry(f"{what}; see #{pointer}.", errors=[Pointer(f"#{pointer}", what)])
