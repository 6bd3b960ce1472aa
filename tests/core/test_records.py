"""Records as columns: packing and unpacking, and columns that agree with each record."""

import struct

import msgspec
import numpy as np
import pytest
from histories import MODELS, Talk, calling, result, said, talk, talks
from hypothesis import example, given
from hypothesis import strategies as st

from sash.core.chat.messages import Entry
from sash.core.counts.costs.counting import messages_tokens
from sash.core.counts.measures.measures import Extra
from sash.core.counts.models.models import find_model
from sash.core.law.history.enclosing import text_bytes, text_bytes_of
from sash.core.law.history.visibility import text_record
from sash.core.law.records.costs import message_costs, record_cost, reference_costs
from sash.core.law.records.records import Records
from sash.core.stored.details import StoredDetails, decode_details, encode_details
from sash.core.stored.identities import CHANCE_BITS, Identity, ulid_of
from sash.core.stored.record import FLAG_BITS, RECORD_BYTES, STORED_FLAGS, Flags, Record, WindowFlags, pack
from sash.store.data.entries import prepare
from sash.store.data.layout import unpack_many


@given(talks())
def test_what_is_packed_comes_back(found: Talk) -> None:
    """Records and identities are the same after they are packed into the store's bytes and unpacked."""
    new = prepare(found.entries, found.parts.template, now_ms=7)
    packed = [pack(entry.record, entry.identity) for entry in new]
    assert all(len(record) == RECORD_BYTES for record, _ in packed)
    records = unpack_many(b"".join(record for record, _ in packed), [details for _, details in packed])
    assert list(records) == [entry.record for entry in new]
    assert [records.details[index].identity for index in range(len(new))] == [entry.identity for entry in new]


MAKES_DETAILS = b"\x94\xc4\x08"
"""Bytes with which details begin."""


@given(talks(), st.binary(min_size=8, max_size=8) | st.just((MAKES_DETAILS * 3)[:8]), st.data())
def test_details_are_found_without_decoding(found: Talk, digest: bytes, data: st.DataObject) -> None:
    """Details that are stored one behind the other are found, whole and as a slice."""
    records, now = found.stored[0], 1_790_000_000_000 << 20
    ulids = st.integers(0, 2**CHANCE_BITS - 1).map(lambda chance: ulid_of(now << CHANCE_BITS | chance))
    names = [data.draw(st.text(max_size=40) | st.uuids().map(str) | ulids) for _ in records]
    packed = [pack(record, Identity(name, now, digest))[1] for record, name in zip(records, names, strict=True)]
    places, each = StoredDetails.read(b"".join(packed), len(records)), list(map(decode_details, packed))
    start = data.draw(st.integers(0, len(records)))
    part = places.taken(slice(start, None))
    assert list(places) == each
    assert [part[index] for index in range(len(records) - start)] == list(part) == each[start:]
    rare = [index for index, details in enumerate(each[start:]) if details.extra is not None]
    assert np.flatnonzero(part.is_rare).tolist() == rare
    rows = zip(part.rows.begins.tolist(), part.rows.lengths.tolist(), strict=True)
    assert [part.rows.joined[begin : begin + length] for begin, length in rows] == [
        details.row for details in each[start:]
    ]


def test_bytes_that_look_like_details_are_not_counted_as_details() -> None:
    """Where an id has what details begin with, the number of places tells, and the details are divided by decoding."""
    (new,) = prepare(talk(said("user", "Hello")).entries, talk().parts.template, now_ms=7)
    name, stamp = (MAKES_DETAILS[1:] + bytes(16)).decode("latin-1"), 1_790_000_000_000 << 20
    joined = b"".join(pack(new.record, Identity(name, stamp, MAKES_DETAILS[:1] * 8))[1] for _ in range(200))
    assert [details.id for details in StoredDetails.read(joined, 200)] == [name] * 200


@given(talks(), st.sampled_from(MODELS))
def test_costs_as_a_column(found: Talk, name: str) -> None:
    """A column of costs has the cost of each message of a request, for every family."""
    records, model = found.stored[0], find_model(name)
    expected = messages_tokens([record.measure for record in records], model)
    assert message_costs(Records.of(records), model).tolist() == expected
    assert [record_cost(record, model) for record in records] == expected


@given(talks())
@example(talk(said("user", "Look."), calling("a", "b", "c"), *map(result, "abc")))
def test_bytes_as_a_column(found: Talk) -> None:
    """The column of bytes has the bytes of each message of a request, also of one with several calls."""
    model = find_model("gpt-4o")
    records = found.history(model).records
    assert text_bytes(records, model).tolist() == [text_bytes_of(record, "openai") for record in records]


@given(talks(), st.sampled_from((0, 1)))
def test_totals_do_not_depend_on_neighbours(found: Talk, column: int) -> None:
    """A message's tokens in a conversation's totals do not depend on its neighbours."""
    records = found.stored[0]
    assert reference_costs(Records.of(records), column).tolist() == [
        record.reference_tokens[column] for record in records
    ]


@given(talks(), st.data())
def test_a_stretch(found: Talk, data: st.DataObject) -> None:
    """A slice of the columns equals the slice of the records, and two adjacent slices join to the whole."""
    records = found.stored[0]
    columns = Records.of(records)
    start = data.draw(st.integers(0, len(records)))
    end = data.draw(st.integers(start, len(records)))
    assert [record.flags & 255 for record in columns[start:end]] == [
        record.flags & 255 for record in records[start:end]
    ]
    assert [record.measure for record in columns[start:end]] == [record.measure for record in records[start:end]]
    assert list(columns[:start].before(columns[start:])) == records


@given(talks())
def test_what_a_flag_says(found: Talk) -> None:
    """Pinned and rich messages are found by their flags; sizes are the bodies' lengths in bytes."""
    records, bodies, _ = found.stored
    columns = Records.of(records)
    assert list(columns.where(Flags.PINNED)) == [i for i, record in enumerate(records) if record.pinned]
    costly = [msgspec.structs.replace(each.measure.extra or Extra(), mix=None) != Extra() for each in records]
    has_more = [bool(each.grounding is not None or each.media) for each in records]
    assert list(columns.where(Flags.RICH)) == [
        i for i, each in enumerate(zip(costly, has_more, strict=True)) if any(each)
    ]
    assert list(columns.sizes()) == [len(body) for body in bodies]


@pytest.mark.parametrize("count", [2, 100])
def test_tokens_by_part_stand_before_the_digest_of_the_party(count: int) -> None:
    """Details of all fields are one array of a short head, of which the last bytes are the party's digest, as in others."""
    (new,) = prepare(
        [Entry(message={"role": "assistant", "content": "Hello"}, author="planner", audience=["writer"])],
        talk().parts.template,
        now_ms=7,
    )
    short = decode_details(pack(new.record, new.identity)[1])
    whole = msgspec.structs.replace(short, parts=(("text", 3, 4), ("image", 85, 85)))
    packed = encode_details(whole)
    assert packed[0] == 0x90 + len(msgspec.structs.fields(whole))
    found = StoredDetails.read((packed + pack(new.record, new.identity)[1]) * count, 2 * count)
    assert list(found) == [whole, short] * count
    assert len({*found.parties(np.arange(2 * count)).tolist()}) == 1


def test_plain_messages_need_no_details() -> None:
    """A plain message is unpacked completely without its details."""
    (new,) = prepare(talk(said("user", "Hello")).entries, talk().parts.template, now_ms=7)
    assert list(unpack_many(pack(new.record, new.identity)[0])) == [new.record]


def test_the_bytes_stand_still() -> None:
    """A packed record begins with flags and role, which the store's scripts read, and its numbers are little-endian."""
    (record,) = talk(said("assistant", "Hello there")).stored[0]
    packed, _ = pack(
        _with_flags(record), prepare(talk(said("user", "x")).entries, talk().parts.template, 7)[0].identity
    )
    assert packed[:2] == bytes((Flags.PINNED, 3))
    assert struct.unpack_from("<III", packed, 4) == (record.measure.o200k, record.measure.cl100k, record.size)


def test_free_bits_mean_nothing() -> None:
    """Bits that are no flag say nothing, nor do those of media and of names where no details say which."""
    (record,) = talk(said("assistant", "Hello there")).stored[0]
    free = ~STORED_FLAGS | Flags.MEDIA | Flags.NAMED
    assert list(Records(_with_bits(record, free))) == [record]


@pytest.mark.parametrize("bit", range(FLAG_BITS))
def test_a_flag_of_any_byte_is_found(bit: int) -> None:
    """Messages with a flag are found by it, whichever of a record's bits it is."""
    (record,) = talk(said("assistant", "Hello there")).stored[0]
    assert Records(_with_bits(record, 0) + _with_bits(record, 1 << bit)).having(1 << bit) == b"\0\1"


def test_a_tag_comes_back() -> None:
    """A record keeps its tag, which stands behind the flags, also where it is written anew."""
    (record,) = talk(said("assistant", "Hello there")).stored[0]
    tagged = msgspec.structs.replace(record, tag=65_535)
    assert list(Records.bare([tagged])) == [tagged]
    assert Records.bare([tagged]).packed[18:20] == b"\xff\xff"


@given(talks(), st.data())
def test_flags_of_a_window_are_not_stored(found: Talk, data: st.DataObject) -> None:
    """What a compaction stands for is not sent, also in a part of the records, and the stored bytes do not tell."""
    whole = Records.of(found.stored[0])
    places = data.draw(st.sets(st.integers(0, len(whole) - 1))) if len(whole) else set()
    covered = whole.with_flag(places, WindowFlags.COVERED)
    assert (covered.packed, Records.of(list(covered)).packed) == (whole.packed, whole.packed)
    expected = bytes(int(index in places or whole.unsent[index]) for index in range(len(whole)))
    start = data.draw(st.integers(0, len(whole)))
    for records in (covered, covered[:start].before(covered[start:]), whole[:start].before(covered[start:])):
        assert records.unsent[start:] == expected[start:]
    assert covered[:start].before(whole[start:]).unsent == expected[:start] + whole.unsent[start:]
    assert covered.replaced({index: covered[index] for index in places}).unsent == expected


COPIES = {
    "alone": lambda records, places: records.replaced({index: text_record(records[index]) for index in places}),
    "plain": lambda records, places: records.as_plain(np.array(places, np.int64), Flags.PINNED),
    "covered": lambda records, places: records.with_flag(places, WindowFlags.COVERED),
    "counted": lambda records, _: records.counted([8] * len(records)),
    "pinned": lambda records, places: records.changed_at(places, Flags.PINNED, is_set=True),
    "joined": lambda records, places: records[: len(places)].before(records[len(places) :]),
}
"""Ways to copy records, of which some at these places change."""


@given(talks(), st.lists(st.sampled_from([*COPIES]), max_size=5), st.data())
def test_a_copy_keeps_what_it_does_not_change(found: Talk, ways: list[str], data: st.DataObject) -> None:
    """However often records are copied, a message counts as it is stored where it is sent with less, as on the line of a
    stable cut; and it keeps its flags of a window, and its count in the model's own vocabulary."""
    stored = records = Records.of(found.stored[0])
    covered: set[int] = set()
    for way in ways:
        places = sorted(data.draw(st.sets(st.integers(0, len(stored) - 1)))) if len(stored) else []
        covered |= set(places) if way == "covered" else set()
        records = COPIES[way](records, places)
    assert records.flagged_rows(WindowFlags.COVERED) == sorted(covered)
    assert [each.own_tokens for each in records] == [8 if "counted" in ways else None] * len(stored)
    for column in (0, 1):
        assert reference_costs(records, column).tolist() == reference_costs(stored, column).tolist()


def test_a_stamp_holds_the_time() -> None:
    """A message's time is the time of its append, to the millisecond, also early in 1970."""
    (new,) = prepare(talk(said("user", "Hello")).entries, talk().parts.template, now_ms=7)
    assert new.identity.created_ms == 7


def _with_bits(record: Record, flags: int) -> bytes:
    """Return a packed record with more flags."""
    packed = bytearray(Records.bare([record]).packed)
    for place, byte in zip((0, 3, 16, 17), (flags & 0xFFFFFFFF).to_bytes(4, "little"), strict=True):
        packed[place] |= byte
    return bytes(packed)


def _with_flags(record: Record) -> Record:
    return Record(Flags.PINNED, record.measure, record.size, record.calls, record.content_digest)
