"""Erase objects that no message has any more, however often object storage or a process fails.

::

    sash:{media}:erasures   sorted set   what is to be erased -> when it is due, milliseconds since 1970: an object's path,
                                         or tenant/conversation and when the erasure began
    sash:{media}:swept      string       expires when all objects are to be looked through again

Where object storage is away (``marked_storage.py``), every erasure waits.

An erasure is noted before the script that takes messages away. The script names the objects that no message has then, and
they are erased at once. Where that fails, each is noted by its path, and tried again until it is gone. Where the process
dies in between, the first note stays: when it is due, the conversation's older objects without a message are erased.

An object that was written for an append which then failed, or whose conversation expired, is swept once it is a day old,
and so is a file of which a killed process wrote a part. The sweep goes through all objects. It leaves what is not Sash's.
It does nothing where another store's objects are in the same place: a new and empty store must not erase what belongs to
messages of another.
"""

import asyncio
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

from sash.core.stored.details import decode_details
from sash.problems import Problem, StoreFull, StoreUnavailable
from sash.store.data.branches import read_content
from sash.store.data.entries import wall_ms
from sash.store.data.layout import PREFIX, Target, keys_of, new_name, staged_keys
from sash.store.data.marked_storage import MarkedStorage
from sash.store.data.media_texts import about_of
from sash.store.data.object_storage import StoredObject
from sash.store.data.write_scripts import Freed
from sash.store.redis.client import Client
from sash.store.redis.lua import ScriptCall

FreedT = TypeVar("FreedT", bound=Freed | None)

ERASURES: Final = f"{PREFIX}{{media}}:erasures"
_SWEPT: Final = f"{PREFIX}{{media}}:swept"
_OBJECT: Final = re.compile(r"([^/]+/[^/]+)/([0-9a-f]{32})-([A-Za-z0-9_-]{12})")
_GRACE_MS: Final = 10 * 60 * 1000
"""Longer than a request takes: an append whose objects are written by then has ended."""
UNUSED: Final = timedelta(days=1)
"""The age at which an object without a message is swept."""
_SWEEP_MS: Final = 6 * 3600 * 1000
_PAUSE_SECONDS: Final = 5.0
_BATCH: Final = 64
_STEP: Final = 1_000
COUNTED: Final = 1_000
"""The most waiting erasures that are counted, because the store sends their names."""
_AT_ONCE_SECONDS: Final = 2.0
"""The longest that an erasure waits for object storage; it goes on in the background."""


class MediaErasures:
    """The erasures of a deployment. Without ``objects`` there is nothing to erase beside the store."""

    def __init__(self, client: Client, objects: MarkedStorage | None) -> None:
        self._client = client
        self._objects = objects
        self.waiting = None if objects is None else 0
        """How many erasures were due and not done when ``run`` last looked; None without object storage."""

    @property
    def away(self) -> str | None:
        """Why object storage cannot be used; empty where it can, None without one."""
        return None if self._objects is None else self._objects.away

    async def after(self, target: Target, call: ScriptCall[FreedT], *, has_media: bool | None = None) -> FreedT:
        """Return the result of a script that takes messages away, once their objects are erased, or noted for it.

        ``has_media``: whether the messages have some; None where that is not known. Where they have, a reply without objects
        may follow one that was lost.
        """
        if self._objects is None or has_media is False:
            return await self._client.run(call)
        noted = await self.note(target)
        freed = await self._client.run(call)
        is_known = freed is None or freed.version  # else it was damaged: its objects are looked for later
        if is_known:
            with suppress(StoreUnavailable, StoreFull):  # the change is made; a note that stays is looked at once more
                await self.erase(target, freed.objects if freed is not None else ())
                if freed is None or freed.objects or not has_media:
                    await self.forget(noted)
        return freed

    async def note(self, target: Target) -> str:
        """Note that messages are taken away: the objects that no message has are looked for when it is due."""
        noted = f"{target.name} {wall_ms()} {new_name()}"
        if self._objects is not None:
            await self._client.commands([("ZADD", ERASURES, wall_ms() + _GRACE_MS, noted)], erases=True)
        return noted

    async def forget(self, noted: str) -> None:
        """Forget a note, because what was freed is erased, or noted by itself."""
        if self._objects is not None:
            await self._client.commands([("ZREM", ERASURES, noted)])

    async def erase(self, target: Target, objects: Sequence[str]) -> None:
        """Erase objects of a conversation that no message has, or note them, so that they are erased later."""
        if not objects or self._objects is None:
            return
        paths = [f"{target.name}/{each}" for each in objects]
        try:
            async with asyncio.timeout(_AT_ONCE_SECONDS):
                await self._objects.delete(paths)
        except (Problem, TimeoutError):
            words = [word for path in paths for word in (wall_ms(), path)]
            await self._client.commands([("ZADD", ERASURES, *words)], erases=True)

    async def run(self) -> None:
        """Erase what is due, sweep what no message has, and count what waits, again and again."""
        while self._objects is not None:
            try:
                await self._objects.look()
                await self.erase_due(wall_ms())
                await self._sweep_in_turn()
                await self._objects.try_in_turn()
            except Problem:
                pass  # the store or object storage is down: later
            with suppress(Problem):
                self.waiting = await self._due()
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _due(self) -> int:
        """Return how many erasures are due, ``COUNTED`` at most."""
        words = ("ZRANGE", ERASURES, "-inf", wall_ms(), "BYSCORE", "LIMIT", 0, COUNTED)
        (due,) = await self._client.commands([words])
        return len(due)

    async def erase_due(self, now_ms: int) -> None:
        """Erase what was due by then. Raises StoreUnavailable at the first that cannot be erased."""
        while self._objects is not None:
            words = ("ZRANGE", ERASURES, "-inf", now_ms, "BYSCORE", "LIMIT", 0, _BATCH)
            (due,) = await self._client.commands([words])
            if not due:
                return
            noted = [each.decode() for each in due]
            await self._objects.delete([each for each in noted if " " not in each])
            for each in noted:
                if " " in each:
                    name, began_ms, _ = each.split(" ")
                    await self._erase_unused(f"{name}/", datetime.fromtimestamp(int(began_ms) / 1000, UTC))
            await self._client.commands([("ZREM", ERASURES, *noted)])

    async def sweep(self, now: datetime) -> int:
        """Erase the objects of which no message has had use for a day. Returns their number. Raises StoreUnavailable."""
        if self._objects is None or not await self._objects.is_alone():
            return 0
        return await self._erase_unused("", now - UNUSED)

    async def _erase_unused(self, prefix: str, before: datetime) -> int:
        """Erase objects that were written ``before`` and that no message has."""
        assert self._objects is not None  # noqa: S101 - asked before
        erased = await self._objects.delete_unfinished(prefix, before)
        async for batch in self._objects.list(prefix):
            unused = await self._unused(each for each in batch if each.written < before)
            await self._objects.delete(unused)
            erased += len(unused)
        return erased

    async def _unused(self, objects: Iterable[StoredObject]) -> list[str]:
        """Return the paths of Sash's objects that no message has."""
        by_conversation: dict[str, list[tuple[str, bytes, str]]] = defaultdict(list)
        for each in objects:
            if found := _OBJECT.fullmatch(each.path):
                by_conversation[found[1]].append((each.path, bytes.fromhex(found[2]), found[3]))
        unused: list[str] = []
        for conversation, its in by_conversation.items():
            key = keys_of(conversation).media
            # What is staged is looked at first: one that is published meanwhile is then found under its own name.
            *staged, fields, stands = await self._client.commands(
                [
                    *(("HEXISTS", staged_keys(conversation, place).media, name) for _, name, place in its),
                    ("HMGET", key, *(name for _, name, _ in its)),
                    ("EXISTS", key),
                ]
            )
            logged = set() if stands else await self._logged(conversation)
            for (path, name, place), value, is_staged in zip(its, fields, staged, strict=True):
                is_held = about_of(name, value).place == place if value is not None else (name, place) in logged
                if not (is_held or is_staged):
                    unused.append(path)
        return unused

    async def _logged(self, conversation: str) -> set[tuple[bytes, str]]:
        """Return the names and places of the media that the messages of a conversation and its branches have, whose own hash
        is missing."""
        keys, first = keys_of(conversation), 0
        key = keys.details
        (fields,) = await self._client.commands([("HGETALL", keys.branches)])
        contents = [value for name, value in zip(fields[::2], fields[1::2], strict=True) if name.isdigit()]
        sealed = [decode_details(each.details) for content in contents for each in read_content(content)]
        found = {(each.name, each.place) for details in sealed for each in details.media}
        while True:
            (details,) = await self._client.commands([("LRANGE", key, first, first + _STEP - 1)])
            found |= {(each.name, each.place) for packed in details for each in decode_details(packed).media}
            if len(details) < _STEP:
                return found
            first += _STEP

    async def _sweep_in_turn(self) -> None:
        """Sweep, if no process of the deployment has done so for six hours. Where it fails, another one tries."""
        (said,) = await self._client.commands([("SET", _SWEPT, wall_ms(), "NX", "PX", _SWEEP_MS)])
        if said is None:
            return
        try:
            await self.sweep(datetime.now(UTC))
        except Problem:
            await self._client.commands([("UNLINK", _SWEPT)])
            raise
