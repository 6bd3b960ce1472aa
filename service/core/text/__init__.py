"""Text to tokens, and text cut to tokens: the only importer of the tokenisers.

toktok counts and cuts: its vocabularies travel inside its wheel and its time is linear. Where it has no wheel, tiktoken
does the same with the same numbers. Special tokens (``<|endoftext|>``) are plain characters here, as they are to a
provider that receives them in a message.
"""

import re
from collections.abc import Callable
from functools import cache
from typing import Literal, NamedTuple

import tiktoken

from service.core.unicode17 import with_stand_ins

try:
    import toktok  # type: ignore[import-untyped]
except ImportError:  # no wheel for this platform: tiktoken takes over, slower and with the same numbers
    toktok = None

Encoding = Literal["o200k_base", "cl100k_base"]
ENCODINGS: tuple[Encoding, ...] = ("o200k_base", "cl100k_base")

HAS_TOKTOK = toktok is not None
_EVERYTHING = 1 << 62
# tiktoken's regular expressions panic near a million whitespace characters in a row: from here on we split ourselves.
_LONGEST_WHITESPACE = 100_000
_WHITESPACE = re.compile(r"\s+")
# A letter and then a space always end one piece and begin the next, in both encodings: counts on its sides add up.
_SEAM = re.compile(r"[A-Za-z] ")
_SEAM_SEARCH_CHARACTERS = 4_096


class Tokeniser(NamedTuple):
    """Two pure functions: tokens of a text, and the characters of a text that its first n tokens cover entirely."""

    tokens: Callable[[str, Encoding], int]
    covered: Callable[[str, Encoding, int], int]


def _toktok_count(text: str, encoding: Encoding) -> int:
    # truncate reports the whole text's count, and is 70 times cheaper a call than batch_count
    total: int = toktok.truncate(text if text.isascii() else with_stand_ins(text), _EVERYTHING, encoding)[1]
    return total


def count_with(encoding: str) -> Callable[[str], int]:
    """Return toktok's count of a vocabulary of its own beside the two encodings."""
    return lambda text: int(toktok.truncate(text, _EVERYTHING, encoding)[1])


def _toktok_covered(text: str, encoding: Encoding, max_tokens: int) -> int:
    return len(toktok.truncate(with_stand_ins(text), max_tokens, encoding)[0])


TOKTOK = Tokeniser(_toktok_count, _toktok_covered)


@cache
def _tiktoken_encoding(encoding: Encoding) -> tiktoken.Encoding:
    return tiktoken.get_encoding(encoding)


def tiktoken_ids(text: str, codec: tiktoken.Encoding) -> list[int]:
    """Return the ids of ordinary text, however long."""
    if len(text) < _LONGEST_WHITESPACE or not _has_long_whitespace(text):
        return codec.encode_ordinary(text)
    import regex  # type: ignore[import-untyped]  # noqa: PLC0415 - tiktoken's own dependency, for rare input alone

    pieces: list[str] = regex.findall(codec._pat_str, text)  # noqa: SLF001 - the pattern has no public name
    return [i for piece in pieces for i in codec._encode_single_piece(piece)]  # noqa: SLF001


def _has_long_whitespace(text: str) -> bool:
    return any(run.end() - run.start() >= _LONGEST_WHITESPACE for run in _WHITESPACE.finditer(text))


def _tiktoken_count(text: str, encoding: Encoding) -> int:
    return len(tiktoken_ids(text, _tiktoken_encoding(encoding)))


def _tiktoken_covered(text: str, encoding: Encoding, max_tokens: int) -> int:
    ids = tiktoken_ids(text, _tiktoken_encoding(encoding))[:max_tokens]
    whole = _tiktoken_encoding(encoding).decode_bytes(ids)
    return len(whole.decode("utf-8", errors="ignore"))  # only the last character can be partial


TIKTOKEN = Tokeniser(_tiktoken_count, _tiktoken_covered)
_TOKENISER = TOKTOK if toktok is not None else TIKTOKEN


def count_text(text: str, encoding: Encoding) -> int:
    """Return the tokens of ``text``, special tokens as ordinary text."""
    return _TOKENISER.tokens(text, encoding)


def cut_text(text: str, encoding: Encoding, max_tokens: int, *, tokeniser: Tokeniser = _TOKENISER) -> str:
    """Return the prefix of ``text`` whose own count is within ``max_tokens``, and to which no character can be added.

    The cut falls between characters, and the prefix is counted again as the text it now is: a prefix of n tokens of a
    longer text can be n + 1 tokens by itself, because what follows decides how letters and spaces are grouped.
    """
    if max_tokens <= 0:
        return ""
    length = tokeniser.covered(text, encoding, max_tokens)
    if length == len(text):
        return text
    while tokeniser.tokens(text[:length], encoding) > max_tokens:
        length = min(length - 1, tokeniser.covered(text[:length], encoding, max_tokens))
    return text[: _extend(text, encoding, max_tokens, length, tokeniser)]


def _extend(text: str, encoding: Encoding, max_tokens: int, length: int, tokeniser: Tokeniser) -> int:
    """Return the greatest length reached from ``length`` by adding characters while the count allows."""
    seam = _last_seam(text, length)
    left = max_tokens - tokeniser.tokens(text[:seam], encoding)
    while length < len(text) and tokeniser.tokens(text[seam : length + 1], encoding) <= left:
        length += 1
    return length


def _last_seam(text: str, length: int) -> int:
    """Return a place at or before ``length`` where counts add up, near it if there is one, else 0."""
    seam = 0
    for match in _SEAM.finditer(text, max(0, length - _SEAM_SEARCH_CHARACTERS), length):
        seam = match.start() + 1
    return seam
