"""Read a model's name: what it is called, without seller, path and file, and its spelling, size, date and quantisation.

::

    openrouter/qwen/Qwen3-8B:free        bare qwen3-8b       spelled qwen-3-8b        size 8b
    accounts/…/llama-v3p3-70b-instruct   bare as it came     spelled llama-3.3-70b-instruct
    /models/Qwen3-1.7B-Q4_K_M.gguf       bare qwen3-1.7b-…   spelled qwen-3-1.7b      quantisation q4_k_m
    qwen3:4b, gpt-oss:20b-cloud (tags) bare qwen3, gpt-oss spelled qwen-3-4b, gpt-oss-20b

Sellers spell the same model in many ways. Two names with the same spelling are the same model.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple


class ModelName(NamedTuple):
    """A name as it was read. ``words`` are those of its spelling; a missing part is empty."""

    bare: str
    spelled: str
    words: tuple[str, ...]
    size: str = ""
    date: str = ""
    quantisation: str = ""


_FINE_TUNED: Final = re.compile(r"ft:([^:]+).*|(.+)\.ft-.*")
_SELLER: Final = re.compile(
    r"^(us|eu|apac|au|jp|in|global)\.(?=[a-z\d]+\.)"
    r"|^(openai|azure|anthropic|meta|mistral|deepseek|qwen|cohere|google|moonshotai|zai|minimax)[.:](?![a-z]\d+(\.\d+)?(-|$))"
    r"|^(databricks|snowflake|zai|meta|openai|fw)-(?=\w)"
)
_VERSION_OF_MAKER: Final = re.compile(r"^([a-z]+)\.(?=[a-z]\d)")
"""A maker's name behind which only a version stands, as in deepseek.v3, is the model's."""
_REVISION: Final = re.compile(r"-v?\d+:\d+$")
"""A seller's, behind the model's own name."""
_TAG: Final = re.compile(r"(\d+(\.\d+)?[bm]|e\d+b|a\d+b)(-.*)?$")
"""A tag that is part of the model's name: its size, and what follows. Local servers write it behind a colon."""
_SILENT: Final = frozenset({"latest", "cloud", "gguf", "hf"})
"""Words that say where a model runs, or that it is the newest."""
_QUANTISATION: Final = re.compile(
    r"-(u?d?-?i?q\d(_\w+)*|q\d|fp\d+|bf16|f16|nvfp4|mxfp4|int[48]|w\da\d+|awq|gptq|exl2|mlx|[48]bit)(?=-|$)"
)
_SIZE: Final = re.compile(r"(\d+x)?\d+(\.\d+)?[bmt]")
_DATE: Final = re.compile(r"20\d{6}|20\d\d-\d\d-\d\d|\d\d-20\d\d|20\d\d-\d\d|(?<=-)\d{4}(?=-|$)")
_FAMILIES: Final = re.compile(
    r"\b(llama-guard|llama|qwen|gemma|granite|phi|glm|grok|hermes|kimi-k|minimax-m|claude)-?v?(?=\d)"
)
"""Families whose version is written with or without a hyphen, or with a v."""
_POINT: Final = re.compile(r"(?<=\d)p(?=\d)")
"""Fireworks' point in a version."""
_SPLIT_VERSION: Final = re.compile(r"(?<![\d.])(\d)[-_](\d)(?=-|$)")


_JOINED_VERSION: Final = re.compile(r"(?<![\d.])(?<!\d-)(\d)(\d)(?![\d.]|-\d|[bmtk]\b)")


def pointed(name: str) -> str:
    """Return a name with the point that some sellers leave out of a version.

    A date and a size are no versions.

    >>> pointed("minimax-m25"), pointed("openai-gpt-54-pro"), pointed("qwen-14b"), pointed("gpt-4o-2024-11-20")
    ('minimax-m2.5', 'openai-gpt-5.4-pro', 'qwen-14b', 'gpt-4o-2024-11-20')
    """
    return _JOINED_VERSION.sub(r"\1.\2", name)


@lru_cache(maxsize=8_192)
def read_name(name: str) -> ModelName:
    """Return what a model's name says."""
    bare, tag = _bare(name.strip().lower())
    whole = f"{bare}-{tag}" if tag else bare
    found = _QUANTISATION.search(whole)
    spelled = _spelled(_QUANTISATION.sub("", whole))
    words = tuple(word for word in spelled.split("-") if word and word not in _SILENT)
    size = next((word for word in words if _SIZE.fullmatch(word)), "")
    date = _DATE.search(spelled)
    return ModelName(bare, "-".join(words), words, size, date.group() if date else "", found.group(1) if found else "")


def _bare(name: str) -> tuple[str, str]:
    """The model's own name, and a local server's tag that belongs to it."""
    bare = _REVISION.sub("", name.rsplit("/", 1)[-1])
    if tuned := _FINE_TUNED.fullmatch(bare):
        bare = tuned.group(1) or tuned.group(2)
    bare = re.sub(r"^gpt-35\b", "gpt-3.5", bare).removesuffix(".gguf")
    bare = re.sub(r"^((us|eu|apac|au|jp|in|global)\.)?(openai|azure)[.:]", "", bare)
    bare, _, tag = bare.partition(":")
    return bare, tag if _TAG.fullmatch(tag) else ""


def _spelled(bare: str) -> str:
    spelled = _VERSION_OF_MAKER.sub(r"\1-", _SELLER.sub("", _SELLER.sub("", bare)))
    spelled = _POINT.sub(".", spelled)
    spelled = _FAMILIES.sub(r"\1-", spelled)
    return _SPLIT_VERSION.sub(r"\1.\2", spelled)


_SEPARATOR: Final = re.compile(r"[-_.@ ](?=\w)")
_NUMBER: Final = re.compile(r"(?!\d\d-20\d\d)\d{1,2}(?![^\W_])")
_OTHER_SIZE: Final = re.compile(r"(?<![^\W_])[a-z]?\d+(\.\d+)?b(?![^\W_])")
_DATES: Final = re.compile(r"(20\d\d-\d\d(-\d\d)?|\d\d-20\d\d|\d{3,}|preview|exp|latest|v\d)([-_.@]|$)")


class NameBeginning(NamedTuple):
    """A name's beginning before a separator. ``is_numbered``: a number follows, so it may be another version."""

    name: str
    is_numbered: bool
    is_dated: bool
    """Whether nothing but dates and numbers of builds follows."""


def beginnings(bare: str) -> Iterator[NameBeginning]:
    """Yield the beginnings of a name, the longest first, while no other size follows, as in gemma-3-99b."""
    for cut in reversed(list(_SEPARATOR.finditer(bare))):
        rest = bare[cut.end() :]
        if _OTHER_SIZE.search(rest):
            return
        yield NameBeginning(bare[: cut.start()], bool(_NUMBER.match(rest)), not _DATES.sub("", rest))


_DEPLOYMENTS: Final = frozenset(
    {"prod", "prd", "dev", "test", "tst", "stage", "live", "east", "west", "emea", "model", "v1"}
)
"""Words by which operators tell deployments apart. They are no misspellings of a model's words, such as pro and lite."""
_SHORTEST: Final = 3
"""Letters of the shortest word that can be misspelt: command-b may be a model of its own."""
_LONG: Final = 5
"""Letters of a word from which on two may be wrong."""


def shape_of(name: ModelName) -> tuple[int, str]:
    """Return what a misspelling leaves as it is: the number of words, and all digits."""
    return len(name.words), re.sub(r"\D", "", name.spelled)


def is_typo(name: ModelName, other: ModelName) -> bool:
    """Return whether a name is the other one with one or two letters wrong.

    Both have as many words and the same digits, so another date, size, version or variant is not a typo. One word differs,
    of three letters or more, or beside a digit: gpt-4o-mni, claude-sonet-5, gpt-5o. The last word of a deployment's name is
    none: o1-prod.
    """
    if name.spelled == other.spelled or len(name.words) != len(other.words):
        return False
    pairs = [(a, b) for a, b in zip(name.words, other.words, strict=True) if a != b]
    if len(pairs) != 1:
        return False
    ((word, right),) = pairs
    if word in _DEPLOYMENTS and word == name.words[-1]:
        return False
    if re.sub(r"\D", "", word) != re.sub(r"\D", "", right):
        return False
    has_digit = any(map(str.isdigit, word))
    if not has_digit and min(len(word), len(right)) < _SHORTEST:
        return False
    return _edits(word, right) <= (1 if has_digit or len(right) < _LONG else 2)


def is_slip(name: str, other: str) -> bool:
    """Return whether a name is the other one but for hyphens and one letter, in a long name two; or its beginning.

    A name with a word more, such as my-gpt-4o-mini, is somebody's own name for a model.
    """
    a, b = (re.sub(r"[\W_]", "", each.lower()) for each in (name, other))
    if len(a) >= _SHORTEST and b.startswith(a):
        return True
    return abs(len(a) - len(b)) <= 1 and _edits(a, b) <= (1 if len(b) <= _LONG else 2)


def _edits(a: str, b: str) -> int:
    """The fewest letters to insert, delete, change or swap with their neighbour."""
    rows = [list(range(len(b) + 1))]
    for i, left in enumerate(a, 1):
        row = [i]
        for j, right in enumerate(b, 1):
            cost = min(rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + (left != right))
            if i > 1 and j > 1 and left == b[j - 2] and a[i - 2] == right:
                cost = min(cost, rows[-2][j - 2] + 1)
            row.append(cost)
        rows.append(row)
    return rows[-1][-1]
