"""Read lists in another application's Redis for ``sash import``. Nothing is written."""

import re
from collections.abc import Iterator
from typing import NamedTuple, cast

from redis import Redis
from redis.exceptions import RedisError

_PAGE = 1000
_TIMEOUT_SECONDS = 10
_ATTEMPTS = 5


class ForeignStoreFailed(Exception):  # noqa: N818 - it reads as what happened
    """The other Redis cannot be read."""


class ForeignList(NamedTuple):
    """A list: its key, the text that matched the pattern's stars, and its elements."""

    key: str
    matched: str
    values: list[bytes]


def read_lists(url: str, pattern: str) -> Iterator[ForeignList]:
    """Yield the lists with a matching key, sorted by key; keys of other kinds are skipped. Raises ForeignStoreFailed."""
    try:
        with Redis.from_url(url, socket_timeout=_TIMEOUT_SECONDS, socket_connect_timeout=_TIMEOUT_SECONDS) as client:
            for key in sorted(client.scan_iter(match=pattern, count=_PAGE, _type="list")):
                name = key.decode("utf-8", "replace")
                yield ForeignList(name, _matched(pattern, name), _elements(client, key))
    except (RedisError, TypeError, ValueError, OSError) as error:
        raise ForeignStoreFailed(f"the Redis to import from cannot be read: {error}") from None


def _elements(client: "Redis", key: bytes) -> list[bytes]:
    """Return the elements, read page by page, so that no reply holds a whole history.

    A message that is pushed on the left moves all others, so a list that grew meanwhile is read again. Raises RedisError.
    """
    for _ in range(_ATTEMPTS):
        length = client.llen(key)
        pages = [client.lrange(key, start, start + _PAGE - 1) for start in range(0, length, _PAGE)]
        if client.llen(key) == length:
            return [element for page in pages for element in cast("list[bytes]", page)]
    raise RedisError(f"{key.decode('utf-8', 'replace')} keeps changing: stop the application that writes it")


def _matched(pattern: str, name: str) -> str:
    """Return the text of a name that matched the pattern's stars; the whole name where that is unclear."""
    expression = "(.*)".join(re.escape(part) for part in pattern.split("*"))
    found = re.fullmatch(expression, name, re.DOTALL)
    return "-".join(found.groups()) or name if found else name
