"""Helpers that rewrite stored messages as an older version of Sash stored them."""

import msgspec

from sash.core.counts.counting import reference_tokens
from sash.core.counts.measures import ZERO, Extra, Measure
from sash.core.law.records import RECORD_BYTES, Record, Records
from sash.store.data.conversations import Conversations
from sash.store.data.layout import conversation_name, encode_grounding, keys_of
from sash.store.data.replies import Message, Page
from sash.store.data.stored_messages import seal_message


async def age(conversations: Conversations, tenant: str, conversation: str) -> None:
    """Rewrite every message as an older version stored it, and adjust pinned copies and totals.

    Each message gets half of its text tokens and generation 0, which is before the first, and loses what older rules did not
    count: unknown members, reasoning.
    """
    seq = 1
    while (page := await conversations.reader.page(tenant, conversation, seq, seq + 999)).messages:
        for message in page.messages:
            await _age(conversations, tenant, conversation, message, page)
        seq = page.messages[-1].seq + 1


async def old_messages(conversations: Conversations, tenant: str, conversation: str) -> int:
    """Return how many messages have an older generation, pinned copies included."""
    keys = keys_of(conversation_name(tenant, conversation))
    packed, copies = await conversations._client.commands([("GETRANGE", keys.counts, 0, -1), ("HGETALL", keys.pinned)])
    pinned = b"".join(copy[4 : 4 + RECORD_BYTES] for copy in copies[1::2])
    return len([*Records(packed + pinned).stale()])


def older(record: Record) -> Record:
    """Return the record that an older version stored for the message."""
    now = record.measure
    extra = msgspec.structs.replace(now.extra, unpriced=ZERO, reasoning=None) if now.extra else None
    extra = None if extra == Extra() else extra
    return msgspec.structs.replace(
        record, measure=Measure(now.role, now.o200k // 2, now.cl100k // 2, extra), generation=0
    )


async def _age(conversations: Conversations, tenant: str, conversation: str, message: Message, page: Page) -> None:
    name = conversation_name(tenant, conversation)
    keys, seq, record = keys_of(name), message.seq, older(message.record)
    sealer = await conversations.data_keys.sealer(tenant, name)
    documents = encode_grounding(page.grounding[seq]) if seq in page.grounding else b""
    notes = page.metadata.get(seq, b"")
    stored = seal_message(sealer, record, message.identity, message.body, documents, notes)
    new, old = (reference_tokens(each.measure, parallel=each.parallel) for each in (message.record, record))
    (pinned,) = await conversations._client.commands([("HEXISTS", keys.pinned, seq)])
    copy = len(stored.details).to_bytes(4, "big") + stored.record + stored.details + stored.body
    await conversations._client.commands(
        [
            ("SETRANGE", keys.counts, (seq - 1) * RECORD_BYTES, stored.record),
            ("LSET", keys.details, seq - 1, stored.details),
            ("LSET", keys.log, seq - 1, stored.body),
            *([("HSET", keys.grounding, seq, stored.grounding)] if documents else []),
            *([("HSET", keys.metadata, seq, stored.metadata)] if notes else []),
            *([("HSET", keys.pinned, seq, copy)] if pinned else []),
            *([("HSET", keys.conversation, "draft", f"{seq} {old[0]} {old[1]}")] if record.in_progress else []),
            ("HINCRBY", keys.conversation, "t0", old[0] - new[0]),
            ("HINCRBY", keys.conversation, "t1", old[1] - new[1]),
        ]
    )
