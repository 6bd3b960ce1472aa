"""Models by name: encoding, limits, counting rules, and whether counts are exact.

::

    name ── the operator's own models ── listed: OpenAI's table, genai-prices ── the longest listed name that it begins with
                                                        UnknownModel ── a relative ── the newest model of its family

A name may be dated (``gpt-4o-2024-08-06``), fine-tuned (``ft:gpt-4o-mini-2024-07-18:org::id``), in a seller's spelling
(``gpt-35-turbo``, ``qwen3:4b``) or with a provider (``openai/gpt-4o``): names.py reads it. A deployment that is named after
its model (``gpt-4o-mini-prod``) has that model's figures. Another new name of a known family is an estimate with the figures
of its nearest relative, unless it is a misspelling of a known name.
"""

import difflib
import math
import re
import tomllib
from collections.abc import Mapping
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from sash.core.chat.mistakes import did_you_mean, invalid
from sash.core.counts.models import listings, openai_models
from sash.core.counts.models.families import FAMILIES, RESPONSES, Rules, TileRules
from sash.core.counts.models.names import ModelName, NameBeginning, beginnings, is_slip, is_typo, pointed, read_name
from sash.core.counts.models.price_tiers import PriceTier, tier_of
from sash.core.counts.models.templates import ESTIMATES, TEMPLATES, TEMPLATES_IN_RESPONSES, Estimate
from sash.core.counts.models.vendors import VENDORS
from sash.core.counts.text import Encoding
from sash.core.counts.text.unicode_scripts import RATIOS
from sash.core.counts.text.vocabularies import INSTALLED, Vocabulary, vocabulary_of
from sash.core.providers import CHAT, PROVIDERS
from sash.core.providers.destinations.hosts import OF_FORMS, at_host_of
from sash.core.providers.destinations.model_media import SEES
from sash.core.providers.destinations.picture_limits import pictures_at
from sash.core.providers.form.request_limits import NO_LIMITS, RequestLimits
from sash.problems import UnknownModel

_NONE: Mapping[str, "Model"] = MappingProxyType({})
_OF_ITEMS: Mapping[str, Rules] = {**RESPONSES, **TEMPLATES_IN_RESPONSES}
_WITH_EXACT_BILLS: Final = frozenset(each.maker for each in PROVIDERS.values() if each.has_exact_bills)
"""The makers whose forms have bills that were predicted to the token."""
_LONGEST_NAME = 256
_MOST_SHOWN = 100
_OF_YOUR_OWN = (
    "For a name of your own, such as a deployment's on Azure, name the model behind it here (your request to the provider "
    "keeps its name), or add it to SASH_MODELS_FILE."
)
_UNKNOWN = "unknown"
"""The provider of a model that no source lists, and whose name is of no family."""
NO_WINDOW = 100_000_000
"""The context window of an unknown model, in tokens. Its only limit is the caller's."""
Counting = Literal["exact", "vocabulary", "estimate", "unknown"]
WindowSource = Literal["listed", "assumed"]


class Model(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A model's figures for counting and windows. Limits are in tokens, prices in dollars for a million tokens."""

    id: str
    provider: str
    encoding: Encoding
    exact: bool
    context_window: int
    max_input_tokens: int
    max_output_tokens: int | None
    rules: Rules
    margin: float = 1.0
    input_price: float | None = None
    cached_input_price: float | None = None
    cache_write_price: float | None = None
    """None if tokens written to the cache have the price of other input."""
    long_cache_write_price: float | None = None
    """The price of writing for the longer of the provider's two lifetimes; None if it has one, or is not listed."""
    price_tiers: tuple[PriceTier, ...] = ()
    """Other prices of longer requests, ascending. The prices above are those of the first tier."""
    own_prices: bool = False
    """Whether the prices are the operator's."""
    correction: float | None = None
    """The margin, if it was computed from reported bills."""
    constant: int = 0
    """Tokens that reported bills show once a request beside its estimate, such as a host's own prompt; a negative number
    takes away priming."""
    format: str = CHAT
    """The format in which messages are sent. Native parts of a message cost tokens only in their own format."""
    ratios: str | None = None
    """The row of ``RATIOS`` for text; without one, text is counted with the encoding."""
    vocabulary: Vocabulary | None = None
    """The vendor's own vocabulary, if it is installed; it then counts text."""
    own_vocabulary: bool = False
    """Whether the encoding is the vendor's own vocabulary."""
    context_window_source: WindowSource = "listed"
    """``listed`` if a source states the window; ``assumed`` if it is a relative's or the family's."""
    assumed: str | None = None
    """The name of the model or of the family whose figures stand in, for a name that no source lists."""
    limits: RequestLimits = NO_LIMITS
    """The largest request that its maker takes; after ``sent_as``, the largest that is taken in that form."""
    meant: str = ""
    """If the id is a name of the operator's own, the published name that it stands for; else empty."""
    known_as: str = ""
    """The name under which facts about its servers are looked up: ``meant`` at the host that the id names, else the id."""

    def __post_init__(self) -> None:
        """Set ``known_as``. Every window needs it, so it is computed once for each model."""
        msgspec.structs.force_setattr(self, "known_as", at_host_of(self.id, self.meant) if self.meant else self.id)

    @property
    def counting(self) -> Counting:
        """The kind of counts: recorded bills agree, the vendor's vocabulary with estimated wrapping, an estimate with the
        rules of its family, or a bound that is larger than every measured family's."""
        if self.exact:
            return "exact"
        if self.provider == _UNKNOWN and self.ratios == "other" and self.vocabulary is None:
            return "unknown"
        return "vocabulary" if self.own_vocabulary or self.vocabulary is not None else "estimate"

    def prices_at(self, tokens: int) -> "PriceTier | Model":
        """What has the prices of a request of so many input tokens: the tier that it reaches, or the model itself."""
        return (tier_of(self.price_tiers, tokens) if self.price_tiers else None) or self

    @property
    def waits(self) -> bool:
        """Whether the next count takes half a second longer, because it loads the vocabulary."""
        return self.vocabulary is not None and not self.vocabulary.is_loaded

    def load(self) -> None:
        """Load the vocabulary, if the model has its own. Raises ValueError if its file is no vocabulary."""
        if self.vocabulary is not None:
            self.vocabulary.count("")

    @cached_property
    def counted_with(self) -> str:
        """The name of the vocabulary or encoding that counts its text."""
        return self.vocabulary.name if self.vocabulary is not None else self.encoding

    @cached_property
    def column(self) -> int:
        """The index of its encoding in pairs of tokens: 0 for o200k_base, 1 for cl100k_base."""
        return 0 if self.encoding == "o200k_base" else 1

    @property
    def counts_o200k_alone(self) -> bool:
        """Whether tokens of text follow from those in o200k_base alone."""
        return self.column == 0 and self.ratios is None

    @property
    def priming(self) -> int:
        """Tokens of a request without messages: the start of the reply, and what a host puts before every request."""
        return math.ceil(self.rules.priming * self.margin) + self.constant

    @property
    def lone(self) -> int:
        """Tokens of the system text that a template adds to a request without one."""
        return math.ceil(self.rules.lone * self.margin)

    @property
    def is_evident(self) -> bool:
        """Whether text is counted with the maker's vocabulary, and bills have shown what its form has around the text: then
        requests in that form may be exact, until a bill is higher than its count."""
        return self.vocabulary is not None and self.rules.family in VENDORS and self.provider in _WITH_EXACT_BILLS

    def sent_as(self, form: str) -> "Model":
        """Return the model with the rules of requests in ``form``. OpenAI's items are billed by rules of their own."""
        sent_in = PROVIDERS[form]
        rules, exact = self.rules, self.exact
        if self.is_evident and sent_in.has_exact_bills and sent_in.maker == self.provider:
            exact = self.assumed is None and self.margin == 1.0 and not self.constant  # else bills have corrected it
        if sent_in.has_openais_items:
            billed = _OF_ITEMS.get(rules.family, rules)
            exact = exact and billed.is_settled
            rules = rules if self.is_resold else billed  # a gateway bills items as chat completions: 24 bills
        limits = self.limits
        if form in OF_FORMS:  # the host's limits hold for every model
            limits = limits.within(sent_in.limits(self.known_as, self.context_window))
        return msgspec.structs.replace(self, format=form, rules=rules, exact=exact, limits=limits)

    @property
    def is_resold(self) -> bool:
        """Whether a gateway may send its requests, some of them to the Responses API: then definitions cost otherwise."""
        return self.provider == "openai" and "/" in self.id

    @property
    def scale(self) -> float:
        """The model's tokens for one token of its encoding, in plain Latin text."""
        return self.margin * (sum(RATIOS[self.ratios]["latin"]) if self.ratios is not None else 1.0)


def find_model(name: str, extra: Mapping[str, Model] = _NONE) -> Model:
    """Return the model of this name, with ``name`` as its ``id``.

    ``extra`` are the deployment's own models, which take precedence.

    Raises:
        UnknownModel: the name is unknown; ``members["near"]`` lists similar names.
    """
    short = name[:_LONGEST_NAME]
    found = extra.get(name) or _find(short)
    if found is None:
        near = [*difflib.get_close_matches(short, list(extra), n=3), *dict.fromkeys((*_misspelt(short), *_near(short)))]
        meant = did_you_mean([each for each in near if is_slip(short, each)][:3]) or "."
        raise UnknownModel(f"No model is called {short[:_MOST_SHOWN]!r}{meant} {_OF_YOUR_OWN}", members={"near": near})
    return found


def unknown_model(name: str) -> Model:
    """Return a model for an unknown name: an estimate that is too high rather than too low, without a limit of its own."""
    model = _estimate(name, listings.ListedModel(name, _UNKNOWN, NO_WINDOW))
    return msgspec.structs.replace(model, context_window_source="assumed")


def countable_model(name: str, extra: Mapping[str, Model] = _NONE) -> Model:
    """Return the model whose tokens a name's request costs: ``find_model``'s, or an unknown maker's without a limit.

    Counting needs no window, and nothing is sent, so any name is answered. A known name with other marks between its letters
    and digits, as in gpt4o, is that name.

    Raises:
        UnknownModel: the name has no letter and no digit.
    """
    short = name[:_LONGEST_NAME]
    try:
        return find_model(name, extra)
    except UnknownModel as unknown:
        meant = next((near for near in unknown.members["near"] if _letters(near) == _letters(short)), None)
        if meant is not None:
            return msgspec.structs.replace(find_model(meant, extra), id=short, exact=False, assumed=meant)
        if not read_name(short).bare:
            raise
    return unknown_model(short)


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name.lower()))


def published_name(name: str) -> str:
    """Return the model's published name: ``gpt-4o`` for ``azure/gpt-4o`` and for the fine-tuned ``ft:gpt-4o:acme::x``."""
    return read_name(name).bare


def list_models(extra: Mapping[str, Model] = _NONE) -> list[Model]:
    """Return every model known by name: the deployment's own, the table's, and the makers' in genai-prices."""
    return list({**_known(), **extra}.values())


@lru_cache(maxsize=1)
def _known() -> Mapping[str, Model]:
    names = [name for line in openai_models.TABLE for name in line.names.split()]
    names += [listed.id for listed in listings.listed_models()]
    models = {name: _find(name) for name in dict.fromkeys(names)}
    return MappingProxyType({name: model for name, model in models.items() if model is not None})


@lru_cache(maxsize=1_024)
def _near(name: str) -> tuple[str, ...]:
    return tuple(difflib.get_close_matches(name.lower(), list(_known()), n=5, cutoff=0.5))


@lru_cache(maxsize=4_096)
def _find(name: str) -> Model | None:
    """The model of a name, with the limits of the host that the name says."""
    found = _meant(name)
    if found is None or (most := pictures_at(name, found.provider)) is None:
        return found
    return msgspec.structs.replace(found, limits=found.limits.within(RequestLimits(images=most)))


def _meant(name: str) -> Model | None:  # noqa: PLR0911 - one line a kind of name
    host, _, rest = name.strip().lower().partition("/")
    if rest and host in _BILL_OF_THEIR_OWN:
        found = _meant(rest)
        return found and _at_host(host, msgspec.structs.replace(found, id=name))
    read = read_name(name)
    if not read.bare:
        return None
    if read.bare.startswith("openai-gpt-"):
        return _at_venice(name, read)
    listed = listings.find_listed(read.bare) or listings.find_listed(name.strip().lower())
    if row := openai_models.row_of(read):
        return _from_table(name, row, listed)
    if listed is None and (other := _without_point(name, read) or _without_maker(name, read)):
        return other
    if listed is None or _is_longer(read, listed):
        meant = _named_after(read.bare)
        if _misspelt(name, meant):
            return None
        if meant is not None:
            return _deployment(name, meant)
    if row := openai_models.newest_like(read.bare):
        return _from_table(name, row, listed)
    return _estimate(name, listed) if listed is not None else _relative(name, read)


def _without_point(name: str, read: ModelName) -> Model | None:
    """The model of a name whose version lacks its point, as in minimax-m25 and gpt-41-copilot, if the name with it, its
    beginning, or a longer name is listed."""
    meant = read_name(pointed(read.bare))
    if meant.bare == read.bare or not (
        openai_models.row_of(meant) or listings.begins_listed(meant) or _named_after(meant.bare)
    ):
        return None
    found = _meant(meant.bare)
    return found and msgspec.structs.replace(found, id=name, exact=False, assumed=found.assumed or meant.bare)


def _without_maker(name: str, read: ModelName) -> Model | None:
    """The model of a name that begins with its maker's, as in nvidia-nemotron-3-nano-30b-a3b, if it is listed without it."""
    first, _, rest = read.bare.partition("-")
    if not listings.is_maker(first) or not listings.is_listed(read_name(rest)):
        return None
    found = _meant(rest)
    return found and msgspec.structs.replace(found, id=name, assumed=found.assumed or rest)


_VENICE: Final = 1_700
"""Tokens of the prompt that Venice puts before every request, at most: 1,377 to 1,690 in 67 bills."""
_TILES_AT_AZURE: Final = TileRules(base=70, tile=140)
"""Pictures of gpt-4.1 at Azure: 4 of 4 in 3 bills elsewhere."""


def _at_venice(name: str, read: ModelName) -> Model | None:
    """The model of a name that only Venice writes so, such as openai-gpt-54-pro."""
    found = _meant(pointed(read.bare.removeprefix("openai-")))
    return found and _at_host("venice", msgspec.structs.replace(found, id=name))


_VERTEX: Final = ("vertex", "vertex_ai", "publishers")
_BILL_OF_THEIR_OWN: Final = frozenset({"azure", "venice", *_VERTEX})


def _at_host(host: str, model: Model) -> Model:
    """The model at a host of ``_BILL_OF_THEIR_OWN``."""
    match host, model.rules.family:
        case "venice", family if not family.endswith("-venice"):
            rules = msgspec.structs.replace(model.rules, priming=model.rules.priming + _VENICE)
            return msgspec.structs.replace(model, exact=False, rules=rules)
        case "azure", "gpt-4.1":
            return msgspec.structs.replace(model, rules=msgspec.structs.replace(model.rules, images=_TILES_AT_AZURE))
        case _, "gemini-2.5" | "gemini-3" as family if host in _VERTEX:  # no token a content: 10 bills of text
            name = f"{family}-vertex"
            alone = VENDORS.get(name) or msgspec.structs.replace(model.rules, family=name, message=0)
            return msgspec.structs.replace(model, rules=alone)
    return model


def _is_longer(read: ModelName, listed: listings.ListedModel) -> bool:
    """Whether a name was found by its beginning alone, so that its end may be misspelt, or an operator's."""
    return not listings.is_listed(read) and read.spelled not in {
        read_name(each).spelled for each in (listed.id, *listed.names)
    }


def _named_after(bare: str) -> NameBeginning | None:
    """The longest beginning of a name that is a listed name; None without one, or if what follows makes it another model.

    A number behind it is a version, as in gpt-5.7, claude-opus-4-9 and mistral-large-5. But OpenAI's versions stand behind
    another number, so gpt-4o-mini-2 is a second deployment. A single word of no known family, such as router, is no model.
    """
    for beginning in beginnings(bare):
        begun = read_name(beginning.name)
        if openai_models.row_of(begun):
            is_another = beginning.is_numbered and beginning.name[-1].isdigit() and not begun.date
        elif listings.is_listed(begun) and (len(begun.words) > 1 or _estimate_of(begun.spelled).maker):
            is_another = beginning.is_numbered or _is_variant(bare, beginning.name)
        else:
            continue
        return None if is_another else beginning
    return None


def _is_variant(bare: str, beginning: str) -> bool:
    """Whether the words behind a beginning name another family, as in command-a-reasoning and deepseek-r1-distill-llama."""
    whole = _estimate_of(bare)
    found = re.search(whole.pattern, bare)
    return found is not None and found.end() > len(beginning) and whole.family != _estimate_of(beginning).family


def _deployment(name: str, meant: NameBeginning) -> Model | None:
    """A model under an operator's name: all figures are those of the listed name that it begins with."""
    found = _meant(meant.name)
    if found is None:
        return None
    model = msgspec.structs.replace(found, id=name)
    if meant.is_dated:
        return model
    # A word such as "vision" is no operator's: this model takes more than the one that its name begins with.
    known = "" if SEES.search(name.lower()) and not SEES.search(meant.name.lower()) else meant.name
    return msgspec.structs.replace(model, exact=False, context_window_source="assumed", assumed=meant.name, meant=known)


@lru_cache(maxsize=1_024)
def _misspelt(name: str, meant: NameBeginning | None = None) -> tuple[str, ...]:
    """The known names of which an unknown one is a misspelling. What it begins with, if ``meant``, is spelt right."""
    read, right = read_name(name), f"{read_name(meant.name).spelled}-" if meant is not None else ""
    if listings.has_words(read):
        return ()
    table = (each for line in openai_models.TABLE for each in line.names.split())
    found = (*(each for each in table if is_typo(read, read_name(each))), *listings.misspelt(read))
    return tuple(each for each in dict.fromkeys(found) if read_name(each).spelled.startswith(right))


def _relative(name: str, read: ModelName) -> Model | None:
    """A model that nobody lists, of a family that is known: with the figures of its nearest relative, or the family's."""
    if not _estimate_of(read.spelled).pattern:
        return None
    return _estimate(name, listings.ListedModel(read.spelled, "", None))


def _limits_of(maker: str, name: str, context_window: int) -> RequestLimits:
    """The limits of a maker's requests; none are known of makers without a form of their own."""
    provider = next((each for each in PROVIDERS.values() if each.maker == maker), None)
    return provider.limits(name, context_window) if provider is not None else NO_LIMITS


def _from_table(name: str, line: openai_models.ModelRow, listed: listings.ListedModel | None) -> Model:
    return Model(
        id=name,
        provider="openai",
        encoding=line.encoding,
        exact=line.exact,
        context_window=line.context_window,
        max_input_tokens=line.max_input or line.context_window,
        max_output_tokens=line.max_output,
        rules=FAMILIES[line.family],
        own_vocabulary=True,
        context_window_source="listed" if line.names else "assumed",
        assumed=None if line.names else line.assumes,
        limits=_limits_of("openai", name, line.context_window),
        **(listed.prices if listed is not None and listed.provider == "openai" else {}),
    )


def _estimate(name: str, listed: listings.ListedModel) -> Model:
    estimate, assumed = _estimate_of_each(listed.id.lower(), name.lower()), None
    window = listed.context_window
    if window is None:
        relative = listings.find_relative(read_name(name)) if estimate.maker else None
        assumed = relative.id if relative is not None else None
        window = (relative and relative.context_window) or estimate.context_window
    maker = estimate.maker or listed.provider
    return Model(
        id=name,
        provider=maker,
        encoding="o200k_base",
        exact=False,
        context_window=window,
        max_input_tokens=window,
        max_output_tokens=None,
        rules=VENDORS.get(estimate.family) or TEMPLATES.get(estimate.family) or FAMILIES[estimate.family],
        margin=estimate.margin,
        ratios=estimate.ratios,
        vocabulary=INSTALLED.get(estimate.ratios or ""),
        own_vocabulary=estimate.maker == "openai",
        context_window_source="listed" if listed.context_window else "assumed",
        assumed=assumed,
        limits=_limits_of(maker, name, window),
        **listed.prices,
    )


def _estimate_of_each(listed: str, name: str) -> Estimate:
    """The estimate for a listed id and a name. A path, as in gemini/gemma-3-27b-it, decides if no family is behind it."""
    found = _estimate_of("/".join(each.rsplit("/", 1)[-1] for each in (listed, name)))
    return found if found.pattern else _estimate_of(f"{listed}/{name}")


def _estimate_of(names: str) -> Estimate:
    return next(each for each in ESTIMATES if re.search(each.pattern, names))


class OwnModels(dict[str, Model]):
    """A deployment's own models, and models with a vocabulary among its files."""

    def __init__(self, models: Mapping[str, Model], files: Mapping[str, Vocabulary]) -> None:
        super().__init__({name: self._counted(model, files) for name, model in models.items()})
        self._files = files

    def get(self, name: str, default: Any = None) -> Any:
        """Return the model of this name, if it is one of the deployment's."""
        if name in self or vocabulary_of(read_name(name).spelled, self._files) is None:
            return super().get(name, default)
        found = _find(name[:_LONGEST_NAME])
        return default if found is None else self._counted(found, self._files)

    @staticmethod
    def _counted(model: Model, files: Mapping[str, Vocabulary]) -> Model:
        own = None if model.exact else vocabulary_of(read_name(model.id).spelled, files)
        if own is None:
            return model
        margin = model.margin if model.rules.family == "other" else 1.0  # no bill shows what is around such text
        return msgspec.structs.replace(model, vocabulary=own, ratios=model.ratios or "other", margin=margin)


_Tokens = Annotated[int, Meta(ge=1)]
_Price = Annotated[float, Meta(ge=0, le=1_000_000)]


class _Own(msgspec.Struct, forbid_unknown_fields=True):
    """One model in a deployment's TOML file."""

    context_window: _Tokens
    like: str | None = None
    provider: str | None = None
    encoding: Encoding | None = None
    exact: bool | None = None
    max_input_tokens: _Tokens | None = None
    max_output_tokens: _Tokens | None = None
    margin: Annotated[float, Meta(ge=1, le=100)] | None = None
    input_price: _Price | None = None
    cached_input_price: _Price | None = None
    cache_write_price: _Price | None = None
    long_cache_write_price: _Price | None = None
    price_tiers: tuple[PriceTier, ...] | None = None
    limits: RequestLimits | None = None


def load_models_toml(text: str) -> dict[str, Model]:
    """Return a deployment's own models from TOML.

    Each model is a table ``[models."name"]`` with at least ``context_window``. ``like`` names a known model with the same
    counting rules and limits; the other fields override that model's, and those of ``limits`` one by one.

    Raises:
        ValueError: the text is not TOML, or a model's fields are wrong; the message names the model.
    """
    document = tomllib.loads(text)
    models = document.get("models", {})
    if set(document) - {"models"} or not isinstance(models, dict):
        raise ValueError('a models file holds tables called [models."name"] and nothing else')
    return {name: _own(name, fields) for name, fields in models.items()}


def _own(name: str, fields: Any) -> Model:
    try:
        own = msgspec.convert(fields, _Own)
        base = find_model(own.like) if own.like else unknown_model(name)
    except msgspec.ValidationError as error:
        raise ValueError(f"model {name!r}: {invalid('', of=_Own, value=fields).detail}") from error
    except UnknownModel as error:
        raise ValueError(f"model {name!r}: {error}") from error
    if own.max_input_tokens is not None and own.max_input_tokens > own.context_window:
        raise ValueError(f"model {name!r}: max_input_tokens is at most context_window")
    if own.encoding is not None:
        base = msgspec.structs.replace(base, ratios=None)
    given = {f: v for f in own.__struct_fields__ if f != "like" and (v := getattr(own, f)) is not None}
    if own.price_tiers is not None:
        given["price_tiers"] = tuple(sorted(own.price_tiers, key=lambda tier: tier.above))
    elif "input_price" in given:  # the tiers of another model's prices
        given["price_tiers"] = ()
    if own.limits is not None:
        given["limits"] = base.limits.replaced_by(own.limits)
    defaults = {
        "id": name,
        "max_input_tokens": own.context_window,
        "max_output_tokens": base.max_output_tokens,
        "context_window_source": "listed",
        "own_prices": base.own_prices or own.input_price is not None,
        "meant": base.known_as if own.like else "",
    }
    return msgspec.structs.replace(base, **{**defaults, **given})
