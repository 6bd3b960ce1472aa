"""The scripts of a text, and an estimate of its tokens in a vocabulary that is not installed.

::

    text ──mix_of──▶ Mix ──┐
    tokens in o200k_base ──┼──family_tokens──▶ tokens of a family, on the safe side
    tokens in cl100k_base ─┘

The estimate is made from the tokens in o200k_base and cl100k_base, by script. o200k_base is newer and knows most languages,
cl100k_base is older and knows few, and other vocabularies lie between the two or near one of them. ``ratios.py`` has the
factors, and says how they were measured.
"""

import math
import re
from collections import Counter

import msgspec

from service.core.ratios import OTHER_LATIN, RATIOS, SINGLE_DIGITS, TOKENS_A_CHARACTER

# Unicode's blocks, as far as they matter here: where each begins, and its script. Accents, punctuation and currencies go
# with Latin text; scripts without measurements are "other".
_BLOCKS = tuple(
    (int(start, 16), script)
    for start, script in (
        line.split()
        for line in """
        0000 latin       0370 greek       0400 cyrillic    0530 armenian    0590 hebrew      0600 arabic
        0700 other       0750 arabic      0780 other       08a0 arabic      0900 devanagari  0980 bengali
        0a00 gurmukhi    0a80 gujarati    0b00 oriya       0b80 tamil       0c00 telugu      0c80 kannada
        0d00 malayalam   0d80 sinhala     0e00 thai        0e80 lao         0f00 other       1000 myanmar
        10a0 georgian    1100 hangul      1200 ethiopic    13a0 other       1780 khmer       1800 other
        1c90 georgian    1cc0 other       1e00 latin       1f00 greek       2000 latin       2070 symbols
        20a0 latin       20d0 symbols     2c00 other       2e80 han         3040 kana        3100 han
        3130 hangul      3190 han         a000 other       ac00 hangul      d7b0 other       f900 han
        fb00 other       fb1d hebrew      fb50 arabic      fe00 symbols     fe70 arabic      ff00 han
        fff0 other       1f000 symbols    1fb00 other      20000 han        32000 other
        """.replace("  ", "\n").split("\n")
        if line.strip()
    )
)
UNICODE_SCRIPTS = tuple(sorted({script for _, script in _BLOCKS}))
_PLACES = {script: place for place, script in enumerate(UNICODE_SCRIPTS)}
_LATIN = _PLACES["latin"]
_ENDS = (*(start for start, _ in _BLOCKS[1:]), 0x110000)
_PLACE_OF = b"".join(
    bytes((_PLACES[script],)) * (end - start) for (start, script), end in zip(_BLOCKS, _ENDS, strict=True)
)
"""The place in ``UNICODE_SCRIPTS`` of every code point's script."""
_BEYOND_LATIN = re.compile(r"[^\x00-\u036f\u1e00-\u1eff\u2000-\u206f\u20a0-\u20cf]")
NUMBER = re.compile(r"[0-9][0-9]+")  # twice as fast as {2,}
_FEW = 0.03
"""Extra tokens of single digits, as a share of a text's tokens, that the headroom of the factors covers."""
OTHER_LATIN_FROM = 1.06
"""A Latin text counts as another language than English if it has more tokens in cl100k_base than this many times those in
o200k_base, plus one. So do 97 % of pieces of 700 characters in 54 languages, and under 1 % of English texts, code and
JSON."""
_PARTS = 1000
_MOSTLY_LATIN = 900
"""Thousandths of a text's tokens that are Latin, from which on its tokens and characters are those of the Latin text."""


class Mix(msgspec.Struct, array_like=True, frozen=True):
    """The properties of a text that decide its tokens in other vocabularies.

    ``size`` is its UTF-8 bytes. ``digits`` are the extra tokens of its numbers in vocabularies where each digit is a token.
    ``shares`` has an entry for each script that is not Latin: its place in ``UNICODE_SCRIPTS``, and the thousandths of the
    text's tokens in o200k_base and in cl100k_base that are in that script. ``characters`` are those of a text in another
    Latin language than English, and 0 for all other texts.
    """

    size: int
    digits: int = 0
    shares: tuple[tuple[int, int, int], ...] = ()
    characters: int = 0


def mix_of(text: str, o200k: int, cl100k: int) -> Mix | None:
    """Return the mix of a text that has these tokens; None for English, code and the like, with few digits."""
    digits = sum(len(run) - (len(run) + 2) // 3 for run in NUMBER.findall(text))
    shares = _shares(text) if _BEYOND_LATIN.search(text) else ()
    newer, older = _PARTS - sum(each[1] for each in shares), _PARTS - sum(each[2] for each in shares)
    other_latin = newer >= _MOSTLY_LATIN and older * cl100k > OTHER_LATIN_FROM * newer * o200k + _PARTS
    characters = len(text) if other_latin else 0
    if not shares and not characters and digits <= o200k * _FEW:
        return None
    return Mix(len(text.encode("utf-8", "surrogatepass")), digits, shares, characters)


def _shares(text: str) -> tuple[tuple[int, int, int], ...]:
    """Return the shares of a text: the tokens of each script are guessed by its characters."""
    characters: Counter[int] = Counter()
    for character, times in Counter(text).items():
        characters[_PLACE_OF[ord(character)]] += times
    weights = {
        place: tuple(times * each for each in TOKENS_A_CHARACTER[UNICODE_SCRIPTS[place]])
        for place, times in characters.items()
    }
    o200k, cl100k = (sum(column) for column in zip(*weights.values(), strict=True))
    parts = (
        (place, round(a / o200k * _PARTS), round(b / cl100k * _PARTS)) for place, (a, b) in sorted(weights.items())
    )
    return tuple(each for each in parts if each[0] != _LATIN and each[1] + each[2])


def family_tokens(o200k: int, cl100k: int, mix: Mix | None, family: str, part: float = 1.0) -> int:
    """Return the tokens of a text for a family of ``ratios.RATIOS``, given those in o200k_base and cl100k_base.

    The estimate errs high. With a ``mix``, it is at most the text's UTF-8 bytes, the maximum of every byte-level vocabulary.
    The mix may be that of a longer text, of which these tokens are a ``part``.
    """
    ratios = RATIOS[family]
    a, b = ratios["latin"]
    if mix is None:
        return math.ceil(a * o200k + b * cl100k)
    beside = math.ceil(mix.digits * part) if family in SINGLE_DIGITS else 0.0
    if mix.characters:
        a, b, character, more_bytes = OTHER_LATIN[family]
        beside += part * (character * mix.characters + more_bytes * (mix.size - mix.characters))
    newer, older = (a * _PARTS, b * _PARTS)
    for place, part_o200k, part_cl100k in mix.shares:
        its_a, its_b = ratios[UNICODE_SCRIPTS[place]]
        newer += part_o200k * (its_a - a)
        older += part_cl100k * (its_b - b)
    return min(math.ceil((newer * o200k + older * cl100k) / _PARTS + beside), mix.size)
