"""A whole history in pieces that fit in memory, whatever it holds."""

from collections.abc import AsyncIterator, Iterator, Sequence

from service.problems import Conflict
from service.store.client import Client
from service.store.conversations import Conversations
from service.store.layout import conversation_name, keys_of, places, unpack_many
from service.store.replies import Page

_MESSAGES = 500
_BYTES = 1024 * 1024


class Chunks:
    """Reads histories from their first message on."""

    def __init__(self, client: Client, conversations: Conversations) -> None:
        self._client = client
        self._conversations = conversations

    async def read(self, tenant: str, conversation: str, last_seq: int, edited: int) -> AsyncIterator[Page]:
        """Messages 1 to ``last_seq`` in order, with all that is kept about them.

        Raises Conflict when the conversation is rewound or redacted meanwhile, so that its version of the last edit is
        not ``edited`` any more, and Conflict or NotFound when it is erased.
        """
        keys = keys_of(conversation_name(tenant, conversation))
        known = 0
        for first in range(1, last_seq + 1, _MESSAGES):
            last = min(first + _MESSAGES - 1, last_seq)
            (found,) = await self._client.commands([("GETRANGE", keys.counts, *places(first, last))])
            sizes = unpack_many(found).sizes()
            for start, end in _spans(first, sizes):
                page = await self._conversations.page(tenant, conversation, start, end)
                if page.version != known:
                    # Appends make new versions too. Only another edit means that pieces do not belong together.
                    state = await self._conversations.get(tenant, conversation)
                    known = page.version
                    if state.edited != edited:
                        raise changed()
                yield page
            if len(sizes) < last - first + 1:
                raise changed()


def _spans(first: int, sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """First and last seq of stretches whose bodies are about a megabyte together, or one message."""
    start, total = first, 0
    for seq, size in enumerate(sizes, first):
        if total and total + size > _BYTES:
            yield start, seq - 1
            start, total = seq, 0
        total += size
    if sizes:
        yield start, first + len(sizes) - 1


def changed() -> Conflict:
    """The history was edited while it was read."""
    return Conflict("The conversation was rewound or redacted meanwhile; try again.", headers={"Retry-After": "1"})
