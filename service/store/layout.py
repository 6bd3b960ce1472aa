"""Keys and stored records: the data model.

Every key of a conversation carries one hash tag, so that a script touches one slot of a cluster::

    sash:{tenant/conversation}:conversation   hash    settings, version, totals, the open tool group (fields below)
    sash:{tenant/conversation}:log            list    a message a node: canonical JSON, ready to send
    sash:{tenant/conversation}:counts         list    a record a message: all that a window asks of it but the bytes
    sash:{tenant/conversation}:ids            hash    entry id -> seq: an entry is stored once
    sash:{tenant/conversation}:grounding      hash    seq -> documents, and where they go in the body
    sash:{tenant/conversation}:metadata       hash    seq -> the client's own notes
    sash:{tenant/conversation}:pinned         hash    seq -> record and body again, of what is in every window
    sash:{tenant/conversation}:answers        hash    token of a request -> when it was done, and its answer if it is kept

The log and the counts have the same length; a message's seq is its place, from 1. So a tail costs the tail:

- a window is the tail of ``counts`` (about 70 bytes a message), arithmetic, and the same slice of ``log``;
- where the tail begins is estimated inside the script from the running totals, so one round trip is enough;
- ``pinned`` repeats the few messages that every window holds, so that nothing is sought in the middle of a long list.

A record is a msgpack array whose first bytes stand still, because scripts read them (offsets from 1, as in Lua)::

    1      array header
    2      flags                 (Flags in core/records.py)
    3-20   digest of the entry   (bin 8, 16 bytes: "the same id with the same content")
    21     measure: array header
    22     measure: role         (index in ROLES)

Fields of the conversation hash: ``id`` tenant/conversation, checked on every read; ``v`` version; ``s`` settings, JSON;
``created``, ``updated`` milliseconds; ``ttl`` milliseconds; ``t0``, ``t1`` tokens of all messages in o200k_base and
cl100k_base; ``gn``, ``g0``, ``g1`` messages with documents and what the documents add; ``user`` seq of the newest user
message; ``open`` the tool group that waits for results, JSON; ``summary`` JSON, and ``through`` the last seq that it
covers; ``summarizer`` who writes the next one, and until when; ``edited`` the version at which history last changed
other than by an append; ``token`` the request that made the conversation, or changed its settings last.

Other keys are no conversation's and live in slots of their own: owners' lists (``owners.py``), requests under a key
(``claims.py``), what was billed (``usage.py``), API keys, rates (``keys.py``, ``limits.py``), statistics.

A rewind frees entry ids soon after, not at once: an id whose seq is beyond the end, or whose record there has another
id, is free.
"""

from typing import Any, NamedTuple

import msgspec

from service.core.records import Record, StoredGrounding, Summary

PREFIX = "sash:"
PARTS = ("conversation", "log", "counts", "ids", "grounding", "metadata", "pinned", "answers")


class Keys(NamedTuple):
    """The keys of one conversation."""

    conversation: str
    log: str
    counts: str
    ids: str
    grounding: str
    metadata: str
    pinned: str
    answers: str

    @property
    def kept(self) -> tuple[str, ...]:
        """Those that retention keeps alive. Answers are not: they go a day after they were given, if not before."""
        return self[:-1]


def conversation_name(tenant: str, conversation: str) -> str:
    """What the hash tag holds; ids have no slash and no brace, so two conversations never share one."""
    return f"{tenant}/{conversation}"


def keys_of(name: str) -> Keys:
    """The keys of the conversation called ``tenant/conversation``."""
    tag = f"{PREFIX}{{{name}}}:"
    return Keys(
        tag + "conversation",
        tag + "log",
        tag + "counts",
        tag + "ids",
        tag + "grounding",
        tag + "metadata",
        tag + "pinned",
        tag + "answers",
    )


def owner_key(tenant: str, owner: str) -> str:
    """A sorted set of conversation ids by last activity. It lives in a slot of its own: repaired, never trusted."""
    return f"{PREFIX}{{{tenant}/owner/{owner}}}:conversations"


encode_record = msgspec.msgpack.Encoder().encode
decode_record = msgspec.msgpack.Decoder(Record).decode
_decode_records = msgspec.msgpack.Decoder(list[Record]).decode


def decode_records(count: int, joined: bytes) -> list[Record]:
    """``count`` records that were stored one by one and read as one string: one call decodes them all."""
    return _decode_records(b"\xdd" + count.to_bytes(4, "big") + joined)


encode_grounding = msgspec.msgpack.Encoder().encode
decode_grounding = msgspec.msgpack.Decoder(StoredGrounding).decode


encode_json: Any = msgspec.json.Encoder().encode
decode_summary = msgspec.json.Decoder(Summary).decode
