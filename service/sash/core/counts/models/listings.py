"""Models that genai-prices lists: their makers, context windows and prices.

A model's entry has every name that the model is sold under. So a name finds the maker's figures, and those of gateways
that sell the same model, in case the maker does not state the context window.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import lru_cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from sash.core.counts.models.names import ModelName, is_typo, read_name, shape_of
from sash.core.counts.models.price_tiers import PriceTier

LISTED: Final = ("0.2.3", date(2026, 11, 26))
"""The version of genai-prices, and the day whose prices are taken, of those that it lists from a day on: a price of next
year is not today's. Change both together."""


class ListedModel(NamedTuple):
    """A model's figures in genai-prices: window in tokens, prices as fields of ``Model``, and all names."""

    id: str
    provider: str
    context_window: int | None
    prices: Mapping[str, Any] = MappingProxyType({})
    names: Sequence[str] = ()


# Makers are asked first, so that a model with several sellers gets its maker's figures.
_MAKERS = ("openai", "anthropic", "google", "mistral", "deepseek", "meta", "x-ai", "cohere", "moonshotai", "minimax",
           "zhipuai", "zai", "perplexity")  # fmt: skip
# OpenRouter publishes the makers' figures. AWS and Azure have patterns in place of names.
_FIRST_GATEWAY = "openrouter"
_PATTERNED = ("aws", "azure")
_LISTED_BY_A_GATEWAY = ("qwen/", "meta-llama/")
# Published windows that genai-prices does not have: ai.google.dev/gemini-api/docs/models, docs.mistral.ai/models.
_PUBLISHED = (
    (re.compile(r"gemini-(2\.5|3)-(pro|flash).*|gemini-1\.5-flash.*|gemini-flash-1\.5"), 1_048_576),
    (re.compile(r"mistral-(small|medium)-(latest|3.*)|(ministral|devstral|pixtral)-.*"), 128_000),
    (re.compile(r"mixtral-8x7b.*|mistral-7b.*|mistral-tiny"), 32_000),
)
# Windows that genai-prices has as they once were: api-docs.deepseek.com/quick_start/pricing.
_CHANGED = ((re.compile(r"deepseek-(chat|reasoner)"), 131_072),)
_NOT_CHAT = re.compile(
    r"embed|whisper|tts|transcri|moderation|image|dall|realtime|instruct-0914|davinci|curie|babbage|^ada|live|ocr|rerank"
    r"|voxtral|guard|translate|imagen|veo|lyria|search-api|aqa|speech|^ft:|\.ft-|:|-$"
)


class _Sold(msgspec.Struct, array_like=True, frozen=True):
    """A line of ``listed_models.json``: who sells a model, its id, window in tokens and names, prices in dollars for a
    million tokens by tier, and the rule by which its seller finds it."""

    seller: str
    id: str
    window: int | None
    names: list[str]
    prices: list[list[Any]]
    rule: list[Any]


_COMPACT_DATE = re.compile(r"-(20\d{2})(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(?=-|:|$)")


@lru_cache(maxsize=1)
def _sellers() -> Mapping[str, Sequence[_Sold]]:
    """The models that genai-prices lists, by seller. ``tests/listed_models.py`` makes the file."""
    found: dict[str, list[_Sold]] = defaultdict(list)
    for each in msgspec.json.decode((files(__package__) / "listed_models.json").read_bytes(), type=list[_Sold]):
        found[each.seller].append(each)
    return MappingProxyType(found)


def find_listed(name: str) -> ListedModel | None:
    """Return the figures of ``name`` (lower case): by its maker, else by a gateway, else of a maker's longer name, or of
    the same name with a date, or of the same name as another seller spells it. None if no source lists it.

    The window is the first one stated: by the makers, then by OpenRouter, then by most gateways (in a tie the smallest).
    """
    bare = bare_name(name)
    found = _find_listed(name, bare)
    if (found is None or found.context_window is None) and (same := _by_spelling().get(read_name(name).spelled)):
        found = (found or same[0])._replace(context_window=_window(same))
    changed = next((window for pattern, window in _CHANGED if pattern.fullmatch(bare)), None)
    return found._replace(context_window=changed) if found is not None and changed else found


def _find_listed(name: str, bare: str) -> ListedModel | None:
    found: ListedModel | None = None
    for listed in _groups(name, bare):
        if listed:
            found = (found or listed[0])._replace(context_window=_window(listed))
            if found.context_window is not None:
                return found
    longer = _flavours(bare)
    dated = re.compile(re.escape(bare) + r"(-\d+)+")
    by_maker = (each for each in longer if each.provider in _MAKERS or dated.fullmatch(bare_name(each.id)))
    found = found or next(by_maker, None)
    published = next((window for pattern, window in _PUBLISHED if pattern.fullmatch(bare)), None)
    return found and found._replace(context_window=_window(longer) or published)


def is_listed(name: ModelName) -> bool:
    """Return whether a source has this name, in any seller's spelling."""
    return name.spelled in _by_spelling()


def begins_listed(name: ModelName) -> bool:
    """Return whether a source has this name, or one that it begins and that goes on with another word."""
    return is_listed(name) or any(each.startswith(f"{name.spelled}-") for each in _by_spelling())


@lru_cache(maxsize=1_024)
def is_maker(word: str) -> bool:
    """Return whether a word begins the name of a maker, as gateways write it before a model's name."""
    return any(re.match(rf"{re.escape(word)}(-[^/]*)?/", model.id) for model in _sellers()[_FIRST_GATEWAY])


def has_words(name: ModelName) -> bool:
    """Return whether each word of a name is some listed name's, perhaps with another number, so it is no misspelling."""
    return len(name.words) > 1 and all(word in _words() or word.rstrip("0123456789") in _words() for word in name.words)


@lru_cache(maxsize=1)
def _words() -> frozenset[str]:
    return frozenset(word for spelled in _by_spelling() for word in spelled.split("-"))


def find_relative(name: ModelName) -> ListedModel | None:
    """Return the figures of the listed model that is nearest to a name that nobody lists; None without one of its family.

    It has the most words in common, then the same version, then the newest; of several the smallest window. A newer version
    is no relative of an older one, nor is a name without one.
    """
    version = _version(name.words)
    known = set(name.words)
    ranked = [
        (len(known & relative.words), bool(version) and own == version, own, -relative.window, relative)
        for relative in _families().get(name.words[0], ())
        for own in (relative.version,)
        if not version or () < own <= version
    ]
    if not ranked:
        return None
    nearest = max(ranked, key=lambda each: each[:-1])[-1]
    return ListedModel(nearest.id, nearest.provider, nearest.window)


class _Relative(NamedTuple):
    """A listed model with a window, as the relatives of unlisted ones need it."""

    id: str
    provider: str
    words: frozenset[str]
    version: tuple[int, ...]
    window: int


@lru_cache(maxsize=1)
def _families() -> Mapping[str, Sequence[_Relative]]:
    """The chat models with a listed window, by the first word of their names."""
    found: dict[str, list[_Relative]] = defaultdict(list)
    for spelled, listed in _by_spelling().items():
        words, window = spelled.split("-"), _window(listed)
        if window is not None and not _NOT_CHAT.search(spelled):
            shortest = min((bare_name(each.id) for each in listed), key=len)
            found[words[0]].append(_Relative(shortest, listed[0].provider, frozenset(words), _version(words), window))
    return MappingProxyType(found)


def misspelt(name: ModelName) -> list[str]:
    """Return the listed names of which this name, which nobody lists, is a misspelling."""
    if is_listed(name):
        return []
    return sorted(bare for other, bare in _by_shape().get(shape_of(name), ()) if is_typo(name, other))


@lru_cache(maxsize=1)
def _by_shape() -> Mapping[tuple[int, str], Sequence[tuple[ModelName, str]]]:
    """Listed names by what a misspelling leaves as it is, each with the name that it is told by."""
    found: dict[tuple[int, str], list[tuple[ModelName, str]]] = defaultdict(list)
    for spelled, listed in _by_spelling().items():
        name = read_name(spelled)
        found[shape_of(name)].append((name, bare_name(listed[0].id)))
    return MappingProxyType(found)


def _version(words: Sequence[str]) -> tuple[int, ...]:
    """The first number among a name's words that is neither a size nor a date; empty without one."""
    numbers = (re.fullmatch(r"[a-z]?(\d{1,2}(\.\d+)*)[a-z]?", word) for word in words)
    return next((tuple(map(int, each.group(1).split("."))) for each in numbers if each and each.group()[-1] != "b"), ())


@lru_cache(maxsize=1)
def _by_spelling() -> Mapping[str, Sequence[ListedModel]]:
    """All entries by their names' spelling: makers' first, then OpenRouter's."""
    found: dict[str, list[ListedModel]] = defaultdict(list)
    for name, listed in _sold().items():
        found[read_name(name).spelled] += listed
    return MappingProxyType(found)


def _groups(name: str, bare: str) -> Iterator[Sequence[ListedModel]]:
    """Yield groups of entries for a name, the most reliable first."""
    yield (makers := _matches(_MAKERS, bare))
    yield _sold_as([bare])
    yield _sold_as({each for maker in makers for each in maker.names})
    yield _matches(_PATTERNED, name)


def listed_models() -> Iterator[ListedModel]:
    """Yield the chat models of the makers, and of makers that only OpenRouter lists."""
    for maker in _MAKERS:
        for model in _sellers().get(maker, ()):
            if not _NOT_CHAT.search(model.id):
                yield _listed(model)
    for model in _sellers()[_FIRST_GATEWAY]:
        if model.id.startswith(_LISTED_BY_A_GATEWAY) and not _NOT_CHAT.search(model.id):
            yield _listed(model)._replace(id=bare_name(model.id))


def bare_name(name: str) -> str:
    """Return a name in lower case, without its seller and its terms (``:free``)."""
    return name.lower().rsplit("/", 1)[-1].split(":", 1)[0]


@lru_cache(maxsize=1)
def _sold() -> Mapping[str, Sequence[ListedModel]]:
    """All entries by their bare names: makers' first, then OpenRouter's."""
    found: dict[str, list[ListedModel]] = defaultdict(list)
    order = sorted(_sellers(), key=lambda seller: (seller not in _MAKERS, seller != _FIRST_GATEWAY))
    for seller in order:
        for model in _sellers()[seller]:
            listed = _listed(model)
            for name in listed.names:
                found[name].append(listed)
    return MappingProxyType(found)


def _sold_as(names: Iterable[str]) -> list[ListedModel]:
    return [entry for name in sorted(names) for entry in _sold().get(name, ())]


def _flavours(bare: str) -> list[ListedModel]:
    """Entries of longer names: ``deepseek-v4`` is sold only as ``deepseek-v4-pro``. Only for names with a version."""
    if not re.search(r"\d", bare):
        return []
    return _sold_as(name for name in _sold() if name.startswith(bare + "-") and not _NOT_CHAT.search(name))


def _matches(sellers: Iterable[str], name: str) -> list[ListedModel]:
    """The models that these sellers call by a name; a date as ``-20251211`` may stand in it as ``-2025-12-11``."""
    dashed = _COMPACT_DATE.sub(r"-\1-\2-\3", name)
    found = (_found(seller, name) or (_found(seller, dashed) if dashed != name else None) for seller in sellers)
    return [_listed(model) for model in found if model is not None]


def _found(seller: str, name: str) -> _Sold | None:
    return next((model for model in _sellers().get(seller, ()) if _takes(model.rule, name)), None)


_RULES: Final[Mapping[str, Callable[[str, str], bool]]] = {
    "equals": str.__eq__,
    "starts_with": str.startswith,
    "ends_with": str.endswith,
    "contains": str.__contains__,
    "regex": lambda name, text: re.search(text, name) is not None,
}


def _takes(rule: Sequence[Any], name: str) -> bool:
    """Whether a model's rule takes a name in lower case."""
    kind, value = rule
    if kind in ("or", "and"):
        joined = any if kind == "or" else all
        return joined(_takes(each, name) for each in value)
    return _RULES[kind](name, value)


def _window(listed: Sequence[ListedModel]) -> int | None:
    for provider in (*_MAKERS, _FIRST_GATEWAY):
        stated = [each.context_window for each in listed if each.provider == provider and each.context_window]
        if stated:
            return min(stated)
    windows = Counter(sorted(each.context_window for each in listed if each.context_window))
    return windows.most_common(1)[0][0] if windows else None


def _listed(model: _Sold) -> ListedModel:
    first, *tiers = (PriceTier(*prices) for prices in model.prices)
    prices = {name: getattr(first, name) for name in PriceTier.__struct_fields__[1:]}
    return ListedModel(
        model.id, model.seller, model.window, {**prices, "price_tiers": tuple(tiers)}, tuple(model.names)
    )
