"""The contents of media: pictures and files that left their messages (core/stored/split_media.py), once each.

::

    sash:{tenant/conversation}:media   hash   name -> messages that have it, bytes of the picture itself, place, type
                                              ":" and name -> its text in the message: 0 and the text, or sealed
    tenant/conversation/name-place            the same text, as an object, where there is object storage

The name is of 16 bytes; where encryption is on, it is a digest with the tenant's key. The append script counts the messages
that have a medium, and the scripts that redact, rewind and erase drop it after the last one. So a medium lives as long as
its messages, in every step. Its place is ``-`` in the store; an object's is a random word. All objects of one
fork or import share theirs (``staging.py``), all others have their own.

An object is written before the append that names it. What no message has, is erased by ``media_erasures.py``. One that is
written again where it was lost is noted there: its last message may have been erased meanwhile.

A name in the log is no proof that the bytes are there. What is read is compared with its name, and an append that brings a
medium again writes it where it is not there, or is another. A medium without its bytes is lost: all but it is still read.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from sash.core.stored.split_media import StoredMedium, Text
from sash.problems import CannotOpen, MediumGone, NotFound, Problem, StoreUnavailable
from sash.processor import PROCESSOR
from sash.store.data import script_calls
from sash.store.data.datakeys import DataKeys
from sash.store.data.entries import NewEntry
from sash.store.data.layout import Target, new_place
from sash.store.data.marked_storage import MarkedStorage
from sash.store.data.media_erasures import MediaErasures
from sash.store.data.media_texts import HERE, About, about_of, open_text, plain_names, seal_text
from sash.store.data.replies import Made, check_history
from sash.store.data.sealing import PLAIN, AnySealer, Purpose, UnknownKey, is_sealed
from sash.store.data.stored_messages import SMALL_STEP_BYTES
from sash.store.redis.client import Client

_AT_ONCE_BYTES = 65_536
"""Texts whose names are computed on the event loop: it takes 40 µs."""


class MediaContents:
    """The contents of all conversations' media: in ``objects`` where that is given, else in the store."""

    def __init__(
        self, client: Client, data_keys: DataKeys, objects: MarkedStorage | None, erasures: MediaErasures
    ) -> None:
        self._client = client
        self._data_keys = data_keys
        self._objects = objects
        self._erasures = erasures
        self.lost: Counter[str] = Counter()
        """How often media were read that are lost: ``missing`` ones, and ``altered`` ones."""

    # ---- reading

    async def read(self, target: Target, media: Iterable[StoredMedium], *, made: Made) -> dict[bytes, Text]:
        """Return the texts of media in their messages, by their stored names, together in one round trip. Those that are
        lost are not among them.

        The store takes one for each ``SMALL_STEP_BYTES``: for many large ones at once it takes three times as long.
        ``made`` names the history that has them. Raises HistoryEdited, StoreUnavailable.
        """
        wanted = {each.name: each for each in media}
        if not wanted:
            return {}
        away = [each for each in wanted.values() if each.place]
        here = [each for each in wanted.values() if not each.place]
        stored, objects = await asyncio.gather(self._stored(target, here, made), self._away(target, away))
        if None in objects.values():
            await self._check(target, made)  # raises where they were erased meanwhile
        values = stored | objects
        found = await self._opened(target, values)
        if missing := [each for name, each in wanted.items() if name not in found]:
            found |= await self._elsewhere(target, missing)
            self._count(values, found)
        return found

    def _count(self, values: Mapping[bytes, Text | None], found: Container[bytes]) -> None:
        """Count the media that are lost; ``values`` are what the storage has of each."""
        self.lost.update(
            "missing" if value is None else "altered" for name, value in values.items() if name not in found
        )

    async def _elsewhere(self, target: Target, media: Sequence[StoredMedium]) -> dict[bytes, Text]:
        """Return the texts of media that are not where their messages say, and are in another place by now.

        A conversation whose hash of media was lost has a new place for a medium that was appended again.
        """
        names = [each.name for each in media]
        (values,) = await self._client.commands([("HMGET", target.keys.media, *names)])
        moved = [
            msgspec.structs.replace(each, place="" if place == HERE else place)
            for each, value in zip(media, values, strict=True)
            if value is not None and (place := about_of(each.name, value).place) != (each.place or HERE)
        ]
        away = await self._away(target, [each for each in moved if each.place])
        here = [b":" + each.name for each in moved if not each.place]
        (texts,) = await self._client.commands([("HMGET", target.keys.media, *here)]) if here else ([],)
        return await self._opened(target, away | {name[1:]: text for name, text in zip(here, texts, strict=True)})

    async def _check(self, target: Target, made: Made) -> None:
        """Raise HistoryEdited where a conversation's history is not the one that was ``made``."""
        (history,) = await self._client.commands([_history(target)])
        check_history(history, made)

    async def _away(self, target: Target, media: Sequence[StoredMedium]) -> dict[bytes, Text | None]:
        """Return the texts of media in object storage, by name."""
        found = await asyncio.gather(*(self._object(object_path(target, each.name, each.place)) for each in media))
        return dict(zip((each.name for each in media), found, strict=True))

    async def _stored(self, target: Target, media: Sequence[StoredMedium], made: Made) -> dict[bytes, Text | None]:
        """Return the texts of media that the store itself holds, by name. Raises HistoryEdited."""
        found: dict[bytes, Text | None] = {}
        if not media:
            return found
        step: list[tuple[Any, ...]] = []
        names: list[bytes] = []
        held = 0
        for each in media:
            if held >= SMALL_STEP_BYTES:
                found |= zip(names, await self._client.commands(step), strict=True)
                step, names, held = [], [], 0
            step.append(("HGET", target.keys.media, b":" + each.name))
            names.append(each.name)
            held += each.length
        # The history is read last: what was erased before is no damage.
        *texts, history = await self._client.commands([*step, _history(target)])
        check_history(history, made)
        return found | dict(zip(names, texts, strict=True))

    async def about(self, target: Target, digest: bytes) -> About:
        """Return a medium's facts, by the digest that clients know. Raises NotFound."""
        (identity,) = await self._client.commands([("HGET", target.keys.conversation, "id")])
        if identity is None:
            raise script_calls.no_conversation()
        sealer = await self._data_keys.sealer(target.tenant, target.name)
        for name in dict.fromkeys((sealer.digest(Purpose.MEDIA, digest), digest)):  # the second: from before encryption
            (found,) = await self._client.commands([("HGET", target.keys.media, name)])
            if found is not None:
                return about_of(name, found)
        raise _no_medium()

    async def text(self, target: Target, about: About) -> Text:
        """Return a medium's text in its message. Raises NotFound, MediumGone, StoreUnavailable."""
        text = None
        if about.place != HERE:
            text = await self._object(object_path(target, about.name, about.place))
        ((stands, here),) = await self._client.commands([("HMGET", target.keys.media, about.name, b":" + about.name)])
        if stands is None:
            raise _no_medium()
        values = {about.name: here if about.place == HERE else text}
        found = await self._opened(target, values)
        if about.name not in found:
            self._count(values, found)
            raise MediumGone(
                "The storage has lost this picture or file, or has other bytes than were stored. An append that brings it "
                "again brings it back."
            )
        return found[about.name]

    async def _object(self, path: str) -> Text | None:
        if self._objects is None:
            raise StoreUnavailable("This picture or file is in object storage: the service needs SASH_MEDIA_URL.")
        return await self._objects.get(path)

    async def _opened(self, target: Target, stored: Mapping[bytes, Text | None]) -> dict[bytes, Text]:
        """Return the texts of stored values, without those that are lost."""
        there = {name: value for name, value in stored.items() if value is not None}
        is_short = sum(map(len, there.values())) <= _AT_ONCE_BYTES
        names = plain_names(there) if is_short else await PROCESSOR.run(plain_names, there)

        async def opened(wanted: Mapping[bytes, Text]) -> dict[bytes, Text | None]:
            def read(sealer: AnySealer) -> dict[bytes, Text | None]:
                return {name: open_text(sealer, name, value, names.get(name)) for name, value in wanted.items()}

            return await self._data_keys.reading(target.tenant, target.name, read)

        try:
            texts = await opened(there)
        except CannotOpen:  # a key that one of them names is unknown
            texts = {}
            for name, value in there.items():
                with contextlib.suppress(CannotOpen):
                    texts |= await opened({name: value})
        return {name: text for name, text in texts.items() if text is not None}

    # ---- writing

    async def placed(
        self,
        target: Target,
        sealer: AnySealer,
        entries: Sequence[NewEntry],
        key: str,
        *,
        again: bool = False,
        place: str = "",
    ) -> list[NewEntry]:
        """Return entries whose media have their places. Media that are not there are written to object storage.

        ``key`` is the hash of the conversation's media. ``again``: the append found that a place had changed. ``place`` is
        that of all new objects; without it each has its own.

        Raises StoreUnavailable, StoreFull.
        """
        contents = {name: text for entry in entries for name, text in entry.contents.items()}
        lost = {name for entry in entries for name in entry.lost}
        if not (contents or lost) or (self._objects is None and not again):
            return list(entries)
        names = {name: sealer.digest(Purpose.MEDIA, name) for name in contents.keys() | lost}
        (found,) = await self._client.commands([("HMGET", key, *names.values())])
        standing = {
            name: "" if place == HERE else place
            for name, value in zip(names, found, strict=True)
            if value is not None
            for place in (about_of(name, value).place,)
        }
        fresh = {name: place or new_place() for name in names if name not in standing}
        if self._objects is None:
            fresh = dict.fromkeys(fresh, "")
        places = standing | fresh
        if self._objects is not None:
            wanted = {
                name: (names[name], object_path(target, names[name], its))
                for name, its in places.items()
                if its and name in contents
            }
            if await self._write(sealer, wanted, contents, fresh):
                await self._erasures.note(target)
        return [_placed(entry, places, standing) if entry.record.media else entry for entry in entries]

    async def _write(
        self,
        sealer: AnySealer,
        wanted: Mapping[bytes, tuple[bytes, str]],
        contents: Mapping[bytes, Text],
        fresh: Container[bytes],
    ) -> bool:
        """Write media, each by its stored name and its path, to object storage. One that is not ``fresh`` is written where
        its object is not there, or is another; returns whether one was."""
        objects = self._objects
        assert objects is not None  # noqa: S101 - asked before

        async def write(name: bytes) -> bool:
            stored, path = wanted[name]
            if name not in fresh and _is(contents[name], sealer, stored, await objects.get(path)):
                return False
            await objects.put(path, seal_text(sealer, name, contents[name]))
            return name not in fresh

        written = await asyncio.gather(*map(write, wanted), return_exceptions=True)
        for each in written:
            if isinstance(each, BaseException):
                raise each
        return any(written)

    async def discard(self, target: Target, sealer: AnySealer, entries: Iterable[NewEntry]) -> None:
        """Remove the objects that were written for entries which were refused. What is left of them is swept later."""
        await self.remove(self.written(target, sealer, entries))

    async def remove(self, paths: Collection[str]) -> None:
        """Remove objects that no message has, if object storage answers; else they are swept later."""
        if self._objects is not None and paths:
            with contextlib.suppress(Problem):
                await self._objects.delete(paths)

    @staticmethod
    def written(target: Target, sealer: AnySealer, entries: Iterable[NewEntry]) -> set[str]:
        """Return the paths of the objects that were written for placed entries."""
        return {
            object_path(target, sealer.digest(Purpose.MEDIA, each.name), each.place)
            for entry in entries
            for each in entry.record.media
            if each.place and each.name in entry.contents
        }


def _is(text: Text, sealer: AnySealer, name: bytes, value: Text | None) -> bool:
    """Return whether a stored value is this text."""
    if value is None:
        return False
    if not is_sealed(value):
        return bytes(value) == seal_text(PLAIN, name, text)
    try:
        return open_text(sealer, name, value, None) == text
    except UnknownKey:
        return False


def _history(target: Target) -> tuple[str, ...]:
    """Return the command for what names a conversation's history."""
    return ("HMGET", target.keys.conversation, "life", "edited")


def object_path(target: Target, name: bytes, place: str) -> str:
    """Return the path of a medium's object."""
    return f"{target.name}/{name.hex()}-{place}"


def _placed(entry: NewEntry, places: Mapping[bytes, str], standing: Mapping[bytes, str]) -> NewEntry:
    """Return the entry with the places of its media; it brings the text of none that stands as an object."""
    replace = msgspec.structs.replace
    media = tuple(replace(each, place=places[each.name]) for each in entry.record.media)
    contents = {name: text for name, text in entry.contents.items() if not standing.get(name)}
    return replace(entry, record=replace(entry.record, media=media), contents=contents)


def _no_medium() -> NotFound:
    return NotFound("The conversation has no such picture or file.")
