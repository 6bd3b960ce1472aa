"""The measure of a message of which some pictures, files and sounds are sent as lines of text.

Its body is not read, so its tokens are an upper bound: a line's tokens are added to those of the text beside it.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

from sash.core.counts.measures.measures import ZERO, Measure, Part
from sash.core.counts.measures.media_facts import IMAGE, Medium
from sash.core.counts.measures.native_parts import NativeParts
from sash.core.counts.models.families import TOOL
from sash.core.counts.text import Pair, both, mix_of
from sash.core.counts.text.unicode_scripts import Mix

_JOINT: Final = 3
"""Tokens that a text may have more where a line is joined to it."""
_UNBOUNDED: Final = 2**53
LINE_BYTES: Final = 256
"""The most bytes of a line with the members around it."""


def without_media(measure: Measure, lines: Mapping[int, str]) -> Measure:
    """Return the measure of a message with these lines in place of its media, by their places in ``Extra.media``."""
    extra = measure.extra
    if extra is None:
        return measure
    told = [_part(line) for place, line in lines.items() if not extra.media[place].in_reasoning]
    thought = [_part(line) for place, line in lines.items() if extra.media[place].in_reasoning]
    more = _sum(told)
    fields: dict[str, Any] = {
        "media": tuple(each for place, each in enumerate(extra.media) if place not in lines),
        "images": tuple(_others(extra.images, _pictures(extra.media, ""), lines)),
        "mix": joined_mix(extra.mix, (measure.o200k, measure.cl100k), told),
        "beside": extra.beside and _beside(extra.beside, extra.media, lines, thought),
        "has_text": extra.has_text or bool(told),
        **{name: getattr(extra, name) - number for name, number in _estimates(extra.media, lines).items()},
    }
    if told and (extra.parts or measure.role != TOOL):
        said = extra.parts or (((measure.o200k, measure.cl100k, extra.mix),) if measure.o200k else ())
        fields["parts"] = (*said, *told) if len(said) + len(told) > 1 else ()
    for name in ("listed", "opens_list", "closes_list") if extra.listed != ZERO else ():
        fields[name] = _added(getattr(extra, name), more)
    return Measure(
        measure.role, *_added((measure.o200k, measure.cl100k), more), msgspec.structs.replace(extra, **fields)
    )


@lru_cache(maxsize=4096)
def _part(line: str) -> Part:
    o200k, cl100k = both(line)
    return o200k + _JOINT, cl100k + _JOINT, mix_of(line, o200k, cl100k)


def _sum(parts: Sequence[Part]) -> Pair:
    return sum(part[0] for part in parts), sum(part[1] for part in parts)


def _added(a: Pair, b: Pair) -> Pair:
    return a[0] + b[0], a[1] + b[1]


def _pictures(media: Sequence[Medium], form: str) -> list[int]:
    """The places of the pictures that other forms send too, or that only ``form`` sends."""
    return [
        place for place, each in enumerate(media) if each.kind == IMAGE and each.form == form and not each.in_reasoning
    ]


def _others(images: Sequence[Any], places: Sequence[int], lines: Mapping[int, str]) -> Iterator[Any]:
    """The images whose places are not among the lines; all where their number is not that of the places."""
    if len(images) != len(places):
        return iter(images)
    return (image for image, place in zip(images, places, strict=True) if place not in lines)


def _estimates(media: Sequence[Medium], lines: Mapping[int, str]) -> dict[str, int]:
    """What the left-out files and sounds had in the measure's estimates."""
    gone = [media[place] for place in lines if not media[place].form]
    return {
        "estimated": sum(each.tokens for each in gone),
        "pages": sum(each.pages for each in gone),
        "paged": sum(each.paged for each in gone),
        "heard": sum(each.heard for each in gone),
        "sounded": sum(each.sounded for each in gone),
    }


def _beside(
    beside: NativeParts, media: Sequence[Medium], lines: Mapping[int, str], thought: Sequence[Part]
) -> NativeParts:
    gone = [media[place] for place in lines]
    alone = [each for each in gone if each.form and not each.in_reasoning]
    less = sum(each.tokens for each in gone if each.in_reasoning)
    shown = [place for place, each in enumerate(media) if each.kind == IMAGE and each.in_reasoning]
    words = _added(beside.native_reasoning, (-less, -less))
    return msgspec.structs.replace(
        beside,
        images=tuple(_others(beside.images, _pictures(media, beside.format), lines)),
        estimated=beside.estimated - sum(each.tokens for each in alone),
        native_reasoning=_added(words, _sum(thought)),
        reasoning_images=tuple(_others(beside.reasoning_images, shown, lines)),
        mix=joined_mix(beside.mix, words, thought) if thought else beside.mix,
        sent=beside.sent + sum(LINE_BYTES - each.size for each in gone),
    )


def joined_mix(mix: Mix | None, text: Pair, parts: Sequence[Part]) -> Mix | None:
    """Return the mix of a text and lines, for forms that join them."""
    digits = sum(part[2].digits for part in parts if part[2] is not None)
    if mix is None and not digits:
        return None
    if mix is None:
        return Mix(_UNBOUNDED, digits)
    more = _sum(parts)
    shares = tuple(
        (place, _share(o200k, text[0], more[0]), _share(cl100k, text[1], more[1]))
        for place, o200k, cl100k in mix.shares
    )
    # A line has less than 128 characters for each of its parts that count.
    characters = mix.characters + LINE_BYTES * len(parts) if mix.characters else 0
    return Mix(mix.size + LINE_BYTES * len(parts), mix.digits + digits, shares, characters, mix.marks, mix.capitals)


def _share(thousandths: int, tokens: int, more: int) -> int:
    """A script's share of a text to which Latin tokens are added, rounded up."""
    return -(-thousandths * tokens // max(1, tokens + more))
