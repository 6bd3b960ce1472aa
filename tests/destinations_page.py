"""The page of destinations, as their rows say it: ``python -m tests.destinations_page`` writes it."""

import re
from collections.abc import Iterator
from pathlib import Path

from sash.core.providers.destinations.destination import FACTS
from sash.core.providers.destinations.facts import Fact
from sash.core.providers.destinations.hosts import AS_MADE, PREFIXES, UNRECORDED
from sash.core.providers.destinations.model_media import READERS, SEES
from sash.core.providers.destinations.picture_limits import LIMITS
from sash.core.providers.destinations.rules import RULES

PAGE = Path(__file__).parents[1] / "service" / "sash" / "core" / "providers" / "destinations" / "README.md"
HEAD = """# Destinations

A destination is who reads a request: the form, the model's maker, the host and the chat template together. A window heeds
the strictest fact of each kind. `GET /models/{model}` shows those of one model, with their evidence. A form's media, limits
and mends [have their own tables](../../../../docs/providers/mends.md).

`python -m tests.destinations_page` writes this page from the rows beside it.

A new rule is a record in `rules/`: what its values say, its predicate, and requests that break it, around which the tests
draw histories. Whose rule it is, and where that is known from, is a row in `makers.py`, `hosts.py`, `grammars.py` (forms
and templates) or `model_media.py`. What is sent in its place is a mend of the form.

## Hosts

A model's name says its host by its beginning, as LiteLLM writes it, or by an id that only Bedrock or Vertex has:
"""


_FAMILY = re.compile(r"\(\?=\.\*\(\?:(.*)\)\)$")
"""The names of a family in the pattern of a row of ``model_media``."""
_THREADS = re.compile(r"[\w.-]+/[\w.-]+ (\d+(?:, \d+)*)")
_DOCUMENTS = re.compile(r"\b[a-z][a-z-]+\.(?:com|ai|dev|types)\b|botocore|openai-node|mistral_common|the template that")


def written() -> str:
    """Return the page."""
    return "\n".join([HEAD, *_hosts(), "", *_kinds(), *_models(), "", *_pictures(), "", *_alone()]).rstrip("\n") + "\n"


def _hosts() -> Iterator[str]:
    yield "| host | a name begins with | rows |"
    yield "| --- | --- | --- |"
    for host in sorted({*PREFIXES.values()}):
        begins = ", ".join(f"`{each}/`" for each, meant in PREFIXES.items() if meant == host)
        kinds = dict.fromkeys(each.kind for each in FACTS if (each.of, each.name) == ("host", host))
        yield f"| {host} | {begins} | {', '.join(kinds) or _reason(host)} |"
    yield ""
    yield "`compatible` stands for every server of chat completions to models that OpenAI did not make. Beside its rows"
    yield "each host follows the model's maker and template."


def _reason(host: str) -> str:
    """Why a host has no rows."""
    return f"as the model's maker and template: {AS_MADE[host]}" if host in AS_MADE else f"those of `{UNRECORDED}`"


def _kinds() -> Iterator[str]:
    for kind, rule in RULES.items():
        yield f"## {kind}"
        yield ""
        for value, meaning in rule.values.items():
            yield f"- `{value}`: {meaning}"
        yield ""
        facts = [each for each in FACTS if each.kind == kind and each.of != "model"]
        if facts:
            yield "| value | of | format | models | evidence |"
            yield "| --- | --- | --- | --- | --- |"
            yield from (_row(fact) for fact in facts)
            yield ""
        if any(each.kind == kind for each in FACTS if each.of == "model"):
            yield "By model: [what a model does not take](#what-a-model-does-not-take)."
            yield ""


def _row(fact: Fact) -> str:
    models = f"`{fact.models}`" if fact.models else "all"
    cells = (fact.value, f"{fact.of} {fact.name}", _forms(fact), models, fact.evidence)
    return "| " + " | ".join(each.replace("|", "\\|") for each in cells) + " |"


def _forms(fact: Fact) -> str:
    return ", ".join(sorted(fact.forms)) or "all"


def _models() -> Iterator[str]:
    yield "## What a model does not take"
    yield ""
    yield f"By a pattern of its name. A name with `{SEES.pattern}` is of a model that sees. Files are read for the model by"
    yield f"{', '.join(READERS)}."
    yield ""
    yield "| family | does not take | names | evidence |"
    yield "| --- | --- | --- | --- |"
    families: dict[tuple[str, str, str], list[str]] = {}
    for fact in FACTS:
        if fact.of == "model":
            found = _FAMILY.search(fact.models)
            names = found.group(1) if found else fact.models
            forms = f" ({_forms(fact)})" if fact.forms else ""
            families.setdefault((fact.name, names, fact.evidence), []).append(fact.kind + forms)
    for (name, names, evidence), kinds in families.items():
        cells = (name, ", ".join(kinds), f"`{names}`", evidence)
        yield "| " + " | ".join(each.replace("|", "\\|") for each in cells) + " |"


def _pictures() -> Iterator[str]:
    yield "## How many pictures a request may have"
    yield ""
    yield "Beside the limits of forms, by the host that a model's name says, or by its maker. The oldest give way first."
    yield ""
    yield "| host or maker | pictures | evidence |"
    yield "| --- | --- | --- |"
    yield from (f"| {each.name} | {each.most} | {each.evidence} |" for each in LIMITS)


def _alone() -> Iterator[str]:
    """The rows that one report alone tells of, without a document."""
    yield "## Known from one report alone"
    yield ""
    for fact in FACTS:
        threads = sum(len(found.group(1).split(", ")) for found in _THREADS.finditer(fact.evidence))
        if threads == 1 and not _DOCUMENTS.search(fact.evidence):
            report = _THREADS.search(fact.evidence)
            yield f"- {fact.kind} `{fact.value}` of {fact.of} {fact.name}: {report.group() if report else ''}"


if __name__ == "__main__":
    PAGE.write_text(written(), "utf-8")
