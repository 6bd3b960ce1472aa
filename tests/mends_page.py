"""The tables of the page on mends, as the providers' records say them: ``python -m tests.mends_page`` writes them."""

from collections.abc import Iterator
from pathlib import Path

from sash.core.providers import PROVIDERS
from sash.core.providers.messages.mends import OF_ALL, Mend

PAGE = Path(__file__).parents[1] / "service" / "sash_client" / "README.md"
MENDS = "| reason | format | what a provider refuses | what is sent in its place |"
TYPES = "| format | pictures | files, beside texts |"


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


def mends_table() -> list[str]:
    """Return the lines of the table of mends, one a mend."""
    rows = (f"| `{m.name}` | {', '.join(forms)} | {m.refused} | {m.sent} |" for m, forms in mends_by_name().values())
    return [MENDS, "| --- | --- | --- | --- |", *rows]


def types_table() -> list[str]:
    """Return the lines of the table of media types, one a form."""
    return [TYPES, "| --- | --- | --- |", *_types_rows()]


def _types_rows() -> Iterator[str]:
    for form, provider in PROVIDERS.items():
        yield f"| {form} | {_ended(provider.takes.pictures)} | {_ended(provider.takes.files)} |"


def _ended(types: frozenset[str] | None) -> str:
    return "all" if types is None else ", ".join(sorted(f"`{each.partition('/')[2]}`" for each in types))


def written(page: str) -> str:
    """Return the page with these tables in place of those that it has."""
    for head, lines in ((MENDS, mends_table()), (TYPES, types_table())):
        before, _, behind = page.partition(head)
        rest = behind.splitlines(keepends=True)
        end = next((place for place, line in enumerate(rest) if place and not line.startswith("|")), len(rest))
        page = before + "\n".join(lines) + "\n" + "".join(rest[end:])
    return page


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text("utf-8")), "utf-8")
