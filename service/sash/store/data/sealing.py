"""Encryption at rest, without I/O: the sealed values, their form, and their keys.

::

    SASH_ENCRYPTION_KEY ──wraps──▶ data keys of a tenant ──HKDF──▶ key of a conversation ──AES-256-GCM──▶ sealed values
                        └─wraps──▶ digest key of a tenant ──BLAKE2b──▶ digests that confirm no guess

A sealed value is 33 bytes longer than the plain one::

    0       the byte 1: neither JSON nor a record begins with it, so it marks sealed values among older plain ones
    1-4     id of the data key
    5-16    nonce, random
    17-     ciphertext, then 16 bytes of authentication tag

The key binds each value to its conversation and its ``Kind``. The associated data bind a message, its documents and its
metadata to the message's record (role, counts, size, digest of the content; not the flags, which change). So bytes that
were moved to another conversation, field or message do not open, nor does a message with changed counts. The seq is not
bound, because it is unknown before the append script runs. Removed messages, and old bytes that were put back with their
old record, are not detected.

Nonces are random, which is safe for 2**32 values under one key (NIST SP 800-38D, 8.3). HKDF (RFC 5869) makes a key for each
conversation, kind and data key from the data key, so no key comes near that number.
"""

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

from sash.core.search.words import plain_number
from sash.problems import CannotOpen

KEY_BYTES: Final = 32
OVERHEAD: Final = 33
_SEALED: Final = 1
_MARK: Final = bytes([_SEALED])
_NONCE_BYTES: Final = 12
_ID, _NONCE, _HEADER_BYTES = slice(1, 5), slice(5, 17), 17


class Kind:
    """The kinds of sealed value."""

    BODY: Final = b"body"
    GROUNDING: Final = b"grounding"
    METADATA: Final = b"metadata"
    SETTINGS: Final = b"settings"
    SUMMARY: Final = b"summary"
    MEDIA: Final = b"media"


class Purpose:
    """The purposes of digests; at most 16 bytes each."""

    ENTRY: Final = b"entry"
    CONTENT: Final = b"content"
    REQUEST: Final = b"request"
    WORDS: Final = b"words"
    MEDIA: Final = b"media"


class UnknownKey(Exception):  # noqa: N818 - it reads as what happened
    """A value is sealed with an unknown data key, which another process may just have made."""

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
        """Return a key, sealed for one tenant and one name."""
        nonce = urandom(_NONCE_BYTES)
        return Wrapped(self.id, created_ms, nonce + self._cipher.encrypt(nonce, key, _bound(tenant, name, created_ms)))

    def unwrap(self, wrapped: Wrapped, tenant: str, name: bytes) -> bytes:
        """Return the key. Raises CannotOpen when the wrapped key was changed."""
        try:
            bound = _bound(tenant, name, wrapped.created_ms)
            return self._cipher.decrypt(wrapped.box[:_NONCE_BYTES], wrapped.box[_NONCE_BYTES:], bound)
        except (InvalidTag, ValueError):
            raise CannotOpen("A tenant's key was changed in the store: it does not open.") from None


def _bound(tenant: str, name: bytes, created_ms: int) -> bytes:
    return b"%b\0%b\0%d" % (tenant.encode(), name, created_ms)


# ---- sealing


class TenantKeys:
    """A tenant's opened keys: data keys by id, the id of the data key that seals, and the key for digests."""

    def __init__(self, data: Mapping[bytes, bytes], newest: bytes, digest_key: bytes | None) -> None:
        self.data = data
        self.newest = newest
        self.digest_key = digest_key

    @property
    def can_seal(self) -> bool:
        """Whether values can be sealed. The keys are missing before a tenant's first value, or without the master key."""
        return self.newest in self.data and self.digest_key is not None

    def cipher(self, identity: bytes, name: bytes, kind: bytes) -> AESGCM:
        """Return the cipher of one conversation's values of one kind. Raises UnknownKey."""
        key = self.data.get(identity)
        if key is None:
            raise UnknownKey(identity)
        return _cipher(key, name, kind)

    def digest(self, purpose: bytes, value: bytes) -> bytes:
        """Return a digest as long as ``value``. Without the key it cannot confirm a guess at the value."""
        assert self.digest_key is not None  # noqa: S101 - a writer has keys that can seal
        return blake2b(value, key=self.digest_key, digest_size=len(value), person=purpose).digest()


@lru_cache(maxsize=8192)
def _cipher(data_key: bytes, name: bytes, kind: bytes) -> AESGCM:
    return AESGCM(HKDFExpand(SHA256(), KEY_BYTES, b"sash\0%b\0%b" % (kind, name)).derive(data_key))


class Sealer:
    """Seals and opens the values of one conversation, and numbers its words."""

    active = True

    def __init__(self, keys: TenantKeys, name: str) -> None:
        self._keys = keys
        self._name = name.encode()
        self._words_key: bytes | None = None

    def seal(self, kind: bytes, value: bytes, owner: bytes = b"") -> bytes:
        """Return ``value`` sealed; ``owner`` is its associated data: a message's ``bound_to``, or a request's token."""
        if not value:
            return value
        newest, nonce = self._keys.newest, urandom(_NONCE_BYTES)
        sealed = self._keys.cipher(newest, self._name, kind).encrypt(nonce, value, owner)
        return b"".join((_MARK, newest, nonce, sealed))

    def open(self, kind: bytes, value: bytes, owner: bytes = b"") -> bytes:
        """Return the plain value of a stored one, sealed or not. Raises CannotOpen, UnknownKey."""
        return self.open_each(kind, (value,), (owner,))[0] if is_sealed(value) else value

    def open_each(self, kind: bytes, values: Sequence[bytes], owners: Iterable[bytes], *, skip: int = 0) -> list[bytes]:
        """Return the plain values of stored ones, without the first ``skip`` bytes of sealed ones.

        A value that is not sealed must be JSON, like all bodies from before encryption. A window may have thousands of
        values, so common work is done once. Raises CannotOpen, UnknownKey.
        """
        opened: list[bytes] = []
        known: bytes | None = None
        value = b""
        try:
            for value, owner in zip(values, owners, strict=True):
                if value[:1] == PLAIN_JSON:
                    opened.append(value)
                    continue
                if value[0] != _SEALED:
                    raise ValueError  # noqa: TRY301 - neither sealed, nor from before encryption
                if value[_ID] != known:
                    known = value[_ID]
                    decrypt = self._keys.cipher(known, self._name, kind).decrypt
                opened.append(decrypt(value[_NONCE], value[_HEADER_BYTES:], owner)[skip:])
        except (InvalidTag, ValueError, IndexError):
            raise CannotOpen("What is stored does not open: it was changed or moved.", members=_key(value)) from None
        return opened

    def digest(self, purpose: bytes, value: bytes) -> bytes:
        """Return a keyed digest in place of a plain one, with the same length."""
        return self._keys.digest(purpose, value)

    def number(self, word: bytes) -> int:
        """Return a word's 32-bit number in the index. Without the key it reveals neither the word nor equal words."""
        if self._words_key is None:
            assert self._keys.digest_key is not None  # noqa: S101 - as above
            self._words_key = blake2b(self._name, key=self._keys.digest_key, person=Purpose.WORDS).digest()
        return int.from_bytes(blake2b(word, key=self._words_key, digest_size=4).digest())


class PlainSealer:
    """The sealer without a master key: values are stored as they are, and sealed ones are refused."""

    active = False

    def seal(self, kind: bytes, value: bytes, owner: bytes = b"") -> bytes:  # noqa: ARG002
        """Return the value itself."""
        return value

    def open(self, kind: bytes, value: bytes, owner: bytes = b"") -> bytes:  # noqa: ARG002
        """Return the value itself. Raises CannotOpen when it is sealed."""
        if is_sealed(value):
            raise no_key_set(value)
        return value

    def open_each(self, kind: bytes, values: Sequence[bytes], owners: Iterable[bytes], *, skip: int = 0) -> list[bytes]:  # noqa: ARG002
        """Return the values themselves. Raises CannotOpen when one is sealed."""
        return [self.open(kind, value) for value in values]

    def digest(self, purpose: bytes, value: bytes) -> bytes:  # noqa: ARG002
        """Return the digest itself."""
        return value

    number = staticmethod(plain_number)


PLAIN: Final = PlainSealer()
PLAIN_JSON: Final = b"{"
"""The first byte of settings that are not sealed."""
AnySealer = Sealer | PlainSealer


def is_sealed(value: bytes | memoryview) -> bool:
    """Return whether a stored value is sealed."""
    return value[:1] == _MARK


def new_key() -> bytes:
    """Return a random key of 256 bits."""
    return urandom(KEY_BYTES)


def no_key_set(value: bytes = b"") -> CannotOpen:
    """Return the problem of a service without a master key. It names the data key of ``value``, a sealed value, if given."""
    detail = "What is stored is encrypted, and this service was started without SASH_ENCRYPTION_KEY."
    return CannotOpen(detail, members=_key(value) if value else {})


def missing_key(identity: bytes) -> CannotOpen:
    """Return the problem of a sealed value whose data key is missing."""
    return CannotOpen("The data key that this is encrypted with is not in the store.", members={"key": identity.hex()})


def _key(value: bytes) -> dict[str, str]:
    return {"key": value[_ID].hex()}
