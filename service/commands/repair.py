"""Messages that an older version measured: ``sash doctor`` finds them, and ``--repair`` measures them again."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from service.commands.store import refuse, with_running_store, with_store
from service.commands.terminal import progress_bar
from service.problems import CannotOpen, Problem
from service.store.findings import Finding

if TYPE_CHECKING:
    from service.settings import Settings
    from service.store.client import Client
    from service.store.repair import Repair, Repaired

_SAMPLE = 200
_SUBJECT = "message counts"


def check_counts(settings: "Settings") -> Iterator[Finding]:
    """Yield one finding, from a sample: whether an older version measured messages. Yield nothing without conversations."""

    async def act(client: "Client", settings: "Settings") -> tuple[int, int]:
        return await _repair(client, settings).sample(_SAMPLE)

    try:
        looked, older = with_running_store(settings, act) or (0, 0)
    except Problem as why:  # other findings report a store that cannot be reached or denies commands
        if "+scan" in why.detail:
            yield Finding(_SUBJECT, "advice", why.detail, "ACL SETUSER the store's user with +scan")
        return
    if older:
        found = f"{older} of {looked} conversations have messages that an older version counted"
        yield Finding(_SUBJECT, "advice", f"{found}: each window counts them again", "sash doctor --repair")
    elif looked:
        yield Finding(_SUBJECT, "good", f"counted by this version; conversations checked: {looked}")


def repair_counts() -> Iterator[Finding]:
    """Measure such messages of every conversation again, and store the records. Yields findings on work and failures."""
    done = with_store(_repair_all)
    found = f"conversations checked: {done.conversations:,}, messages counted again: {done.messages:,}"
    yield Finding(_SUBJECT, "good", f"{found}, change of their totals: {done.tokens:+,} tokens (o200k_base)")
    if done.locked:
        found = f"{len(done.locked)} conversations do not open, such as {done.locked[0].name}: {done.locked[0].problem}"
        yield Finding(_SUBJECT, "advice", found, "add their key to SASH_ENCRYPTION_KEY, and repair again")
    if done.damaged:
        found = f"{len(done.damaged)} conversations are damaged, such as {done.damaged[0].name}"
        yield Finding(_SUBJECT, "problem", found, "restore them from a backup, or erase them")


class _Done:
    """The totals of a repair."""

    def __init__(self) -> None:
        self.conversations = self.messages = self.tokens = 0
        self.locked: list[Repaired] = []
        self.damaged: list[Repaired] = []

    def add(self, each: "Repaired") -> None:
        self.conversations += 1
        self.messages += each.messages
        self.tokens += each.tokens[0]
        if each.problem is not None:
            (self.locked if isinstance(each.problem, CannotOpen) else self.damaged).append(each)


async def _repair_all(client: "Client", settings: "Settings") -> _Done:
    """Repair every conversation, with a progress bar on a terminal."""
    from service.store.versions import stored_layout, too_new  # noqa: PLC0415

    if newer := too_new(await stored_layout(client)):
        refuse([newer])
    repair, done = _repair(client, settings), _Done()
    with progress_bar() as progress:
        task = progress.add_task("conversations", total=None if progress.disable else await repair.count())
        async for each in repair.all():
            done.add(each)
            progress.advance(task)
    return done


def _repair(client: "Client", settings: "Settings") -> "Repair":
    from service.store.datakeys import DataKeys  # noqa: PLC0415
    from service.store.repair import Repair  # noqa: PLC0415

    return Repair(client, DataKeys(client, settings.encryption_key))
