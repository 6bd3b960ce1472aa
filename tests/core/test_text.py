"""Counting and cutting text: toktok and tiktoken give the same results, and a cut is a prefix within the limit."""

import base64
import gzip
import hashlib
import importlib.util
import inspect
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import tiktoken_ext.openai_public
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from sash.core.counts.text import ENCODINGS, TIKTOKEN, TOKTOK, Encoding, Tokeniser, count_text, cut_text
from sash.core.law.fixed_parts.plan import TOKEN_BYTES

TWO_THREADS = """
import random, threading, time
from sash.core.counts.text import ENCODINGS, count_texts
from sash.core.counts.text.vocabularies import load_vocabularies

words = ["".join(random.Random(seed).choices("abcdefghijklm", k=4)) for seed in range(500)]
texts = [" ".join(random.Random(seed).choices(words, k=60)) for seed in range(200)]

def seconds(encoding):
    best = 9
    for _ in range(9):
        began = time.thread_time()
        count_texts(texts, encoding)
        best = min(best, time.thread_time() - began)
    return best

def measure(found):
    load_vocabularies()
    found.append([seconds(each) for each in ENCODINGS])

found = []
measure(found)
second = threading.Thread(target=measure, args=(found,))
second.start()
second.join()
print(max(late / first for first, late in zip(*found)))
"""

ALPHABETS = (
    "abcdefghijklmnopqrstuvwxyz",
    "ABCdefÄÖÜßéèñçÆøŁ",
    "0123456789\uff10\uff11٣٤५",
    " \t\n\r\v\f\u00a0\u2003\u3000\u2028",
    ".,;:!?'\"()[]{}<>/\\|@#$%^&*-_=+~`",
    "漢字仮名交じり文のかなカナ한국어조선말",
    "שלוםעולםمرحبابالعالمہندی",
    "हिन्दीবাংলাதமிழ்ไทยລາວမြန်မာ",
    "\u0300\u0301\u0302\u0323\u0489\u20dd\u064b\u0e31",
    "\u200d\ufe0f\U0001f468\U0001f469\U0001f467\U0001f3fd\U0001f9d1\u2764\U0001f1e9\U0001f1ea",
    "".join(map(chr, (*range(32), *range(127, 160)))),
    "\U00010330\U0001d54f\U00020000\U000e0041\U0010fffd\ue000\ufffd\uffff",
)
PIECES = (
    "<|endoftext|>",
    "<|im_start|>",
    "'s",
    "'LL",
    "\r\n\r\n",
    "  \n ",
    "// ",
    "don't",
    "HTTPServer",
    "x" * 40,
    "=" * 80,
    "\n" * 9,
)


def nasty_text(source: random.Random, characters: int) -> str:
    """Return text made of runs: of one alphabet, of one character, or of pieces that tokenisers treat specially."""
    parts: list[str] = []
    size = 0
    while size < characters:
        alphabet = source.choice(ALPHABETS)
        match source.randrange(6):
            case 0:
                part = source.choice(PIECES)
            case 1:
                part = source.choice(alphabet) * source.randrange(1, 60)
            case 2:
                part = "".join(chr(_scalar(source)) for _ in range(source.randrange(1, 20)))
            case _:
                part = "".join(source.choices(alphabet, k=source.randrange(1, 25))) + source.choice(("", " ", "\n"))
        parts.append(part)
        size += len(part)
    return "".join(parts)


def _scalar(source: random.Random) -> int:
    """Return the code point of a random character of any plane, without surrogates."""
    point = source.randrange(0x110000 - 0x800)
    return point if point < 0xD800 else point + 0x800


@pytest.fixture(scope="session")
def tiktoken_ready(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give tiktoken its official rank files from bpe-openai's wheel, because tiktoken would download them otherwise."""
    folder = tmp_path_factory.mktemp("ranks")
    package = importlib.util.find_spec("bpe_openai")  # found, not imported: its import warns
    assert package is not None
    assert package.origin is not None
    data = Path(package.origin).parent / "data"
    for url, name in re.findall(r'"(https://\S+/(\w+)\.tiktoken)"', inspect.getsource(tiktoken_ext.openai_public)):
        if name in ENCODINGS:
            ranks = gzip.decompress((data / f"{name}.tiktoken.gz").read_bytes())
            (Path(folder) / hashlib.sha1(url.encode(), usedforsecurity=False).hexdigest()).write_bytes(ranks)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIKTOKEN_CACHE_DIR", str(folder))
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("tiktoken_ready")
def test_without_toktok_tiktoken_counts() -> None:
    """On a platform without toktok's wheel the same module counts and cuts with tiktoken."""
    script = (
        "import sys; sys.modules['toktok'] = None\n"
        "from sash.core.counts import text\n"
        "assert text._TOKENISER is text.TIKTOKEN\n"
        "print(text.count_text('hello <|endoftext|>', 'o200k_base'), text.cut_text('hello world', 'cl100k_base', 1))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.split() == [str(count_text("hello <|endoftext|>", "o200k_base")), "hello"]


def test_no_token_is_longer_as_json() -> None:
    """A token of either encoding has at most TOKEN_BYTES as JSON, so that few tokens are inside each limit of bytes."""
    package = importlib.util.find_spec("bpe_openai")
    assert package is not None
    assert package.origin is not None
    for encoding in ENCODINGS:
        ranks = gzip.decompress((Path(package.origin).parent / "data" / f"{encoding}.tiktoken.gz").read_bytes())
        tokens = [base64.b64decode(line.split()[0]) for line in ranks.splitlines()]
        sizes = (len(msgspec.json.encode(token.decode("latin-1")).decode()) - len('""') for token in tokens)
        assert max(sizes) == TOKEN_BYTES


BOTH_TOKENISERS = pytest.mark.parametrize("tokeniser", [TOKTOK, TIKTOKEN], ids=["toktok", "tiktoken"])
BOTH_ENCODINGS = pytest.mark.parametrize("encoding", ENCODINGS)


@pytest.mark.parametrize(
    ("text", "o200k", "cl100k"),
    [("", 0, 0), ("hello world", 2, 2), ("Привет, мир", 4, 6), ("<|endoftext|>", 7, 7), ("\U0001f9e0", 3, 3)],
)
@pytest.mark.usefixtures("tiktoken_ready")
def test_counts_known_strings(text: str, o200k: int, cl100k: int) -> None:
    """Known strings have known counts, with special tokens counted as plain characters."""
    for tokeniser in (TOKTOK, TIKTOKEN):
        assert (o200k, cl100k) == tuple(tokeniser.tokens(text, encoding) for encoding in ENCODINGS)


@pytest.mark.parametrize(
    "text", ["\U0001e6c0's", "\U00032426\u094d\u0926", "1\U00011de82", "\u088f'll", "\u0c5c\u1ad8"], ids=ascii
)
@pytest.mark.usefixtures("tiktoken_ready")
def test_characters_newer_than_tiktoken_are_grouped_as_it_groups_them(text: str) -> None:
    """Letters, marks and digits that are new in Unicode 17 are counted as symbols, as tiktoken does."""
    for encoding in ENCODINGS:
        assert TIKTOKEN.tokens(text, encoding) == count_text(text, encoding)


@BOTH_TOKENISERS
@BOTH_ENCODINGS
@pytest.mark.parametrize("times", [1, 40])
@pytest.mark.usefixtures("tiktoken_ready")
def test_a_text_has_as_many_tokens_among_others_as_alone(tokeniser: Tokeniser, encoding: Encoding, times: int) -> None:
    """Many texts that are counted at once have the counts that each has alone, few as many."""
    texts = ["", "hello world", "Привет, мир", "<|endoftext|>", "1234567", "\U0001e6c0's", " \n\n"] * times
    assert tokeniser.each(texts, encoding) == [tokeniser.tokens(text, encoding) for text in texts]


@BOTH_ENCODINGS
@pytest.mark.usefixtures("tiktoken_ready")
@examples(0.6)
@given(source=st.randoms(use_true_random=False), text=st.text(max_size=200))
def test_toktok_counts_as_tiktoken_does(encoding: Encoding, source: random.Random, text: str) -> None:
    """Both tokenisers give the same counts for long texts of every kind."""
    text = nasty_text(random.Random(source.getrandbits(64)), 2_000) + text
    assert TOKTOK.tokens(text, encoding) == TIKTOKEN.tokens(text, encoding)


@BOTH_ENCODINGS
@BOTH_TOKENISERS
@pytest.mark.usefixtures("tiktoken_ready")
@examples(0.4)
@given(source=st.randoms(use_true_random=False), max_tokens=st.integers(0, 120))
def test_cut_is_a_prefix_that_fits_and_cannot_grow(
    tokeniser: Tokeniser, encoding: Encoding, source: random.Random, max_tokens: int
) -> None:
    """A cut is a prefix that is within the limit when it is counted again; one more character would exceed the limit."""
    text = nasty_text(random.Random(source.getrandbits(64)), 150)

    cut = cut_text(text, encoding, max_tokens, tokeniser=tokeniser)

    assert text.startswith(cut)
    assert count_text(cut, encoding) <= max_tokens
    if cut != text and max_tokens > 0:
        assert count_text(text[: len(cut) + 1], encoding) > max_tokens


@BOTH_ENCODINGS
@pytest.mark.usefixtures("tiktoken_ready")
@examples(0.4)
@given(source=st.randoms(use_true_random=False), max_tokens=st.integers(1, 120))
def test_both_tokenisers_cut_alike(encoding: Encoding, source: random.Random, max_tokens: int) -> None:
    """toktok and tiktoken cut the same text at the same character."""
    text = nasty_text(random.Random(source.getrandbits(64)), 150)

    assert cut_text(text, encoding, max_tokens, tokeniser=TIKTOKEN) == cut_text(
        text, encoding, max_tokens, tokeniser=TOKTOK
    )


@BOTH_ENCODINGS
def test_text_that_fits_is_returned_as_it_is(encoding: Encoding) -> None:
    """Text within the limit is returned unchanged."""
    text = "nothing to cut here"
    assert cut_text(text, encoding, count_text(text, encoding)) is text


@BOTH_ENCODINGS
@pytest.mark.parametrize("max_tokens", [0, -5])
def test_no_tokens_leave_no_text(encoding: Encoding, max_tokens: int) -> None:
    """A cut to zero or fewer tokens is empty."""
    assert cut_text("something", encoding, max_tokens) == ""


@BOTH_ENCODINGS
def test_a_character_of_several_tokens_is_never_halved(encoding: Encoding) -> None:
    """A character of more tokens than the limit is left out whole."""
    assert cut_text("\U00013000", encoding, count_text("\U00013000", encoding) - 1) == ""


@pytest.mark.slow
@BOTH_ENCODINGS
@pytest.mark.usefixtures("tiktoken_ready")
def test_a_million_spaces_do_not_panic(encoding: Encoding) -> None:
    """Long white space, on which tiktoken panics, is split first, so that both tokenisers count and cut it alike."""
    text = "word!\n" + " " * 1_100_000 + "\n \t end"

    assert TOKTOK.tokens(text, encoding) == TIKTOKEN.tokens(text, encoding)
    assert cut_text(text, encoding, 500, tokeniser=TOKTOK) == cut_text(text, encoding, 500, tokeniser=TIKTOKEN)


WORST = ("a", " ", "\n", "=", "-", "/", "*", "e\u0301", "漢", "\u200d\U0001f468", "aB", "1", " \t", "x y ", "\0", "'")


@pytest.mark.nightly
@pytest.mark.parametrize("unit", WORST, ids=ascii)
def test_counting_costs_at_most_a_microsecond_a_byte(unit: str) -> None:
    """Counting a megabyte of difficult text in both encodings takes under a second."""
    text = unit * (1_000_000 // len(unit.encode()))
    assert counting_seconds(text) < 1.0


@pytest.mark.slow
@pytest.mark.parametrize("unit", WORST, ids=ascii)
def test_counting_grows_with_the_text_alone(unit: str) -> None:
    """Eight times the text takes less than 24 times as long; a quadratic algorithm would take 64 times as long."""
    little, much = (
        min(counting_seconds(unit * (size // len(unit.encode()))) for _ in range(3)) for size in (40_000, 320_000)
    )
    assert much < 24 * little + 0.01


def counting_seconds(text: str) -> float:
    """Return the CPU seconds to count a text in both encodings."""
    started = time.thread_time()
    counts = [count_text(text, encoding) for encoding in ENCODINGS]
    seconds = time.thread_time() - started
    assert min(counts) > 0
    return seconds


@pytest.mark.slow
def test_a_second_thread_counts_as_fast_as_the_first() -> None:
    """toktok remembers the pieces of text that it knows, and the first thread would take all of that memory."""
    run = subprocess.run([sys.executable, "-c", TWO_THREADS], capture_output=True, text=True, check=True)
    assert float(run.stdout) < 2
