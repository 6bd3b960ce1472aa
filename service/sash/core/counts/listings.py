"""Models in genai-prices: their makers, context windows and prices.

A model's entry has every name that the model is sold under. So a name finds the maker's figures, and those of gateways
that sell the same model, in case the maker does not state the context window.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from sash.core.counts.names import ModelName, is_typo, read_name, shape_of
from sash.core.counts.price_tiers import PriceTier

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


@lru_cache(maxsize=1)
def _providers() -> Mapping[str, Any]:
    """genai-prices' snapshot. Loading takes 0.3 s, so it is loaded at the first call, not at import."""
    from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415 - slow to import

    return MappingProxyType({provider.id: provider for provider in get_snapshot().providers})


def find_listed(name: str) -> ListedModel | None:
    """Return the figures of ``name`` (lower case): by its maker, else by a gateway, else of a maker's longer name, or of
    the same name with a date, or of the same name as another seller spells it. None if no source lists it.

    The window is the first one stated: by the makers, then by OpenRouter, then by most gateways (in a tie the smallest).
    """
    bare = bare_name(name)
    found = _find_listed(name, bare)
    same = _by_spelling().get(read_name(name).spelled)
    if same and (found is None or found.context_window is None):
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
    for provider_id in _MAKERS:
        provider = _providers().get(provider_id)
        for model in provider.models if provider else ():
            if not _NOT_CHAT.search(model.id):
                yield _listed(provider_id, model)
    for model in _providers()[_FIRST_GATEWAY].models:
        if model.id.startswith(_LISTED_BY_A_GATEWAY) and not _NOT_CHAT.search(model.id):
            yield _listed(_FIRST_GATEWAY, model)._replace(id=bare_name(model.id))


def bare_name(name: str) -> str:
    """Return a name in lower case, without its seller and its terms (``:free``)."""
    return name.lower().rsplit("/", 1)[-1].split(":", 1)[0]


@lru_cache(maxsize=1)
def _sold() -> Mapping[str, Sequence[ListedModel]]:
    """All entries by their bare names: makers' first, then OpenRouter's."""
    found: dict[str, list[ListedModel]] = defaultdict(list)
    order = sorted(_providers(), key=lambda provider: (provider not in _MAKERS, provider != _FIRST_GATEWAY))
    for provider in order:
        for model in _providers()[provider].models:
            listed = _listed(provider, model)
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


def _matches(providers: Iterable[str], name: str) -> list[ListedModel]:
    known = ((each, _providers()[each].find_model(name)) for each in providers if each in _providers())
    return [_listed(each, model) for each, model in known if model is not None]


def _window(listed: Sequence[ListedModel]) -> int | None:
    for provider in (*_MAKERS, _FIRST_GATEWAY):
        stated = [each.context_window for each in listed if each.provider == provider and each.context_window]
        if stated:
            return min(stated)
    windows = Counter(sorted(each.context_window for each in listed if each.context_window))
    return windows.most_common(1)[0][0] if windows else None


def _listed(provider_id: str, model: Any) -> ListedModel:
    prices = _on(LISTED[1], model.prices) if isinstance(model.prices, list) else model.prices
    clauses = (getattr(clause, "equals", None) for clause in (model.match, *getattr(model.match, "or_", ())))
    names = dict.fromkeys(map(bare_name, filter(None, (model.id, *clauses))))
    return ListedModel(model.id, provider_id, model.context_window, _prices(prices), tuple(names))


def _on(day: date, dated: Sequence[Any]) -> Any:
    """The prices of a day. Those of certain hours alone are left out, because a window does not say when it is sent."""
    found = dated[0].prices
    for each in dated:
        start = getattr(each.constraint, "start_date", None)
        if each.constraint is None or (start is not None and start <= day):
            found = each.prices
    return found


_PRICES = {
    "input_price": "input_mtok",
    "cached_input_price": "cache_read_mtok",
    "cache_write_price": "cache_write_mtok",
    "long_cache_write_price": "cache_write_1h_mtok",
}


def _prices(listed: Any) -> dict[str, Any]:
    """The prices of the first tier, and the tiers above it. A price without a tier of its own stays what it was."""
    given = {name: getattr(listed, kind, None) for name, kind in _PRICES.items()}
    starts = sorted({tier.start for price in given.values() for tier in getattr(price, "tiers", ())})
    first, *tiers = (
        PriceTier(start, **{name: _dollars(price, start) for name, price in given.items()}) for start in (0, *starts)
    )
    return {**{name: getattr(first, name) for name in given}, "price_tiers": tuple(tiers)}


def _dollars(price: Any, above: int) -> float | None:
    """The price of a request of more than ``above`` input tokens, as a number."""
    reached = [tier.price for tier in getattr(price, "tiers", ()) if tier.start <= above]
    found = reached[-1] if reached else getattr(price, "base", price)
    return None if found is None else float(found)
