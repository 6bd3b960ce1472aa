"""A list of messages that are texts alone, as in most chats. It is decoded in one step; an entry is made when it is used."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

import msgspec

from sash.core.chat.json_bodies import FAULTS
from sash.core.chat.messages import BareEntry, Entry, Id, Status


class SentText(msgspec.Struct, forbid_unknown_fields=True):
    """A bare message that is a role and a text, with members of the entry that such a message often has."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str
    id: Id | None = None
    status: Status | None = None


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    messages: Annotated[list[SentText], msgspec.Meta(min_length=1)]


_body = msgspec.json.Decoder(_Body)


class TextEntries(Sequence[Entry]):
    """The entries of a list of texts. One that is never read costs nothing."""

    def __init__(self, texts: Sequence[SentText]) -> None:
        self.texts = texts
        self._made: dict[int, Entry] = {}

    def __len__(self) -> int:
        return len(self.texts)

    def __iter__(self) -> Iterator[Entry]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, place):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN204 - as every sequence's
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        found = self._made.get(place)
        if found is None:
            text = self.texts[place]
            message = {"role": text.role, "content": text.content}
            found = self._made[place] = BareEntry(message=message, id=text.id, status=text.status)
        return found


def plain_texts(texts: Sequence[SentText]) -> int:
    """Return the number of texts at the beginning that are complete, with a word."""
    odd = (place for place, each in enumerate(texts) if each.status or not each.content or each.content.isspace())
    return next(odd, len(texts))


def encoded_texts(texts: Sequence[SentText]) -> list[bytes]:
    """Return the messages as JSON."""
    return [msgspec.json.encode({"role": each.role, "content": each.content}) for each in texts]


def read_texts(body: bytes) -> TextEntries | None:
    """Return the entries of a request that has only texts; None for another, and for one that has a fault."""
    try:
        return TextEntries(_body.decode(body).messages)
    except FAULTS:
        return None
