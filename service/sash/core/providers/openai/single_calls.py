"""Several calls of one reply, which Llama's template refuses, as one call after another, each before its result."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from sash.core.providers.destinations.destination import evidence_of
from sash.core.providers.messages.mends import Mend, Mends
from sash.core.providers.openai.server_mends import SINGLE, refused_by, whole_body

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
