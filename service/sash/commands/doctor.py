"""``sash doctor``: check everything that a start depends on, and say what to change."""

import asyncio
import contextlib
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from os import environ
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from sash.commands.asked_upstreams import check_upstreams
from sash.commands.keys import check_encryption, check_keys
from sash.commands.source_error import SourceError
from sash.commands.store import on_store, read_settings, with_running_store
from sash.commands.terminal import console, grid, print_json, shape_option, wants_json
from sash.core.counts.requests.calibration import ModelReports, Outcome
from sash.problems import StoreUnavailable
from sash.settings import Settings, SettingsError, mask_url
from sash.store.redis.findings import Finding, halves

_PARITY = (
    # a text, and its tokens in o200k_base and cl100k_base by tiktoken 0.14
    ("Sash keeps what fits, and says what it left out.", 13, 13),
    ("Größenwahn läßt grüßen: naïve façade, señor!", 16, 20),
    ("会話の窓は少しずつ滑る。", 13, 14),
    ("<|endoftext|> is text", 9, 9),
    ("for i in range(10):\n\tprint(i ** 2)\n\n\n", 13, 13),
)
_EARLIEST = datetime(2025, 1, 1, tzinfo=UTC)
_SHORTEST_KEY = 16
_SERVICE_SECONDS = 10.0
_SIGNS = {"good": ("ok", "green"), "advice": ("advice", "yellow"), "problem": ("PROBLEM", "bold red")}


@click.command()
@click.option(
    "--url", help="A running service to check as well (http://127.0.0.1:8000), or a store to try instead (redis://…)."
)
@click.option("--data-dir", metavar="FOLDER", help="A data folder to read: its store is started if it does not run.")
@shape_option
def doctor(*, url: str | None, data_dir: str | None, as_json: bool | None) -> None:
    """Check the settings and the store, and say what to change.

    The tokenisers and the clock are checked, too. The exit status is 1 if there is a problem, and 0 if there is only advice.

    Without SASH_REDIS_URL, the embedded store of the data directory is checked; if it does not run, one is tried in a
    temporary directory. With --url redis://… that store is tried instead: every command that Sash needs, and Sash's
    scripts, on keys of their own.
    """
    if data_dir is not None and url is not None:
        raise click.UsageError("Give a URL or a data folder.")
    service = url is None or not url.startswith(("redis", "unix:"))
    findings = [
        *([_check_service(url)] if url and service else []),
        *(_examined(data_dir) if service else _try(url or "")),
    ]
    if wants_json(as_json):
        print_json(findings)
    else:
        _print(findings)
    if any(finding.verdict == "problem" for finding in findings):
        sys.exit(1)


def _examined(data_dir: str | None) -> Iterator[Finding]:
    """Yield the findings of the environment's settings, or of a data folder, whose store runs meanwhile."""
    if data_dir is None:
        yield from examine(environ)
        return
    from sash.store.redis.embedded import DataDirectoryBusy, EmbeddedStore, EmbeddedStoreFailed  # noqa: PLC0415

    folder = Path(data_dir).absolute()
    if not (folder / "appendonlydir").is_dir():
        yield Finding("data folder", "problem", f"{folder} has no appendonlydir", "name the folder of SASH_DATA_DIR")
        return
    variables = {name: value for name, value in environ.items() if name != "SASH_REDIS_URL"}
    variables["SASH_DATA_DIR"] = str(folder)
    try:
        with EmbeddedStore(folder):
            yield from examine(variables)
    except DataDirectoryBusy:  # a service runs on it
        yield from examine(variables)
    except EmbeddedStoreFailed as error:
        yield Finding("data folder", "problem", str(error), "look at valkey.log in it")


def examine(variables: Mapping[str, str]) -> Iterator[Finding]:
    """Yield the findings. The settings come first, because they name the store."""
    from sash.store.redis.checks import check_store  # noqa: PLC0415 - help needs no store

    try:
        settings = read_settings(variables)
    except SettingsError as error:
        for line in error.lines:
            subject, _, rest = line.partition(" ")
            yield Finding(subject, "problem", *halves(rest))
    else:
        yield from _check_settings(settings)
        if settings.media_place is not None:
            yield _check_media(settings, settings.media_place)
        yield from check_upstreams(settings)
        if settings.redis_url is not None:
            yield Finding("store address", "good", mask_url(settings.redis_url))
        findings = asyncio.run(check_store(settings.redis_url, settings.data_dir.absolute(), settings.durability))
        yield from findings
        if not any(each.subject == "store" and each.verdict == "problem" for each in findings):
            yield from check_keys(settings)
            yield from check_encryption(settings)
            yield from _check_predictions(settings)
    yield _check_tokeniser()
    yield from _check_vocabularies(variables.get("SASH_TOKENIZERS"))
    yield _check_clock(datetime.now(UTC))


def _try(url: str) -> Iterator[Finding]:
    """Yield the findings about the store at ``url``, which the settings need not name."""
    from sash.store.data.trial import try_store  # noqa: PLC0415
    from sash.store.redis.checks import check_store  # noqa: PLC0415

    try:
        settings = read_settings({**environ, "SASH_REDIS_URL": url})
    except SettingsError as error:
        raise click.UsageError(str(error)) from None
    yield from asyncio.run(check_store(url, settings.data_dir.absolute(), settings.durability))
    with contextlib.suppress(StoreUnavailable):  # the finding above says why
        yield from on_store(url, try_store)


def _check_service(url: str) -> Finding:
    """Return the finding about a running service."""
    import httpx2  # noqa: PLC0415 - the other checks need no client
    import msgspec  # noqa: PLC0415

    shown = mask_url(url)
    try:
        answer = httpx2.get(f"{url.rstrip('/')}/readyz", timeout=_SERVICE_SECONDS)
        said = msgspec.json.decode(answer.content, type=dict[str, Any])
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        found = f"{shown} does not answer: {error or type(error).__name__}"
        return Finding("service", "problem", found, "start it (sash serve), or correct --url")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        said = {}
    if ("durability" if answer.status_code == 200 else "type") not in said:
        return Finding("service", "problem", f"{shown} is no Sash: HTTP {answer.status_code}", "correct --url")
    if answer.status_code != 200:
        why = str(said.get("detail", f"HTTP {answer.status_code}")).removeprefix("Not ready: ")
        found, change = halves(why)
        return Finding("service", "problem", f"{shown} is not ready: {found}", change or "look at its log")
    if degraded := said.get("degraded"):
        found, change = halves("; ".join(map(str, degraded)))
        return Finding("service", "problem", f"{shown} serves in part: {found}", change or "look at its log")
    how = said.get("store", {}).get("how", "")
    return Finding("service", "good", f"{shown} is ready, durability {said.get('durability')} ({how})")


def _check_settings(settings: Settings) -> Iterator[Finding]:
    from sash.core.counts.models.models import load_models_toml  # noqa: PLC0415

    workers = "1 worker" if settings.workers == 1 else f"{settings.workers} workers"
    where = f"http://{settings.host}:{settings.port}, {workers}, durability {settings.durability}"
    yield Finding("settings", "good", where)
    short = sorted({key.tenant for key in settings.api_keys if len(key.key) < _SHORTEST_KEY})
    if short:
        change = f"make keys of at least {_SHORTEST_KEY} random characters"
        yield Finding("SASH_API_KEYS", "problem", f"a key of {short[0]} can be guessed", change)
    if settings.allow_anonymous and not settings.loopback:
        yield Finding("SASH_ALLOW_ANONYMOUS", "advice", "anyone who can connect reads everything", "set SASH_API_KEYS")
    if settings.models_file is not None:
        try:
            models = load_models_toml(settings.models_file.read_text("utf-8"))
        except (OSError, ValueError) as error:
            yield Finding("SASH_MODELS_FILE", "problem", str(error), "correct the file")
        else:
            yield Finding("SASH_MODELS_FILE", "good", f"{len(models)} models")


def _check_media(settings: Settings, url: str) -> Finding:
    """Return the finding about object storage, in which an object is written, read and erased.

    Nothing is written where the mark of the settings' store is missing. Whether there should be one is known while the store
    runs.
    """
    from sash.problems import Problem  # noqa: PLC0415 - help needs no storage
    from sash.store.data.marked_storage import expected_mark, without_mark  # noqa: PLC0415
    from sash.store.data.object_storage import open_objects, try_objects  # noqa: PLC0415
    from sash.store.data.storage_answers import told  # noqa: PLC0415

    async def expected(client: Any, _: Settings) -> str:
        return await expected_mark(client)

    name, shown = "SASH_MEDIA_URL", mask_url(url)
    mark: str | None = None
    with contextlib.suppress(StoreUnavailable):  # another finding says why
        mark = with_running_store(settings, expected)
    try:
        objects = open_objects(url, settings.store_timeout_seconds)
        assert objects is not None  # noqa: S101 - there is a URL
        if mark and not asyncio.run(objects.has(mark)):
            away, _, action = without_mark(shown, mark).removeprefix("The object storage is away: ").partition(". ")
            return Finding(name, "problem", away, action.rstrip("."))
        if objects.folder is not None and not objects.folder.is_dir():
            return Finding(name, "good", f"{shown} is made at the first start")
        asyncio.run(try_objects(objects))
    except ValueError as error:
        found, change = halves(str(error).removeprefix(f"{name} "))
        return Finding(name, "problem", found, change or "correct the URL, or make the folder or bucket")
    except Problem as problem:
        said = told(problem).removeprefix("The object storage ").rstrip(".")
        return Finding(name, "problem", f"{shown}: it {said}", "look at the storage, and at its credentials")
    return Finding(name, "good", f"{shown} takes, gives, lists and erases an object")


def _check_predictions(settings: Settings) -> Iterator[Finding]:
    """Yield a finding for each model whose reported bills contradict its counts, or one for all models."""
    from sash.commands.terminal import own_models  # noqa: PLC0415 - help needs no tokeniser
    from sash.store.data.usage import Calibrations, drifts, model_or_unknown  # noqa: PLC0415

    async def act(client: Any, _: Settings) -> list[tuple[str, str, ModelReports]]:
        return [each async for each in Calibrations(client).each()]

    try:
        reported = with_running_store(settings, act) or []
    except StoreUnavailable:  # another finding says why
        return
    try:
        models = own_models(str(settings.models_file) if settings.models_file is not None else None)
    except SourceError:  # another finding names the wrong file
        models = {}
    drifting = False
    for tenant, name, known in sorted(reported, key=lambda each: each[:2]):
        if known.outcome is not None and drifts(model_or_unknown(name, models), known):
            drifting = True
            yield _drift_of(tenant, name, known.outcome)
    if reported and not drifting:
        reports = sum(known.reports for _, _, known in reported)
        yield Finding(
            "predictions", "good", f"{reports} reports of {len(reported)} models agree with what was predicted"
        )


def _drift_of(tenant: str, name: str, outcome: Outcome) -> Finding:
    found = (
        f"{name} of tenant {tenant} drifts: billed {outcome.median_ratio:.3f} times the prediction by median, "
        f"{outcome.short_share:.0%} of {outcome.count} reports above it"
    )
    return Finding("predictions", "advice", found, f"sash truth --live --model {name} shows which rule has changed")


def _check_tokeniser() -> Finding:
    from sash.core.counts.text import count_text  # noqa: PLC0415

    wrong = sum(
        (count_text(text, "o200k_base"), count_text(text, "cl100k_base")) != (o200k, cl100k)
        for text, o200k, cl100k in _PARITY
    )
    return judge_tokeniser(_tokeniser(), wrong)


def _check_vocabularies(folder: str | None) -> Iterator[Finding]:
    """Yield a finding for each further vocabulary, tried on a sample."""
    from sash.core.counts.text.vocabularies import INSTALLED, find_files  # noqa: PLC0415

    yield Finding("vocabularies", "good", ", ".join(f"{each.name} ({each.source})" for each in INSTALLED.values()))
    try:
        files = find_files(Path(folder)) if folder else {}
    except OSError as error:
        yield Finding("SASH_TOKENIZERS", "problem", f"{folder}: {error.strerror}", "name a folder that can be read")
        return
    for each in files.values():
        try:
            each.count(_PARITY[0][0])
        except ValueError as error:
            yield Finding("SASH_TOKENIZERS", "problem", str(error), "put a tokenizer.json or tiktoken's ranks there")
        else:
            yield Finding("SASH_TOKENIZERS", "good", f"{each.name} counts for models with that name ({each.source})")
    if folder and not files:
        yield Finding(
            "SASH_TOKENIZERS", "advice", f"no vocabulary in {folder}", "add <name>.json or <name>/tokenizer.json"
        )


def judge_tokeniser(name: str, wrong: int) -> Finding:
    """Return the finding about the tokeniser, which counts ``wrong`` samples wrongly."""
    if wrong:
        change = "install the versions of requirements.lock: windows could overflow"
        return Finding("tokeniser", "problem", f"{name} counts {wrong} of {len(_PARITY)} samples wrongly", change)
    if name.startswith("toktok"):
        return Finding("tokeniser", "good", f"{name}, {len(_PARITY)} samples counted as they should be")
    change = "pip install toktok-rs: 8 to 20 times faster, and needs no download"
    return Finding("tokeniser", "advice", f"{name}; toktok-rs cannot be imported", change)


def _tokeniser() -> str:
    """Return the tokeniser in use, with its version."""
    from sash.core.counts import text  # noqa: PLC0415

    package = "toktok-rs" if vars(text)["toktok"] is not None else "tiktoken"
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return package


def _check_clock(now: datetime) -> Finding:
    if now < _EARLIEST:
        return Finding(
            "clock", "problem", f"it says {now:%Y-%m-%d}", "set this machine's clock: ids and ages follow it"
        )
    return Finding("clock", "good", f"{now:%Y-%m-%d %H:%M} UTC")


def _print(findings: list[Finding]) -> None:
    table = grid("", "what", "found", "change")
    for finding in findings:  # as Text, because rich would read brackets in a finding as markup
        table.add_row(Text(*_SIGNS[finding.verdict]), finding.subject, Text(finding.found), Text(finding.change or ""))
    out = console()
    out.print(table)
    verdicts = Counter(finding.verdict for finding in findings)
    out.print(
        f"\nproblems: {verdicts['problem']}, advice: {verdicts['advice']}"
        if verdicts.keys() - {"good"}
        else "\nAll is well."
    )
