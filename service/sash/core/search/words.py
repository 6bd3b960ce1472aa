"""The words of a text, and a message's words in the form of an index.

Words are runs of letters, marks and digits (Unicode Standard Annex 29, without its rules for points and hyphens inside a
word), in lower case, without accents, and stemmed by the Snowball algorithm of their script. Scripts without spaces between
words (Chinese, Japanese, Thai, Lao, Khmer, Burmese) give pairs of neighbouring characters, and so does Korean, whose
endings are part of the word.

A message's words are ascending numbers of 32 bits: 28 bits of the word's digest, and its number of occurrences, at most 15.
They do not show the order of the words. If the digest is keyed, they do not show the words either.
A transcript has messages as plain text, for a summary or for recall.
"""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from itertools import chain, pairwise
from typing import Any, Final
from zlib import crc32

import numpy as np
import regex  # type: ignore[import-untyped]
import Stemmer  # type: ignore[import-not-found]

from sash.core.chat.calls import functions_called
from sash.core.stored.redaction import REDACTED_TEXT

DIGEST_BITS: Final = 0xFFFFFFF0
MOST_OFTEN: Final = 15
_LONGEST_TEXT = 65_536
"""Characters of one message that are indexed, so that a pasted book does not make a turn slow."""
_LONGEST_WORD = 64
_LONGEST_LINE = 4_000
"""Characters of one message in a transcript; longer ones are cut in the middle."""
_UNSPACED = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff]+)"
)
_LOWER_OR_SPACE = bytes(ord(chr(code).lower()) if chr(code).isalnum() else ord(" ") for code in range(128)) + bytes(128)
"""For ASCII: small letters and digits, and spaces in place of the others."""
_RUNS = regex.compile(r"[^\W_]+").findall  # with marks, which the standard library's \w leaves out
_ACCENTS = re.compile("[\u0300-\u036f]+")
_LANGUAGES = (
    ("\u0370".encode(), "english"),
    ("\u0400".encode(), "greek"),
    ("\u0500".encode(), "russian"),
    ("\u0600".encode(), "english"),
    ("\u0700".encode(), "arabic"),
    ("\u0900".encode(), "english"),
    ("\u0980".encode(), "hindi"),
    ("\U0010ffff".encode(), "english"),
)
"""The first letter after a range of scripts, and the stemmer of the range: that of the scripts' most spoken language that
has one. For the others it is the English stemmer, which hardly changes their words."""
_STOP_WORDS = frozenset(
    (
        b"a about above after again against all am an and any are as at be because been before being below between "
        b"both but by can could did do does doing don down during each few for from further had has have having he "
        b"her here hers herself him himself his how i if in into is it its itself just ll me more most my myself no "
        b"nor not now of off on once only or other our ours ourselves out over own re s same she should so some such "
        b"t than that the their theirs them themselves then there these they this those through to too under until "
        b"up ve very was we were what when where which while who whom why will with would you your yours yourself "
        b"yourselves"
    ).split()
)

Numbering = Callable[[bytes], int]
"""A word's number of 32 bits."""
plain_number: Final[Numbering] = crc32
"""The numbering without encryption at rest."""


def words_of(text: str) -> list[bytes]:
    """The words of the text's first 65,536 characters in UTF-8, without stop words."""
    runs = _runs_in(text)
    stems = _stems(set(runs) - _STOP_WORDS)
    return [stems[run] for run in runs if run in stems]


def _runs_in(text: str) -> list[bytes]:
    """The text's runs of letters and digits in lower case, and pairs of characters of scripts without spaces."""
    text = text[:_LONGEST_TEXT]
    if text.isascii():
        return [run[:_LONGEST_WORD] for run in text.encode().translate(_LOWER_OR_SPACE).split()]
    folded = unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", text.casefold())))
    runs = _RUNS(folded)
    if _UNSPACED.search(folded):
        runs = [part for run in runs for part in _parts(run)]
    return [run[:_LONGEST_WORD].encode() for run in runs]


def _parts(run: str) -> Iterator[str]:
    """The parts of a run that have spaces between words, and the pairs of characters of the other parts."""
    for part in filter(None, _UNSPACED.split(run)):
        if _UNSPACED.match(part):
            yield from (part[index : index + 2] for index in range(max(1, len(part) - 1)))
        else:
            yield part


def _stems(runs: AbstractSet[bytes]) -> dict[bytes, bytes]:
    """The stem of each run, by the language of its first letter."""
    stems: dict[bytes, bytes] = {}
    rest = sorted(runs)
    for end, language in _LANGUAGES:
        count = bisect_left(rest, end)
        if count:
            # A new stemmer each time: it is not thread-safe, would keep words in memory, and takes a third of a microsecond.
            stemmer = Stemmer.Stemmer(language, 0)
            stems |= zip(rest[:count], stemmer.stemWords(rest[:count]), strict=True)
            rest = rest[count:]
    return stems


def said_in(message: Mapping[str, Any]) -> str:
    """The texts of a chat message: content, refusal, and tool calls with their arguments. Redacted texts are left out."""
    content = message.get("content")
    parts = [{"text": content}] if isinstance(content, str) else content or []
    said = [*(part.get("text") or part.get("refusal") for part in parts), message.get("refusal")]
    said += [call.get(member) for call in functions_called(message) for member in ("name", "arguments", "input")]
    return "\n".join(text for text in said if isinstance(text, str) and text != REDACTED_TEXT)


def pack_words(texts: Iterable[str], number: Numbering = plain_number) -> list[bytes]:
    """The words of each text in the form of an index: four bytes for each distinct word, little-endian.

    A word that occurs in several texts is stemmed and numbered once: a hundred texts together take half the time.
    """
    split = [_runs_in(text) for text in texts]
    stems = _stems(set().union(*split) - _STOP_WORDS)
    numbers = {run: number(stem) & DIGEST_BITS for run, stem in stems.items()}
    said = [[numbers[run] for run in runs if run in numbers] for runs in split]
    # One sort for all texts: the upper half of each value is its text's place. Equal values are counted.
    places = np.arange(len(said) + 1, dtype=np.uint64) << np.uint64(32)
    placed = np.repeat(places[:-1], [len(each) for each in said])
    words, often = np.unique(placed | np.fromiter(chain.from_iterable(said), np.uint64), return_counts=True)
    packed = (words.astype("<u4") | np.minimum(often, MOST_OFTEN).astype("<u4")).tobytes()
    ends = (4 * np.searchsorted(words, places)).tolist()
    return [packed[start:end] for start, end in pairwise(ends)]


def transcript(messages: Iterable[Mapping[str, Any]]) -> str:
    """A paragraph for each message, with its role and text. Redacted texts are left out, long ones cut in the middle."""
    told = ((each["role"], *part) for each in messages for part in _told(each))
    return "\n".join(
        f"{role} {what}: {_shortened(text)}" if what else f"{role}: {_shortened(text)}" for role, what, text in told
    )


def told_in(message: Mapping[str, Any]) -> str:
    """A message's text and its calls, uncut, as one text for a reader. Redacted texts are left out."""
    return "\n".join(f"{what}: {text}" if what else text for what, text in _told(message))


def _told(message: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What a message said, and its calls: what is told, which is nothing for a text, and its text."""
    content = message.get("content")
    parts: list[str] = [content] if isinstance(content, str) else []
    if not parts:
        parts = [each.get("text") or each.get("refusal") or f"[{each.get('type')}]" for each in content or ()]
    said = "\n".join(filter(None, (" ".join(parts), message.get("refusal"))))
    if said and said != REDACTED_TEXT:
        yield "", said
    for call in functions_called(message):
        yield f"calls {call.get('name')}", str(call.get("arguments") or call.get("input") or "")


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_LINE else f"{text[: _LONGEST_LINE // 2]} […] {text[-_LONGEST_LINE // 2 :]}"
