"""Media apart from the log: a message's pictures and files, which are stored beside it, and how they come back.

::

    {"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0K…"}}]}
                                                                                            │ split
    log:      {… {"url":"data:image/png;base64,<digest>"}}}          contents: {digest: iVBORw0K…}
    details:  StoredMedium(offset of the digest, digest, length, …)                  │
                              └──────────────────────── fill ──────────────────┘  the message, byte for byte

Only the base64 (or the text) of a data URL, and a provider's base64, leave the message, and only where they are more than
``LARGE`` bytes. The offset tells the place, so that no text of a client can be taken for one.
"""

import binascii
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from urllib.parse import unquote_to_bytes

import msgspec
import numpy as np

from sash.core.counts.measures.attachments import image_size
from sash.core.providers import PROVIDERS
from sash.core.providers.writing.media_types import guess_type

LARGE: Final = 8 * 1024
"""Longer base64, in bytes, leaves its message."""
NAME_BYTES: Final = 16
GAP: Final = 2 * NAME_BYTES
"""Bytes of a body in place of a medium: its name in hex."""
_ELSEWHERE: Final = "-" * GAP
_URLS: Final = frozenset(
    [
        "url",
        "image_url",
        "file_url",
        "video_url",
        "audio_url",
        "document_url",
        "file_data",
        "data",
        "fileUri",
        "file_uri",
    ]
)
"""Members in which providers, and compatible servers, take a data URL."""
_BASE64: Final = frozenset({"data", "blob"})
"""Members with base64, beside a member with its type."""
_TYPES: Final = ("media_type", "mimeType", "mime_type")
_HEAD: Final = 300
"""The most characters of a data URL before its comma."""
_TYPE: Final = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,60}/[a-z0-9][a-z0-9!#$&^_.+-]{0,60}")
_UNKNOWN: Final = "application/octet-stream"
_TEXT: Final = "text/"
_URL_SAFE: Final = bytes.maketrans(b"-_", b"+/")
_NOBODY: Final[Mapping[str, Any]] = MappingProxyType({})


class StoredMedium(msgspec.Struct, array_like=True, frozen=True):
    """A picture, a file or a sound of a message.

    ``offset`` is its place in the body, ``name`` the first 16 bytes of the SHA-256 of its text in the message, which has
    ``length`` bytes. ``size`` is its own bytes, without base64; a data URL may be plain text (``is_base64``). ``width`` and
    ``height`` are an image's, in pixels, 0 where they are unknown. ``place`` names its object in object storage; empty where
    the store holds it.
    """

    offset: int
    name: bytes
    length: int
    size: int
    type: str
    is_base64: bool = True
    width: int = 0
    height: int = 0
    place: str = ""

    @property
    def is_text(self) -> bool:
        """Whether it is a text file, whose text is counted and read like the message's own."""
        return self.type.startswith(_TEXT)


Text = bytes | memoryview
"""A medium's text in its message: JSON without the quotes. A view spares a copy of megabytes."""
Pieces = tuple[Text, ...]
"""A message in pieces, one after another."""


class Split(NamedTuple):
    """A message's body with a gap for each medium, the media, and their text in the message by name."""

    body: bytes
    media: tuple[StoredMedium, ...] = ()
    contents: Mapping[bytes, Text] = {}


class _Found(NamedTuple):
    type: str
    data: str
    is_base64: bool


def name_of(text: Text) -> bytes:
    """Return the name of a medium, by its text in the message."""
    return sha256(text).digest()[:NAME_BYTES]


def split(message: Mapping[str, Any]) -> Split:
    """Return a message without its media. One whose JSON is not longer than ``LARGE`` has none."""
    found: list[tuple[_Found, bytes]] = []
    contents: dict[bytes, Text] = {}

    def take(each: _Found) -> str:
        text = msgspec.json.encode(each.data)[1:-1]
        name = name_of(text)
        contents[name] = text
        found.append((each, name))
        return name.hex()

    named = msgspec.json.encode(_without(message, take))
    if not found:
        return Split(named)
    # The bodies with other gaps differ in the gaps alone.
    blank = msgspec.json.encode(_without(message, lambda _: _ELSEWHERE))
    offsets = np.flatnonzero(np.frombuffer(named, np.uint8) != np.frombuffer(blank, np.uint8))[::GAP].tolist()
    media = tuple(
        StoredMedium(offset, name, len(contents[name]), _size(each), each.type, each.is_base64, *_sides(each))
        for offset, (each, name) in zip(offsets, found, strict=True)
    )
    return Split(named, media, contents)


def fill(body: bytes, media: Sequence[StoredMedium], contents: Mapping[bytes, Text]) -> bytes:
    """Return the message as it came. ``contents`` are by the names in ``media``. Raises KeyError."""
    return b"".join(pieces_of(body, media, contents))


def pieces_of(body: bytes, media: Sequence[StoredMedium], contents: Mapping[bytes, Text]) -> Pieces:
    """Return the message as it came, in pieces: to join megabytes once is enough. Raises KeyError."""
    return _pieces(body, [(each.offset, contents[each.name]) for each in media])


def _pieces(body: bytes, texts: Iterable[tuple[int, Text]]) -> Pieces:
    """Return the body with each text in place of the gap at its offset."""
    pieces: list[Text] = []
    end = 0
    for offset, text in texts:
        pieces += (body[end:offset], text)
        end = offset + GAP
    return (*pieces, body[end:])


def digest_in(body: bytes, medium: StoredMedium) -> bytes:
    """Return the digest in a medium's gap, in hex: its public name. It is the stored one but where encryption is on."""
    return body[medium.offset : medium.offset + GAP]


def renamed(body: bytes, media: Sequence[StoredMedium]) -> tuple[StoredMedium, ...]:
    """Return the media with the names that the body has, as before they were stored."""
    replace = msgspec.structs.replace
    return tuple(replace(each, name=bytes.fromhex(digest_in(body, each).decode()), place="") for each in media)


def content_of(text: Text, *, is_base64: bool) -> bytes:
    """Return a medium's own bytes, by its text in the message: base64 in either alphabet, or a data URL's text."""
    said: str = msgspec.json.decode(b"".join((b'"', text, b'"')))
    if not is_base64:
        return unquote_to_bytes(said)
    try:
        signs = said.encode().translate(_URL_SAFE).rstrip(b"= \r\n")
        return binascii.a2b_base64(signs + b"==")
    except binascii.Error:
        return said.encode()  # what is no base64 is given as it came


def stand_in(word: str) -> bytes:
    """Return a made-up base64 that begins with a word, in place of a medium's text.

    It has a form of its own in the other alphabet, as most base64 has (``sharing.py``).
    """
    return f"{word}{'+/' * 50}".encode()


class Shown:
    """A message of which pages show, in place of each medium, its path, and beside that its facts.

    ``chance`` is a random word of 32 letters and digits, which no client knows, and ``path`` that of the media.

    Its body has a made-up base64 in each gap, from which a provider's form of the message is made as from a true one.
    """

    def __init__(self, body: bytes, media: Sequence[StoredMedium], chance: str, path: str) -> None:
        words = [f"{chance}{place:04}" for place in range(len(media))]
        self._media = dict(zip(words, media, strict=True))
        self._stored = body
        self._word = re.compile(rf"{chance}\d{{4}}")
        self._path = path
        texts = [(each.offset, stand_in(word)) for word, each in self._media.items()]
        self.body = b"".join(_pieces(body, texts))

    def of(self, value: Any) -> Any:
        """Return a part of the message, in any form, as pages show it."""
        match value:
            case dict():
                return {name: each for pair in value.items() for name, each in self._members(*pair)}
            case list():
                return [self.of(each) for each in value]
            case _:
                return value

    def _members(self, name: str, value: Any) -> Iterator[tuple[str, Any]]:
        found = self._word.search(value) if isinstance(value, str) else None
        if found is None:
            yield name, self.of(value)
            return
        medium = self._media[found[0]]
        digest = digest_in(self._stored, medium).decode()
        yield name, self._path + digest
        width, height = medium.width or None, medium.height or None
        yield "media", {"digest": digest, "type": medium.type, "bytes": medium.size, "width": width, "height": height}


def _without(value: Any, gap: Callable[[_Found], str], holder: Mapping[str, Any] = _NOBODY, name: str = "") -> Any:
    """Return the value, which is the member ``name`` of its ``holder``, with a gap in each string that leaves it."""
    match value:
        case dict():
            return {member: _without(each, gap, value, member) for member, each in value.items()}
        case list():
            return [_without(each, gap) for each in value]
        case str() if len(value) > LARGE and (found := _found(holder, name, value)) and len(found.data) > LARGE:
            return value[: -len(found.data)] + gap(found)
        case _:
            return value


def _found(holder: Mapping[str, Any], name: str, value: str) -> _Found | None:
    """Return the medium in a member of an object: the end of a data URL, or all of the string."""
    if name in _URLS and value[:5].lower() == "data:":
        end = value.find(",", 0, _HEAD) + 1
        kind, *parameters = value[5 : max(5, end - 1)].lower().split(";")
        return _Found(_known(kind or "text/plain"), value[end:], "base64" in parameters) if end else None
    kind = _declared(holder, name)
    return _Found(_known(kind), value, is_base64=True) if kind and value[:64].isascii() else None


def _declared(holder: Mapping[str, Any], name: str) -> str:
    """Return the type of the base64 in a member of an object; empty where it holds none."""
    if name in _BASE64 and holder.get("type") != "text":
        given = next((holder[each] for each in _TYPES if isinstance(holder.get(each), str)), "")
        form = holder.get("format")
        if not given and isinstance(form, str):
            return f"audio/{form}"
        return given or (_UNKNOWN if "transcript" in holder else "")
    if name == "file_data":
        return guess_type(str(holder.get("filename") or "")) or _UNKNOWN
    if any(each.kinds.made.get(str(holder.get("type"))) == name for each in PROVIDERS.values()):
        return f"image/{holder.get('output_format') or 'png'}"
    return ""


def _known(kind: str) -> str:
    kind = kind.lower().partition(";")[0].strip()
    return ("image/jpeg" if kind == "image/jpg" else kind) if _TYPE.fullmatch(kind) else _UNKNOWN


def _size(found: _Found) -> int:
    if not found.is_base64:
        return len(unquote_to_bytes(found.data))
    signs = len(found.data) - sum(map(found.data.count, "=\r\n \t"))
    return signs * 3 // 4


def _sides(found: _Found) -> tuple[int, int]:
    return (image_size(f"data:;base64,{found.data}") if found.is_base64 else None) or (0, 0)
