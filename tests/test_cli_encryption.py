"""``sash keys master``, ``rotate`` and ``rewrap``, and what ``sash doctor`` finds about encryption at rest."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from click.testing import CliRunner, Result

from sash.cli import main
from sash.store.data.datakeys import DataKeys
from sash.store.data.sealing import Master
from sash.store.redis.client import Client
from sash.store.redis.embedded import EmbeddedStore

OLD, NEW = (base64.b64encode(letter * 32).decode() for letter in (b"o", b"n"))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedStore]:
    """Yield a store that only this file uses, because tenants' data keys are never deleted."""
    with EmbeddedStore(tmp_path_factory.mktemp("keys"), fsync="everysec") as store:
        yield store


@pytest.fixture
async def tenants(store: EmbeddedStore) -> None:
    """Empty the store and make the data keys of two tenants under the old master key."""
    with redis.Redis.from_url(store.url) as server:
        server.flushall()
    client = Client(store.url)
    await client.open()
    for tenant in ("acme", "beta"):
        await DataKeys(client, [b"o" * 32]).sealer(tenant, f"{tenant}/c")
    await client.close()


def run(*arguments: str, **variables: Any) -> Result:
    environ = {f"SASH_{name}": str(value) for name, value in variables.items()}
    return CliRunner().invoke(main, list(arguments), env=environ)


def doctor(store: EmbeddedStore, **variables: str) -> list[dict[str, str]]:
    """Return the doctor's findings about encryption."""
    findings = json.loads(run("doctor", "--json", REDIS_URL=store.url, **variables).stdout)
    return [each for each in findings if each["subject"] == "encryption"]


def test_a_master_key_is_one_that_a_start_takes() -> None:
    """``sash keys master`` prints 256 bits in base64, different each time."""
    one, two = (run("keys", "master").stdout.strip() for _ in range(2))

    assert one != two
    assert len(base64.b64decode(one, validate=True)) == 32


@pytest.mark.usefixtures("tenants")
def test_data_keys_are_rotated(store: EmbeddedStore) -> None:
    """``rotate`` makes a new data key for all tenants or for one; a tenant without a data key gives exit status 2."""
    every = run("keys", "rotate", REDIS_URL=store.url, ENCRYPTION_KEY=OLD)
    one = run("keys", "rotate", "--tenant", "beta", REDIS_URL=store.url, ENCRYPTION_KEY=OLD)
    none = run("keys", "rotate", "--tenant", "gamma", REDIS_URL=store.url, ENCRYPTION_KEY=OLD)

    assert [line.split()[0] for line in every.stdout.splitlines()] == ["acme", "beta"]
    assert one.stdout.split()[0] == "beta"
    assert one.stdout.split()[1] not in every.stdout
    assert (every.exit_code, one.exit_code, none.exit_code) == (0, 0, 2)
    assert "tenant gamma has no data key" in none.stderr
    assert "2 tenants, 5 data keys" in doctor(store, ENCRYPTION_KEY=OLD)[0]["found"]


@pytest.mark.usefixtures("tenants")
def test_the_master_key_is_replaced(store: EmbeddedStore) -> None:
    """The doctor advises ``rewrap`` after a new master key was added, and finds the new key alone good afterwards."""
    (before,) = doctor(store, ENCRYPTION_KEY=f"{NEW},{OLD}")
    rewrapped = run("keys", "rewrap", REDIS_URL=store.url, ENCRYPTION_KEY=f"{NEW},{OLD}")
    (after,) = doctor(store, ENCRYPTION_KEY=NEW)

    assert (before["verdict"], before["change"]) == ("advice", "sash keys rewrap")
    assert rewrapped.exit_code == 0
    assert rewrapped.stdout.split() == ["acme", "2", "beta", "2"]
    assert after["verdict"] == "good"
    assert Master(b"n" * 32).id.hex() in after["found"]


@pytest.mark.usefixtures("tenants")
def test_a_tenant_that_the_list_lost_is_found(store: EmbeddedStore) -> None:
    """The doctor finds a tenant that the list lacks; ``rewrap`` names the tenant and rewraps its keys too."""
    with redis.Redis.from_url(store.url) as server:
        server.srem("sash:{keys}:tenants", "beta")

    (before,) = doctor(store, ENCRYPTION_KEY=f"{NEW},{OLD}")
    rewrapped = run("keys", "rewrap", REDIS_URL=store.url, ENCRYPTION_KEY=f"{NEW},{OLD}")
    (after,) = doctor(store, ENCRYPTION_KEY=NEW)

    assert (before["verdict"], before["change"]) == ("advice", "sash keys rewrap")
    assert "1 of the tenants are missing" in before["found"]
    assert rewrapped.stdout.split() == ["acme", "2", "beta", "2"]
    assert "tenant beta was missing" in rewrapped.stderr
    assert "tenant acme was missing" not in rewrapped.stderr
    assert (after["verdict"], after["found"].partition(",")[0]) == ("good", "2 tenants")


@pytest.mark.usefixtures("tenants")
@pytest.mark.parametrize("command", ["rotate", "rewrap"])
def test_a_wrong_master_key_changes_nothing(store: EmbeddedStore, command: str) -> None:
    """``rotate`` and ``rewrap`` with another master key than the service's leave the store as it was."""

    def stored() -> list[Any]:
        with redis.Redis.from_url(store.url) as server:
            return [
                server.smembers("sash:{keys}:masters"),
                *(server.hgetall(key) for key in sorted(server.scan_iter("sash:*:wrapped"))),
            ]

    before = stored()
    wrong = run("keys", command, REDIS_URL=store.url, ENCRYPTION_KEY=NEW)

    assert wrong.exit_code == 2
    assert f"wrapped with master key {Master(b'o' * 32).id.hex()}, which is not set" in wrong.stderr
    assert len(before) == 3
    assert stored() == before


@pytest.mark.usefixtures("tenants")
def test_what_cannot_be_opened_is_refused(store: EmbeddedStore) -> None:
    """Without a key or with a wrong one, commands exit with status 2 and the doctor says what to set."""
    without = run("keys", "rotate", REDIS_URL=store.url)
    wrong = run("keys", "rewrap", REDIS_URL=store.url, ENCRYPTION_KEY=NEW)

    assert (without.exit_code, wrong.exit_code) == (2, 2)
    assert "set SASH_ENCRYPTION_KEY" in without.stderr
    assert f"wrapped with master key {Master(b'o' * 32).id.hex()}, which is not set" in wrong.stderr
    (unset,) = doctor(store)
    (other,) = doctor(store, ENCRYPTION_KEY=NEW)
    assert (unset["verdict"], unset["change"]) == ("problem", "set SASH_ENCRYPTION_KEY")
    assert (other["verdict"], other["change"]) == (
        "problem",
        f"add master key {Master(b'o' * 32).id.hex()} to SASH_ENCRYPTION_KEY",
    )


@pytest.mark.usefixtures("tenants")
def test_a_changed_key_is_found(store: EmbeddedStore) -> None:
    """A data key with a changed byte is a problem, and the finding names the tenant."""
    with redis.Redis.from_url(store.url) as server:
        name = next(iter(server.hkeys("sash:{beta/keys/data}:wrapped")))
        value = server.hget("sash:{beta/keys/data}:wrapped", name)
        server.hset("sash:{beta/keys/data}:wrapped", name, value[:-1] + bytes([value[-1] ^ 1]))

    (finding,) = doctor(store, ENCRYPTION_KEY=OLD)

    assert finding["verdict"] == "problem"
    assert "tenant beta" in finding["change"]


def test_the_doctor_is_silent_where_nothing_is_encrypted(tmp_path: Path) -> None:
    """If no key is set and nothing is encrypted, the doctor has no finding about encryption."""
    findings = json.loads(run("doctor", "--json", DATA_DIR=tmp_path / "data").stdout)
    assert "encryption" not in {each["subject"] for each in findings}


def test_a_wrong_key_ends_the_start() -> None:
    """A malformed key makes ``sash serve`` exit with status 2 and say how to make a key."""
    result = run("serve", ENCRYPTION_KEY="c2hvcnQ=")

    assert result.exit_code == 2
    assert "`openssl rand -base64 32`" in result.stderr
