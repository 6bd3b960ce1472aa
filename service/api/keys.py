"""Whose request it is: the keys of the settings, and those that ``sash keys`` made."""

from hashlib import sha256
from hmac import compare_digest

import msgspec

from service.problems import Unauthorized
from service.settings import ApiKey
from service.store.keys import KEY_PREFIX, ApiKeys

DEFAULT_TENANT = "default"


class Caller(msgspec.Struct, frozen=True):
    """Whose request it is, and what its key may do otherwise than every tenant: None where it may the same."""

    tenant: str
    rate: float | None = None
    max_body_bytes: int | None = None
    rated_key: str = ""
    """The key's id where it has a rate of its own."""


_NOBODY = Caller(DEFAULT_TENANT)


class Callers:
    """Finds whose key a request has. Keys are compared by their hash, in constant time.

    A key is asked for when the settings hold any or ``required`` says so; else a request without one is the default
    tenant's. A key of ``sash keys`` opens its tenant in every case, and one that was revoked opens nothing.
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
        """Whose key it is. Raises Unauthorized, StoreUnavailable."""
        key = _bearer(authorization)
        tenant = self._configured(key) if self._tenants else None
        if tenant is None and self._stored is not None and key.startswith(KEY_PREFIX.encode()):
            found = await self._stored.find(key.decode("latin-1"))
            if found is None:
                raise _unauthorized()
            return Caller(found.tenant, found.rate, found.max_body_bytes, found.id if found.rate else "")
        if tenant is not None:
            return Caller(tenant)
        if not self.anonymous:
            raise _unauthorized()
        return _NOBODY

    def check_figures(self, authorization: bytes) -> None:
        """Raise Unauthorized unless figures of all tenants may be told. No tenant's key opens them."""
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
    """The key of an Authorization header; nothing where there is none."""
    scheme, _, key = authorization.partition(b" ")
    return key.strip() if scheme.lower() == b"bearer" else b""


def _unauthorized(detail: str = "Send an API key: Authorization: Bearer <key>.") -> Unauthorized:
    return Unauthorized(detail, headers={"WWW-Authenticate": "Bearer"})
