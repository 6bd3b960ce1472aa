"""Counting a text: its tokens, and its mix, from which other vocabularies' tokens are estimated; and cutting it to tokens.

Only this package imports the tokenisers.

toktok counts and cuts: its wheel contains the vocabularies, and its time is linear. On platforms without a wheel, tiktoken
gives the same results. Special tokens (``<|endoftext|>``) are plain text here, as for a provider that receives them in a
message.
"""

import re
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Literal, NamedTuple

import tiktoken

from sash.core.counts.text.unicode17 import with_stand_ins
from sash.core.counts.text.unicode_scripts import OTHER_LATIN_FROM, PARTS, Mix, script_shares

try:
    import toktok  # type: ignore[import-untyped]
except ImportError:  # no wheel for this platform: tiktoken gives the same counts, more slowly
    toktok = None

Encoding = Literal["o200k_base", "cl100k_base"]
ENCODINGS: tuple[Encoding, ...] = ("o200k_base", "cl100k_base")

Pair = tuple[int, int]
"""Tokens in o200k_base and in cl100k_base."""

HAS_TOKTOK = toktok is not None
_EVERYTHING = 1 << 62
_BATCH = 128
"""Texts from which on one call that counts them all is faster than a call for each."""
# tiktoken's regular expressions panic near a million whitespace characters in a row. Longer runs than this are split here.
_LONGEST_WHITESPACE = 100_000
_WHITESPACE = re.compile(r"\s+")
# Between a letter and a space, both encodings always split a text, so the counts of the two parts add up.
_SEAM = re.compile(r"[A-Za-z] ")
_SEAM_SEARCH_CHARACTERS = 4_096


_CLAIMED_FOR = 16
"""Parts of 2 MB into which toktok's memory of pieces is divided. Two threads take four, one for each encoding; larger parts
count no faster, because a processor's cache has no place for them."""


class Tokeniser(NamedTuple):
    """Pure functions: a text's tokens, those in both encodings, those of each of several texts, and the number of characters
    that a text's first n tokens cover completely; and one that makes an encoding ready in the thread that calls it."""

    tokens: Callable[[str, Encoding], int]
    both: Callable[[str], Pair]
    each: Callable[[Sequence[str], Encoding], list[int]]
    covered: Callable[[str, Encoding, int], int]
    prepare: Callable[[Encoding], object]


@cache
def _loaded(encoding: Encoding) -> Any:
    """Return toktok's own encoding, which counts one text 40 times faster than ``toktok.batch_count`` does."""
    return toktok._encoding(encoding)  # noqa: SLF001 - "for anyone who knowingly wants" it


def _toktok_count(text: str, encoding: Encoding) -> int:
    total: int = _loaded(encoding).count(text if text.isascii() else with_stand_ins(text))
    return total


def _toktok_both(text: str) -> Pair:
    known = text if text.isascii() else with_stand_ins(text)
    return _loaded("o200k_base").count(known), _loaded("cl100k_base").count(known)


def _toktok_each(texts: Sequence[str], encoding: Encoding) -> list[int]:
    if len(texts) < _BATCH:
        return [_toktok_count(text, encoding) for text in texts]
    known = texts if all(map(str.isascii, texts)) else list(map(with_stand_ins, texts))
    # One thread, because a second one would take the processor from another request.
    counts: list[int] = toktok.batch_count(known, encoding, threads=1)
    return counts


def count_with(encoding: str) -> Callable[[str], int]:
    """Return the counting function of one of toktok's other vocabularies."""
    return lambda text: int(toktok.truncate(text, _EVERYTHING, encoding)[1])


def _toktok_covered(text: str, encoding: Encoding, max_tokens: int) -> int:
    return len(_loaded(encoding).truncate(with_stand_ins(text), max_tokens)[0])


def _toktok_prepare(encoding: Encoding) -> None:
    """Load the encoding, and take a part of toktok's memory of pieces for this thread, with which it counts twice as fast.

    That memory may have 32 MB in a process, and a thread takes up to half of it for each encoding. So the first thread would
    take all of it. A call for several threads divides it, and leaves the parts to the next calls.
    """
    toktok.batch_count(["a"] * _CLAIMED_FOR, encoding, threads=_CLAIMED_FOR)
    _toktok_count("a", encoding)


TOKTOK = Tokeniser(_toktok_count, _toktok_both, _toktok_each, _toktok_covered, _toktok_prepare)


def tiktoken_ids(text: str, codec: tiktoken.Encoding) -> list[int]:
    """Return the ids of ordinary text, however long."""
    runs = _WHITESPACE.finditer(text) if len(text) >= _LONGEST_WHITESPACE else ()
    if not any(run.end() - run.start() >= _LONGEST_WHITESPACE for run in runs):
        return codec.encode_ordinary(text)
    import regex  # type: ignore[import-untyped]  # noqa: PLC0415 - tiktoken's own dependency, needed for rare texts only

    pieces: list[str] = regex.findall(codec._pat_str, text)  # noqa: SLF001 - the pattern has no public name
    return [i for piece in pieces for i in codec._encode_single_piece(piece)]  # noqa: SLF001


def _tiktoken_covered(text: str, encoding: Encoding, max_tokens: int) -> int:
    codec = tiktoken.get_encoding(encoding)
    whole = codec.decode_bytes(tiktoken_ids(text, codec)[:max_tokens])
    return len(whole.decode("utf-8", errors="ignore"))  # only the last character can be partial


def _tiktoken_count(text: str, encoding: Encoding) -> int:
    return len(tiktoken_ids(text, tiktoken.get_encoding(encoding)))


def _tiktoken_both(text: str) -> Pair:
    return _tiktoken_count(text, "o200k_base"), _tiktoken_count(text, "cl100k_base")


def _tiktoken_each(texts: Sequence[str], encoding: Encoding) -> list[int]:
    return [_tiktoken_count(text, encoding) for text in texts]


TIKTOKEN = Tokeniser(_tiktoken_count, _tiktoken_both, _tiktoken_each, _tiktoken_covered, tiktoken.get_encoding)
_TOKENISER = TOKTOK if toktok is not None else TIKTOKEN


def prepare(encoding: Encoding) -> None:
    """Make an encoding ready for the thread that calls this."""
    _TOKENISER.prepare(encoding)


count_text = _TOKENISER.tokens
"""Returns the tokens of a text in an encoding. Special tokens count as ordinary text."""
both = _TOKENISER.both
"""Returns the tokens of a text in both encodings."""
count_texts = _TOKENISER.each
"""Returns the tokens of each of several texts."""


def text_tokens(value: Any) -> Pair:
    """Return the tokens of all strings in a JSON value, including names of members and numbers.

    This is an upper bound for members that are in no recorded bill.
    """
    o200k = cl100k = 0
    for text in strings(value, names=True):
        o200k += count_text(text, "o200k_base")
        cl100k += count_text(text, "cl100k_base")
    return o200k, cl100k


def strings(value: Any, *, names: bool = False) -> Iterator[str]:
    """Yield every string in a JSON value, in order; with ``names`` also the names of members, and numbers as text."""
    match value:
        case str():
            yield value
        case Mapping():
            for name, each in value.items():
                if names:
                    yield name
                yield from strings(each, names=names)
        case list():
            for each in value:
                yield from strings(each, names=names)
        case bool() | None:
            pass
        case _ if names:
            yield str(value)


# ---- the mix

_NUMBER = re.compile(r"[0-9][0-9]+")
# Each begins with a set of characters, which is found several times faster than a look behind or a choice.
_AT_A_MARK = re.compile(r"[-._@/(](?=[A-Za-z])(?:(?<=[-._@])|(?<=[A-Za-z0-9]/)|(?<=[A-Za-z]\())")
_BEHIND_A_MARK = re.compile(r"\n(?<=[!-/:-@\[-`{-~]\n)")
_CONTRACTION = re.compile(r"'(?<=[A-Za-z]')(?=[A-Za-z])")
_CAPITALS = re.compile(r"[A-Z](?<!\w[A-Z])[A-Z]+\b")
_KINDS = bytes.maketrans(
    (string.digits + string.ascii_lowercase + string.ascii_uppercase + "-._@/('").encode(),
    b"0" * 10 + b"a" * 26 + b"A" * 26 + b"." * 7,
)
"""The kind of each byte: a digit, a letter, a capital, a mark that may count before a letter, or itself."""
_MARK_AND_LETTER = re.compile(
    r"\.[aA]"
)  # in a text without such a mark, twice as fast as to look for each letter behind it
_OF_CAPITALS = 0.06
"""Extra tokens of a letter in a word of capitals: 0.056 in one bill, of 6,100 such letters; as much in four elsewhere."""
_FEW = 0.03
"""Extra tokens of single digits and of marks, as a share of a text's tokens, that the headroom of the factors covers."""
_MOSTLY_LATIN = 900
"""Thousandths of a text's tokens that are Latin, from which on its tokens and characters are those of the Latin text."""


def extra_digits(text: str) -> int:
    """Return the extra tokens of a text's numbers in vocabularies where each digit is a token."""
    return sum(len(run) - (len(run) + 2) // 3 for run in _NUMBER.findall(text))


def extra_marks(text: str) -> int:
    """Return the extra tokens of a text's marks in vocabularies that join none with what is behind it.

    A point, a hyphen, an underscore or an @ before a letter has one more, so has a slash or a bracket between letters, a
    contraction (it's) has two, and any mark at a line's end one. Over 5,471 English texts counted with Gemma 3's vocabulary,
    a fit gave 0.5 to 1.3 for the first, 0.8 for the last, and 1.8 for a contraction.
    """
    ends = len(_BEHIND_A_MARK.findall(text)) if "\n" in text else 0
    contractions = len(_CONTRACTION.findall(text)) if "'" in text else 0
    return len(_AT_A_MARK.findall(text)) + ends + 2 * contractions


def extra_capitals(text: str) -> int:
    """Return the extra tokens of a text's words in capitals, for ``CAPITALS_APART``."""
    return int(sum(map(len, _CAPITALS.findall(text))) * _OF_CAPITALS)


def extra_tokens(text: str) -> int:
    """Return the extra tokens of a text's numbers, marks and capitals, in the vocabularies that have most of all."""
    return extra_digits(text) + extra_marks(text) + extra_capitals(text)


def mix_of(text: str, o200k: int, cl100k: int) -> Mix | None:
    """Return the mix of a text that has these tokens; None for English and the like, with few digits and indents.

    Whether it may have numbers, marks or words in capitals is seen in the kinds of its bytes, several times faster than they
    are found.
    """
    written = text.encode("utf-8", "surrogatepass")
    kinds = written.translate(_KINDS).decode("latin-1")  # a text is searched twice as fast as bytes
    digits = extra_digits(text) if "00" in kinds else 0
    marks = extra_marks(text) if "\n" in kinds or _MARK_AND_LETTER.search(kinds) else 0
    capitals = extra_capitals(text) if "AA" in kinds else 0
    shares: tuple[tuple[int, int, int], ...] = ()
    newer = older = PARTS
    if not text.isascii():
        shares = script_shares(text)
        newer, older = PARTS - sum(each[1] for each in shares), PARTS - sum(each[2] for each in shares)
    is_other_latin = newer >= _MOSTLY_LATIN and older * cl100k > OTHER_LATIN_FROM * newer * o200k + PARTS
    if not shares and not is_other_latin and digits + marks + capitals <= o200k * _FEW:
        return None
    return Mix(len(written), digits, shares, len(text) if is_other_latin else 0, marks, capitals)


# ---- cutting


def cut_text(text: str, encoding: Encoding, max_tokens: int, *, tokeniser: Tokeniser = _TOKENISER) -> str:
    """Return a prefix of ``text`` of at most ``max_tokens``, to which no character can be added.

    The prefix is counted again as a text of its own: n tokens of a longer text can be n + 1 tokens alone, because the
    following characters affect how letters and spaces are grouped.
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
    """Return the largest length from ``length`` on at which the count is within ``max_tokens``."""
    seam = _last_seam(text, length)
    left = max_tokens - tokeniser.tokens(text[:seam], encoding)
    while length < len(text) and tokeniser.tokens(text[seam : length + 1], encoding) <= left:
        length += 1
    return length


def pieces(text: str, characters: int) -> Iterator[str]:
    """Yield the pieces of a long text, each of at most so many ``characters``.

    A piece ends where the counts of both sides add up, if there is such a place near its end. Elsewhere the pieces together
    may have a token or two more than the text.
    """
    start = 0
    while len(text) - start > characters:
        end = start + characters
        seam = _last_seam(text, end)
        end = seam if seam > start else end
        yield text[start:end]
        start = end
    yield text[start:]


def _last_seam(text: str, length: int) -> int:
    """Return a place close before ``length`` where the counts of both sides add up; 0 if there is none."""
    seam = 0
    for match in _SEAM.finditer(text, max(0, length - _SEAM_SEARCH_CHARACTERS), length):
        seam = match.start() + 1
    return seam
