"""What windows must know of a message's pictures, files and sounds, so that its body need not be decoded.

Providers limit the number of pictures, their bytes and pixels, and the pages of documents. A window over a limit sends some
of these as one line of text.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from sash.core.counts.measures.attachments import FILE_CHARACTERS, UPLOADED_FILE, Guess, Image, image_size, pages_in
from sash.core.counts.text import strings
from sash.core.providers.messages.pieces import data_url
from sash.core.providers.messages.references import LONGEST_NAME, NO_REFERENCE, reference_of
from sash.core.providers.reading.enclosures import Enclosure, enclosed

IMAGE, FILE, AUDIO, REPLY = range(4)
_KINDS: Final = {"image": IMAGE, "file": FILE, "audio": AUDIO, "reply": REPLY}


class Medium(msgspec.Struct, array_like=True, frozen=True):
    """A picture, file or sound. ``size`` is the length of its base64 or address, ``width`` and ``height`` are in pixels.

    ``tokens`` are the estimate of a file or sound, of which ``paged`` are for its ``pages``, and ``sounded``
    for the length ``heard``. ``form`` is the only form that
    sends it; empty if others do. ``in_reasoning``: it is sent where the model's reasoning is. An unknown figure is 0.
    ``issuer``, ``until`` and ``lasts`` are as in ``Reference``; ``name`` is a file's.
    """

    kind: int
    media_type: str
    size: int
    width: int = 0
    height: int = 0
    pages: int = 0
    tokens: int = 0
    paged: int = 0
    form: str = ""
    is_linked: bool = False
    in_reasoning: bool = False
    heard: int = 0
    sounded: int = 0
    issuer: str = ""
    until: int = 0
    lasts: int = 0
    name: str = ""

    @property
    def side(self) -> int:
        """Pixels of the longer side."""
        return max(self.width, self.height)


def media_of(
    message: Mapping[str, Any],
    own: Sequence[dict[str, Any]] | None,
    images: Sequence[Image],
    guesses: Sequence[Guess],
) -> tuple[Medium, ...]:
    """Return the facts about what a stored message encloses.

    ``own`` are the provider's messages in it; ``images`` and ``guesses`` are the measures of its content's pictures and of
    its other media.
    """
    pictures, others = iter(images), iter(guesses)
    found: list[Medium] = []
    told: set[str] = set()
    for one in enclosed(message, own):
        kind = _KINDS[one.kind]
        if one.form or kind == REPLY:
            found.append(_alone(one, kind, is_told=not told.isdisjoint(strings(one.part))))
            continue
        told.add(one.data)
        if kind == IMAGE:
            width, height, _ = next(pictures)
            medium = Medium(kind, one.media_type, len(one.data), width, height, is_linked=one.is_linked)
            found.append(_referring(medium, one))
        else:
            guess = next(others)
            medium = Medium(kind, one.media_type, len(one.data), is_linked=one.is_linked, name=one.name)
            found.append(_referring(msgspec.structs.replace(medium, **guess._asdict()), one))
    return tuple(found)


def _referring(medium: Medium, one: Enclosure) -> Medium:
    """The medium with what its address or its name tells."""
    names = strings(one.part) if one.form else [one.data] if one.is_linked or len(one.data) <= LONGEST_NAME else []
    told = next((found for name in names if (found := reference_of(name)) is not NO_REFERENCE), NO_REFERENCE)
    if told is NO_REFERENCE:
        return medium
    return msgspec.structs.replace(medium, is_linked=True, **told._asdict())


def _alone(one: Enclosure, kind: int, *, is_told: bool) -> Medium:
    """A medium that only the provider's own message has, or a spoken reply. ``is_told``: the content has a medium of the
    same name, with whose estimate this one is counted."""
    url = one.data if one.data.startswith("data:") else data_url("", one.data)
    size = (image_size(url) or (0, 0)) if kind == IMAGE else (0, 0)
    pages = pages_in(url) if kind == FILE else 0
    tokens = 0 if is_told or kind in (IMAGE, REPLY) else max(UPLOADED_FILE, len(one.data) // FILE_CHARACTERS)
    found = Medium(kind, one.media_type, len(one.data), *size, pages, tokens, form=one.form, is_linked=one.is_linked)
    return _referring(msgspec.structs.replace(found, in_reasoning=one.in_reasoning), one)
