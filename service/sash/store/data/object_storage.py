"""Object storage for media, by obstore: a folder of files, S3 and what speaks it, Google Cloud Storage, Azure.

An object is written once, under a name that is never used again, so that it can be erased at any time after its last
message has gone. Credentials are those of the environment (``AWS_…``, ``GOOGLE_…``, ``AZURE_…``), or of the machine.
"""

import asyncio
import os
import re
import secrets
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from sash.extras import how_to_install
from sash.problems import StoreUnavailable
from sash.store.data.storage_answers import lost, problem_of, silence

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_AZURE: Final = re.compile(r"az://(?P<account>[^/]+)/(?P<container>.+)")
_UNFINISHED: Final = re.compile(r".+#[0-9]+")
"""The names of files that obstore writes, and gives the name of their object when they are whole."""
_AT_ONCE: Final = 16
_RETRIES: Final = 2


class StoredObject(NamedTuple):
    """An object's path, and when it was written."""

    path: str
    written: datetime


class ObjectStorage:
    """Objects below ``url``. Every method raises StoreUnavailable where the storage does not answer in time."""

    def __init__(self, url: str, *, timeout_seconds: float) -> None:
        self._seconds = timeout_seconds
        self.folder = folder_of(url)
        """The folder of a ``file:`` URL; None for another."""
        self.place = str(self.folder) if self.folder is not None else url
        """What people call it."""
        self._opened = _folder(self.folder) if self.folder is not None else _bucket(url, timeout_seconds)
        self._slots = asyncio.Semaphore(_AT_ONCE)

    @property
    def _store(self) -> "ObjectStore":
        """The storage. A folder is opened each time, because its path may lead elsewhere by now.

        Raises FileNotFoundError where the folder is not there.
        """
        opened = _folder(self.folder) if self.folder is not None else self._opened
        if opened is None:
            raise FileNotFoundError(self.place)
        return opened

    async def make(self) -> None:
        """Make the folder, where it is one."""
        async with self._answering():
            if self.folder is not None:
                await asyncio.to_thread(self.folder.mkdir, parents=True, exist_ok=True)

    async def has(self, path: str) -> bool:
        """Return whether an object is there."""
        import obstore  # noqa: PLC0415

        async with self._answering():
            if self.folder is not None:
                return await asyncio.to_thread((self.folder / path).is_file)
            try:
                await obstore.head_async(self._store, path)
            except FileNotFoundError:
                return False
            return True

    async def put(self, path: str, content: bytes) -> None:
        """Write an object, durably. Raises StoreFull."""
        import obstore  # noqa: PLC0415 - the extra may be missing

        async with self._slots, self._answering():
            await obstore.put_async(self._store, path, content, use_multipart=False)
            if self.folder is not None:
                await asyncio.to_thread(_sync, self.folder / path, self.folder)

    async def get(self, path: str) -> memoryview | None:
        """Return an object, without a copy of its bytes; None where there is none."""
        import obstore  # noqa: PLC0415

        async with self._slots, self._answering():
            try:
                found = await obstore.get_async(self._store, path)
                return memoryview(await found.bytes_async())
            except FileNotFoundError:
                return None

    async def delete(self, paths: Iterable[str]) -> None:
        """Remove objects; those that are not there are no error."""
        await asyncio.gather(*map(self._delete, paths))

    async def _delete(self, path: str) -> None:
        import obstore  # noqa: PLC0415

        async with self._slots, self._answering():
            try:
                await obstore.delete_async(self._store, path)
            except FileNotFoundError:
                return

    async def list(self, prefix: str = "") -> AsyncIterator[Sequence[StoredObject]]:
        """Yield the objects whose paths begin with these whole parts, some hundreds at a time."""
        import obstore  # noqa: PLC0415

        async with self._answering():
            batches = obstore.list(self._store, prefix=prefix or None, chunk_size=500).__aiter__()
        while True:
            async with self._answering():
                try:
                    batch: Any = await anext(batches)
                except (StopAsyncIteration, FileNotFoundError):
                    return
            yield [StoredObject(each["path"], each["last_modified"]) for each in batch]

    async def delete_unfinished(self, prefix: str, before: datetime) -> int:
        """Remove what a process that was killed left of objects that it wrote into a folder. Returns their number.

        They are last written to ``before``, and no list has them. Other storage has none.
        """
        if self.folder is None:
            return 0
        # Without the deadline of a request: a large folder takes longer to go through.
        return await asyncio.to_thread(_delete_unfinished, self.folder / prefix, before.timestamp())

    @asynccontextmanager
    async def _answering(self) -> AsyncIterator[None]:
        """Turn what goes wrong into a problem. What the storage says may have a conversation's id, and is not shown."""
        from obstore.exceptions import BaseError  # noqa: PLC0415

        try:
            async with asyncio.timeout(self._seconds):
                yield
        except TimeoutError:
            raise silence(self._seconds) from None
        except FileNotFoundError as error:
            raise lost(error) from None
        except (BaseError, OSError) as error:
            raise problem_of(error) from None


def open_objects(url: str | None, timeout_seconds: float) -> ObjectStorage | None:
    """Return the object storage at a URL; None for none. Raises ValueError with a line about SASH_MEDIA_URL."""
    if url is None:
        return None
    try:
        return ObjectStorage(url, timeout_seconds=timeout_seconds)
    except ImportError:
        line = f"SASH_MEDIA_URL needs an extra: unset it, or {how_to_install('media')}"
    except Exception as error:  # noqa: BLE001 - obstore's own, and those of folders
        said = str(error).partition("\n")[0]
        line = f"SASH_MEDIA_URL is {url!r}, which cannot be used: {said}"
    raise ValueError(line)


async def try_objects(objects: ObjectStorage, place: str = "sash-doctor") -> None:
    """Write, read, list and erase an object in this place. Raises StoreUnavailable, StoreFull."""
    path, content = f"{place}/{secrets.token_hex(8)}", b"Written to try the storage.\n"
    await objects.put(path, content)
    found = await objects.get(path)
    listed = [each.path async for batch in objects.list(place) for each in batch]
    await objects.delete([path])
    if found is None or bytes(found) != content or path not in listed:
        raise StoreUnavailable("The object storage does not give back what was written.")


def folder_of(url: str) -> Path | None:
    """Return the folder that a ``file:`` URL names; None for another URL."""
    parts = urlsplit(url)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def _folder(folder: Path) -> "ObjectStore | None":
    """Return the storage in a folder; None where there is no folder. Raises NotADirectoryError where there cannot be one."""
    from obstore.store import LocalStore  # noqa: PLC0415

    found = next(each for each in (folder, *folder.parents) if each.exists())
    if not found.is_dir():
        raise NotADirectoryError(f"{found} is no folder")
    return LocalStore(folder, automatic_cleanup=True) if found == folder else None


def _delete_unfinished(folder: Path, before: float) -> int:
    """Remove unfinished files that were last written to before a time, in seconds since 1970. Returns their number.

    What vanishes meanwhile, or cannot be removed, is passed over.
    """
    found = 0
    for place, _, names in os.walk(folder):
        for name in filter(_UNFINISHED.fullmatch, names):
            path = Path(place, name)
            with suppress(OSError):
                if path.stat().st_mtime < before:
                    path.unlink()
                    found += 1
    return found


def _bucket(url: str, seconds: float) -> "ObjectStore":
    from obstore.store import from_url  # noqa: PLC0415

    wait = timedelta(seconds=seconds)
    named = _AZURE.fullmatch(url)  # obstore's URL has no account
    return from_url(
        f"az://{named['container']}" if named else url,
        config={"account_name": named["account"]} if named else None,
        client_options={"timeout": wait, "connect_timeout": wait, "allow_http": True},
        retry_config={"max_retries": _RETRIES, "retry_timeout": wait},
    )


def _sync(path: Path, root: Path) -> None:
    """Write a file and the folders on the way to it to the disk."""
    for each in (path, *path.parents):
        handle = os.open(each, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
        if each == root:
            return
