"""Keep tenants' keys for encryption at rest: wrapped by SASH_ENCRYPTION_KEY, in slots of their own.

::

    sash:{tenant/keys/data}:wrapped   hash   id -> wrapped data key; ``digest`` -> wrapped key of the digests
    sash:{keys}:tenants               set    tenants with keys; a tenant is added before its first key is made. A store that
                                             lost its newest writes may lack a tenant here and still have its keys, which
                                             are in another slot. So operators' commands look for the keys themselves
    sash:{keys}:masters               set    ids of the master keys that wrap tenants' keys

The newest data key seals; the older keys open values that were sealed before. A process reads the keys again after ten
seconds, so a new data key is in use everywhere within ten seconds. Where the store lost a key that a process knows (a
failover can lose the last second), the process writes it back: messages on other nodes may be sealed with that key.
"""

import contextlib
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TypeVar

import msgspec

from sash.problems import CannotOpen, StoreFull, StoreUnavailable
from sash.processor import PROCESSOR
from sash.store.data.entries import wall_ms
from sash.store.data.layout import PREFIX
from sash.store.data.script_calls import script
from sash.store.data.sealing import (
    PLAIN,
    AnySealer,
    Master,
    Sealer,
    TenantKeys,
    UnknownKey,
    Wrapped,
    missing_key,
    new_key,
)
from sash.store.redis.client import Client

T = TypeVar("T")

_TENANTS = f"{PREFIX}{{keys}}:tenants"
_MASTERS = f"{PREFIX}{{keys}}:masters"
_DIGEST = b"digest"
_ID_BYTES = 4
_FRESH_SECONDS = 10.0
_LIMIT = 10_000
"""Tenants whose keys a process holds; the least recently used is dropped first."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Wrapped).decode


async def _read(read: Callable[[AnySealer], T], sealer: AnySealer, *, apart: bool) -> T:
    return await PROCESSOR.run(read, sealer) if apart else read(sealer)


class _FirstKeys(msgspec.Struct, frozen=True, kw_only=True):
    """Names and wrapped keys for a tenant that has none."""

    wrapped: Sequence[bytes]


_first_keys = script("first_keys", _FirstKeys, int)


class Rewrapped(msgspec.Struct, frozen=True):
    """One tenant: how many of its keys were wrapped again, and whether the list of tenants lacked it."""

    tenant: str
    keys: int
    unlisted: bool


class KeyReport(msgspec.Struct, frozen=True):
    """One tenant's keys: how many data keys, the master keys that wrap them, how many keys do not open, and whether the list
    of tenants lacks it.
    """

    tenant: str
    data_keys: int
    masters: tuple[str, ...]
    locked: int
    unlisted: bool


class _Known(msgspec.Struct):
    """The keys that were read for a tenant."""

    stored: dict[bytes, bytes]
    keys: TenantKeys
    until: float


class DataKeys:
    """The keys of all tenants; without ``masters`` nothing is sealed, and sealed values are refused."""

    def __init__(
        self,
        client: Client,
        masters: Sequence[bytes] = (),
        *,
        limit: int = _LIMIT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._masters = {master.id: master for master in map(Master, masters)}
        self._first = next(iter(self._masters.values()), None)
        self.plain = self._first is None
        """Whether nothing is sealed: there is no master key, and as far as is known nobody else has one."""
        self._refusal = ""
        self._limit = limit
        self._clock = clock
        self._known: OrderedDict[str, _Known] = OrderedDict()

    # ---- for requests

    async def sealer(self, tenant: str, name: str) -> AnySealer:
        """Return the sealer of the conversation called ``name``. A tenant's first sealer makes its keys.

        Raises CannotOpen, StoreFull, and StoreUnavailable also where others encrypt and this process has no master key.
        """
        if self._first is None:
            if self._refusal:
                raise StoreUnavailable(f"Nothing is stored: {self._refusal}.")
            return PLAIN
        keys = await self._keys(tenant)
        if not keys.can_seal:
            keys = await self._make_keys(tenant)
        return Sealer(keys, name)

    async def reading(self, tenant: str, name: str, read: Callable[[AnySealer], T], *, apart: bool = False) -> T:
        """Return the result of ``read``; it is called again with fresh keys when a value is sealed with an unknown key.

        With ``apart`` it runs beside the event loop, in its turn.
        Raises CannotOpen, StoreUnavailable, and what ``read`` raises.
        """
        if self._first is None:
            return await _read(read, PLAIN, apart=apart)
        with contextlib.suppress(UnknownKey):
            return await _read(read, Sealer(await self._keys(tenant), name), apart=apart)
        fresh = await self._load(tenant)
        try:
            return await _read(read, Sealer(fresh.keys, name), apart=apart)
        except UnknownKey as unknown:
            raise self._why_unknown(tenant, fresh.stored, unknown.identity) from None

    async def _keys(self, tenant: str) -> TenantKeys:
        known = self._known.get(tenant)
        if known is None:
            known = await self._load(tenant)
        elif known.until < self._clock():
            known.until = self._clock() + _FRESH_SECONDS  # one request reads again, the others use what is known
            known = await self._load(tenant)
        return known.keys

    async def _load(self, tenant: str) -> _Known:
        stored = await self._stored(tenant)
        before = self._known.get(tenant)
        if before is not None:
            lost = {name: value for name, value in before.stored.items() if name not in stored}
            if lost:
                with contextlib.suppress(StoreUnavailable, StoreFull):  # the next request tries again
                    await self._client.commands([("HSETNX", _key_of(tenant), *pair) for pair in lost.items()])
            stored |= lost
        if before is not None and stored == before.stored:
            keys = before.keys
        else:
            keys = self._open(tenant, stored, before.keys if before else None)
        known = _Known(stored, keys, self._clock() + _FRESH_SECONDS)
        self._known[tenant] = known
        self._known.move_to_end(tenant)
        while len(self._known) > self._limit:
            self._known.popitem(last=False)
        return known

    async def _stored(self, tenant: str) -> dict[bytes, bytes]:
        (flat,) = await self._client.commands([("HGETALL", _key_of(tenant))])
        return dict(zip(flat[::2], flat[1::2], strict=True))

    def _open(self, tenant: str, stored: Mapping[bytes, bytes], before: TenantKeys | None) -> TenantKeys:
        """Return the keys that can be opened. A key that is open stays open, even if an unknown master key wraps it now."""
        wrapped = {name: _wrapped(value) for name, value in stored.items()}
        data: dict[bytes, bytes] = {}
        digest = before.digest_key if before else None
        for name, each in wrapped.items():
            try:
                key = self._unwrap(tenant, name, each)
            except CannotOpen:
                if before and name in before.data:
                    data[name] = before.data[name]
                continue
            if name == _DIGEST:
                digest = key
            else:
                data[name] = key
        return TenantKeys(data, _newest(wrapped), digest)

    def _unwrap(self, tenant: str, name: bytes, wrapped: Wrapped) -> bytes:
        """Return the unwrapped key. Raises CannotOpen."""
        master = self._masters.get(wrapped.master)
        if master is None:
            detail = f"A key of this tenant is wrapped with master key {wrapped.master.hex()}, which is not set."
            raise CannotOpen(detail, members={"key": "digest" if name == _DIGEST else name.hex()})
        return master.unwrap(wrapped, tenant, name)

    def _why_unknown(self, tenant: str, stored: Mapping[bytes, bytes], identity: bytes) -> CannotOpen:
        try:
            if identity in stored:
                self._unwrap(tenant, identity, _wrapped(stored[identity]))
        except CannotOpen as why:
            return why
        return missing_key(identity)

    async def _make_keys(self, tenant: str) -> TenantKeys:
        """Make a tenant's first keys. Raises CannotOpen when it has keys that cannot be opened."""
        for name, value in (await self._stored(tenant)).items():
            self._unwrap(tenant, name, _wrapped(value))
        await self._note(tenant)
        names = (_DIGEST, new_key()[:_ID_BYTES])
        made = wall_ms()
        wrapped = [part for name in names for part in (name, self._new(tenant, name, made))]
        await self._client.run(_first_keys((_key_of(tenant),), wrapped=wrapped))
        keys = (await self._load(tenant)).keys
        if not keys.can_seal:
            raise CannotOpen("This tenant's keys are not whole: some were taken from the store.")
        return keys

    async def _note(self, tenant: str) -> bool:
        """List the tenant and the master key before the first key is made. Returns whether the tenant was missing."""
        assert self._first is not None  # noqa: S101 - without it nothing is made
        new, _ = await self._client.commands([("SADD", _TENANTS, tenant), ("SADD", _MASTERS, self._first.id.hex())])
        return bool(new)

    def _new(self, tenant: str, name: bytes, created_ms: int) -> bytes:
        assert self._first is not None  # noqa: S101 - without it nothing is made
        return _encode(self._first.wrap(new_key(), tenant, name, created_ms))

    # ---- for operators

    async def refusal(self) -> str:
        """Return why this process and others could not read each other's encrypted values; empty when they can.

        While it is not empty, a process without a master key stores nothing. Raises StoreUnavailable.
        """
        (found,) = await self._client.commands([("SMEMBERS", _MASTERS)])
        wrapping = {master.decode() for master in found}
        self._refusal = ""
        if wrapping and not any(master.id.hex() in wrapping for master in self._masters.values()):
            named = " or ".join(sorted(wrapping))
            self._refusal = (
                "what is stored is encrypted, and SASH_ENCRYPTION_KEY is not set"
                if self._first is None
                else f"what is stored is encrypted with master key {named}, which is not in SASH_ENCRYPTION_KEY"
            )
        self.plain = self._first is None and not self._refusal
        return self._refusal

    async def rotate(self, tenant: str) -> str:
        """Make a data key, which seals from now on. Returns its id.

        Raises StoreUnavailable, StoreFull, and CannotOpen when the tenant seals with a master key that is missing here.
        """
        stored = {name: _wrapped(value) for name, value in (await self._stored(tenant)).items()}
        if not stored:  # listed, but its first keys were not made yet: a data key alone would keep them from being made
            return (await self._make_keys(tenant)).newest.hex()
        if _DIGEST in stored:
            self._unwrap(tenant, _DIGEST, stored[_DIGEST])
        await self._note(tenant)
        made = [each.created_ms for each in stored.values()]
        # The time is later than that of every other key, even if clocks differ.
        created_ms = max([wall_ms(), *(each + 1 for each in made)])
        identity = new_key()[:_ID_BYTES]
        await self._client.commands([("HSETNX", _key_of(tenant), identity, self._new(tenant, identity, created_ms))])
        return identity.hex()

    async def tenants(self) -> list[str]:
        """Return every tenant with keys, listed or not. Goes through all keys of the store. Raises StoreUnavailable."""
        found = {tenant async for tenant in self._client.scan(_key_of("*"))}
        return sorted(found | await self._listed())

    async def _listed(self) -> set[str]:
        (found,) = await self._client.commands([("SMEMBERS", _TENANTS)])
        return {tenant.decode() for tenant in found}

    async def rewrap(self) -> AsyncIterator[Rewrapped]:
        """Wrap every tenant's keys with the first master key, and list every tenant; yields what was done.

        Raises CannotOpen when the master key of a key is missing.
        """
        assert self._first is not None  # noqa: S101 - the command asks for it
        for tenant in await self.tenants():
            stored = {name: _wrapped(value) for name, value in (await self._stored(tenant)).items()}
            others = {name: each for name, each in stored.items() if each.master != self._first.id}
            opened = {name: self._unwrap(tenant, name, each) for name, each in others.items()}
            unlisted = await self._note(tenant)  # only now, or a wrong master key would be listed as one in use
            for name, key in opened.items():
                again = self._first.wrap(key, tenant, name, stored[name].created_ms)
                await self._client.commands([("HSET", _key_of(tenant), name, _encode(again))])
            yield Rewrapped(tenant, len(opened), unlisted)
        replaced = [master.id.hex() for master in self._masters.values() if master is not self._first]
        if replaced:
            await self._client.commands([("SREM", _MASTERS, *replaced)])

    async def reports(self) -> AsyncIterator[KeyReport]:
        """Yield a report for each tenant; nothing where no tenant is listed and this process has no master key.

        Raises StoreUnavailable.
        """
        listed = await self._listed()
        for tenant in await self.tenants() if listed or self._masters else ():
            stored = await self._stored(tenant)
            wrapped = {name: _wrapped(value) for name, value in stored.items()}
            opened = self._open(tenant, stored, None)
            locked = len(stored) - len(opened.data) - (opened.digest_key is not None)
            masters = tuple(sorted({each.master.hex() for each in wrapped.values()}))
            yield KeyReport(tenant, len(stored.keys() - {_DIGEST}), masters, locked, tenant not in listed)


def _key_of(tenant: str) -> str:
    """Return the name of a tenant's keys. Its hash tag has three parts, so that it differs from every conversation's."""
    return f"{PREFIX}{{{tenant}/keys/data}}:wrapped"


def _wrapped(value: bytes) -> Wrapped:
    """Return the wrapped key in a stored value; an empty one when the value cannot be decoded."""
    try:
        return _decode(value)
    except msgspec.MsgspecError:
        return Wrapped(b"", 0, b"")


def _newest(wrapped: Mapping[bytes, Wrapped]) -> bytes:
    """Return the id of the data key that seals; empty when there is none."""
    return max(wrapped.keys() - {_DIGEST}, key=lambda name: (wrapped[name].created_ms, name), default=b"")
