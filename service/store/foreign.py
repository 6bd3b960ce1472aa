"""Lists in another application's Redis, read and never written: what ``sash import`` takes over."""

import re
from collections.abc import Iterator
from typing import NamedTuple, cast

from redis import Redis
from redis.exceptions import RedisError

_PAGE = 1000
_TIMEOUT_SECONDS = 10


class ForeignStoreFailed(Exception):  # noqa: N818 - it reads as what happened
    """The other Redis cannot be read."""


class ForeignList(NamedTuple):
    """A list: its key, what the pattern's stars stood for, and its elements."""

    key: str
    matched: str
    values: list[bytes]


def read_lists(url: str, pattern: str) -> Iterator[ForeignList]:
    """The lists whose keys match, by key; keys of other kinds are passed over. Raises ForeignStoreFailed."""
    try:
        with Redis.from_url(url, socket_timeout=_TIMEOUT_SECONDS, socket_connect_timeout=_TIMEOUT_SECONDS) as client:
            for key in sorted(client.scan_iter(match=pattern, count=_PAGE, _type="list")):
                name = key.decode("utf-8", "replace")
                yield ForeignList(name, _matched(pattern, name), list(_elements(client, key)))
    except (RedisError, ValueError, OSError) as error:
        raise ForeignStoreFailed(f"the Redis to import from cannot be read: {error}") from None


def _elements(client: "Redis", key: bytes) -> Iterator[bytes]:
    """Page by page: no reply as large as a whole history."""
    start = 0
    while page := client.lrange(key, start, start + _PAGE - 1):
        yield from cast("list[bytes]", page)
        start += len(page)


def _matched(pattern: str, name: str) -> str:
    """What the stars of a pattern stood for in a name, or the whole name when there is no telling."""
    expression = "(.*)".join(re.escape(part) for part in pattern.split("*"))
    found = re.fullmatch(expression, name, re.DOTALL)
    return "-".join(found.groups()) or name if found else name
