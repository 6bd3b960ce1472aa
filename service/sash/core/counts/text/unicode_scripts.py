"""The scripts of a text, and an estimate of its tokens in a vocabulary that is not installed.

::

    text ──mix_of──▶ Mix ──┐                       (``mix_of`` is in counts.text)
    tokens in o200k_base ──┼──family_tokens──▶ tokens of a family, on the safe side
    tokens in cl100k_base ─┘

The estimate is made from the tokens in o200k_base and cl100k_base, by script. o200k_base is newer and knows most languages,
cl100k_base is older and knows few, and other vocabularies lie between the two or near one of them.

The factors are a pair for each script. They were measured with the vendors' own vocabularies on a paragraph in 70 languages
(``tests/truth/languages.toml``), on Django's translations into 91 languages in pieces of 700 characters, and on source code
and JSON. Each pair is the cheapest that is 2 % high on every paragraph and short on about 1 % of the pieces, by 3 % at most.
``other`` is for all families without measurements: it covers the dearest of cl100k_base, Qwen, DeepSeek, tekken, Llama 3
and Llama 4.

Claude's are measured with ctok 1.3, a reconstruction of its vocabularies (``claude`` until Opus 4.6, ``claude-5`` from
Opus 4.7 on), Gemini's with that of Gemma 3: both agree with the bills of plain text to a token or two. Most text in
bills is Latin; the pairs of these families for Latin are short on about 1 % of the recorded prompts instead.

Latin text in another language than English (``Mix.characters``) has four factors: for its tokens in o200k_base and in
cl100k_base, for its characters, and for its UTF-8 bytes beyond one a character, which accents take. Estimates are 2 % high
on every paragraph; 1 % of the pieces are short, by 3 % (Igbo for Gemini: 7 %). As a check, the factors were fitted
54 times, each time without one language, and tried on it: four or five of these languages were short, by 9 % at most.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from sash.core.counts.text.numbers import ONE, Arithmetic, Number

# Unicode's blocks, as far as they matter here: where each begins, and its script. Accents, punctuation and currencies go
# with Latin text; scripts without measurements are "other".
_LISTED = """
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
"""
_BLOCKS = tuple((int(start, 16), script) for start, script in re.findall(r"(\w+) (\w+)", _LISTED))
UNICODE_SCRIPTS = tuple(sorted({script for _, script in _BLOCKS}))
_PLACES = {script: place for place, script in enumerate(UNICODE_SCRIPTS)}
_LATIN = _PLACES["latin"]
_ENDS = (*(start for start, _ in _BLOCKS[1:]), 0x110000)
_PLACE_OF = b"".join(
    bytes((_PLACES[script],)) * (end - start) for (start, script), end in zip(_BLOCKS, _ENDS, strict=True)
)
"""The place in ``UNICODE_SCRIPTS`` of every code point's script."""
_BEYOND_LATIN = re.compile(r"[^\x00-\u036f\u1e00-\u1eff\u2000-\u206f\u20a0-\u20cf]")
OTHER_LATIN_FROM = 1.06
"""A Latin text counts as another language than English if it has more tokens in cl100k_base than this many times those in
o200k_base, plus one. So do 97 % of pieces of 700 characters in 54 languages, and under 1 % of English texts, code and
JSON."""
PARTS = 1000
"""Parts of a text's tokens in which its ``shares`` are told."""


Ratios = Mapping[str, tuple[float, float]]

SINGLE_DIGITS = frozenset({"qwen", "qwen3.5", "tekken", "mistral", "other", "gemini"})
"""Families whose vocabularies have a token for each digit. The others join up to three digits, like o200k_base."""

MARKS_APART = frozenset({"gemini"})
"""Families whose vocabularies never join a mark with the letters or the line's end behind it; o200k_base does. Apart from
these marks, an English text of up to 100 tokens has as many tokens as in o200k_base, by median. So its estimate is rounded
down."""
_SPARE = 0.3
"""Added before an estimate is rounded down. Of 5,471 English texts, 0.7 % then have more tokens than estimated."""

CAPITALS_APART = frozenset({"claude", "claude-5"})
"""Families whose vocabularies have more tokens for words in capitals than o200k_base."""

_TOKENS_A_CHARACTER: Ratios = MappingProxyType({
    "arabic": (0.4, 1.02), "armenian": (0.37, 2.19), "bengali": (0.37, 1.45), "cyrillic": (0.38, 0.73),
    "devanagari": (0.41, 1.27), "ethiopic": (2.25, 2.96), "georgian": (0.35, 2.15), "greek": (0.43, 1.08),
    "gujarati": (0.41, 2), "gurmukhi": (0.61, 2.05), "han": (0.79, 1.26), "hangul": (0.72, 1.21),
    "hebrew": (0.42, 1.16), "kana": (0.61, 0.76), "kannada": (0.41, 2), "khmer": (0.61, 1.69), "lao": (1.9, 2.27),
    "latin": (0.25, 0.28), "malayalam": (0.34, 1.81), "myanmar": (0.55, 2.09), "oriya": (1.21, 3), "other": (1.8, 2),
    "sinhala": (0.63, 2.16), "symbols": (1.2, 1.4), "tamil": (0.36, 1.54), "telugu": (0.47, 2), "thai": (0.42, 0.95),
})  # fmt: skip
"""Tokens a character in o200k_base and in cl100k_base, counting the spaces between words: the weights by which a text's
tokens are divided among its scripts."""

_MEASURED = """
script     qwen      qwen3.5   deepseek  tekken    mistral   llama3    llama4    other     claude    claude-5  gemini
arabic     0,0.84    1.49,0    1.37,0.09 1.83,0    0,1.33    1.08,0.38 0.78,0.25 0,1.02    0.08,0.94 0.06,0.9  1.21,0
armenian   0,0.55    0.55,0.32 1.41,0.09 0.84,0.06 0,0.61    0,0.92    0.61,0.42 0,1.02    0.68,0.28 0.58,0.28 1.06,0.12
bengali    0.11,0.87 0.54,0.4  0.34,0.28 0.72,0.2  1.64,0.51 0,1.02    0.19,0.34 0,1.02    0.1,0.74  0.1,0.7   0.78,0
cyrillic   0.15,0.8  0.47,0.46 0.48,0.54 0.57,0.43 0.58,0.62 0.07,0.84 0.56,0.36 0,1.02    0.94,0.46 1.2,0.26  0.32,0.48
devanagari 0.09,0.93 0.52,0.51 0.33,0.53 0.2,0.43  0,1.05    0.54,0.38 0.86,0.11 0,1.02    0.88,0.5  0.96,0.44 0.84,0.06
ethiopic   0,0.55    0,0.61    0,0.81    0,1.02    0,0.95    0,1.02    0,0.31    0,1.02    0.67,0.09 0.73,0.02 0,0.27
georgian   0,0.55    0.6,0.21  0.35,0.35 0.62,0.17 0,0.55    0,1.02    1,0.07    0,1.02    0,0.4     0.04,0.38 0.06,0.23
greek      0,0.99    1.01,0    0,0.53    0.07,0.41 0,1.15    0.24,0.34 0.82,0.08 0,1.02    0.6,0.54  0.06,0.72 0.88,0.08
gujarati   0,0.92    0,0.46    0,0.51    0,0.36    0,1.36    0,1.02    0,0.31    0,1.02    0.86,0.39 0.63,0.41 0.8,0.04
gurmukhi   0,0.97    0.29,0.41 0.7,0.35  0.37,0.3  0,1.52    0,1.02    0.52,0.26 0,1.02    0,1.32    0.04,1.28 1.02,0.02
han        0.91,0.18 0.96,0    0.94,0    1.41,0    1.25,0.21 1.14,0    0.84,0.04 0.33,0.82 1.58,0.06 1.62,0    0.94,0
hangul     0.66,0.38 0.91,0    0.73,0.33 0.84,0.15 0,1.39    0.94,0.12 0.62,0.18 0,1.02    0.16,1.24 0.02,1.26 0.98,0
hebrew     1.07,0    0.81,0.19 0.65,0.23 0,0.47    0,1.08    0,1.02    0.8,0.2   0,1.02    0.3,0.62  0.06,0.66 0.63,0.24
kana       0.93,0.11 0.82,0    0.78,0.28 0.13,0.57 1.9,0     0.95,0    0.86,0    0.95,0.33 0,0.86    0,0.88    0.52,0.12
kannada    0.09,0.8  0,0.45    0.73,0.28 0.26,0.23 1.43,0.48 0,1.02    0.95,0.09 0,1.02    1.46,0.72 1.12,0.78 0.94,0.02
khmer      0.56,0.57 0.46,0.49 0,0.78    0,1.81    1.98,0.06 0,1.02    1.06,0    0,1.81    0.02,0.7  0.18,0.64 0.82,0.02
lao        0,0.61    0,0.53    0,0.84    0,1.35    0,1.24    0,0.92    0,0.35    0,1.35    0.39,0.41 0.56,0.26 0.32,0.02
latin      0,1.02    0.7,0.46  0.48,0.72 0.29,0.81 0.12,1.26 0,1.02    0.35,0.7  0.33,0.84 0,1.25    0,1.88    1.05,0
malayalam  0.13,0.83 0.2,0.47  0.4,0.44  1.53,0    0.26,1.28 0,1.02    1.19,0.08 0,1.02    0.62,0.62 0.24,0.68 0.89,0.02
myanmar    0,0.8     0,0.43    0,0.45    0,0.3     0,0.8     0,1.02    0,0.28    0,1.02    0.56,0.4  0.18,0.5  0.88,0
oriya      0,0.82    0,0.33    0,0.43    0,1.1     0,1.1     0,1.01    0,0.69    0,1.1     0.43,0.52 1.06,0.26 0.32,0.17
sinhala    0,0.82    0,0.47    0,0.51    0,1.52    0,0.98    0,1.02    0,0.31    0,1.51    1.43,0.15 0.6,0.37  0.02,0.26
symbols    0.93,0    0,0.97    0,0.86    0,1.75    1.06,0.34 0.24,0.83 0,0.91    0,1.75    1.3,0.42  1.22,0.42 0.24,0.3
tamil      0,0.84    0.03,0.54 0.7,0.24  0.42,0.22 0.77,0.67 0,1.02    0.99,0.27 0,1.02    1.16,0.32 1.24,0.28 0.76,0
telugu     0,0.88    0.1,0.45  0.19,0.41 0.51,0.19 1.88,0.57 0,1.02    0.13,0.34 0,1.02    1.32,0.2  1.58,0.12 0.94,0
thai       0,0.71    0.62,0.34 0.6,0.27  0.93,0.21 2.46,0.08 0.79,0.22 0.96,0.02 0.65,0.75 0.42,0.9  1.36,0.46 0.42,0.2
"""


def _read(table: str) -> Mapping[str, Ratios]:
    (_, *families), *rows = (line.split() for line in table.strip().splitlines())
    found: dict[str, dict[str, tuple[float, float]]] = {family: {"other": _DEAREST} for family in families}
    for script, *pairs in rows:
        for family, pair in zip(families, pairs, strict=True):
            a, b = pair.split(",")
            found[family][script] = float(a), float(b)
    return MappingProxyType({family: MappingProxyType(ratios) for family, ratios in found.items()})


_OTHER_LATIN: Mapping[str, tuple[float, float, float, float]] = MappingProxyType({
    "qwen": (0, 1.02, 0, 0), "qwen3.5": (0.668, 0.456, 0, 0.039), "deepseek": (0.143, 0.772, 0.058, 0.169),
    "tekken": (0.195, 0.866, 0, 0), "mistral": (0.12, 1.26, 0, 0), "llama3": (0, 1.02, 0, 0),
    "llama4": (0.648, 0.442, 0, 0), "other": (0.33, 0.84, 0, 0), "claude": (0.213, 0.664, 0.133, 0.414),
    "claude-5": (0.939, 0.03, 0.275, 0.437), "gemini": (1.249, -0.09, 0.013, 0.211),
})  # fmt: skip
"""Four factors: tokens in o200k_base, tokens in cl100k_base, characters, and UTF-8 bytes beyond one a character."""

_DEAREST = (1.0, 1.0)
"""The pair of scripts without measurements, in every family. An estimate is at most the text's UTF-8 bytes."""


RATIOS: Mapping[str, Ratios] = _read(_MEASURED)
_NEWER, _OLDER = (
    {family: tuple(ratios[script][column] for script in UNICODE_SCRIPTS) for family, ratios in RATIOS.items()}
    for column in (0, 1)
)
"""Each family's factors for tokens in o200k_base and in cl100k_base, in the order of ``UNICODE_SCRIPTS``."""


class Mix(msgspec.Struct, array_like=True, frozen=True):
    """The properties of a text that decide its tokens in other vocabularies.

    ``size`` is its UTF-8 bytes. ``digits`` are the extra tokens of its numbers in vocabularies where each digit is a token.
    ``shares`` has an entry for each script that is not Latin: its place in ``UNICODE_SCRIPTS``, and the thousandths of the
    text's tokens in o200k_base and in cl100k_base that are in that script. ``characters`` are those of a text in another
    Latin language than English, and 0 for all other texts. ``marks`` are the extra tokens of ``extra_marks``, ``capitals``
    those of ``extra_capitals`` (``counts.text``).
    """

    size: int
    digits: int = 0
    shares: tuple[tuple[int, int, int], ...] = ()
    characters: int = 0
    marks: int = 0
    capitals: int = 0


def script_shares(text: str) -> tuple[tuple[int, int, int], ...]:
    """Return the ``shares`` of a text's mix: the tokens of each script are guessed by its characters."""
    if not _BEYOND_LATIN.search(text):
        return ()
    characters: Counter[int] = Counter()
    for character, times in Counter(text).items():
        characters[_PLACE_OF[ord(character)]] += times
    weights = {
        place: tuple(times * each for each in _TOKENS_A_CHARACTER[UNICODE_SCRIPTS[place]])
        for place, times in characters.items()
    }
    o200k, cl100k = (sum(column) for column in zip(*weights.values(), strict=True))
    parts = ((place, round(a / o200k * PARTS), round(b / cl100k * PARTS)) for place, (a, b) in sorted(weights.items()))
    return tuple(each for each in parts if each[0] != _LATIN and each[1] + each[2])


def most_family_tokens(o200k: int, cl100k: int, family: str) -> int:
    """The most tokens of a text whose scripts are not known, for a family of ``RATIOS``; of English those of Latin."""
    scripts = RATIOS[family]
    known = ["latin"] if cl100k <= OTHER_LATIN_FROM * o200k + 1 else [each for each in scripts if each != "other"]
    return math.ceil(max(scripts[each][0] * o200k + scripts[each][1] * cl100k for each in known))


def family_tokens(
    o200k: Number, cl100k: Number, mix: Mix | None, family: str, part: Number = 1.0, by: Arithmetic = ONE
) -> Number:
    """Return the tokens of a text for a family of ``RATIOS``, given those in o200k_base and cl100k_base.

    The estimate errs high. With a ``mix``, it is at most the text's UTF-8 bytes, the maximum of every byte-level vocabulary.
    The mix may be that of a longer text, of which these tokens are a ``part``. A mix of many texts has arrays, with the size
    0 for a text without a mix.
    """
    latin = RATIOS[family]["latin"]
    rounded, spare = (by.floor, _SPARE) if family in MARKS_APART else (by.ceil, 0.0)
    plain = rounded(latin[0] * o200k + latin[1] * cl100k + spare)
    if mix is None:
        return plain
    beside = by.ceil(mix.digits * part) if family in SINGLE_DIGITS else 0.0
    beside = beside + (by.ceil(mix.marks * part) if family in MARKS_APART else 0.0)
    beside = beside + (by.ceil(mix.capitals * part) if family in CAPITALS_APART else 0.0)
    a, b = latin
    if by.some(mix.characters):
        factors = zip(_OTHER_LATIN[family], (*latin, 0.0, 0.0), strict=True)
        a, b, character, more_bytes = (by.where(mix.characters, other, english) for other, english in factors)
        beside = beside + part * (character * mix.characters + more_bytes * (mix.size - mix.characters))
    newer, older = a * PARTS, b * PARTS
    for place, part_o200k, part_cl100k in mix.shares:
        newer = newer + part_o200k * (by.pick(_NEWER[family], place) - a)
        older = older + part_cl100k * (by.pick(_OLDER[family], place) - b)
    tokens = by.least(rounded((newer * o200k + older * cl100k) / PARTS + beside + spare), mix.size)
    return by.where(mix.size, tokens, plain)
