"""The number of the data's layout, kept beside the data: nobody serves what a newer version wrote and an older cannot read.

``sash:layout`` holds the number of the newest layout that was ever written here. It grows when an older version could no
longer read what a newer one writes, and with nothing else: a field more is no new layout.
"""

from contextlib import suppress
from typing import Protocol

from service.problems import StoreFull, StoreUnavailable

LAYOUT = 1
LAYOUT_KEY = "sash:layout"


class _Asks(Protocol):
    async def commands(self, words: list[tuple[str, ...]]) -> list[bytes | None]: ...


async def stored_layout(store: _Asks) -> int:
    """The layout of the data there; ours, and noted, where nobody has noted any. Raises StoreUnavailable."""
    (found,) = await store.commands([("GET", LAYOUT_KEY)])
    if found is not None:
        return int(found)
    with suppress(StoreFull, StoreUnavailable):  # it can be noted when there is room, or a disk, again
        await store.commands([("SET", LAYOUT_KEY, str(LAYOUT), "NX")])
    return LAYOUT


def too_new(layout: int) -> str:
    """What to say of data in a layout that this version cannot read; empty when it can."""
    if layout <= LAYOUT:
        return ""
    return (
        f"the store's data has layout {layout} and this version reads layouts up to {LAYOUT}: "
        "run the version that wrote it, or a newer one"
    )
