"""A medium's text as the store keeps it: named, sealed, with its facts. Without I/O."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import NamedTuple

import msgspec

from sash.core.stored.split_media import StoredMedium, Text, name_of, renamed
from sash.problems import CannotOpen
from sash.store.data.sealing import AnySealer, Kind, Purpose, is_sealed

HERE = "-"
"""The place of a medium that the store itself holds."""
_PLAIN = b"\0"


class KeptMedium(NamedTuple):
    """A medium as the append script takes it: its name, its size, place and type, its text, 1 where the place is new."""

    name: msgspec.Raw
    about: str
    text: msgspec.Raw
    is_new: int


class About(NamedTuple):
    """A stored medium: its stored name, the bytes of the picture itself, its place, its type, and the form of its
    text."""

    name: bytes
    size: int
    place: str
    type: str
    is_base64: bool


def about_of(name: bytes, value: bytes) -> About:
    """Return the facts in a field of the hash."""
    _, size, place, kind = value.decode().split(" ")
    return About(name, int(size), place, kind.removesuffix("%"), not kind.endswith("%"))


def kept_media(
    sealer: AnySealer,
    media: Sequence[StoredMedium],
    contents: Mapping[bytes, Text],
    lost: AbstractSet[bytes] = frozenset(),
) -> list[KeptMedium]:
    """Return the media of a message as the append script takes them, each once.

    ``contents`` are by plain name, of those that are new in the conversation, and ``lost`` the names of those that come
    without their text.
    """
    return [
        KeptMedium(
            as_string(sealer.digest(Purpose.MEDIA, each.name)),
            f"{each.size} {each.place or HERE} {each.type}{'' if each.is_base64 else '%'}",
            as_string(
                seal_text(sealer, each.name, contents[each.name]) if each.name in contents and not each.place else b""
            ),
            int(each.name in contents or each.name in lost),
        )
        for each in {each.name: each for each in media}.values()
    ]


def as_string(value: bytes) -> msgspec.Raw:
    """Return bytes as a string of msgpack: a script's decoder knows no others."""
    return msgspec.Raw(b"\xdb" + len(value).to_bytes(4, "big") + value)


def stored_media(sealer: AnySealer, media: Sequence[StoredMedium]) -> tuple[StoredMedium, ...]:
    """Return media with the names that the store has."""
    replace = msgspec.structs.replace
    return tuple(replace(each, name=sealer.digest(Purpose.MEDIA, each.name)) for each in media)


def plain_contents(
    body: bytes, media: Sequence[StoredMedium], contents: Mapping[bytes, Text]
) -> tuple[tuple[StoredMedium, ...], dict[bytes, Text]]:
    """Return a stored message's media and contents with their plain names, as those of a new entry.

    Media that ``contents`` lacks are lost.
    """
    plain = renamed(body, media)
    pairs = zip(plain, media, strict=True)
    return plain, {each.name: contents[stored.name] for each, stored in pairs if stored.name in contents}


def seal_text(sealer: AnySealer, name: bytes, text: Text) -> bytes:
    """Return a medium's text as it is stored. ``name`` is the plain one, to which it is bound."""
    if not sealer.active:
        return b"".join((_PLAIN, text))
    return sealer.seal(Kind.MEDIA, bytes(text), sealer.digest(Purpose.MEDIA, name))


def plain_names(stored: Mapping[bytes, Text]) -> dict[bytes, bytes]:
    """Return the plain name of each text that is not sealed, by the stored name."""
    return {name: name_of(memoryview(value)[len(_PLAIN) :]) for name, value in stored.items() if value[:1] == _PLAIN}


def open_text(sealer: AnySealer, name: bytes, value: Text, plain: bytes | None) -> Text | None:
    """Return the text of a stored value; ``name`` is the stored one, and ``plain`` as in ``plain_names``. None if it is not
    the text that was stored under this name.

    Raises UnknownKey.
    """
    if is_sealed(value):
        if sealer.active:
            with suppress(CannotOpen):
                return sealer.open(Kind.MEDIA, bytes(value), name)
        return None
    is_true = plain is not None and name in (plain, sealer.digest(Purpose.MEDIA, plain))
    return memoryview(value)[len(_PLAIN) :] if is_true else None
