"""The words of a text, and a message's words in the form of an index.

Words are runs of letters, marks and digits (Unicode Standard Annex 29, without its rules for points and hyphens inside a
word), in lower case, without accents, and stemmed by the Snowball algorithm of their script. Scripts without spaces between
words (Chinese, Japanese, Thai, Lao, Khmer, Burmese) give pairs of neighbouring characters, and so does Korean, whose
endings are part of the word.

A message's words are ascending numbers of 32 bits: 28 bits of the word's digest, and its number of occurrences, at most 15.
They do not show the order of the words. If the digest is keyed, they do not show the words either.
"""

import re
import sys
import unicodedata
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final
from zlib import crc32

import regex  # type: ignore[import-untyped]
import Stemmer  # type: ignore[import-not-found]

from service.core.redaction import REDACTED_TEXT

DIGEST_BITS: Final = 0xFFFFFFF0
MOST_OFTEN: Final = 15
_LONGEST_TEXT = 65_536
"""Characters of one message that are indexed, so that a pasted book does not make a turn slow."""
_LONGEST_WORD = 64
_UNSPACED = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff]+)"
)
_SPACES = str.maketrans({chr(code): " " for code in range(128) if not chr(code).isalnum()})
_RUNS = regex.compile(r"[^\W_]+").findall  # with marks, which the standard library's \w leaves out
_ACCENTS = re.compile("[\u0300-\u036f]+")
_LANGUAGES = (("Ѐ", "ӿ", "russian"), ("Ͱ", "Ͽ", "greek"), ("؀", "ۿ", "arabic"), ("ऀ", "ॿ", "hindi"))
"""Scripts whose most spoken language has a stemmer. Others use the English stemmer, which hardly changes their words."""
_STOP_WORDS = frozenset(
    regex.findall(
        r"\w+",
        "a about above after again against all am an and any are as at be because been before being below between "
        "both but by can could did do does doing don down during each few for from further had has have having he "
        "her here hers herself him himself his how i if in into is it its itself just ll me more most my myself no "
        "nor not now of off on once only or other our ours ourselves out over own re s same she should so some such "
        "t than that the their theirs them themselves then there these they this those through to too under until "
        "up ve very was we were what when where which while who whom why will with would you your yours yourself "
        "yourselves ",
    )
)

Numbering = Callable[[bytes], int]
"""A word's number of 32 bits."""


def words_of(text: str) -> list[str]:
    """The words of the text's first 65,536 characters, without stop words, grouped by language."""
    folded = text[:_LONGEST_TEXT].casefold()
    if folded.isascii():
        return _stemmed("english", folded.translate(_SPACES).split())
    folded = unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", folded)))
    words: list[str] = []
    by_language: dict[str, list[str]] = {}
    for part in _parts(_RUNS(folded)) if _UNSPACED.search(folded) else _RUNS(folded):
        if _UNSPACED.match(part):
            words += [part[index : index + 2] for index in range(max(1, len(part) - 1))]
        else:
            by_language.setdefault(_language(part[0]), []).append(part)
    for language, parts in by_language.items():
        words += _stemmed(language, parts)
    return words


def _parts(runs: Iterable[str]) -> Iterator[str]:
    """The runs, split between scripts with and without spaces."""
    return (part for run in runs for part in _UNSPACED.split(run) if part)


def _language(letter: str) -> str:
    if letter < "\u0370":
        return "english"
    return next((language for first, last, language in _LANGUAGES if first <= letter <= last), "english")


def _stemmed(language: str, runs: Iterable[str]) -> list[str]:
    # A new stemmer each time: it is not thread-safe, would keep words in memory, and takes a third of a microsecond to make.
    stemmer = Stemmer.Stemmer(language, 0)
    return stemmer.stemWords([run[:_LONGEST_WORD] for run in runs if run not in _STOP_WORDS])  # type: ignore[no-any-return]


def said_in(message: Mapping[str, Any]) -> str:
    """The texts of a chat message: content, refusal, and tool calls with their arguments. Redacted texts are left out."""
    content = message.get("content")
    parts = (content,) if isinstance(content, str) else ([_part(part) for part in content or ()])
    calls = [call.get("function") or call.get("custom") or {} for call in message.get("tool_calls") or ()]
    calls.append(message.get("function_call") or {})
    said = [
        *parts,
        message.get("refusal"),
        *(call.get(member) for call in calls for member in ("name", "arguments", "input")),
    ]
    return "\n".join(text for text in said if isinstance(text, str) and text != REDACTED_TEXT)


def _part(part: Mapping[str, Any]) -> Any:
    return part.get("text") or part.get("refusal")


def plain_number(word: bytes) -> int:
    """A word's number without encryption at rest."""
    return crc32(word)


def pack_words(words: Iterable[str], number: Numbering = plain_number) -> bytes:
    """The words in the form of an index: four bytes for each distinct word, little-endian."""
    numbers = [
        number(word.encode()) & DIGEST_BITS | (often if often < MOST_OFTEN else MOST_OFTEN)  # noqa: FURB136 - a third faster
        for word, often in Counter(words).items()
    ]
    packed = array("I", sorted(numbers))
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()
