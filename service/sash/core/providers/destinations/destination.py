"""The destination of a request: the meet of what its form, maker, host and template refuse and want."""

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Final

import msgspec

from sash.core.providers.destinations.facts import Fact, Kind, Party
from sash.core.providers.destinations.grammars import FORMS, TEMPLATES
from sash.core.providers.destinations.hosts import AS_MADE, HOSTS, OF_FORMS, UNRECORDED, host_of
from sash.core.providers.destinations.makers import MAKERS
from sash.core.providers.destinations.model_media import MODELS
from sash.core.providers.destinations.rules import RULES

FACTS: Final = (*FORMS, *MAKERS, *HOSTS, *TEMPLATES, *MODELS)
"""Every row."""
COMPATIBLE: Final = "compatible"
"""The name of every server of chat completions, beside its own, that is not OpenAI's."""
_OPENAI: Final = "openai"
_STRICTEST_FIRST: Final = sorted(FACTS, key=lambda each: -list(RULES[each.kind].values).index(each.value))
"""The rows, those with the strictest value of their kind first."""
_HOSTS: Final = frozenset(each.name for each in HOSTS)
_RECORDED: Final = _HOSTS | AS_MADE.keys()


class Destination(msgspec.Struct, frozen=True, kw_only=True):
    """Who reads a request, and what they want together."""

    form: str
    maker: str
    host: str | None
    """The host that the model's name or the form says; None if it may be any."""
    values: Mapping[Kind, str]
    """The strictest value of each kind (``rules/``). What is not there is free."""
    why: tuple[Fact, ...]
    """The row of each value, in the order of the kinds."""


@lru_cache(maxsize=1024)
def meet(form: str, maker: str, model: str) -> Destination:
    """Return the destination of requests in a form to a maker's model, whose name may say a host.

    >>> sorted(meet("openai", "qwen", "groq/qwen/qwen3-32b").values.items())[-2:]
    [('reasoning', 'refused'), ('roles', 'no_developer')]
    """
    host = OF_FORMS.get(form) or host_of(model) or (maker if maker in _HOSTS else None)
    parties: set[tuple[Party, str]] = {("form", form), ("maker", maker), ("host", host or "")}
    if host is not None and host not in _RECORDED:
        parties.add(("host", UNRECORDED))
    if maker != _OPENAI:
        parties.add(("host", COMPATIBLE))
    found: dict[Kind, Fact] = {}
    for fact in _STRICTEST_FIRST:
        if fact.kind not in found and fact.holds(form, parties, model.lower()):
            found[fact.kind] = fact
    why = tuple(found[kind] for kind in sorted(found))
    return Destination(form=form, maker=maker, host=host, values={each.kind: each.value for each in why}, why=why)


@lru_cache(maxsize=1024)
def readers_of(maker: str, model: str) -> frozenset[str]:
    """Return who reads a chat completion: the model's maker, and the host that its name says.

    >>> sorted(readers_of("qwen", "groq/qwen/qwen3-32b")), sorted(readers_of("qwen", "qwen3-32b"))
    (['groq', 'qwen'], ['qwen'])
    """
    host = host_of(model)
    is_unrecorded = host is not None and host not in _RECORDED
    return frozenset(filter(None, (maker, host, UNRECORDED if is_unrecorded else None)))


def named(of: Party, kind: Kind, value: str | None = None) -> frozenset[str]:
    """Return the makers, hosts, templates or forms with a fact of this kind, and of this value if one is given."""
    return frozenset(each.name for each in FACTS if each.of == of and each.kind == kind and value in (None, each.value))


@cache
def forms_of(maker: str) -> frozenset[str]:
    """Return the forms that the rows of a maker name, in which its own servers serve its models."""
    return frozenset(form for each in FACTS if (each.of, each.name) == ("maker", maker) for form in each.forms)


def evidence_of(kind: Kind, value: str | None = None) -> str:
    """Return where the facts of a kind are known from, each once."""
    found = (each.evidence for each in FACTS if each.kind == kind and value in (None, each.value))
    return "; ".join(dict.fromkeys(found))
