"""Whom a browser may ask for: which hosts this service answers to, and pages of which origins may read its answers."""

import re
from collections.abc import Sequence

from litestar.config.cors import CORSConfig

from service.api.asgi import Headers

_SENT = ("Authorization", "Idempotency-Key", "If-Match", "If-None-Match", "Traceparent", "X-Request-ID")
_READ = ("ETag", "Idempotency-Replayed", "Link", "Location", "Retry-After", "X-Request-ID")


def loopback_hosts(host: str) -> re.Pattern[bytes]:
    """The Host headers of a service that listens on ``host``, which this machine alone can reach; with any port.

    A page of another site can let its own name resolve to this machine (DNS rebinding), and is then of the same origin as
    the service. The browser still sends that name as Host.
    """
    own = re.escape(f"[{host}]" if ":" in host else host)
    return re.compile(rf"(?:localhost|127(?:\.\d{{1,3}}){{3}}|\[::1\]|{own})(?::\d*)?".encode(), re.IGNORECASE)


class Cors:
    """Headers for pages of ``origins``, or of any where that is ``*``. The framework's own middleware would miss errors.

    No credentials: a page sends its key by itself.
    """

    def __init__(self, origins: Sequence[str]) -> None:
        self._config = CORSConfig(allow_origins=list(origins), allow_headers=list(_SENT), expose_headers=list(_READ))
        simple, preflight = self._config.simple_headers, self._config.preflight_headers
        self._simple = _encoded(simple)
        self.preflight = _encoded({name: preflight[name] for name in preflight if name not in {*simple, "Vary"}})
        """What a preflight is told beside ``headers``."""

    def headers(self, origin: bytes) -> Headers:
        """What every answer to a request of ``origin`` says; nothing that opens it where the origin is not allowed."""
        if self._config.is_allow_all_origins:
            return self._simple
        vary = [(b"vary", b"Origin")]
        if not self._config.is_origin_allowed(origin.decode("latin-1")):
            return vary
        return [*vary, (b"access-control-allow-origin", origin), *self._simple]


def _encoded(headers: dict[str, str]) -> Headers:
    return [(name.lower().encode(), value.encode()) for name, value in headers.items()]
