"""Read a whole history in chunks that fit in memory."""

from collections.abc import AsyncIterator

from service.problems import Conflict
from service.store.reading import Reader
from service.store.replies import Page, State

_MESSAGES = 200  # a fork stages this many in one script, and every client of the store waits while the script runs
_BYTES = 1024 * 1024


class Chunks:
    """Reads histories, beginning with the first message."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def read(self, tenant: str, conversation: str, last_seq: int, state: State) -> AsyncIterator[Page]:
        """Yield messages 1 to ``last_seq`` in order, with all that is kept about them. ``state`` names the history.

        Raises Conflict when the conversation is rewound, redacted or replaced meanwhile, and NotFound when it is erased.
        """
        next_seq = 1
        while next_seq <= last_seq:
            last = min(next_seq + _MESSAGES - 1, last_seq)
            page = await self._reader.page(tenant, conversation, next_seq, last, limit_bytes=_BYTES)
            if page.made != state.made:
                raise changed()
            yield page
            next_seq = page.messages[-1].seq + 1


def changed() -> Conflict:
    """Return the problem that the history was edited while it was read."""
    detail = "The conversation was rewound, redacted or summarised meanwhile; try again."
    return Conflict(detail, headers={"Retry-After": "1"})
