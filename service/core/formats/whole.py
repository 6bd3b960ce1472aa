"""Messages that came in the very form in which they are sent: they go out as they came.

A message that became several chat messages is one again, as far as they are in the window.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from service.core.native import restore

Block = dict[str, Any]
_PARTS: Final = {"anthropic": "content", "gemini": "parts", "responses": "content"}
_TEXT: Final[dict[str, Block]] = {
    "anthropic": {"type": "text"},
    "gemini": {},
    "responses": {"type": "input_text"},
}


class Whole(msgspec.Struct, frozen=True):
    """The provider's messages of one chat message, or as much of one as it is; ``at`` are the places of its parts."""

    seq: int
    format: str
    messages: list[Block]
    piece: int = 0
    pieces: int = 1
    at: Sequence[int] = ()

    def follows(self, other: "Whole") -> bool:
        """Whether both are of one message, ``other`` the piece before."""
        step = self.piece - other.piece
        return self.pieces == other.pieces and step > 0 and self.seq - other.seq == step


def whole_of(seq: int, message: Block, before: str = "", after: str = "") -> Whole:
    """What came, with documents ``before`` and ``after`` its words."""
    native = message["native"]
    form, messages = native["format"], restore(message)
    place, count = native.get("piece", (0, 1))
    at = native.get("at", ())
    if before or after:
        messages = [_grounded(messages[0], form, before, after)]
        at = at and [*at[: bool(before)], *at, *(at[-1:] if after else ())]
    return Whole(seq, form, messages, place, count, at)


def _grounded(message: Block, form: str, before: str, after: str) -> Block:
    key = _PARTS[form]
    value = message.get(key)
    if isinstance(value, str):
        return {**message, key: before + value + after}
    parts = value if isinstance(value, list) else [value] if value else []
    around = [[{**_TEXT[form], "text": text}] if text else [] for text in (before, after)]
    return {**message, key: [*around[0], *parts, *around[1]]}


def in_turns(turns: Iterable[tuple[str, list[Block]] | Whole], opening: Block, key: str) -> list[Block]:
    """Messages of turns, their blocks under ``key``. A user's turn is first: ``opening`` if need be, unless the history
    itself came otherwise.

    Turns of one role in a row that were made from chat messages are one, empty ones left out; what came in this form stays
    as it came.
    """
    messages: list[Block] = []
    came: list[Whole] = []
    growing = False  # the last message was made here, and may grow
    begins_as_it_came = False  # the history itself, or what a provider made of its beginning
    for turn in turns:
        if isinstance(turn, Whole):
            begins_as_it_came = begins_as_it_came or (not messages and not came and turn.seq <= 1)
            if came and not turn.follows(came[-1]):
                messages += joined(came)
                came = []
            came.append(turn)
            growing = False
            continue
        messages += joined(came)
        came = []
        role, blocks = turn
        if growing and messages[-1]["role"] == role:
            messages[-1][key].extend(blocks)
        elif blocks:
            messages.append({"role": role, key: list(blocks)})
            growing = True
    messages += joined(came)
    if messages and messages[0].get("role", "user") in ("assistant", "model") and not begins_as_it_came:
        messages.insert(0, {"role": "user", key: [opening]})
    return messages


def joined(pieces: Sequence[Whole]) -> list[Block]:
    """The messages of one Whole, or the one that several are pieces of."""
    if not pieces:
        return []
    if len(pieces) == 1:
        return pieces[0].messages
    key = _PARTS[pieces[0].format]
    blocks = [block for piece in pieces for block in piece.messages[0][key]]
    at = [place for piece in pieces for place in piece.at]
    if len(at) == len(blocks):
        blocks = [block for _, block in sorted(zip(at, blocks, strict=True), key=lambda pair: pair[0])]
    return [{**pieces[0].messages[0], key: blocks}]
