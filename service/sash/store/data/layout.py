"""Keys and stored records: the data model.

Every key of a conversation carries one hash tag, so that a script touches one slot of a cluster::

    sash:{tenant/conversation}:conversation   hash    settings, version, totals, the open tool group (fields below)
    sash:{tenant/conversation}:log            list    a message a node: canonical JSON, ready to send
    sash:{tenant/conversation}:counts         string  a record a message, 28 bytes each: all that most windows need
    sash:{tenant/conversation}:details        list    the rest of a record: its id, and what it costs beside plain text
    sash:{tenant/conversation}:ids            hash    digest of an entry's id -> seq: an entry is stored once; and, behind a
                                                      zero byte, link of a tool call -> seqs of the messages that made it,
                                                      and compaction:seq -> the field ``compactions`` before it
    sash:{tenant/conversation}:grounding      hash    seq -> documents, and where they go in the body
    sash:{tenant/conversation}:metadata       hash    seq -> the client's own notes, and the receipt of the window that
                                                      it answered: beside_entries.py
    sash:{tenant/conversation}:pinned         hash    seq -> record and body again, of messages in every window
    sash:{tenant/conversation}:word_blocks    hash    messages' words as numbers (search/words.py), for recall: blocks.py
    sash:{tenant/conversation}:vector_blocks  hash    messages' embeddings, for semantic recall: blocks.py
    sash:{tenant/conversation}:columns        hash    tokens in vendors' vocabularies (columns.py), made when asked for
    sash:{tenant/conversation}:media          hash    pictures and files over 8 KB, once each (media_contents.py)
    sash:{tenant/conversation}:branches       hash    tails of the log that were replaced: branches.py
    sash:{tenant/conversation}:done           hash    token of a request that was done, for its repeats -> when

The log, the counts and the details have the same length; a message's seq is its place, from 1. So the cost of reading a tail
depends only on its length:

- a window is computed from the tail of ``counts``, read as columns, and takes the same slice of ``log``;
- ``details`` are read with it only where a message of the tail is not plain. The field ``rich`` tells that there may be one;
- the script estimates the beginning of the tail from the running totals, so one round trip is enough for the usual window.
  A window with over 128 KB of bodies reads all but the newest eight in a second round trip, and one with messages older than
  its budget reaches (``overflow=skip``) the older ones; a large page reads all of its bodies in a second one;
- ``pinned`` repeats the few messages that are in every window, so that no script searches the middle of a long list.

``core.stored.record`` describes records. Details are a msgpack array, of two or three parts where a message is plain. Its
first bytes have fixed places, because scripts read them (offsets from 1, as in Lua): 1 array header, 2-11 digest of the
entry (bin 8, 8 bytes: "the same id with the same content"), from 12 the id in its short form (``core.stored.identities``).
Where bit 4 of a record's byte 3 is set, their last 8 bytes are the digest of author and audience (``core.chat.audiences``).

Fields of the conversation hash: ``id`` tenant/conversation, checked on every read; ``v`` version; ``life`` a random name of
this life of the conversation, given when it begins; ``change`` a random name of its last write; ``s`` settings, JSON;
``created``, ``updated`` milliseconds; ``ttl`` milliseconds; ``t0``, ``t1`` tokens of all messages in o200k_base and
cl100k_base; ``gn``, ``g0``, ``g1`` messages with documents and what the documents add; ``pins`` messages in ``pinned``;
``user`` seq of the newest user message; ``draft`` seq, tokens and media of replies in progress, newest first;
``rich`` 1 when the details of a message are needed for its cost, ``scripts`` when they are needed for estimates alone;
``sealed`` 1 when a message is encrypted; ``open`` the tool group that waits for results, JSON; ``summary`` JSON, and
``through`` the last seq that it covers; ``compactions`` the forms of the providers' compactions that stand, each with the
seq of its newest one, which stands for all before it; ``summarizer`` the process that writes the next summary, and until
when; ``edited`` the name of the last write that was not an append; ``embedded`` the model of the vectors; ``stale`` the last
seq whose documents a long rewind has not yet dropped; ``changes`` the versions that did not just add one message
(changes.py), ``change_times`` when they were made; ``settings_before`` and ``summaries_before`` earlier values, for windows
that are made again (earlier.py); ``followed`` until when changes are published, in milliseconds (following.py); ``token``
the request that made the conversation; ``agents`` every author and audience so far (agents.py); ``owner`` the owner, where
the settings are encrypted, so that an owner's conversations can be erased without the key.

An id is not an identity: a conversation that was erased, expired or lost may begin again under the same id, with the same
version. So the entity tag is version, life and change (``etag_of``), and every request to change or erase a conversation
names its life. A store that lost its newest writes repeats versions, but never the name of a write.

The lengths of ``log``, ``counts`` and ``details`` must agree, and those of ``pinned`` and ``grounding`` with their counters.
Where they do not, a key was evicted or lost, and every script says so instead of reading a shorter history.

Other keys belong to no conversation and have slots of their own: owners' and tenants' lists (``owners.py``,
``tenants.py``), erasures that go on (``owner_erasures.py``, ``media_erasures.py``), requests under a key (``claims.py``),
what was billed (``usage.py``), API keys, rates (``api_keys.py``, ``limits.py``), keys of encryption at rest
(``datakeys.py``), models' figures (``kept_models.py``), the mark by which a store that went back is noticed
(``marks.py``), statistics.

``word_blocks`` and ``vector_blocks`` exist where recall is on. They are written after the append (``index.lua``), from the
first message on, so they may be shorter than the log, but not longer; ``embedded`` names the model that made the vectors.

Text of users (log, grounding, metadata, settings, summary) may be sealed, each value by itself: sealing.py.

A rewind frees entry ids a little later: an id is free when its seq is past the end, or when the details there have another
one.
"""

import string
from collections.abc import Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from os import urandom
from typing import Any
from urllib.parse import quote

import msgspec

from sash.core.law.records.records import Records
from sash.core.stored.details import StoredDetails, decode_details
from sash.core.stored.identities import Identity
from sash.core.stored.record import RECORD_BYTES, Record
from sash.core.stored.stored_summary import Summary
from sash.problems import Internal
from sash.store.redis.lua import CallKeys, keys_as_sent

PREFIX = "sash:"
_BEGINNING = f"{PREFIX}{{%s}}:"
"""The beginning of a conversation's keys. Its name, ``tenant/conversation``, is the hash tag that keeps them on one node."""


class _Part:
    """A key of a conversation, called as the attribute."""

    def __set_name__(self, _: type, name: str) -> None:
        self.name = name

    def __get__(self, keys: "Keys", _: type) -> str:
        return keys.beginning + self.name


class Keys(msgspec.Struct, frozen=True):
    """The keys of one conversation, which are made when they are asked for."""

    beginning: str
    """What all of them begin with."""

    conversation = _Part()
    log = _Part()
    counts = _Part()
    details = _Part()
    ids = _Part()
    grounding = _Part()
    metadata = _Part()
    pinned = _Part()
    word_blocks = _Part()
    vector_blocks = _Part()
    columns = _Part()
    media = _Part()
    branches = _Part()
    done = _Part()

    def __getitem__(self, index: slice) -> list[str]:
        return [*map(self.beginning.__add__, PARTS[index])]

    def __iter__(self) -> Iterator[str]:
        return map(self.beginning.__add__, PARTS)

    @property
    def kept(self) -> list[str]:
        """The keys whose time to live each write renews. Tokens of requests expire after a day at the latest."""
        return self[:-1]

    def first(self, number: int) -> CallKeys:
        """The first ``number`` keys, as a call has them."""
        beginning = self.beginning.encode()
        return CallKeys(number, beginning.join(_around_beginnings(len(beginning), number)))


PARTS = tuple(name for name, part in vars(Keys).items() if isinstance(part, _Part))
HISTORY = 8
"""The number of keys that a reading script needs, of a conversation's keys. Each key costs a script half a microsecond."""
WITH_WORDS = 9
"""The same, with the words of messages."""


@lru_cache(maxsize=4096)
def _around_beginnings(length: int, number: int) -> list[bytes]:
    """Return the first ``number`` keys as a call sends them, split where their beginnings of ``length`` bytes belong."""
    stand_in = "*" * length
    return keys_as_sent(Keys(stand_in)[:number]).packed.split(stand_in.encode())


class Target(msgspec.Struct, frozen=True):
    """A conversation of a tenant, as a request names it: made once, and given to all that reads or writes it."""

    tenant: str
    id: str
    name: str
    """``tenant/id``, the text of the hash tag. Ids have no slash and no brace, so two conversations never share a tag."""
    keys: Keys


def target_at(tenant: str, conversation: str) -> Target:
    """Return the target for these ids."""
    name = f"{tenant}/{conversation}"
    return Target(tenant, conversation, name, Keys(_BEGINNING % name))


def keys_of(name: str) -> Keys:
    """Return the keys of the conversation called ``tenant/conversation``."""
    return Keys(_BEGINNING % name)


def check_identity(found: bytes | None, name: str) -> None:
    """Check that a reply is of the conversation that was asked for. A misplaced reply must never be shown."""
    if found != name.encode():
        raise Internal("The store answered for another conversation; nothing of it is shown.")


def staged_keys(name: str, place: str) -> Keys:
    """Return the keys of a conversation that is being built (``staging.py``). ``place`` is where its media's objects are."""
    return Keys(f"{_BEGINNING % name}staged-{place}:")


LIFE_LENGTH = 16
_PLACE_LENGTH = 12
_CHARACTERS = (string.ascii_letters + string.digits + "-_").encode() * 4
"""A character of a random name for each byte."""


def new_name() -> str:
    """Return a random name for a life or a write: 96 bits, 16 characters."""
    return urandom(LIFE_LENGTH).translate(_CHARACTERS).decode()


def new_place() -> str:
    """Return a random word for the place of a medium's object: 72 bits, 12 characters."""
    return urandom(_PLACE_LENGTH).translate(_CHARACTERS).decode()


def etag_of(version: bytes, life: bytes | None, change: bytes | None) -> str:
    """Return the entity tag of a state, without quotes, as the scripts make it."""
    return b"-".join((version, life or b"", change or b"")).decode()


def life_of(etag: str) -> str:
    """Return the life in an entity tag; empty in the tag of a missing conversation."""
    return etag.partition("-")[2][:LIFE_LENGTH]


def list_key(tenant: str) -> str:
    """Return the key of a tenant's conversations by last activity: a sorted set, which is there while it is read."""
    return f"{PREFIX}{{{tenant}/list/all}}:conversations"


def owner_key(tenant: str, owner: str) -> str:
    """Return the key of an owner's conversations by last activity: a sorted set, in a slot of its own.

    The owner is percent-encoded, as it may have braces, which a hash tag may not.
    """
    return f"{PREFIX}{{{tenant}/owner/{quote(owner, safe='')}}}:conversations"


_ID_DIGEST_BYTES = 8


def id_field(identity: str) -> bytes:
    """Return the field of an entry's id in ``ids``: a digest, because an id may be long. The details have the id itself."""
    return blake2b(identity.encode(), digest_size=_ID_DIGEST_BYTES).digest()


def unpack(packed: bytes, details: bytes) -> tuple[Record, Identity]:
    """Return a message's record and identity."""
    found = decode_details(details)
    return Records(packed).record(0, found), found.identity


def unpack_many(packed: bytes, details: bytes | Sequence[bytes] = b"") -> Records:
    """Return the records in one string, with their details if they were read."""
    if not details:
        return Records(packed)
    joined = details if isinstance(details, bytes) else b"".join(details)
    return Records(packed, StoredDetails.read(joined, len(packed) // RECORD_BYTES))


def places(first_seq: int, last_seq: int) -> tuple[int, int]:
    """Return the first and the last byte in ``counts`` of the records ``first_seq`` to ``last_seq``."""
    return (first_seq - 1) * RECORD_BYTES, last_seq * RECORD_BYTES - 1


encode_json: Any = msgspec.json.Encoder().encode
decode_summary = msgspec.json.Decoder(Summary).decode
