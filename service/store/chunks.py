"""A whole history in pieces that fit in memory, whatever it holds."""

from collections.abc import AsyncIterator, Iterator, Sequence

from service.core.records import Record
from service.problems import Conflict
from service.store.client import Client
from service.store.conversations import Conversations, Page
from service.store.layout import conversation_name, decode_records, keys_of

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
            (found,) = await self._client.commands([("LRANGE", keys.counts, first - 1, last - 1)])
            for start, end in _spans(first, decode_records(len(found), b"".join(found))):
                page = await self._conversations.page(tenant, conversation, start, end)
                if page.version != known:
                    # Appends make new versions too. Only another edit means that pieces do not belong together.
                    state = await self._conversations.get(tenant, conversation)
                    known = page.version
                    if state.edited != edited:
                        raise changed()
                yield page
            if len(found) < last - first + 1:
                raise changed()


def _spans(first: int, records: Sequence[Record]) -> Iterator[tuple[int, int]]:
    """First and last seq of stretches whose bodies are about a megabyte together, or one message."""
    start, size = first, 0
    for seq, record in enumerate(records, first):
        if size and size + record.size > _BYTES:
            yield start, seq - 1
            start, size = seq, 0
        size += record.size
    if records:
        yield start, first + len(records) - 1


def changed() -> Conflict:
    """The history was edited while it was read."""
    return Conflict("The conversation was rewound or redacted meanwhile; try again.", headers={"Retry-After": "1"})
