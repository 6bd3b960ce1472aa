"""Messages that are sent in the form in which they came: they are sent unchanged.

Where one message became several chat messages, those that are in the window are joined into one message again.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from sash.core.providers.messages.sharing import restore

Block = dict[str, Any]


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """Where things stand in a provider's form.

    ``messages`` is the member of a request with its messages, ``parts`` that of a message with its parts. ``text`` are the
    other members of a part with a text. A member of ``members`` shows an own message, as role, type, parts and content do.
    ``answering`` returns an own tool result with another id of its call.
    """

    name: str
    messages: str
    parts: str
    text: Block
    members: frozenset[str] = frozenset()
    answering: Callable[[Block, str], Block] = lambda own, _: own
    text_member: str = "text"
    """The member of a part with its text."""
    assistant: str = "assistant"
    """The assistant's role in own messages."""
    result_parts: str = ""
    """The member of an own tool result with its parts, if it is another one."""
    envelope: frozenset[str] = frozenset()
    """Members that the provider or its SDK adds to a reply, and no request has: kept, not sent, and not told as left out."""
    aside: frozenset[str] = frozenset()
    """Members of own parts that no reader misses in another form: they join parts, or mark what a cache may keep."""

    def text_part(self, text: str) -> Block:
        """Return a part with this text."""
        return {**self.text, self.text_member: text}

    @property
    def parts_show(self) -> bool:
        """Whether the member with the parts shows an own message, because chat messages do not have it."""
        return self.parts != "content"


class NativeMessages(msgspec.Struct, frozen=True):
    """The provider's messages, or the part of one of them, that became one chat message.

    ``piece`` of ``pieces`` numbers the parts of one message; ``at`` are the places of its blocks in that message. ``ids``
    are the ids of its calls as they are sent, where one may not be sent as it came. ``begins``: as in ``Outgoing``.
    ``order`` is the place of the call that it answers among the request's calls; -1 for other messages.
    """

    seq: int
    messages: list[Block]
    piece: int = 0
    pieces: int = 1
    at: Sequence[int] = ()
    ids: Sequence[str] = ()
    begins: bool = False
    order: int = -1

    @property
    def role(self) -> str:
        """The role of the messages; the assistant's if only reasoning was left out."""
        return str(self.messages[0].get("role", "user")) if self.messages else "assistant"

    def follows(self, other: "NativeMessages") -> bool:
        """Return whether both are pieces of one message, and ``other`` is the earlier one."""
        step = self.piece - other.piece
        counts = [each.pieces - (each.piece if self.pieces != other.pieces else 0) for each in (self, other)]
        return counts[0] == counts[1] and step > 0 and self.seq - other.seq == step


def native_messages(
    shape: Shape, seq: int, message: Block, before: str = "", after: str = "", *, answers: str = ""
) -> NativeMessages:
    """Return the provider's messages as they came, with documents ``before`` and ``after`` the text.

    A tool result gets the id ``answers``, if given, as the id of the call that it answers.
    """
    native = message["native"]
    messages = restore(message)
    if answers:
        messages = [shape.answering(messages[0], answers)]
    place, count = native.get("piece", (0, 1))
    at = native.get("at", ())
    if before or after:
        messages = [_grounded(messages[0], shape, before, after)]
        at = at and [*at[: bool(before)], *at, *(at[-1:] if after else ())]
    return NativeMessages(seq, messages, place, count, at)


def _grounded(message: Block, shape: Shape, before: str, after: str) -> Block:
    key = shape.parts
    value = message.get(key)
    if isinstance(value, str):
        return {**message, key: before + value + after}
    parts = value if isinstance(value, list) else [value] if value else []
    around = [[shape.text_part(text)] if text else [] for text in (before, after)]
    return {**message, key: [*around[0], *parts, *around[1]]}


def in_turns(turns: Iterable[tuple[str, list[Block]] | NativeMessages], opening: Block, shape: Shape) -> list[Block]:
    """Return the messages of turns.

    Neighbouring turns of one role that were made from chat messages become one. Messages that came in this form stay as they
    came. Turns and replies without content, which providers refuse, are left out. Where an assistant would be first, a
    user's turn with ``opening`` is put before it, unless the assistant's message came in this form as the history's first.
    """
    key = shape.parts
    messages: list[Block] = []
    pieces: list[NativeMessages] = []  # of the newest message, if it came
    made = ""  # the role of the newest message, if it is made here
    begins_as_it_came = False  # the first message is the history's own, or a provider's compaction item
    for turn in turns:
        if isinstance(turn, NativeMessages):
            begins_as_it_came = begins_as_it_came or (not (messages or pieces) and (turn.begins or turn.seq <= 1))
            if left := [message for message in turn.messages if not _is_silent(message, shape)]:
                piece, made = msgspec.structs.replace(turn, messages=left), ""
                if pieces and not piece.follows(pieces[-1]):
                    messages += joined(pieces, key)
                    pieces = []
                pieces.append(piece)
            continue
        role, blocks = turn
        if role == made:
            messages[-1][key] += blocks
        elif blocks:
            if pieces:
                messages += joined(pieces, key)
                pieces = []
            messages.append({"role": role, key: blocks})
            made = role
    messages += joined(pieces, key) if pieces else ()
    if messages and messages[0].get("role") == shape.assistant and not begins_as_it_came:
        messages.insert(0, {"role": "user", key: [opening]})
    return messages


def _is_silent(message: Block, shape: Shape) -> bool:
    parts = message.get(shape.parts) or ()
    return message.get("role") == shape.assistant and all(part == {"type": "text", "text": ""} for part in parts)


def joined(pieces: Sequence[NativeMessages], key: str) -> list[Block]:
    """Return the messages of one NativeMessages, or the one message that several are pieces of."""
    if len(pieces) == 1:
        return pieces[0].messages
    blocks = [block for piece in pieces for block in piece.messages[0][key]]
    at = [place for piece in pieces for place in piece.at]
    if len(at) == len(blocks):
        blocks = [block for _, block in sorted(zip(at, blocks, strict=True), key=lambda pair: pair[0])]
    return [{**pieces[0].messages[0], key: blocks}]
