"""The lines that stand in place of missing tool results, with their tokens, and of pictures, files and sounds."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, Literal

from sash.core.counts.costs.message_cost import LIST_BEGINS, LIST_ENDS
from sash.core.counts.models.families import FUNCTION, TOOL
from sash.core.counts.models.models import Model
from sash.core.law.records.costs import record_cost, written_cost
from sash.core.providers.messages.pieces import Object
from sash.core.stored.record import Flags, Record

NO_RESULT: Final = "No result was recorded: the call was interrupted."
"""The text of such a line. It is constant, so that a provider's prompt cache holds."""
_KINDS: Final = ("image", "file", "audio", "audio")
_LONGEST: Final = 300
"""Characters of an address in a line."""


def medium_lines(
    record: Record, numbers: Iterable[int], seq: int, path: str, lost: Sequence[int] = (), told: Sequence[int] = ()
) -> dict[int, str]:
    """The texts in place of the media of a message that have these numbers.

    A text tells what the medium is, its size, and where it is kept, or that it is ``lost``. ``path`` is that of the
    conversation's messages, or empty. Of media that are ``told``, because their type is not taken, it tells only what they
    are; in place of an address it has as many characters, at most _LONGEST.
    """
    lines, left_out = {}, f"left out; it is at {path}{seq}" if path else "left out"
    for number in sorted(numbers):
        medium = record.enclosed[number]
        kind, sides = _KINDS[medium.kind], f"{medium.width}x{medium.height}" if medium.width else ""
        size = "" if medium.is_linked else f"{-(-medium.size * 3 // 4000)} kB"  # of four characters three are bytes
        if number in told:
            facts = filter(None, (medium.name, medium.media_type, size or "~" * min(medium.size, _LONGEST)))
            lines[number] = f"[{kind}: {', '.join(facts)}]\n"
        else:
            facts = filter(None, (kind, medium.name, medium.media_type, sides, size))
            lines[number] = f"[{', '.join(facts)}, {'not stored any more' if number in lost else left_out}]\n"
    return lines


Way = Literal["line", "dropped", "gone", "waiting"]
"""What becomes of calls without a result: a constant line stands as their result; they are dropped, or gone with a message
that said nothing else; or they wait for results at the end."""


def line_of(call: Object) -> Object:
    """The message in place of the result of a tool call, or of a call in the form before tool calls."""
    if "id" in call:
        return {"role": "tool", "tool_call_id": call["id"], "content": NO_RESULT}
    return {"role": "function", "name": call["name"], "content": NO_RESULT}


def lines_tokens(record: Record, missing: int, model: Model) -> int:
    """The tokens of the lines in place of so many ``missing`` results of a message.

    An upper bound if the call is in the form before tool calls: the line has the function's name, which is in the call.
    """
    if not record.calls:
        return _line_tokens(model, FUNCTION, 0) + record_cost(record, model)
    if record.calls == 1:
        return _line_tokens(model, TOOL, 0)
    places = [Flags.PARALLEL] * missing
    places[0] |= LIST_BEGINS if missing == record.calls else 0
    places[-1] |= LIST_ENDS
    return sum(_line_tokens(model, TOOL, place) for place in places)


def longest_lines(record: Record, model: Model, calls: int | None = None) -> int:
    """The most tokens of lines in place of so many results of the message; of all by default."""
    if not record.calls:
        return lines_tokens(record, 1, model)
    both = LIST_BEGINS | LIST_ENDS
    return (calls or record.calls) * max(_line_tokens(model, TOOL, 0), _line_tokens(model, TOOL, Flags.PARALLEL | both))


@lru_cache(maxsize=256)
def _line_tokens(model: Model, role: int, place: int) -> int:
    return written_cost(line_of({"id": ""} if role == TOOL else {"name": ""}), model, parallel=place)
