"""Tenants' encryption keys in the store: creation, rotation, rewrapping, loss and recovery."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
import pytest_asyncio
import redis

from sash.problems import CannotOpen, StoreUnavailable
from sash.store.data.datakeys import DataKeys, Rewrapped
from sash.store.data.sealing import PLAIN, AnySealer, Kind
from sash.store.redis.client import Client
from sash.store.redis.embedded import EmbeddedStore

ONE, TWO = b"1" * 32, b"2" * 32
HASH = "sash:{acme/keys/data}:wrapped"
TENANTS = "sash:{keys}:tenants"
MASTERS = "sash:{keys}:masters"


@pytest.fixture
def raw(own: EmbeddedStore) -> Iterator[redis.Redis]:
    """Yield a client that returns bytes; no tenant has keys before or after the test."""
    with redis.Redis.from_url(own.url) as raw:
        raw.delete(HASH, TENANTS, MASTERS)
        yield raw
        raw.delete(HASH, TENANTS, MASTERS)


@pytest_asyncio.fixture
async def client(own: EmbeddedStore, raw: redis.Redis) -> AsyncIterator[Client]:  # noqa: ARG001 - it clears up
    """Yield a client of a store without encryption keys."""
    client = Client(own.url)
    await client.open()
    yield client
    await client.close()


def opens(value: bytes) -> Callable[[AnySealer], bytes]:
    return lambda sealer: sealer.open(Kind.BODY, value)


async def sealed(keys: DataKeys, value: bytes = b"text") -> bytes:
    return (await keys.sealer("acme", "acme/c")).seal(Kind.BODY, value)


async def test_without_a_master_key_nothing_is_sealed_or_made(client: Client, raw: redis.Redis) -> None:
    """Without a master key, values are stored as they are, and no keys are created."""
    keys = DataKeys(client)

    assert await keys.sealer("acme", "acme/c") is PLAIN
    assert await keys.reading("acme", "acme/c", opens(b"{}")) == b"{}"
    assert raw.exists(HASH, TENANTS, MASTERS) == 0


async def test_reading_makes_no_keys(client: Client, raw: redis.Redis) -> None:
    """Reading creates no keys for a tenant."""
    assert await DataKeys(client, [ONE]).reading("acme", "acme/c", opens(b"{}")) == b"{}"
    assert raw.exists(HASH, TENANTS, MASTERS) == 0


async def test_the_first_keys_are_made_once(client: Client, raw: redis.Redis) -> None:
    """Twenty concurrent first values of two ``DataKeys``, as in two processes, are sealed with one data key."""
    one, two = DataKeys(client, [ONE]), DataKeys(client, [ONE])

    values = await asyncio.gather(*(sealed(keys) for keys in (one, two) * 10))

    assert len({value[1:5] for value in values}) == 1
    assert raw.hgetall(HASH).keys() == {b"digest", values[0][1:5]}
    assert raw.smembers(TENANTS) == {b"acme"}
    digests = [(await keys.sealer("acme", "acme/c")).digest(b"entry", bytes(16)) for keys in (one, two)]
    assert digests[0] == digests[1]


async def test_no_key_is_in_the_store_as_it_is(client: Client, raw: redis.Redis) -> None:
    """No data key, digest key or master key is in the store unencrypted."""
    await sealed(keys := DataKeys(client, [ONE]))
    known = keys._known["acme"].keys

    held = b"".join(raw.hgetall(HASH).values())

    assert all(key not in held for key in (*known.data.values(), known.digest_key, ONE))


async def test_a_rotation_reaches_others_within_seconds(client: Client) -> None:
    """Ten seconds after a rotation elsewhere, a process seals with the new data key; it reads values under both keys."""
    now = 0.0
    keys = DataKeys(client, [ONE], clock=lambda: now)
    before = await sealed(keys)

    identity = await DataKeys(client, [ONE]).rotate("acme")

    assert await sealed(keys) != before
    assert (await sealed(keys))[1:5] == before[1:5]
    now = 10.1
    after = await sealed(keys)
    assert after[1:5].hex() == identity
    for value in (before, after):
        assert await keys.reading("acme", "acme/c", opens(value)) == b"text"


async def test_a_rotation_before_the_first_value_makes_the_first_keys(client: Client, raw: redis.Redis) -> None:
    """A rotation for a tenant that is listed but has no keys makes its first keys, which seal from then on."""
    raw.sadd(TENANTS, "acme")

    identity = await DataKeys(client, [ONE]).rotate("acme")

    value = await sealed(DataKeys(client, [ONE]))
    assert value[1:5].hex() == identity
    assert await DataKeys(client, [ONE]).reading("acme", "acme/c", opens(value)) == b"text"


async def test_a_key_of_another_process_is_looked_for(client: Client) -> None:
    """A value under a key that another process has just made is read without waiting."""
    keys, other = DataKeys(client, [ONE]), DataKeys(client, [ONE])
    await sealed(keys)
    await other.rotate("acme")
    value = await sealed(other)

    assert await keys.reading("acme", "acme/c", opens(value)) == b"text"


async def test_the_last_rotation_wins_whatever_the_clocks(client: Client) -> None:
    """After several rotations, which may fall in one millisecond, the last key seals."""
    keys = DataKeys(client, [ONE])
    await sealed(keys)

    made = [await keys.rotate("acme") for _ in range(5)]

    assert (await sealed(DataKeys(client, [ONE])))[1:5].hex() == made[-1]


async def test_a_master_key_is_replaced(client: Client) -> None:
    """After a rewrap with a new master key the old one is not needed any more; a second rewrap changes nothing."""
    value = await sealed(DataKeys(client, [ONE]))
    both = DataKeys(client, [TWO, ONE])
    await both.rotate("acme")

    assert [done async for done in both.rewrap()] == [Rewrapped("acme", 2, unlisted=False)]
    assert [done async for done in both.rewrap()] == [Rewrapped("acme", 0, unlisted=False)]

    assert await DataKeys(client, [TWO]).reading("acme", "acme/c", opens(value)) == b"text"
    assert await DataKeys(client, [TWO]).refusal() == ""
    assert "master key" in await DataKeys(client, [ONE]).refusal()
    (report,) = [each async for each in DataKeys(client, [TWO]).reports()]
    assert (report.data_keys, len(report.masters), report.locked) == (2, 1, 0)
    (report,) = [each async for each in DataKeys(client, [ONE]).reports()]
    assert report.locked == 3


async def test_a_tenant_that_the_list_lost_is_rewrapped_too(client: Client, raw: redis.Redis) -> None:
    """A rewrap finds a tenant that the list has lost, reports it, lists it again, and its values stay readable."""
    value = await sealed(DataKeys(client, [ONE]))
    raw.delete(TENANTS)
    both = DataKeys(client, [TWO, ONE])
    assert [report.unlisted async for report in both.reports()] == [True]

    assert [done async for done in both.rewrap()] == [Rewrapped("acme", 2, unlisted=True)]

    assert raw.smembers(TENANTS) == {b"acme"}
    assert [report.unlisted async for report in both.reports()] == [False]
    assert await DataKeys(client, [TWO]).reading("acme", "acme/c", opens(value)) == b"text"


async def test_tenants_are_found_among_many_keys(client: Client, raw: redis.Redis) -> None:
    """Tenants with keys are found among thousands of other keys, some of them with similar names."""
    await sealed(DataKeys(client, [ONE]))
    others = [f"sash:{{acme/c-{number}}}:log" for number in range(5000)]
    lookalikes = ["sash:{acme/keys}:wrapped", "sash:{acme/data}:conversation", "other:{b/keys/data}:wrapped"]
    raw.mset(dict.fromkeys((*others, *lookalikes), "x"))
    raw.delete(TENANTS)
    try:
        assert await DataKeys(client, [ONE]).tenants() == ["acme"]
    finally:
        raw.delete(*others, *lookalikes)


async def test_a_user_that_may_not_look_is_told(own: EmbeddedStore, raw: redis.Redis) -> None:
    """A rewrap without permission for SCAN, which would miss keys, raises StoreUnavailable and names the permission."""
    raw.execute_command("ACL", "SETUSER", "blind", "on", ">pw", "~*", "+@all", "-scan")
    client = Client(own.url.replace("unix://", "unix://blind:pw@"))
    await client.open()
    try:
        with pytest.raises(StoreUnavailable, match=r"\+scan"):
            [_ async for _ in DataKeys(client, [ONE]).rewrap()]
    finally:
        await client.close()
        raw.execute_command("ACL", "DELUSER", "blind")


async def test_a_process_with_the_old_master_goes_on(client: Client) -> None:
    """A process goes on reading and sealing with keys that it opened before they were rewrapped with a new master key."""
    now = 0.0
    keys = DataKeys(client, [ONE], clock=lambda: now)
    value = await sealed(keys)
    both = DataKeys(client, [TWO, ONE])
    assert await both.refusal() == ""
    [_ async for _ in both.rewrap()]
    now = 11.0

    assert await keys.reading("acme", "acme/c", opens(value)) == b"text"
    assert (await sealed(keys))[1:5] == value[1:5]


async def test_the_wrong_master_key_is_named(client: Client, raw: redis.Redis) -> None:
    """With the wrong master key, reading, sealing and rewrapping name the missing one and fail; the keys stay unchanged."""
    value = await sealed(DataKeys(client, [ONE]))
    before = raw.hgetall(HASH)
    wrong = DataKeys(client, [TWO])

    with pytest.raises(CannotOpen, match=r"wrapped with master key [0-9a-f]{8}, which is not set") as reading:
        await wrong.reading("acme", "acme/c", opens(value))
    with pytest.raises(CannotOpen, match="which is not set"):
        await wrong.sealer("acme", "acme/c")
    with pytest.raises(CannotOpen, match="which is not set"):
        [_ async for _ in wrong.rewrap()]

    assert reading.value.members == {"key": value[1:5].hex()}
    assert raw.hgetall(HASH) == before


async def test_without_any_master_key_sealed_values_are_refused(client: Client) -> None:
    """Without a master key, a start and a read are refused when values are encrypted."""
    value = await sealed(DataKeys(client, [ONE]))

    assert "SASH_ENCRYPTION_KEY is not set" in await DataKeys(client).refusal()
    with pytest.raises(CannotOpen, match="without SASH_ENCRYPTION_KEY"):
        await DataKeys(client).reading("acme", "acme/c", opens(value))


async def test_a_key_that_is_nowhere_is_named(client: Client, raw: redis.Redis) -> None:
    """Reading a value whose data key is lost fails with the id of that key."""
    value = await sealed(DataKeys(client, [ONE]))
    raw.delete(HASH)

    with pytest.raises(CannotOpen, match="not in the store") as caught:
        await DataKeys(client, [ONE]).reading("acme", "acme/c", opens(value))

    assert caught.value.members == {"key": value[1:5].hex()}


async def test_a_changed_key_is_refused(client: Client, raw: redis.Redis) -> None:
    """A wrapped key that was overwritten opens nothing, and is reported as locked."""
    value = await sealed(DataKeys(client, [ONE]))
    name = value[1:5]
    wrapped = raw.hgetall(HASH)[name]

    for broken in (wrapped[:-1] + bytes([wrapped[-1] ^ 1]), b"nonsense"):
        await client.commands([("HSET", HASH, name, broken)])
        with pytest.raises(CannotOpen):
            await DataKeys(client, [ONE]).reading("acme", "acme/c", opens(value))
        (report,) = [each async for each in DataKeys(client, [ONE]).reports()]
        assert report.locked == 1


async def test_keys_that_the_store_lost_are_written_back(client: Client, raw: redis.Redis) -> None:
    """Keys that the store lost, as in a failover, are written back by a process that still knows them."""
    now = 0.0
    keys = DataKeys(client, [ONE], clock=lambda: now)
    value = await sealed(keys)
    held = raw.hgetall(HASH)
    raw.delete(HASH)
    now = 11.0

    assert await keys.reading("acme", "acme/c", opens(value)) == b"text"

    assert raw.hgetall(HASH) == held
    assert await DataKeys(client, [ONE]).reading("acme", "acme/c", opens(value)) == b"text"


async def test_keys_that_are_not_whole_are_said_so(client: Client, raw: redis.Redis) -> None:
    """When a tenant's data keys are removed and the rest is left, sealing fails, so that no unreadable value is written."""
    value = await sealed(DataKeys(client, [ONE]))
    raw.hdel(HASH, value[1:5])

    with pytest.raises(CannotOpen, match="not whole"):
        await DataKeys(client, [ONE]).sealer("acme", "acme/c")


async def test_tenants_are_remembered_up_to_a_number(client: Client) -> None:
    """A process remembers the keys of a limited number of tenants; those of the idlest are read again when needed."""
    keys = DataKeys(client, [ONE], limit=2)
    for tenant in ("acme", "b", "c"):
        await keys.reading(tenant, f"{tenant}/c", opens(b"{}"))

    assert list(keys._known) == ["b", "c"]
