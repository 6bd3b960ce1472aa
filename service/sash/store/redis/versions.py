"""The number of the data's layout, kept with the data, so that a version never serves data that it cannot read.

``sash:layout`` holds the number of the newest layout that was written here. The number grows only when older versions cannot
read new data: a further field is no new layout.

    1  entries' ids as text, in ``ids`` and in details; never released
    2  a digest of the id in ``ids``, and its short form in details; entries' digests have 8 bytes
"""

from contextlib import suppress

from sash.problems import StoreFull, StoreUnavailable
from sash.store.redis.client import Client

LAYOUT = 2
OLDEST_LAYOUT = 2
"""The oldest layout that this version reads."""
LAYOUT_KEY = "sash:layout"


async def stored_layout(client: Client) -> int:
    """Return the stored layout; where there is none, store the layout of this version. Raises StoreUnavailable."""
    (found,) = await client.commands([("GET", LAYOUT_KEY)])
    if found is not None:
        if not found.isdigit():
            raise StoreUnavailable(f"The key {LAYOUT_KEY} has {found[:20]!r} in place of a number: is it Sash's store?")
        return int(found)
    with suppress(StoreFull, StoreUnavailable):  # it is stored later, when there is room or a disk again
        await client.commands([("SET", LAYOUT_KEY, str(LAYOUT), "NX")])
    return LAYOUT


def unreadable(layout: int) -> str:
    """Return why this version cannot read the layout; empty when it can."""
    if layout < OLDEST_LAYOUT:
        return (
            f"the store's data has layout {layout} and this version reads layouts from {OLDEST_LAYOUT} on: run the version "
            "that wrote it, export the conversations with it, and import them into an empty store"
        )
    if layout <= LAYOUT:
        return ""
    return (
        f"the store's data has layout {layout} and this version reads layouts up to {LAYOUT}: "
        "run the version that wrote it, or a newer one"
    )
