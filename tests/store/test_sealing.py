"""Sealing without a store: a sealed value opens to the original, and a changed or moved one does not open."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sash.problems import CannotOpen
from sash.store.data.sealing import (
    OVERHEAD,
    PLAIN,
    Kind,
    Master,
    Purpose,
    Sealer,
    TenantKeys,
    UnknownKey,
    is_sealed,
    new_key,
)

OLD, NEW = b"\x00\x00\x00\x01", b"\x00\x00\x00\x02"
KEYS = TenantKeys({OLD: bytes(32), NEW: bytes(range(32))}, NEW, b"d" * 32)
BEFORE = TenantKeys(KEYS.data, OLD, b"d" * 32)
KINDS = st.sampled_from([Kind.BODY, Kind.GROUNDING, Kind.METADATA, Kind.SETTINGS, Kind.SUMMARY])
VALUES = st.binary(min_size=1, max_size=300)
IDS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True).map(str.encode)


@given(KINDS, VALUES, IDS)
def test_what_was_sealed_comes_back(kind: bytes, value: bytes, owner: bytes) -> None:
    """A sealed value opens to the original, is 33 bytes longer than it, and never looks like JSON."""
    sealer = Sealer(KEYS, "t/c")

    sealed = sealer.seal(kind, value, owner)

    assert sealer.open(kind, sealed, owner) == value
    assert len(sealed) == len(value) + OVERHEAD
    assert is_sealed(sealed)
    assert sealed[:1] not in b'{["0123456789tfn-'


def test_nothing_stays_nothing() -> None:
    """An empty value is not sealed, because scripts take empty for absent."""
    assert Sealer(KEYS, "t/c").seal(Kind.METADATA, b"") == b""


def test_equal_values_do_not_look_equal() -> None:
    """The same text sealed twice gives different bytes."""
    sealer = Sealer(KEYS, "t/c")
    assert sealer.seal(Kind.BODY, b"yes", b"m-1") != sealer.seal(Kind.BODY, b"yes", b"m-1")


@given(VALUES, st.data())
def test_a_changed_byte_does_not_open(value: bytes, data: st.DataObject) -> None:
    """A sealed value in which any byte after the first is changed does not open."""
    sealer = Sealer(KEYS, "t/c")
    sealed = bytearray(sealer.seal(Kind.BODY, value, b"m-1"))
    place = data.draw(st.integers(1, len(sealed) - 1))
    sealed[place] ^= data.draw(st.integers(1, 255))

    with pytest.raises(CannotOpen if bytes(sealed[1:5]) in KEYS.data else UnknownKey):
        sealer.open(Kind.BODY, bytes(sealed), b"m-1")


def test_a_body_with_a_changed_mark_does_not_open() -> None:
    """A sealed body with another first byte does not open, except with that of JSON, with which bodies are plain."""
    sealer = Sealer(KEYS, "t/c")
    sealed = sealer.seal(Kind.BODY, b"secret", b"m-1")

    for first in set(range(256)) - {sealed[0], ord("{")}:
        with pytest.raises(CannotOpen):
            sealer.open_each(Kind.BODY, [sealed, bytes([first]) + sealed[1:]], [b"m-1", b"m-1"])
    assert sealer.open_each(Kind.BODY, [sealed, b'{"a":1}'], [b"m-1", b"m-1"]) == [b"secret", b'{"a":1}']


@given(VALUES, st.data())
@example(b"\x00", None)
def test_a_part_does_not_open(value: bytes, data: st.DataObject | None) -> None:
    """A sealed value whose end is missing does not open, alone or among others, and nor does one that is all missing."""
    sealer = Sealer(KEYS, "t/c")
    sealed = sealer.seal(Kind.BODY, value, b"m-1")

    for kept in [data.draw(st.integers(0, len(sealed) - 1))] if data else range(len(sealed)):
        why = UnknownKey if 0 < kept < 5 else CannotOpen
        with pytest.raises(why):
            sealer.open_each(Kind.BODY, [sealed, sealed[:kept]], [b"m-1", b"m-1"])
        if kept:
            with pytest.raises(why):
                sealer.open(Kind.BODY, sealed[:kept], b"m-1")


@pytest.mark.parametrize(
    ("name", "kind", "owner"),
    [
        ("t/d", Kind.BODY, b"m-1"),
        ("u/c", Kind.BODY, b"m-1"),
        ("t/c", Kind.METADATA, b"m-1"),
        ("t/c", Kind.BODY, b"m-2"),
        ("t/c", Kind.BODY, b""),
    ],
)
def test_moved_bytes_do_not_open(name: str, kind: bytes, owner: bytes) -> None:
    """A value does not open in another conversation, of another tenant, as another field, or for another message."""
    sealed = Sealer(KEYS, "t/c").seal(Kind.BODY, b"secret", b"m-1")

    with pytest.raises(CannotOpen) as caught:
        Sealer(KEYS, name).open(kind, sealed, owner)

    assert caught.value.members == {"key": NEW.hex()}
    assert "secret" not in caught.value.detail


def test_another_key_does_not_open() -> None:
    """A value does not open with another key of the same id."""
    sealed = Sealer(KEYS, "t/c").seal(Kind.BODY, b"secret")
    others = TenantKeys({NEW: new_key()}, NEW, b"d" * 32)

    with pytest.raises(CannotOpen):
        Sealer(others, "t/c").open(Kind.BODY, sealed)


def test_old_keys_open_and_the_newest_seals() -> None:
    """After a rotation, values under the old key still open, and new values are under the new key."""
    before = Sealer(BEFORE, "t/c").seal(Kind.BODY, b"then")
    sealer = Sealer(KEYS, "t/c")

    after = sealer.seal(Kind.BODY, b"now")

    assert (before[1:5], after[1:5]) == (OLD, NEW)
    assert sealer.open(Kind.BODY, before) == b"then"


def test_a_key_that_is_not_at_hand_is_named() -> None:
    """A value under an unknown key names that key, so that it can be looked for."""
    sealed = Sealer(KEYS, "t/c").seal(Kind.BODY, b"x")

    with pytest.raises(UnknownKey) as caught:
        Sealer(TenantKeys({}, b"", None), "t/c").open(Kind.BODY, sealed)

    assert caught.value.identity == NEW


@given(VALUES)
def test_without_a_key_values_are_as_they_are(value: bytes) -> None:
    """Without a key values are stored unchanged, and sealed values are refused."""
    if is_sealed(value):
        with pytest.raises(CannotOpen, match="without SASH_ENCRYPTION_KEY"):
            PLAIN.open(Kind.BODY, value)
    else:
        assert PLAIN.open(Kind.BODY, value) == value
    assert PLAIN.seal(Kind.BODY, value) == PLAIN.digest(Purpose.ENTRY, value) == value


@given(st.sampled_from([8, 16, 32]), st.data())
def test_digests_tell_equal_from_other_and_nothing_else(size: int, data: st.DataObject) -> None:
    """Only equal values have equal digests; another purpose or another key gives another digest."""
    one, two = data.draw(st.binary(min_size=size, max_size=size)), data.draw(st.binary(min_size=size, max_size=size))
    sealer = Sealer(KEYS, "t/c")

    digest = sealer.digest(Purpose.ENTRY, one)

    assert len(digest) == size
    assert (digest == Sealer(BEFORE, "t/d").digest(Purpose.ENTRY, two)) is (one == two)
    assert digest != one
    assert digest != sealer.digest(Purpose.CONTENT, one)
    assert digest != Sealer(TenantKeys(KEYS.data, NEW, b"e" * 32), "t/c").digest(Purpose.ENTRY, one)


def test_a_wrapped_key_is_one_tenants() -> None:
    """A wrapped key opens only for its own tenant and id, and not when its time or its bytes were changed."""
    master, key = Master(b"m" * 32), new_key()
    wrapped = master.wrap(key, "acme", OLD, 7)

    assert master.unwrap(wrapped, "acme", OLD) == key
    assert key not in wrapped.box
    changed = [
        (wrapped, "beta", OLD),
        (wrapped, "acme", NEW),
        (type(wrapped)(wrapped.master, 8, wrapped.box), "acme", OLD),
        (type(wrapped)(wrapped.master, 7, wrapped.box[:-1]), "acme", OLD),
        (type(wrapped)(wrapped.master, 7, b""), "acme", OLD),
    ]
    for each in changed:
        with pytest.raises(CannotOpen, match="changed in the store"):
            master.unwrap(*each)
    assert Master(b"n" * 32).id != master.id == Master(b"m" * 32).id
