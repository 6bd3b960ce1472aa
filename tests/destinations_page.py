"""The page of destinations, as their rows say it: ``python -m tests.destinations_page`` writes it."""

from collections.abc import Iterator
from pathlib import Path

from sash.core.providers.destinations.destination import FACTS
from sash.core.providers.destinations.facts import Fact
from sash.core.providers.destinations.hosts import AS_MADE, PREFIXES, UNRECORDED
from sash.core.providers.destinations.rules import RULES

PAGE = Path(__file__).parents[1] / "service" / "sash" / "core" / "providers" / "destinations" / "README.md"
HEAD = """# Destinations

A destination is who reads a request: the form, the model's maker, the host and the chat template together. A window heeds
the strictest fact of each kind. `GET /models/{model}` shows those of one model, with their evidence. A form's media, limits
and mends [have their own tables](../../../../docs/providers/mends.md).

`python -m tests.destinations_page` writes this page from the rows beside it.

## Hosts

A model's name says its host by its beginning, as LiteLLM writes it, or by an id that only Bedrock or Vertex has:
"""


def written() -> str:
    """Return the page."""
    return "\n".join([HEAD, *_hosts(), "", *_kinds()]).rstrip("\n") + "\n"


def _hosts() -> Iterator[str]:
    yield "| host | a name begins with | rows |"
    yield "| --- | --- | --- |"
    for host in sorted({*PREFIXES.values()}):
        begins = ", ".join(f"`{each}/`" for each, meant in PREFIXES.items() if meant == host)
        kinds = dict.fromkeys(each.kind for each in FACTS if (each.of, each.name) == ("host", host))
        yield f"| {host} | {begins} | {', '.join(kinds) or _reason(host)} |"
    yield ""
    yield "`compatible` stands for every server of chat completions to models that OpenAI did not make."


def _reason(host: str) -> str:
    """Why a host has no rows."""
    return f"none: {AS_MADE[host]}" if host in AS_MADE else f"those of `{UNRECORDED}`"


def _kinds() -> Iterator[str]:
    for kind, rule in RULES.items():
        yield f"## {kind}"
        yield ""
        for value, meaning in rule.values.items():
            yield f"- `{value}`: {meaning}"
        yield ""
        yield "| value | of | format | models |"
        yield "| --- | --- | --- | --- |"
        yield from (_row(fact) for fact in FACTS if fact.kind == kind)
        yield ""


def _row(fact: Fact) -> str:
    models = f"`{fact.models}`".replace("|", "\\|") if fact.models else "all"
    forms = ", ".join(sorted(fact.forms)) or "all"
    return f"| {fact.value} | {fact.of} {fact.name} | {forms} | {models} |"


if __name__ == "__main__":
    PAGE.write_text(written(), "utf-8")
