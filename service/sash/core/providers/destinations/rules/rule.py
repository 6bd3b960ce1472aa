"""A rule: what a destination may refuse, how a finished request is judged by it, and requests that break it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from sash.core.providers.destinations.facts import Kind

Object = Mapping[str, Any]
Judge = Callable[[Object, list[Object], str], Iterator[str]]
"""Yields the places, as JSON pointers, where a request with these messages breaks the rule of this value."""


class Broken(NamedTuple):
    """A request that breaks a rule.

    ``sent`` breaks it in ``form``. ``chat`` is the chat request whose messages and tools would be sent so, unmended.
    """

    form: str
    sent: Object
    chat: Object


class Rule(NamedTuple):
    """What destinations refuse of one kind."""

    kind: Kind
    values: Mapping[str, str]
    """What each value says; the loosest first. A destination without a row of the kind takes all."""
    judge: Judge
    broken: Sequence[Broken]
    """Requests that break it: of each form in which it has rows, and of each value that a request can show."""
    is_of_requests: bool = False
    """Whether it is read from the whole request, whatever its form calls its messages."""


def in_chat(*messages: Object) -> Broken:
    """Return chat messages that break a rule as they are."""
    request = {"messages": list(messages)}
    return Broken("openai", request, request)


def each_message(is_refused: Callable[[Object], bool]) -> Judge:
    """Return the judge that refuses single messages."""

    def judge(_request: Object, messages: list[Object], _value: str) -> Iterator[str]:
        yield from (f"#/messages/{index}" for index, message in enumerate(messages) if is_refused(message))

    return judge


def calls_of(message: Object) -> list[Object]:
    """Return the calls of a chat message."""
    return message.get("tool_calls") or []


def is_calling(message: Object) -> bool:
    """Return whether a chat message calls a tool, in ``tool_calls`` or in the older ``function_call``."""
    return bool(calls_of(message) or message.get("function_call"))


def blocks_of(message: Object) -> list[Object]:
    """Return the parts of a message's content, in any form; a text is one."""
    content = message.get("content") or message.get("parts")
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())


# ---- messages of which broken requests are made

ASKED: Final[Object] = {"role": "user", "content": "Where is the talk?"}
REPLY: Final[Object] = {"role": "assistant", "content": "In hall 2."}


def called(*ids: str, arguments: str = '{"day": 1}') -> Object:
    """Return a chat message with calls that have these ids."""
    function = {"name": "find", "arguments": arguments}
    calls = [{"id": each, "type": "function", "function": function} for each in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def answered(identity: str, content: str = "Hall 2.") -> Object:
    """Return a call's result as a chat message."""
    return {"role": "tool", "tool_call_id": identity, "content": content}


def shown(part: Object) -> Object:
    """Return a question with a part beside its text."""
    return {"role": "user", "content": [{"type": "text", "text": "What is it?"}, part]}
