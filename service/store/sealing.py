"""Encryption at rest, the pure part: what is sealed, how, and under which key.

::

    SASH_ENCRYPTION_KEY ──wraps──▶ data keys of a tenant ──HKDF──▶ key of a conversation ──AES-256-GCM──▶ sealed values
                        └─wraps──▶ digest key of a tenant ──BLAKE2b──▶ digests that confirm no guess

A sealed value is as long as the plain one and 33 bytes::

    0       1: neither JSON nor a record of ours begins with it, so that plain values of before are told apart
    1-4     id of the data key
    5-16    nonce, random
    17-     ciphertext, then 16 bytes that authenticate it

Each value is bound by the key to its conversation and to what it is (``Kind``), and by the associated data to whose it is:
a message, its documents and its notes to the message's record (role, counts, size, digest of the content; not the flags,
which change), a kept answer to its request. So bytes moved to another conversation, field or message do not open, nor
does a message whose counts were changed. Its seq is not bound: nobody knows it before the append script runs. What this
cannot see is that messages went, or that old bytes were put back with their old record.

Nonces are random, which is sound for 2**32 values under one key (NIST SP 800-38D, 8.3). The key is a conversation's own,
made from the data key by HKDF (RFC 5869), so the bound is for each conversation, kind and data key: nobody reaches it.
"""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from os import urandom
from typing import Final

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from service.core.words import plain_number
from service.problems import CannotOpen

KEY_BYTES: Final = 32
OVERHEAD: Final = 33
_SEALED: Final = 1
_MARK: Final = bytes([_SEALED])
_NONCE_BYTES: Final = 12
_ID, _NONCE, _HEADER_BYTES = slice(1, 5), slice(5, 17), 17


class Kind:
    """What a sealed value is."""

    BODY: Final = b"body"
    GROUNDING: Final = b"grounding"
    METADATA: Final = b"metadata"
    SETTINGS: Final = b"settings"
    SUMMARY: Final = b"summary"
    ANSWER: Final = b"answer"


class Purpose:
    """What a digest is of; at most 16 bytes."""

    ENTRY: Final = b"entry"
    CONTENT: Final = b"content"
    REQUEST: Final = b"request"
    WORDS: Final = b"words"


class UnknownKey(Exception):  # noqa: N818 - it reads as what happened
    """A value is sealed with a data key that is not at hand: another process may just have made it."""

    def __init__(self, identity: bytes) -> None:
        super().__init__(identity.hex())
        self.identity = identity


# ---- wrapping


class Wrapped(msgspec.Struct, array_like=True, frozen=True):
    """A tenant's key as it is stored: the id of the master key that wraps it, when it was made, and the sealed key."""

    master: bytes
    created_ms: int
    box: bytes


class Master:
    """One of the keys in SASH_ENCRYPTION_KEY."""

    def __init__(self, key: bytes) -> None:
        self.id = blake2b(key, digest_size=4, person=b"sash master").digest()
        self._cipher = AESGCM(key)

    def wrap(self, key: bytes, tenant: str, name: bytes, created_ms: int) -> Wrapped:
        """A key, sealed for one tenant and one name."""
        nonce = urandom(_NONCE_BYTES)
        return Wrapped(self.id, created_ms, nonce + self._cipher.encrypt(nonce, key, _bound(tenant, name, created_ms)))

    def unwrap(self, wrapped: Wrapped, tenant: str, name: bytes) -> bytes:
        """The key. Raises CannotOpen when it was tampered with."""
        try:
            bound = _bound(tenant, name, wrapped.created_ms)
            return self._cipher.decrypt(wrapped.box[:_NONCE_BYTES], wrapped.box[_NONCE_BYTES:], bound)
        except (InvalidTag, ValueError):
            raise CannotOpen("A tenant's key was changed in the store: it does not open.") from None


def _bound(tenant: str, name: bytes, created_ms: int) -> bytes:
    return b"%b\0%b\0%d" % (tenant.encode(), name, created_ms)


# ---- sealing


class TenantKeys:
    """A tenant's keys, open: data keys by id, the id of the one that seals, and the key that digests are made with."""

    def __init__(self, data: Mapping[bytes, bytes], newest: bytes, digest_key: bytes | None) -> None:
        self.data = data
        self.newest = newest
        self.digest_key = digest_key

    @property
    def can_seal(self) -> bool:
        """Whether what seals is there: not before a tenant's first value, and not without the master key."""
        return self.newest in self.data and self.digest_key is not None

    def cipher(self, identity: bytes, name: bytes, kind: bytes) -> AESGCM:
        """The cipher of one conversation's values of one kind. Raises UnknownKey."""
        key = self.data.get(identity)
        if key is None:
            raise UnknownKey(identity)
        return _cipher(key, name, kind)

    def digest(self, purpose: bytes, value: bytes) -> bytes:
        """As long as ``value``, a digest: it tells equal from other, and confirms no guess to who has not the key."""
        assert self.digest_key is not None  # noqa: S101 - who writes asked for what can seal
        return blake2b(value, key=self.digest_key, digest_size=len(value), person=purpose).digest()


@lru_cache(maxsize=8192)
def _cipher(data_key: bytes, name: bytes, kind: bytes) -> AESGCM:
    return AESGCM(HKDFExpand(SHA256(), KEY_BYTES, b"sash\0%b\0%b" % (kind, name)).derive(data_key))


class Sealer:
    """What seals and opens the values of one conversation, and numbers its words."""

    active = True

    def __init__(self, keys: TenantKeys, name: str) -> None:
        self._keys = keys
        self._name = name.encode()
        self._words_key: bytes | None = None

    def seal(self, kind: bytes, value: bytes, owner: bytes = b"") -> bytes:
        """``value`` as it is stored; ``owner`` is what it is bound to: a message's ``bound_to``, a request's token."""
        if not value:
            return value
        newest, nonce = self._keys.newest, urandom(_NONCE_BYTES)
        sealed = self._keys.cipher(newest, self._name, kind).encrypt(nonce, value, owner)
        return b"".join((_MARK, newest, nonce, sealed))

    def open(self, kind: bytes, value: bytes, owner: bytes = b"") -> bytes:
        """The value that was stored, sealed or plain. Raises CannotOpen, UnknownKey."""
        return self.open_each(kind, (value,), (owner,))[0] if is_sealed(value) else value

    def open_each(self, kind: bytes, values: Sequence[bytes], owners: Iterable[bytes], *, skip: int = 0) -> list[bytes]:
        """The values that were stored, sealed or plain, the first ``skip`` bytes of sealed ones left out.

        A window may have thousands: what can be done once is. Raises CannotOpen, UnknownKey.
        """
        opened: list[bytes] = []
        known, value = b"", b""
        try:
            for value, owner in zip(values, owners, strict=True):
                if value[0] != _SEALED:
                    opened.append(value)
                    continue
                if value[_ID] != known:
                    known = value[_ID]
                    decrypt = self._keys.cipher(known, self._name, kind).decrypt
                opened.append(decrypt(value[_NONCE], value[_HEADER_BYTES:], owner)[skip:])
        except (InvalidTag, ValueError, IndexError):
            raise CannotOpen("What is stored does not open: it was changed or moved.", members=_key(value)) from None
        return opened

    def digest(self, purpose: bytes, value: bytes) -> bytes:
        """A digest in place of another, of the same length."""
        return self._keys.digest(purpose, value)

    def number(self, word: bytes) -> int:
        """A word's 32 bits in an index: nobody without the key learns the word, or that another conversation has it."""
        if self._words_key is None:
            assert self._keys.digest_key is not None  # noqa: S101 - who asks for a sealer has what can seal
            self._words_key = blake2b(self._name, key=self._keys.digest_key, person=Purpose.WORDS).digest()
        return int.from_bytes(blake2b(word, key=self._words_key, digest_size=4).digest())


class PlainSealer:
    """Where no key is set: values are stored as they are, and sealed ones are refused."""

    active = False

    def seal(self, kind: bytes, value: bytes, owner: bytes = b"") -> bytes:  # noqa: ARG002
        """The value itself."""
        return value

    def open(self, kind: bytes, value: bytes, owner: bytes = b"") -> bytes:  # noqa: ARG002
        """The value itself. Raises CannotOpen when it is sealed."""
        if value[:1] == _MARK:
            raise no_key_set(value)
        return value

    def open_each(self, kind: bytes, values: Sequence[bytes], owners: Iterable[bytes], *, skip: int = 0) -> list[bytes]:  # noqa: ARG002
        """The values themselves. Raises CannotOpen when one is sealed."""
        return [self.open(kind, value) for value in values]

    def digest(self, purpose: bytes, value: bytes) -> bytes:  # noqa: ARG002
        """The digest itself."""
        return value

    number = staticmethod(plain_number)


PLAIN: Final = PlainSealer()
PLAIN_JSON: Final = b"{"
"""The first byte of settings that nobody sealed."""
AnySealer = Sealer | PlainSealer


def is_sealed(value: bytes) -> bool:
    """Whether a stored value is a sealed one."""
    return value[:1] == _MARK


def new_key() -> bytes:
    """A key of 256 bits."""
    return secrets.token_bytes(KEY_BYTES)


def no_key_set(value: bytes) -> CannotOpen:
    """A sealed value, and a service that has no key at all."""
    detail = "What is stored is encrypted, and this service was started without SASH_ENCRYPTION_KEY."
    return CannotOpen(detail, members=_key(value))


def missing_key(identity: bytes) -> CannotOpen:
    """A sealed value whose data key is nowhere."""
    return CannotOpen("The data key that this is encrypted with is not in the store.", members={"key": identity.hex()})


def _key(value: bytes) -> dict[str, str]:
    return {"key": value[_ID].hex()}
