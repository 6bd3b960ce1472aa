"""Messages that an older version measured: ``sash doctor`` finds them, and ``--repair`` measures them again."""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sash.commands.store import refuse, with_running_store, with_store
from sash.commands.terminal import progress_bar
from sash.problems import CannotOpen, Problem
from sash.store.redis.findings import Finding

if TYPE_CHECKING:
    from sash.settings import Settings
    from sash.store.data.remeasuring import Repair, Repaired
    from sash.store.redis.client import Client

_SAMPLE = 200
_SUBJECT = "message counts"


def check_counts(settings: "Settings") -> Iterator[Finding]:
    """Yield one finding, from a sample: whether an older version measured messages. Yield nothing without conversations."""
    try:
        checked = with_running_store(settings, lambda client, settings: _repair(client, settings).sample(_SAMPLE))
    except Problem as why:  # other findings report a store that cannot be reached or denies commands
        if "+scan" in why.detail:
            yield Finding(_SUBJECT, "advice", why.detail, "ACL SETUSER the store's user with +scan")
        return
    looked, older = checked or (0, 0)
    if older:
        found = f"{older} of {looked} conversations have messages that an older version counted"
        yield Finding(_SUBJECT, "advice", f"{found}: each window counts them again", "sash doctor --repair")
    elif looked:
        yield Finding(_SUBJECT, "good", f"counted by this version; conversations checked: {looked}")


def repair_counts() -> Iterator[Finding]:
    """Measure such messages of every conversation again, and store the records. Yields findings on work and failures."""
    totals, failed = with_store(_repair_all)
    found = f"conversations checked: {totals['conversations']:,}, messages counted again: {totals['messages']:,}"
    yield Finding(_SUBJECT, "good", f"{found}, change of their totals: {totals['tokens']:+,} tokens (o200k_base)")
    locked = [each for each in failed if isinstance(each.problem, CannotOpen)]
    damaged = [each for each in failed if not isinstance(each.problem, CannotOpen)]
    if locked:
        found = f"{len(locked)} conversations do not open, such as {locked[0].name}: {locked[0].problem}"
        yield Finding(_SUBJECT, "advice", found, "add their key to SASH_ENCRYPTION_KEY, and repair again")
    if damaged:
        found = f"{len(damaged)} conversations are damaged, such as {damaged[0].name}"
        yield Finding(_SUBJECT, "problem", found, "restore them from a backup, or erase them")


async def _repair_all(client: "Client", settings: "Settings") -> "tuple[Counter[str], list[Repaired]]":
    """Repair every conversation, with a progress bar on a terminal. Returns the totals, and what could not be repaired."""
    from sash.store.redis.versions import stored_layout, too_new  # noqa: PLC0415

    if newer := too_new(await stored_layout(client)):
        refuse([newer])
    repair, totals, failed = _repair(client, settings), Counter[str](), []
    with progress_bar() as progress:
        task = progress.add_task("conversations", total=None if progress.disable else await repair.count())
        async for each in repair.all():
            totals.update(conversations=1, messages=each.messages, tokens=each.tokens[0])
            if each.problem is not None:
                failed.append(each)
            progress.advance(task)
    return totals, failed


def _repair(client: "Client", settings: "Settings") -> "Repair":
    from sash.store.data.datakeys import DataKeys  # noqa: PLC0415
    from sash.store.data.remeasuring import Repair  # noqa: PLC0415

    return Repair(client, DataKeys(client, settings.encryption_key))
