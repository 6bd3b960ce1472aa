"""Calls that a template or a host takes alone: one after another, each before its result, or without words beside them."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from sash.core.providers.destinations.destination import evidence_of
from sash.core.providers.messages.mends import Mend, Mends
from sash.core.providers.openai.server_mends import APART, OPENING, SINGLE, refused_by, whole_body
from sash.core.providers.writing.shared_mends import WORDS_APART

CALLS_APART: Final = Mend(
    name="calls_apart",
    refused="Several calls in one message, by the template of Llama 3, also 3.1 to 3.3",
    sent="A message for each call, with its result behind it",
    evidence=evidence_of("calls"),
)


class _Read(msgspec.Struct):
    role: str
    tool_calls: list[msgspec.Raw] | None = None
    tool_call_id: str = ""


_read = msgspec.json.Decoder(_Read).decode


def with_calls_apart(bodies: list[Any], maker: str, model: str, mends: Mends) -> list[Any]:
    """Return the bodies of a request's messages with one call a message, if the model's template wants them so.

    A body is bytes, or pieces of them. A call without a result is the last of its message.
    """
    if not refused_by(maker, model) & SINGLE:
        return bodies
    found: list[Any] = []
    place = 0
    while place < len(bodies):
        message = _read(whole_body(bodies[place]))
        end = place + 1
        if len(message.tool_calls or ()) > 1:
            while end < len(bodies) and _read(whole_body(bodies[end])).role == "tool":
                end += 1
            found += _apart(bodies[place], bodies[place + 1 : end])
            mends.add(CALLS_APART, 0)
        else:
            found.append(bodies[place])
        place = end
    return found


def _apart(body: Any, results: list[Any]) -> Iterable[Any]:
    message = msgspec.json.decode(whole_body(body))
    answers: dict[str, list[Any]] = {}
    for result in results:
        answers.setdefault(_read(whole_body(result)).tool_call_id, []).append(result)
    first: dict[str, Any] = message
    for call in sorted(message["tool_calls"], key=lambda each: each.get("id") not in answers):
        yield msgspec.json.encode({**first, "tool_calls": [call]})
        yield from answers.pop(call.get("id"), ())
        first = {"role": "assistant", "content": None}
    for left in answers.values():
        yield from left


def with_words_apart(bodies: list[Any], maker: str, model: str, mends: Mends) -> list[Any]:
    """Return the bodies of a request's messages with words before calls in a message of their own, and ``…`` of the user's
    between them, if the model's host wants them so."""
    if not refused_by(maker, model) & APART:
        return bodies
    found: list[Any] = []
    for body in bodies:
        message = msgspec.json.decode(whole_body(body))
        if message.get("tool_calls") and message.get("content"):
            said = {"role": "assistant", "content": message["content"]}
            found += [msgspec.json.encode(said), OPENING, msgspec.json.encode({**message, "content": None})]
            mends.add(WORDS_APART, 0)
        else:
            found.append(body)
    return found
