"""``sash top``: the dashboard's first view in a terminal."""

import time
from collections.abc import Iterable
from typing import Any

import click
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.text import Text

from sash.commands.sources.conversation import SourceError
from sash.commands.terminal import Number, console, grid

_COLOURS = {"well": "green", "nearly-full": "yellow", "slow": "yellow"}
_REFUSALS_SHOWN = 8
_TENANTS_SHOWN = 6
_PATIENCE_SECONDS = 1.5
_SAID = frozenset({"condition", "quarter", "title"})
"""/status, /stats and a problem each have one of these members."""
_NONE = "-"
_BARS = " ▁▂▃▄▅▆▇█"


@click.command()
@click.option("--url", default="http://127.0.0.1:8000", show_default=True, help="URL of the service.")
@click.option(
    "--metrics-key-file",
    type=click.Path(dir_okay=False),
    help="File with SASH_METRICS_KEY, if the service requires keys.",
)
@click.option("--every", type=Number(0.2, 60), default=1.0, show_default=True, help="Seconds between two updates.")
@click.option("--once", is_flag=True, help="Print once and end; exit status 1 if something is wrong.")
def top(url: str, metrics_key_file: str | None, every: float, once: bool) -> None:  # noqa: FBT001 - a flag
    """Show the service's condition and its requests, live.

    Ctrl-C ends it.
    """
    from rich.live import Live  # noqa: PLC0415 - the other commands start faster without it

    from sash.commands.server import read_key  # noqa: PLC0415

    try:
        ask = _asker(url, read_key(metrics_key_file))
    except SourceError as error:
        raise click.UsageError(str(error)) from None
    if once:
        status, stats = ask()
        console().print(page(status, stats))
        raise SystemExit(0 if status.get("condition", {}).get("name") == "well" else 1)
    try:
        with Live(page(*ask()), screen=True, auto_refresh=False) as live:
            while True:
                time.sleep(every)
                live.update(page(*ask()), refresh=True)
    except KeyboardInterrupt:
        return


def _asker(url: str, key: str | None) -> Any:
    """Return a function that reads /status and /stats; if a read fails, its result is the problem or the error."""
    import httpx2  # noqa: PLC0415 - as above

    from sash.commands.server import client_of  # noqa: PLC0415

    client = client_of(url, key, _PATIENCE_SECONDS)

    def ask(path: str) -> dict[str, Any]:
        try:
            body = client.get(path).json()
        except (httpx2.HTTPError, ValueError, RecursionError) as error:
            return {"title": "Sash does not answer", "detail": f"{url}: {str(error) or type(error).__name__}"}
        if not isinstance(body, dict) or body.keys().isdisjoint(_SAID):
            return {"title": "Sash does not answer", "detail": f"{url}: another server answers there"}
        return body

    return lambda: (ask("/status"), ask("/stats"))


def page(status: dict[str, Any], stats: dict[str, Any]) -> RenderableType:
    """Return the page of both bodies: first the condition of the service, then the last fifteen minutes."""
    if "condition" not in status:
        return Group(_first("red", status["title"], status.get("detail", "")))
    now = status["condition"]
    parts: list[RenderableType] = [_first(_COLOURS.get(now["name"], "red"), now["title"], now["look"])]
    parts += [_deployment(stats["quarter"])] if "quarter" in stats else [_worker(status["worker"])]
    parts += [_store(status), *_tables(status, stats)]
    return Group(*parts)


def _first(colour: str, title: str, look: str) -> RenderableType:
    return Text.assemble((f"● {title}", f"bold {colour}"), f"\n  {look}\n" if look else "\n")


def _deployment(quarter: dict[str, Any]) -> str:
    requests, all_models = quarter["requests"], quarter["all"]
    p95 = requests["window_milliseconds"]["p95"] or all_models["milliseconds"]["p95"]
    return (
        f"15 minutes   {_bars(point['requests'] for point in quarter['timeline'])}   {requests['requests']:,} requests, "
        f"{requests['client_errors']:,} refused, {requests['server_errors']:,} failed\n"
        f"windows      {all_models['windows']:,}, 95 % within {_figure(p95)} ms; appends within "
        f"{_figure(requests['append_milliseconds']['p95'])} ms; {_figure(all_models['tokens']['p50'])} tokens the median\n"
    )


def _worker(worker: dict[str, Any]) -> str:
    requests = [each["requests"] for each in worker["minutes"]]
    failed = sum(each["server_errors"] for each in worker["minutes"])
    return (
        f"this worker  {_bars(requests)}   {sum(requests):,} requests, {failed:,} failed; "
        "the deployment's figures cannot be read\n"
    )


def _store(status: dict[str, Any]) -> str:
    store, memory = status["store"], status["store"]["memory"]
    limit = f" of {_bytes(memory['max'])}" if memory["max"] else ""
    disk = f", disk free {_bytes(store['disk']['free'])}" if store["disk"] else ""
    lag = memory["replication_lag_bytes"]
    behind = f", replicas {_bytes(lag)} behind" if lag is not None else ""
    connections = store["connections"]
    up = connections["idle"] + connections["busy"]
    return (
        f"store        {_bytes(memory['used'])}{limit}, {memory['keys']:,} keys, {memory['evicted_keys']:,} evicted"
        f"{behind}{disk}; {up} connections, {connections['down']} down, {connections['waiting']} waiting\n"
        f"sash         {status['version']}, process {status['process']}, up {status['uptime_seconds']:,} s\n"
    )


def _tables(status: dict[str, Any], stats: dict[str, Any]) -> Iterable[RenderableType]:
    quarter = stats.get("quarter")
    problems = quarter["requests"]["problems"] if quarter else status["worker"]["problems"]
    if problems:
        yield _table(
            [(each["problem"], f"{each['requests']:,}") for each in problems], "refused and failed", "#requests"
        )
    if quarter and quarter["tenants"]:
        rows = [
            (each["tenant"], f"{each['requests']:,}", f"{each['client_errors']:,}", f"{each['server_errors']:,}")
            for each in quarter["tenants"][:_TENANTS_SHOWN]
        ]
        yield _table(rows, "tenant", "#requests", "#refused", "#failed")
    latest = status["worker"]["refusals"][:_REFUSALS_SHOWN]
    if latest:
        shown = [
            (
                time.strftime("%H:%M:%S", time.localtime(each["at_ms"] / 1000)),
                str(each["status"]),
                f"{each['title']} {each.get('pointer') or ''}".rstrip(),
                each["operation"] or _NONE,
                each["conversation"] or _NONE,
            )
            for each in latest
        ]
        yield _table(shown, "refused lately", "status", "cause", "operation", "conversation")


def _table(rows: Iterable[tuple[str, ...]], *columns: str) -> RenderableType:
    table = grid(*columns)
    for row in rows:
        table.add_row(*map(escape, row))
    return Group(table, "")


def _bars(numbers: Iterable[int]) -> str:
    found = list(numbers)
    most = max([1, *found])
    return "".join(_BARS[-(-number * (len(_BARS) - 1) // most)] for number in found)


def _figure(value: float | None) -> str:
    return _NONE if value is None else f"{value:.1f}" if value < 10 else f"{value:,.0f}"


def _bytes(number: int) -> str:
    for size, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if number >= size:
            return f"{number / size:.2f} {unit}"
    return f"{number / 1e3:.0f} kB"
