"""``sash truth``: compare predictions with recorded bills, and ask a provider for more of them."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sash.commands.source_error import SourceError
from sash.commands.terminal import (
    console,
    own_models,
    plain_errors,
    print_json,
    progress_bar,
    read_bytes,
    wants_json,
)
from sash.core.providers import CHAT, PROVIDERS

if TYPE_CHECKING:
    from sash.core.counts.models.models import Model
    from sash_tools.bills.bill import Bill
    from sash_tools.bills.questions import Questions
    from sash_tools.bills.truth_rows import TruthRow

_SHAPES = ("table", "json", "markdown")


@click.command()
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option("--live", is_flag=True, help="Send the requests to the provider of --model, and compare its answers.")
@click.option("--model", metavar="NAME", help="With --live: the model to ask about.")
@click.option(
    "--format", "form", type=click.Choice(list(PROVIDERS)), help="Only requests in this format. [default: the maker's]"
)
@click.option("--limit", metavar="N", type=click.IntRange(1, 10_000), default=50, show_default=True,
              help="With --live: send at most N requests, of each sort some.")  # fmt: skip
@click.option("--base-url", metavar="URL", help="With --live: the provider's address, in place of its usual variable.")
@click.option("--key-variable", metavar="NAME", help="With --live: the variable with the key. [default: the usual one]")
@click.option("--output", "-o", metavar="FILE", help="With --live: write the answers to FILE, as new rows.")
@click.option("--yes", "-y", is_flag=True, help="With --live: send without asking.")
@click.option("--misses", metavar="N", type=click.IntRange(0), default=20, show_default=True,
              help="Show at most N misses of each vendor.")  # fmt: skip
@click.option("--models-file", metavar="FILE", envvar="SASH_MODELS_FILE", help="TOML file with your own models.")
@click.option(
    "--as", "shape", type=click.Choice(_SHAPES), help="What to print. [default: table on a terminal, else json]"
)
@click.option("--shapes", "shapes_file", metavar="FILE",
              help="Write the requests' shapes with their bills, on which exact rests, into FILE.")  # fmt: skip
@click.option("--into", "page", metavar="PAGE", help="Write the tables into a Markdown page that has marks for them.")
def truth(
    files: tuple[str, ...],
    *,
    live: bool,
    model: str | None,
    form: str | None,
    limit: int,
    base_url: str | None,
    key_variable: str | None,
    output: str | None,
    yes: bool,
    misses: int,
    models_file: str | None,
    shape: str | None,
    shapes_file: str | None,
    page: str | None,
) -> None:
    """Compare predicted with billed tokens of the requests in FILE, and name the rule that each miss rests on.

    FILE holds rows: {"id", "model", "request", "prompt_tokens"}, in a list or one a line, and perhaps "format", "host" and
    "kinds". A request is what was sent, in any of the formats.

    With --live, the requests are sent to the provider of --model: to its counting endpoint (OpenAI's Responses, Anthropic,
    Gemini), which costs nothing, or as chat completions with the shortest reply. Without FILE, requests of Sash's own are
    sent, one for each thing that is billed. What no bill has shown is asked first, and the cost is told before. Key and
    address are from the variables that the provider's SDK reads, such as ANTHROPIC_API_KEY and ANTHROPIC_BASE_URL.
    """
    with plain_errors():
        models = own_models(models_file)
        if live:
            if model is None:
                raise click.UsageError("Name the model to ask about: --live --model NAME.")
            found = _ask(files, model, models, form, limit, base_url, key_variable, output, consent=yes)
        else:
            if not files:
                raise click.UsageError("Name a FILE with recorded requests, or --live --model NAME.")
            found = [(row, file) for row, file in _read(files) if form in (None, row.form)]
        bills = list(_bills(found, models))
        if shapes_file is not None:
            _write_shapes(bills, Path(shapes_file))
        if page is not None:
            _write(bills, Path(page))
        if page is not None or shapes_file is not None:
            return
    _print(bills, misses, shape or ("json" if wants_json(None) else "table"))


def _read(files: Sequence[str]) -> Iterator[tuple["TruthRow", str]]:
    """The rows of all files, each with its file's name without the ending. Raises SourceError."""
    from sash_tools.bills.truth_rows import rows_in  # noqa: PLC0415 - help needs no tokeniser

    for file in files:
        yield from ((row, Path(file).stem) for row in rows_in(read_bytes(file), file))


def _bills(found: Sequence[tuple["TruthRow", str]], models: Mapping[str, "Model"]) -> Iterator["Bill"]:
    from sash.problems import Problem  # noqa: PLC0415
    from sash_tools.bills.bill import comparisons  # noqa: PLC0415

    for row, file in found:
        if row.prompt_tokens is None:
            raise SourceError(f"{file}: {row.id} has no prompt_tokens; --live asks for them")
        try:
            yield from comparisons(row, file, models)
        except Problem as problem:
            raise SourceError(f"{file}: {row.id}: {problem.detail}") from None


# ---- asking


def _ask(
    files: Sequence[str],
    name: str,
    models: Mapping[str, "Model"],
    form: str | None,
    limit: int,
    base_url: str | None,
    key_variable: str | None,
    output: str | None,
    *,
    consent: bool,
) -> list[tuple["TruthRow", str]]:
    """The answers of the model's provider, each with the name of the file that it is written to. Raises SourceError."""
    from sash.core.counts.models.models import find_model  # noqa: PLC0415
    from sash_tools.bills.bill import bills_of_row  # noqa: PLC0415
    from sash_tools.bills.probes import probes_for  # noqa: PLC0415
    from sash_tools.bills.questions import Questions, spread  # noqa: PLC0415

    model = find_model(name, models)
    forms = [form] if form is not None else _forms_of(model)
    questions = {each: Questions(each, model, url=base_url, key_variable=key_variable) for each in forms}
    if output is not None and Path(output).exists():
        raise SourceError(f"{output} exists already: name another file")
    if files:
        rows = [row for row, _ in _read(files) if row.form in questions]
    else:
        rows = [row for each in forms for row in probes_for(model, each, models)]
    bills = {row.id: bills_of_row(row, model) for row in rows}
    chosen = spread(sorted(rows, key=lambda row: bills[row.id]), limit)
    if not chosen:
        raise SourceError(f"no request is in a format of {model.id}: {', '.join(forms)}")
    unseen = sum(not bills[row.id] for row in chosen)
    console(stderr=True).print(
        f"{unseen} of {len(chosen)} requests have a shape that no bill has shown", soft_wrap=True
    )
    _say_cost(chosen, questions, model)
    if not consent:
        click.confirm("Send them?", abort=True, err=True)
    told = _answers(chosen, questions, output)
    return [(row, output or "live") for row in told]


def _forms_of(model: "Model") -> list[str]:
    """The formats of a model's maker; chat completions for the models of makers without a format of their own."""
    return [name for name, each in PROVIDERS.items() if each.maker == model.provider] or [CHAT]


def _say_cost(rows: Sequence["TruthRow"], questions: Mapping[str, "Questions"], model: "Model") -> None:
    """Print on standard error where the requests go, and what they cost."""
    from sash_tools.bills.bill import predicted_tokens  # noqa: PLC0415
    from sash_tools.bills.questions import listed_dollars  # noqa: PLC0415

    out = console(stderr=True)
    for form, asked in questions.items():
        own = [row for row in rows if row.form == form]
        if not own:
            continue
        tokens, replies = sum(predicted_tokens(row, model) for row in own), len(own) * asked.asking.reply_tokens
        cost = "which counts and bills nothing"
        if replies:
            dollars = listed_dollars(model, tokens, replies)
            price = "at a price that is not listed" if dollars is None else f"about ${dollars:.4f} at listed prices"
            cost = f"about {tokens:,} tokens and replies of at most {replies:,}: {price}"
        out.print(f"{len(own)} requests about {model.id} to {asked.place}: {cost}", soft_wrap=True)


def _answers(rows: Sequence["TruthRow"], questions: Mapping[str, "Questions"], output: str | None) -> list["TruthRow"]:
    """The rows that were told, which are also written, even if a later request fails. Raises SourceError."""
    from sash_tools.bills.questions import NotTold  # noqa: PLC0415
    from sash_tools.bills.truth_rows import rows_written  # noqa: PLC0415

    told: list[TruthRow] = []
    missing: list[NotTold] = []
    try:
        with progress_bar() as bar:
            task = bar.add_task("asked", total=len(rows))
            for form, asked in questions.items():
                for answer in asked.ask(row for row in rows if row.form == form):
                    (missing if isinstance(answer, NotTold) else told).append(answer)  # type: ignore[arg-type]
                    bar.advance(task)
    finally:
        if output is not None and told:
            Path(output).write_bytes(rows_written(told))
    for each in missing:
        click.echo(f"not told: {each.id}: {each.why}", err=True)
    if not told:
        raise SourceError("no request was answered with its tokens")
    if output is not None:
        click.echo(f"{len(told)} rows are in {output}", err=True)
    return told


# ---- printing


def _print(bills: Sequence["Bill"], limit: int, shape: str) -> None:
    from sash_tools.bills import bill_tables  # noqa: PLC0415

    if shape == "json":
        print_json(_as_json(bills))
        return
    sheets = [sheet for sheet in bill_tables.sheets(bills, limit) if sheet.rows]
    if shape == "markdown":
        click.echo("\n\n".join(f"### {sheet.title}\n\n{sheet.markdown()}" for sheet in sheets))
        return
    out = console()
    for sheet in sheets:
        out.print(sheet.drawn(), "")


def _write(bills: Sequence["Bill"], page: Path) -> None:
    """Replace the tables of a page that stand behind marks with the tables' titles. Raises SourceError."""
    from sash_tools.bills.bill_tables import sheets, with_sheets  # noqa: PLC0415

    text = read_bytes(str(page)).decode("utf-8", "replace")
    written, count = with_sheets(text, sheets(bills, 0))
    if not count:
        raise SourceError(f"{page} has no mark for a table, such as <!-- sash truth: Predicted and billed tokens -->")
    page.write_text(written, "utf-8")
    click.echo(f"{count} tables are in {page}", err=True)


def _write_shapes(bills: Sequence["Bill"], file: Path) -> None:
    from sash_tools.bills.bill_shapes import billed_shapes, written_shapes  # noqa: PLC0415

    file.write_bytes(written_shapes(bills, file.read_bytes() if file.exists() else b"[]"))
    click.echo(f"{len(billed_shapes(bills))} shapes are in {file}", err=True)


def _as_json(bills: Sequence["Bill"]) -> list[dict[str, Any]]:
    """One object for each request: the figures, and the rule that an error rests on."""
    from sash_tools.bills.bill_rules import doubtful_rules  # noqa: PLC0415

    rules = doubtful_rules(bills)
    return [
        {
            "id": bill.id,
            "file": bill.file,
            "vendor": bill.vendor,
            "model": bill.row.model,
            "family": bill.family,
            "kind": bill.kind,
            "predicted": bill.predicted,
            "billed": bill.billed,
            "exact": bill.is_exact,
            **({"counting": bill.counting} if bill.is_with_vocabulary else {}),
            **({"rests_on": rules[place]} if bill.error else {}),
        }
        for place, bill in enumerate(bills)
    ]
