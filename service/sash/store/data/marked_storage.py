"""Object storage that carries the mark of this store. One that does not is away: another disk, or no disk at all.

::

    sash-store/<name>       object   the mark, in the storage
    sash:{media}:store      string   the name of this store's objects
    sash:{media}:marked     string   there since the storage has carried the mark

A folder on which no disk is mounted looks like an empty one. So the mark is written once, at the first start, with the
folder itself; from then on it must be there. A folder is looked at before and after each write and each erasure, which costs
no more than a file's status. A bucket is looked at every ``_FRESH_SECONDS``, beside the requests. A read that finds nothing
looks whether the storage is there at all.

A storage can be there and refuse to write. So a bucket is tried at the first start and every ten minutes: an object is
written, read, listed and erased. A call that failed is noted as a trial that failed, and the storage is tried until it
serves.

After a move, or a loss of all objects, a file of this name, written by hand, says that this is the storage now.
"""

import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import datetime
from typing import Final

from sash.problems import Problem, StoreUnavailable
from sash.store.data.layout import PREFIX, new_name
from sash.store.data.object_storage import ObjectStorage, StoredObject, try_objects
from sash.store.data.storage_answers import told
from sash.store.redis.client import Client

STORE: Final = f"{PREFIX}{{media}}:store"
MARKED: Final = f"{PREFIX}{{media}}:marked"
_NAMES: Final = "sash-store"
_CONTENT: Final = b"Pictures and files of one store of Sash.\n"
_FRESH_SECONDS: Final = 10.0
_TRIED_SECONDS: Final = 600.0


class MarkedStorage:
    """The object storage of one store. Every method raises StoreUnavailable where the storage is away."""

    def __init__(self, client: Client, objects: ObjectStorage) -> None:
        self._client = client
        self._objects = objects
        self._mark = ""
        self._seen = -_FRESH_SECONDS
        self._tried = -_TRIED_SECONDS
        self._away = ""
        self._refused = ""

    @property
    def away(self) -> str:
        """Why the storage could not be used when it was last looked at or asked; empty where it could."""
        return self._away or self._refused

    async def put(self, path: str, content: bytes) -> None:
        """Write an object, durably. Raises StoreFull."""
        async with self._there():
            await self._objects.put(path, content)

    async def get(self, path: str) -> memoryview | None:
        """Return an object; None where the storage is there, and the object is not."""
        with self._noting():
            found = await self._objects.get(path)
        if found is None:
            await self.look()
        return found

    async def delete(self, paths: Iterable[str]) -> None:
        """Remove objects; those that are not there are no error."""
        async with self._there():
            await self._objects.delete(paths)

    async def delete_unfinished(self, prefix: str, before: datetime) -> int:
        """Remove what a process that was killed left of objects that it wrote. Returns their number."""
        async with self._there():
            return await self._objects.delete_unfinished(prefix, before)

    async def list(self, prefix: str = "") -> AsyncIterator[Sequence[StoredObject]]:
        """Yield the objects whose paths begin with these whole parts, some hundreds at a time."""
        await self.look()
        async for batch in self._objects.list(prefix):
            yield batch
        await self.look()

    async def is_alone(self) -> bool:
        """Whether the storage has the objects of this store alone, as the store itself names it."""
        (name,) = await self._client.commands([("GET", STORE)])
        marks = [each.path async for batch in self.list(_NAMES) for each in batch if each.path.count("/") == 1]
        return name is not None and marks == [_mark_of(name)]

    @asynccontextmanager
    async def _there(self) -> AsyncIterator[None]:
        """Look at the storage before and after an action."""
        if self._objects.folder is None and time.monotonic() < self._seen + _FRESH_SECONDS:
            with self._noting():
                yield
            return
        await self.look()
        with self._noting():
            yield
        if self._objects.folder is not None:
            await self.look()

    async def look(self) -> None:
        """Return where the storage carries the mark. At the first start of a store, write it."""
        begins = await _expected(self._client) if not self._mark else None
        try:
            if begins is not None:
                self._mark = await self._begun(*begins)
            elif not await self._objects.has(self._mark):
                raise self._without(self._mark)
        except StoreUnavailable as problem:
            self._away, self._seen = told(problem), -_FRESH_SECONDS
            raise
        self._away, self._seen = "", time.monotonic()

    async def try_in_turn(self) -> None:
        """Try the storage where a call has failed, and a bucket every ten minutes. Raises StoreUnavailable, StoreFull."""
        is_due = self._objects.folder is None and time.monotonic() > self._tried + _TRIED_SECONDS
        if is_due or self._refused:
            with self._noting():
                await try_objects(self._objects, f"{_NAMES}/trial")
            self._tried, self._refused = time.monotonic(), ""

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """Note why a call has failed."""
        try:
            yield
        except StoreUnavailable as problem:
            self._refused = told(problem)
            raise

    async def _begun(self, mark: str, is_marked: bool) -> str:  # noqa: FBT001 - as the store says
        """Return the mark, which the storage carries; it is written where none is expected."""
        if not await self._objects.has(mark):
            if is_marked:
                raise self._without(mark)
            await self._objects.make()
            await self._objects.put(mark, _CONTENT)
        if not is_marked:
            await self._client.commands([("SET", MARKED, 1)])
        return mark

    def _without(self, mark: str) -> StoreUnavailable:
        return StoreUnavailable(without_mark(self._objects.place, mark))


def without_mark(place: str, mark: str) -> str:
    """Return why a storage without the mark is not used, and what to do."""
    return (
        f"The object storage is away: {place} has no {mark}. Mount its disk, or correct SASH_MEDIA_URL; if this is its "
        "place now, make an empty file of that name there."
    )


async def expected_mark(client: Client) -> str:
    """Return the mark that the storage of a store must carry; empty before its first start."""
    name, marked = await client.commands([("GET", STORE), ("GET", MARKED)])
    return _mark_of(name) if name is not None and marked is not None else ""


async def _expected(client: Client) -> tuple[str, bool]:
    """Return the mark of a store, which is named now if it was not before, and whether its storage must carry it."""
    with suppress(Problem):  # a full store takes no name, and has none to take
        await client.commands([("SET", STORE, new_name(), "NX")])
    name, marked = await client.commands([("GET", STORE), ("GET", MARKED)])
    if name is None:
        raise StoreUnavailable("The store has no room for the name of its object storage.")
    return _mark_of(name), marked is not None


def _mark_of(name: bytes) -> str:
    return f"{_NAMES}/{name.decode()}"
