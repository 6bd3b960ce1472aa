"""Ids in the short forms in which they are stored."""

import re
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rigs.entries import said

from sash.core.chat.bounds import IDS
from sash.core.stored.details import long_form
from sash.core.stored.identities import CHANCE_BITS, STAMP_CHANCE_BITS, Identity, ulid_of
from sash.core.stored.record import pack, short_form
from sash.store.data.entries import ID_TIMES
from sash.store.data.layout import unpack

ULIDS = st.integers(0, 2**128 - 1).map(ulid_of)
UUIDS = st.uuids().map(str)
NEARLY = st.one_of(
    UUIDS.map(str.upper),
    ULIDS.map(str.lower),
    st.uuids().map(lambda each: each.hex),
    st.just("Z" * 26),
    st.just("8" * 26),
)


STAMPS = st.integers(0, 2**68 - 1)


@given(st.one_of(ULIDS, UUIDS, NEARLY, st.from_regex(IDS, fullmatch=True)), STAMPS)
def test_the_short_form_tells_the_identity(identity: str, stamp: int) -> None:
    """Each id comes back from its short form, in the very same characters, and each stamp."""
    assert long_form(*short_form(Identity(identity, stamp, b""))) == (identity, stamp)


@given(ULIDS, UUIDS, NEARLY.filter(lambda each: not each.isdigit() or each[0] > "7"))
def test_the_short_form_is_short(ulid: str, uuid: str, nearly: str) -> None:
    """A ULID takes its 16 bytes, a UUID one more, and every other id stays as it is."""
    short = [short_form(Identity(each, 7, b""))[0] for each in (ulid, uuid, nearly)]
    assert (len(short[0]), *short[1:]) == (16, b"\0" + UUID(uuid).bytes, nearly)


@given(st.integers(0, 2**48 - 1), st.integers(0, 2**STAMP_CHANCE_BITS - 1), st.integers(0, 2**CHANCE_BITS - 1))
def test_an_id_begins_with_its_stamp(created_ms: int, chance: int, rest: int) -> None:
    """The stamp of an id that Sash made is not stored beside it."""
    stamp = created_ms << STAMP_CHANCE_BITS | chance
    identity = ulid_of(stamp << CHANCE_BITS | rest)
    assert re.fullmatch("[0-7][0-9A-HJKMNP-TV-Z]{25}", identity)
    assert short_form(Identity(identity, stamp, b""))[1] is None


def test_a_plain_message_of_ours_has_few_details(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message without an id of the client's has 29 bytes of details. With one, its time is among them."""
    monkeypatch.setattr(ID_TIMES, "largest_ms", 0)  # behind a later time, an id has a time of its own
    for entry, size in ((said("hello")[0], 29), (said("hello", identity="m-")[0], 24)):
        packed, details = pack(entry.record, entry.identity)
        assert len(details) == size
        assert unpack(packed, details)[1] == entry.identity
