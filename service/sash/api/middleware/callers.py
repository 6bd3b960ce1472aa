"""Finds a request's tenant by its API key: a key of the settings, or one made by ``sash keys``."""

from hashlib import sha256
from hmac import compare_digest

import msgspec

from sash.problems import Unauthorized
from sash.store.data.api_keys import KEY_PREFIX, ApiKeys
from sash.variables import ApiKey

DEFAULT_TENANT = "default"


class Caller(msgspec.Struct, frozen=True):
    """A request's tenant, and the limits of its key; None where the settings' limit applies. ``rate`` is per second."""

    tenant: str
    rate: float | None = None
    max_body_bytes: int | None = None
    rated_key: str = ""
    """The key's id if the key has a rate of its own, else empty."""


_NOBODY = Caller(DEFAULT_TENANT)
_UNKNOWN = "This API key is unknown or was revoked."
_NONE_NEEDED = (
    "The service requires none (SASH_REQUIRE_KEYS is not set): send a key that it knows, or leave the header out."
)


class Callers:
    """Finds the tenant of a request's key. Keys are compared by their hashes, in constant time.

    A key is required if the settings contain one or ``required`` is true. Otherwise a request without a key is the
    default tenant's. A key of ``sash keys`` always opens its tenant. An unknown or revoked key is refused in any case: who
    sends one takes keys to be required.
    """

    def __init__(
        self,
        configured: tuple[ApiKey, ...],
        stored: ApiKeys | None = None,
        *,
        required: bool = False,
        metrics_key: str | None = None,
    ) -> None:
        self._tenants = {sha256(each.key.encode()).digest(): each.tenant for each in configured}
        self._stored = stored
        self.anonymous = not (required or configured)
        """Whether requests without a key are answered."""
        self._metrics_key = sha256(metrics_key.encode()).digest() if metrics_key else None

    async def caller(self, authorization: bytes) -> Caller:
        """The tenant and limits of the key in an Authorization header. Raises Unauthorized, StoreUnavailable."""
        key = _bearer(authorization)
        tenant = self._configured(key) if self._tenants else None
        if tenant is None and self._stored is not None and key.startswith(KEY_PREFIX.encode()):
            found = await self._stored.find(key.decode("latin-1"))
            if found is not None:
                return Caller(found.tenant, found.rate, found.max_body_bytes, found.id if found.rate else "")
        if tenant is not None:
            return Caller(tenant)
        if key:
            raise _unauthorized(f"{_UNKNOWN} {_NONE_NEEDED}" if self.anonymous else _UNKNOWN)
        if not self.anonymous:
            raise _unauthorized()
        return _NOBODY

    def check_figures(self, authorization: bytes) -> None:
        """Raise Unauthorized unless the request may read figures of all tenants. A tenant's key does not allow that."""
        if self._metrics_key is None:
            if not self.anonymous:
                raise _unauthorized(
                    "These are figures of all tenants: set SASH_METRICS_KEY, and send it as a Bearer key."
                )
        elif not compare_digest(self._metrics_key, sha256(_bearer(authorization)).digest()):
            raise _unauthorized("These are figures of all tenants: send SASH_METRICS_KEY as a Bearer key.")

    def _configured(self, key: bytes) -> str | None:
        digest, found = sha256(key).digest(), None
        for known, tenant in self._tenants.items():
            if compare_digest(known, digest):
                found = tenant
        return found


def _bearer(authorization: bytes) -> bytes:
    """The Bearer key of an Authorization header; empty if there is none."""
    scheme, _, key = authorization.partition(b" ")
    return key.strip() if scheme.lower() == b"bearer" else b""


def _unauthorized(detail: str = "Send an API key: Authorization: Bearer <key>.") -> Unauthorized:
    return Unauthorized(detail, headers={"WWW-Authenticate": "Bearer"})
