"""The generated parts of the pages of providers, mends and errors: ``python -m tests.provider_pages`` writes them.

A provider's page has one table of facts. The page of mends has a section for each form, and the page of errors a row for
each problem.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from sash.api.openapi.faults import meaning
from sash.core.providers import PROVIDERS
from sash.core.providers.form.cache_marks import CachePrices
from sash.core.providers.form.provider import Provider
from sash.core.providers.form.request_limits import RequestLimits
from sash.core.providers.messages.mends import OF_ALL, Mend
from sash.problems import problem_types

DOCS: Final = Path(__file__).parents[1] / "service" / "docs"
MENDS: Final = DOCS / "providers" / "mends.md"
ERRORS: Final = DOCS / "errors.md"
FACTS: Final = "| of a request | |"
_RELATIVE: Final = CachePrices(read=0.1, write=1.25, long_write=2.0)
_SEVERAL: Final = "Several forms"


class Page(NamedTuple):
    """A provider's page: its file, its forms, and models with the context windows for which limits are told."""

    file: str
    forms: tuple[str, ...]
    models: tuple[tuple[str, int], ...]
    has_files: bool = True


PAGES: Final = (
    Page("openai.md", ("openai", "responses"), (("gpt-5", 400_000),)),
    Page("anthropic.md", ("anthropic",), (("claude-sonnet-5", 1_000_000), ("claude-haiku-4-5", 200_000))),
    Page("gemini.md", ("gemini", "interactions"), (("gemini-3-flash", 1_000_000),)),
    Page("bedrock.md", ("converse",), (("amazon.nova-pro-v1:0", 300_000),)),
    Page("ollama.md", ("ollama",), (("qwen3:8b", 131_072),), has_files=False),
    Page("cohere.md", ("cohere",), (("command-a-03-2025", 256_000),)),
)
_HEADINGS: Final = {
    "openai": "Chat completions",
    "responses": "Responses",
    "anthropic": "Claude",
    "gemini": "Gemini",
    "interactions": "Gemini Interactions",
    "converse": "Bedrock",
    "ollama": "Ollama",
    "cohere": "Cohere",
}


def mends_by_name() -> dict[str, tuple[Mend, list[str]]]:
    """Return each mend with its forms, or ``all``, in the order of the records. Raises ValueError if two have one name."""
    found: dict[str, tuple[Mend, list[str]]] = {each.name: (each, ["all"]) for each in OF_ALL}
    for form, provider in PROVIDERS.items():
        for mend in provider.mends:
            first, forms = found.setdefault(mend.name, (mend, []))
            if first is not mend:
                raise ValueError(f"two mends are called {mend.name}")
            forms.append(form)
    return found


def mends_written(page: str) -> str:
    """Return the page of mends with its sections in place of those that it has; what stands above them stays."""
    head, _, _ = page.partition("\n## ")
    return "\n".join([head.rstrip("\n"), *_mends_sections()]) + "\n"


def _mends_sections() -> Iterator[str]:
    every = mends_by_name().values()
    yield from _section("All forms", [mend for mend, forms in every if forms == ["all"]])
    shared = [(mend, forms) for mend, forms in every if len(forms) > 1]
    yield from ("", f"## {_SEVERAL}", "", "| reason | format | what a provider refuses | what is sent |")
    yield "| --- | --- | --- | --- |"
    yield from (f"| `{m.name}` | {', '.join(forms)} | {m.refused} | {m.sent} |" for m, forms in shared)
    for form, heading in _HEADINGS.items():
        own = [mend for mend, forms in every if forms == [form]]
        if own:
            yield from _section(heading, own)


def _section(heading: str, mends: list[Mend]) -> Iterator[str]:
    yield from ("", f"## {heading}", "", "| reason | what a provider refuses | what is sent |", "| --- | --- | --- |")
    yield from (f"| `{each.name}` | {each.refused} | {each.sent} |" for each in mends)


def facts_written(page: str, of: Page) -> str:
    """Return a provider's page with its table in place of the one that it has."""
    before, _, behind = page.partition(FACTS)
    rest = behind.splitlines(keepends=True)
    end = next((place for place, line in enumerate(rest) if place and not line.startswith("|")), len(rest))
    return before + "\n".join([FACTS, "| --- | --- |", *_facts(of)]) + "\n" + "".join(rest[end:])


def _facts(page: Page) -> Iterator[str]:
    providers = [PROVIDERS[form] for form in page.forms]
    yield f"| `format` | {', '.join(f'`{form}`' for form in page.forms)} |"
    yield f"| pictures | {_same(page.forms, [_ended(each.takes.pictures) for each in providers])} |"
    if page.has_files:
        yield f"| files, beside texts | {_same(page.forms, [_ended(each.takes.files) for each in providers])} |"
    yield from _limits(page, providers[0])
    cache = providers[0].caching(page.models[0][0], _RELATIVE)
    if cache is not None:
        lasts = f", for {cache.lifetime_seconds // 60} minutes" if cache.kind == "cache_control" else ""
        yield f"| the prompt cache of `{page.models[0][0]}` begins | at {cache.minimum_tokens:,} tokens{lasts} |"
    yield f"| mended | what {', '.join(_sections_of(page))} refuse |"


def _limits(page: Page, provider: Provider) -> Iterator[str]:
    limits = {name: provider.limits(name, window) for name, window in page.models}
    for field in msgspec.inspect.type_info(RequestLimits).fields:  # type: ignore[attr-defined]
        values = {name: getattr(each, field.name) for name, each in limits.items()}
        if any(values.values()):
            first, *others = values.items()
            told = [f"{first[1]:,}", *(f"{value:,} for `{name}`" for name, value in others if value != first[1])]
            yield f"| {_described(field)} | {'; '.join(told)} |"


def _described(field: msgspec.inspect.Field) -> str:
    """What a limit counts, in the words of the contract."""
    assert isinstance(field.type, msgspec.inspect.Metadata)
    said = (field.type.extra_json_schema or {})["description"].rstrip(".")
    return f"`{field.name}`: {said[0].lower()}{said[1:]}"


def _same(forms: tuple[str, ...], told: list[str]) -> str:
    if len(set(told)) == 1:
        return told[0]
    return "; ".join(f"{form}: {each}" for form, each in zip(forms, told, strict=True))


def _sections_of(page: Page) -> Iterator[str]:
    """Links to the sections of the page of mends that hold for a provider."""
    own = {form for _, forms in mends_by_name().values() if len(forms) == 1 for form in forms}
    for heading in ("All forms", _SEVERAL, *(_HEADINGS[form] for form in page.forms if form in own)):
        told = heading.lower() if heading in ("All forms", _SEVERAL) else heading
        yield f"[{told}](mends.md#{heading.lower().replace(' ', '-')})"


def _ended(types: frozenset[str] | None) -> str:
    return "all" if types is None else ", ".join(sorted(f"`{_short(each)}`" for each in types)) or "none"


def _short(media_type: str) -> str:
    """A type's name without its tree: ``document`` of a word processor's."""
    name = media_type.partition("/")[2]
    return {"vnd.ms-excel": "xls", "msword": "doc"}.get(
        name, {"sheet": "xlsx", "document": "docx"}.get(name.rpartition(".")[2], name)
    )


def errors_written(page: str) -> str:
    """Return the page of errors with a section for each problem."""
    head, _, _ = page.partition("\n## ")
    return "\n".join([head.rstrip("\n"), *_errors()]) + "\n"


def _errors() -> Iterator[str]:
    for kind in sorted(problem_types(), key=lambda each: each.status):
        yield from ("", f"## {kind.slug}", "", f"{kind.status}. {' '.join(meaning(kind))}")


def write() -> dict[Path, str]:
    """Return each page with what it should say."""
    pages = {MENDS: mends_written(MENDS.read_text("utf-8")), ERRORS: errors_written(ERRORS.read_text("utf-8"))}
    files = {each: DOCS / "providers" / each.file for each in PAGES}
    return pages | {file: facts_written(file.read_text("utf-8"), each) for each, file in files.items()}


if __name__ == "__main__":
    for path, text in write().items():
        path.write_text(text, "utf-8")
