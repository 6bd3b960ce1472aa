"""Entries ready to be stored, for tests below the HTTP interface."""

from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from sash.core.chat.messages import Entry
from sash.core.law.documents.grounding import parse_template
from sash.store.data.blocks import read_blocks, values_of
from sash.store.data.conversations import Conversations
from sash.store.data.entries import NewEntry, prepare
from sash.store.data.layout import target_at

_TEMPLATE = parse_template()


def said(
    *texts: str, identity: str | None = None, pinned: bool = False, role: str = "user", **more: Any
) -> list[NewEntry]:
    """Return prepared messages with these texts. ``identity`` begins their ids; without it ids are generated."""
    entries = [
        Entry(message={"role": role, "content": text, **more}, id=f"{identity}{n}" if identity else None, pinned=pinned)
        for n, text in enumerate(texts)
    ]
    return prepare(entries, _TEMPLATE, now_ms=1_700_000_000_000)


async def texts_of(conversations: Conversations, tenant: str, conversation: str) -> list[bytes]:
    """Return every stored message's body, oldest first."""
    found: list[bytes] = []
    while True:
        page = await conversations.reader.page(target_at(tenant, conversation), len(found) + 1, len(found) + 1000)
        found += [message.body for message in page.messages]
        if len(found) >= page.length:
            return found


def indexed_values(server: Any, key: str, first: int, last: int) -> list[bytes]:
    """Return the words or vectors in the index at ``key`` of the messages from ``first`` to ``last``."""
    packed = values_of(server.execute_command(*read_blocks(key, first, last)), first, last)
    ends = accumulate(np.frombuffer(packed.sizes, "<u4").tolist(), initial=0)
    return [packed.joined[start:end] for start, end in pairwise(ends)]
