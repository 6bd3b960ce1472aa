"""The number of the data's layout, kept with the data, so that a version never writes to data that it cannot read.

``sash:layout`` holds the number of the newest layout that was written here. The number grows only when older versions cannot
read new data: a further field is no new layout. Each server's inspection reads it. Data of an unknown layout is neither read
nor written.

    1  entries' ids as text, in ``ids`` and in details; never released
    2  a digest of the id in ``ids``, and its short form in details; entries' digests have 8 bytes
    3  records of 28 bytes with 32 flags and a tag; lines of changes of 24 bytes; tokens by part have a place in details
"""

from contextlib import suppress
from typing import TYPE_CHECKING

from sash.problems import StoreFull, StoreUnavailable

if TYPE_CHECKING:
    from sash.store.redis.client import Client

LAYOUT = 3
OLDEST_LAYOUT = 3
"""The oldest layout that this version reads."""
LAYOUT_KEY = "sash:layout"
WRITER_KEY = "sash:layout:by"
"""The version that wrote the layout's number, or the first that found it without one."""


async def layout_refusal(client: "Client", version: str) -> str:
    """Return why this version cannot read the data; empty when it can. Stores the layout and ``version`` where none is.

    Raises StoreUnavailable.
    """
    noted, by = await client.commands([("GET", LAYOUT_KEY), ("GET", WRITER_KEY)])
    if noted is None or (by is None and not unreadable(noted)):
        with suppress(StoreFull, StoreUnavailable):  # it is stored later, when there is room or a disk again
            await client.commands([("SET", LAYOUT_KEY, str(LAYOUT), "NX"), ("SET", WRITER_KEY, version, "NX")])
    return unreadable(noted, by)


def unreadable(noted: bytes | None, by: bytes | None = None) -> str:
    """Return why this version cannot read data with the layout ``noted``; empty when it can, or none is noted.

    ``by`` is the version that wrote it, if that is known.
    """
    if noted is None:
        return ""
    if not noted.isdigit():
        return f"the key {LAYOUT_KEY} has {noted[:20]!r} in place of a number: is it Sash's store?"
    layout, wrote = int(noted), f", written by Sash {by[:40].decode(errors='replace')}," if by else ""
    if layout < OLDEST_LAYOUT:
        return (
            f"the store's data has layout {layout}{wrote} and this version reads layouts from {OLDEST_LAYOUT} on: run the "
            "version that wrote it, or take the conversations over with sash migrate --old-sash"
        )
    if layout <= LAYOUT:
        return ""
    return (
        f"the store's data has layout {layout}{wrote} and this version reads layouts up to {LAYOUT}: "
        "run the version that wrote it, or a newer one"
    )
