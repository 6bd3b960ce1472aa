"""Models in genai-prices: their makers, context windows and prices.

A model's entry has every name that the model is sold under. So a name finds the maker's figures, and those of gateways
that sell the same model, in case the maker does not state the context window.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from sash.core.counts.names import ModelName, is_typo, read_name


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


def find_relative(name: ModelName) -> ListedModel | None:
    """Return the figures of the listed model that is nearest to a name that nobody lists; None without one of its family.

    It has the most words in common, then the same version, then the newest; of several the smallest window. A newer version
    is no relative of an older one, nor is a name without one.
    """
    best: tuple[Any, ...] = ()
    found: ListedModel | None = None
    version = _version(name.words)
    for spelled, listed in _by_spelling().items():
        words = spelled.split("-")
        if words[0] != name.words[0] or _NOT_CHAT.search(spelled) or (window := _window(listed)) is None:
            continue
        own = _version(words)
        if version and not () < own <= version:
            continue
        rank = len(set(words) & set(name.words)), bool(version) and own == version, own, -window
        if rank > best:
            shortest = min((bare_name(each.id) for each in listed), key=len)
            best, found = rank, ListedModel(shortest, listed[0].provider, window)
    return found


def misspelt(name: ModelName) -> list[str]:
    """Return the listed names of which this name, which nobody lists, is a misspelling."""
    if name.spelled in _by_spelling():
        return []
    return sorted(
        bare_name(listed[0].id) for other, listed in _by_spelling().items() if is_typo(name, read_name(other))
    )


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
    prices = model.prices[-1].prices if isinstance(model.prices, list) else model.prices
    kinds = {
        "input_price": "input_mtok",
        "cached_input_price": "cache_read_mtok",
        "cache_write_price": "cache_write_mtok",
    }
    dollars = {name: _dollars(getattr(prices, kind, None)) for name, kind in kinds.items()}
    clauses = (getattr(clause, "equals", None) for clause in (model.match, *getattr(model.match, "or_", ())))
    names = dict.fromkeys(map(bare_name, filter(None, (model.id, *clauses))))
    return ListedModel(model.id, provider_id, model.context_window, dollars, tuple(names))


def _dollars(price: Any) -> float | None:
    """Return the price of the first tier as a number."""
    base = getattr(price, "base", price)
    return None if base is None else float(base)
