"""Tool groups: which calls a message makes or answers, and where it stands among them."""

from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import Any

import msgspec

from sash.problems import OrphanToolResult

LINK = 8
"""Characters of a call's link. Ids may have thousands, and are chosen by others."""


class Calls(msgspec.Struct, frozen=True):
    """A message's part in its tool group: the ids of calls that it opens, or the id of the call that it answers.

    ``function`` is the name of the function that a message calls, or answers, in the form before tool calls.
    """

    opens: tuple[str, ...] = ()
    answers: str = ""
    legacy: bool = False
    function: str = ""

    @property
    def links(self) -> str:
        """What joins a result to its call: ``LINK`` characters for each call that is opened or answered."""
        if self.function:
            return _link(f"function {self.function}")
        return "".join(map(_link, self.opens)) or (_link(self.answers) if self.answers else "")


NO_CALLS = Calls()


def links_in(links: str) -> list[str]:
    """Each link of several."""
    return [links[start : start + LINK] for start in range(0, len(links), LINK)]


def _link(call: str) -> str:
    return urlsafe_b64encode(blake2b(call.encode(), digest_size=LINK * 6 // 8).digest()).decode()


def calls_of(message: Mapping[str, Any]) -> Calls:
    """The calls that a validated message makes or answers."""
    if message["role"] == "assistant":
        if calls := message.get("tool_calls"):
            return Calls(opens=tuple(call["id"] for call in calls))
        if message.get("function_call"):
            return Calls(legacy=True, function=message["function_call"]["name"])
    elif message["role"] == "tool":
        return Calls(answers=message["tool_call_id"])
    elif message["role"] == "function":
        return Calls(function=message["name"])
    return NO_CALLS


class Place(msgspec.Struct, frozen=True):
    """Where a message stands among the tool groups before it: a result of one of several calls, a late one, or neither.

    A result is late if it does not stand directly behind its call and the call's other results, or is not its first.
    """

    is_parallel: bool = False
    is_late: bool = False


def places_of(sequence: Iterable[Calls]) -> Iterator[Place | None]:
    """Each message's place, as ``append.lua`` finds it; None for a result whose call is nowhere before it."""
    waiting: list[str] = []  # calls of the newest group without a result
    parallel: dict[str, bool] = {}  # whether a call is one of several, by its id
    for calls in sequence:
        if not calls.answers:
            waiting = list(calls.opens)
            parallel |= dict.fromkeys(calls.opens, len(calls.opens) > 1)
            yield Place()
        elif calls.answers in parallel:
            is_late = calls.answers not in waiting
            yield Place(parallel[calls.answers], is_late)
            if not is_late:
                waiting.remove(calls.answers)
        else:
            yield None


def orphan(pointer: str) -> OrphanToolResult:
    """The problem of a tool result without a call; ``pointer`` is the message's."""
    detail = "No tool call of this conversation has this id: append the assistant's message with the call first"
    return OrphanToolResult.at(f"#{pointer}/tool_call_id", detail)
