"""``sash replay``: what stored conversations would have cost with other parameters."""

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from sash.commands.source_error import SourceError
from sash.commands.terminal import Number, console, own_models, plain_errors, print_json, progress_bar, wants_json
from sash.core.law.records.parameters import WindowQuery
from sash_tools.history_file import read_conversations
from sash_tools.sources.conversation import SourceConversation
from sash_tools.transfer import GONE, export_one, key_option, listed_ids, shown_failures, url_option

if TYPE_CHECKING:
    from sash_tools.replays.compared import Totals
    from sash_tools.replays.logged import EvidenceQuestion, LeftOutError, Replayable

_NEXT: Final = re.compile(r",(?=[a-z_]+=)")
_TITLES: Final = 60
"""Characters of a set of parameters in the table's head."""


class _Compared:
    """Both sides' figures, the conversations that they are of, and those that failed."""

    def __init__(self) -> None:
        from sash_tools.replays.compared import Totals  # noqa: PLC0415 - help needs no tokeniser

        self.against, self.wanted = Totals(), Totals()
        self.conversations: list[dict[str, Any]] = []
        self.untimed = 0
        self.failed: list[str] = []
        self.left_out: dict[str, int] = {}
        """Conversations that have nothing to live again, by why."""
        self.first_left_out = ""

    def leave_out(self, why: "LeftOutError") -> None:
        self.left_out[why.kind] = self.left_out.get(why.kind, 0) + 1
        self.first_left_out = self.first_left_out or str(why)

    def add(self, found: "Replayable", against: "Totals", wanted: "Totals") -> None:
        from sash_tools.replays.compared import as_json  # noqa: PLC0415

        self.against.merge(against)
        self.wanted.merge(wanted)
        self.untimed += not found.is_timed
        told = {"id": found.chat.id, "against": as_json(against), "set": as_json(wanted)}
        self.conversations.append(told)


@click.command()
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option("--owner", metavar="OWNER", help="All conversations of this owner, from a running service.")
@click.option("--all", "everything", is_flag=True, help="All conversations of the tenant, from a running service.")
@click.option("--conversation", "ids", metavar="ID", multiple=True, help="This conversation, from a running service.")
@url_option
@key_option
@click.option("--set", "wanted", metavar="NAME=VALUE,…", multiple=True, required=True, help="Parameters to try.")
@click.option(
    "--against", metavar="NAME=VALUE,…", multiple=True, help="Parameters to compare with. [default: the defaults]"
)
@click.option("--model", metavar="NAME", help="Model of conversations that name none.")
@click.option("--questions", metavar="FILE", help="Questions with the ids of the entries that answer them.")
@click.option("--pause", metavar="SECONDS", type=Number(0, 10**8), default=60, show_default=True,
              help="Before each user's message of a conversation whose messages have no times.")  # fmt: skip
@click.option("--limit", metavar="N", type=click.IntRange(1), help="At most N conversations, of a service the newest.")
@click.option("--models-file", metavar="FILE", envvar="SASH_MODELS_FILE", help="TOML file with your own models.")
@click.option("--as", "shape", type=click.Choice(("table", "json", "markdown")),
              help="What to print. [default: table on a terminal, else json]")  # fmt: skip
@click.option(
    "-o", "--output", metavar="FILE", help="Draw the picture into FILE.svg, or table and picture into FILE.html."
)
def replay(
    files: tuple[str, ...],
    *,
    owner: str | None,
    everything: bool,
    ids: tuple[str, ...],
    url: str,
    api_key_file: str | None,
    wanted: tuple[str, ...],
    against: tuple[str, ...],
    model: str | None,
    questions: str | None,
    pause: float,
    limit: int | None,
    models_file: str | None,
    shape: str | None,
    output: str | None,
) -> None:
    """Compare what conversations cost with two sets of window parameters, request by request.

    The conversations are those in FILEs, of any format that `sash import` reads, or those of a running service. They are
    only read. The window before each reply is made with the parameters of --against, and with these changed by --set. A
    simulator of the provider's prompt cache tells what is read from it, and list prices what it costs.

    \b
      sash replay --owner ada --set stable=auto,cache=auto
      sash replay export.ndjson --against stable=true --set stable_step=0.25 -o replay.html
    """
    if (bool(files), owner is not None, everything, bool(ids)).count(True) != 1:
        raise click.UsageError("Name FILEs, or conversations of a service: --owner, --all or --conversation.")
    with plain_errors():
        base = _parameters("--against", against, {})
        pair = _query("--against", base), _query("--set", _parameters("--set", wanted, base))
        draw = _drawing(output)
        models = own_models(models_file)
        asked = _asked(questions)
        sources = _from_files(files) if files else _from_service(url, api_key_file, owner, ids, limit)
        found = _compare(sources, pair, models, asked, pause, model, limit)
    _report(found, (_said(against, "defaults"), _said(wanted, "")), shape, draw)


# ---- parameters


def _parameters(option: str, given: Sequence[str], base: Mapping[str, str]) -> dict[str, str]:
    """The values by name, on top of ``base``. A name without a value takes the default. Raises SourceError."""
    values = dict(base)
    for text in (part for each in given for part in _NEXT.split(each)):
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise SourceError(f"{option} {text}: write NAME=VALUE, such as stable=auto")
        values[name] = value
        if not value:
            del values[name]
    return values


def _query(option: str, values: Mapping[str, str]) -> WindowQuery:
    from sash.core.chat.mistakes import invalid  # noqa: PLC0415

    try:
        return msgspec.convert(values, WindowQuery, strict=False)
    except msgspec.ValidationError:
        wrong = invalid("", of=WindowQuery, value=dict(values), from_text=True)
        raise SourceError(f"{option}: {wrong.detail}") from None


def _said(given: Sequence[str], nothing: str) -> str:
    text = ",".join(given) or nothing
    return text if len(text) <= _TITLES else text[: _TITLES - 1] + "…"


def _drawing(output: str | None) -> Path | None:
    """The file to draw into. Raises SourceError for another ending, and for a folder that is not there."""
    if output is None:
        return None
    path = Path(output)
    if path.suffix not in (".svg", ".html"):
        raise SourceError(f"{output}: name a file that ends in .svg or .html")
    if not path.absolute().parent.is_dir():
        raise SourceError(f"{output}: {path.parent} is no folder")
    return path


def _asked(file: str | None) -> Mapping[str, Sequence["EvidenceQuestion"]]:
    from sash_tools.replays.logged import questions_in  # noqa: PLC0415

    return questions_in(file) if file is not None else {}


# ---- sources


Sources = tuple[Iterator[SourceConversation], int]
"""The conversations one after the other, and their number."""


def _from_files(files: Sequence[str]) -> Sources:
    found = [each for file in files for each in read_conversations(file)]
    return iter(found), len(found)


def _from_service(url: str, key_file: str | None, owner: str | None, ids: Sequence[str], limit: int | None) -> Sources:
    """The exports of a service's conversations, which one request of GET each reads. Raises SourceError."""
    from sash_client.client import SashError  # noqa: PLC0415
    from sash_tools.server import read_key  # noqa: PLC0415

    key = read_key(key_file)
    try:
        names = list(ids) or list(listed_ids(url, key, owner))
    except SashError as error:
        raise SourceError(str(error)) from None
    names = names[:limit]
    return _exports(url, key, names, is_listing=not ids), len(names)


def _exports(url: str, key: str | None, names: Sequence[str], *, is_listing: bool) -> Iterator[SourceConversation]:
    from sash_client.client import SashError  # noqa: PLC0415
    from sash_tools.server import client_of  # noqa: PLC0415
    from sash_tools.sources.detect import conversations_in  # noqa: PLC0415

    with client_of(url, key) as server:
        for name in names:
            pieces: list[bytes] = []
            try:
                export_one(server, name, pieces.append)
            except SashError as error:
                if is_listing and error.status == GONE:  # it was erased since
                    continue
                raise SourceError(f"{name}: {error}") from None
            yield from conversations_in(b"".join(pieces), name)


# ---- the comparison


def _compare(
    sources: Sources,
    pair: tuple[WindowQuery, WindowQuery],
    models: Any,
    asked: Mapping[str, Sequence["EvidenceQuestion"]],
    pause: float,
    model: str | None,
    limit: int | None,
) -> _Compared:
    """Live each conversation again, with both sets of parameters. Raises SourceError if none can be."""
    from sash.problems import Problem  # noqa: PLC0415
    from sash_tools.replays.compared import totals_of  # noqa: PLC0415
    from sash_tools.replays.logged import LeftOutError, replayable  # noqa: PLC0415

    found, (given, count) = _Compared(), sources
    count, needs_model = min(count, limit or count), not all(query.model for query in pair)
    with progress_bar() as bar:
        conversations, requests = bar.add_task("conversations", total=count), bar.add_task("requests", total=None)
        for source, _ in zip(given, range(count), strict=False):
            try:
                each = replayable(source, pause, asked, model, needs_model=needs_model)
                bar.reset(requests, total=2 * len(each.chat.lengths))
                step: Callable[[], Any] = lambda: bar.advance(requests)  # noqa: E731
                found.add(each, *(totals_of(each, query, models, step) for query in pair))
            except LeftOutError as why:
                found.leave_out(why)
            except SourceError as error:
                found.failed.append(str(error))
            except Problem as problem:
                found.failed.append(f"{source.id}: {problem.detail}")
            bar.advance(conversations)
    if not found.conversations:
        reasons = [*found.failed, found.first_left_out, "there is no conversation to live again"]
        raise SourceError(next(filter(None, reasons)))
    return found


# ---- printing


def _report(found: _Compared, titles: tuple[str, str], shape: str | None, draw: Path | None) -> None:
    """Print the figures and draw the picture; exit status 1 if a conversation failed."""
    from sash_tools.replays.compared import as_json, sheet  # noqa: PLC0415
    from sash_tools.replays.picture import page, picture  # noqa: PLC0415

    table, notes = sheet(found.against, found.wanted, found.left_out), list(_notes(found, titles))
    shape = shape or ("json" if wants_json(None) else "table")
    if shape == "json":
        sides = {"against": as_json(found.against), "set": as_json(found.wanted)}
        print_json(
            {
                **sides,
                "assumed_times": found.untimed,
                "conversations": found.conversations,
                "left_out": found.left_out,
            }
        )
    elif shape == "markdown":
        click.echo("\n".join([table.markdown(), "", *notes]))
    else:
        out = console()
        out.print(table.drawn())
        for note in notes:
            out.print(note, style="dim", soft_wrap=True)
    if draw is not None:
        svg = picture(found.against, found.wanted, titles)
        try:
            draw.write_text(svg if draw.suffix == ".svg" else page(table, notes, svg), "utf-8")
        except OSError as error:
            raise click.ClickException(f"{draw} cannot be written: {error.strerror}") from None
        click.echo(f"sash: the picture is in {draw}", err=True)
    if found.failed:
        shown_failures(found.failed, len(found.conversations) + len(found.failed))
        sys.exit(1)


def _notes(found: _Compared, titles: tuple[str, str]) -> Iterator[str]:
    count = len(found.conversations)
    yield "against: {}; set: {}".format(*titles)
    yield f"{count:,} conversation{'s' * (count != 1)}, the window before each reply."
    if "no model" in found.left_out:
        yield "Conversations that name no model are left out: --model NAME gives them one."
    if found.untimed:
        yield f"{found.untimed:,} without times: pauses are assumed (--pause)."
    for name, totals in (("--against", found.against), ("--set", found.wanted)):
        if totals.refused:
            yield f"{totals.refused:,} windows of {name} could not be made, first {totals.why}"
    if found.against.dollars is None or found.wanted.dollars is None:
        yield "The prices of a model are unknown."
