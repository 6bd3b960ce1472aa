"""Direct access to the stores for the model: time that passes, writes that are lost, values to search."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import redis
from rigs.entries import indexed_values
from rigs.storages import MARKED

from sash.store.data.layout import PREFIX, keys_of


class Snapshot(NamedTuple):
    """Keys with their remaining time in milliseconds (0 for no expiry) and their values as DUMP returns them; and the
    contents of objects by path."""

    keys: Sequence[tuple[bytes, int, bytes]] = ()
    objects: Mapping[str, bytes] = MappingProxyType({})


_FOR_GOOD = b"/keys/"
"""Keys of encryption at rest, which the model never loses: without them no text in the store can be read."""


class Behind:
    """A plain client of the store, on one server or a cluster, and the folder of objects if pictures are kept there."""

    def __init__(self, url: str, tenants: Iterable[str], folder: Path | None = None) -> None:
        self._tenants = tuple(tenants)
        self._folder = folder
        self._vanished: tuple[str, bytes] | None = None
        if "+cluster" in url:
            host, _, port = url.partition("://")[2].partition(",")[0].partition(":")
            self.client: Any = redis.RedisCluster(host=host, port=int(port))
        else:
            self.client = redis.Redis.from_url(url, socket_timeout=60)

    def close(self) -> None:
        self.client.close()

    def keys(self) -> list[bytes]:
        """Return every key of the tenants, except those of encryption."""
        found = [key for tenant in self._tenants for key in self._scan(f"{PREFIX}{{{tenant}/*")]
        return sorted(key for key in found if _FOR_GOOD not in key)

    def _scan(self, pattern: str) -> Iterable[bytes]:
        return self.client.scan_iter(pattern, count=1000)

    def keys_of(self, name: str) -> list[bytes]:
        """Return every key of the conversation ``tenant/conversation``."""
        return sorted(self._scan(f"{PREFIX}{{{name}}}:*"))

    def words(self, name: str) -> list[bytes]:
        """Return the indexed words of a conversation's messages."""
        key = keys_of(name).word_blocks
        count = int(self.client.hget(key, "n") or 0)
        return indexed_values(self.client, key, 1, count)

    def media(self, name: str) -> dict[str, int]:
        """Return the number of messages that have each picture of a conversation, by its stored name in hex."""
        fields = self.client.hgetall(keys_of(name).media)
        texts = {field[1:] for field in fields if len(field) > 16}
        about = {field: value.split() for field, value in fields.items() if len(field) == 16}
        assert texts == {field for field, (_, _, place, _) in about.items() if place == b"-"}
        assert self._paths(name, about) <= self.objects()
        return {field.hex(): int(count) for field, (count, *_) in about.items()}

    @staticmethod
    def _paths(name: str, about: dict[bytes, list[bytes]]) -> set[str]:
        """Return the paths of the objects that these facts name."""
        places = {field: place for field, (_, _, place, _) in about.items() if place != b"-"}
        return {f"{name}/{field.hex()}-{place.decode()}" for field, place in places.items()}

    def objects(self) -> set[str]:
        """Return the paths of all pictures that are objects."""
        if self._folder is None:
            return set()
        found = (str(path.relative_to(self._folder)) for path in self._folder.rglob("*") if path.is_file())
        return {path for path in found if not path.startswith(MARKED)}

    def vanish(self, name: str, which: int) -> str | None:
        """Take one of the objects that a conversation's messages have from the folder, and return its path, or None.

        Where the store lost its newest writes, there are others, which no message has.
        """
        fields = self.client.hgetall(keys_of(name).media)
        there = sorted(self._paths(name, {field: each.split() for field, each in fields.items() if len(field) == 16}))
        if not there or self._folder is None:
            return None
        path = there[which % len(there)]
        self._vanished = path, (self._folder / path).read_bytes()
        (self._folder / path).unlink()
        return path

    def bring_back(self) -> None:
        """Write the object that vanished, as from a copy of the storage."""
        if self._vanished is not None and self._folder is not None:
            path, content = self._vanished
            (self._folder / path).write_bytes(content)
            self._vanished = None

    def loose(self) -> set[str]:
        """Return the paths of the objects that no message has."""
        there = self.objects()
        for name in {path.rpartition("/")[0] for path in there}:
            fields = self.client.hgetall(keys_of(name).media)
            there -= self._paths(name, {field: each.split() for field, each in fields.items() if len(field) == 16})
        return there

    def times_left(self, name: str) -> dict[bytes, int]:
        """Return the milliseconds left for each key that expires with a conversation; -1 for a key without expiry."""
        kept = [key.encode() for key in keys_of(name).kept]
        pairs = zip(kept, self._each("pttl", kept), strict=True)
        return {key: left for key, left in pairs if left != -2}

    def pass_time(self, name: str, milliseconds: int) -> None:
        """Reduce the remaining time of each key of a conversation by ``milliseconds``, all at once."""
        keys = self.keys_of(name)
        left = self._each("pttl", keys)
        with self.client.pipeline(transaction=True) as pipe:
            for key, rest in zip(keys, left, strict=True):
                if rest > 0:
                    pipe.pexpire(key, max(0, rest - milliseconds))
            pipe.execute()

    def remember(self) -> Snapshot:
        """Return a snapshot of the tenants' keys, and of the objects."""
        keys = self.keys()
        pairs = zip(keys, self._each("pttl", keys), self._each("dump", keys), strict=True)
        kept = [(key, max(0, left), value) for key, left, value in pairs if value is not None]
        folder = self._folder
        return Snapshot(kept, {path: (folder / path).read_bytes() for path in self.objects()} if folder else {})

    def restore(self, snapshot: Snapshot) -> None:
        """Replace the tenants' keys with those of a snapshot, as in a store that lost its newest writes.

        Objects that were erased since come back, as from a copy of them; newer ones stay.
        """
        self.clear()
        with self.client.pipeline(transaction=False) as pipe:
            for key, left, value in snapshot.keys:
                pipe.restore(key, left, value)
            pipe.execute()
        for path, content in snapshot.objects.items() if self._folder else ():
            (self._folder / path).parent.mkdir(parents=True, exist_ok=True)
            (self._folder / path).write_bytes(content)

    def clear(self) -> None:
        """Delete the tenants' keys."""
        self._each("unlink", self.keys())

    def values(self) -> dict[bytes, bytes]:
        """Return the whole content of each key as text, to search it for what must not be there."""
        keys = self.keys()
        kinds = self._each("type", keys)
        with self.client.pipeline(transaction=False) as pipe:
            for key, kind in zip(keys, kinds, strict=True):
                match kind:
                    case b"list":
                        pipe.lrange(key, 0, -1)
                    case b"hash":
                        pipe.hgetall(key)
                    case b"zset":
                        pipe.zrange(key, 0, -1)
                    case _:
                        pipe.get(key)
            return {key: repr(value).encode() for key, value in zip(keys, pipe.execute(), strict=True)}

    def unending(self) -> list[bytes]:
        """Return keys that never expire, except owners' lists, which are hints and may outlive their conversations."""
        keys = [key for key in self.keys() if b"/owner/" not in key]
        return [key for key, left in zip(keys, self._each("pttl", keys), strict=True) if left == -1]

    def _each(self, command: str, keys: Sequence[bytes]) -> list[Any]:
        with self.client.pipeline(transaction=False) as pipe:
            for key in keys:
                getattr(pipe, command)(key)
            return list(pipe.execute())
