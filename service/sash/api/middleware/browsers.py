"""Protection against foreign web pages: the Host headers that are accepted, and the origins that may read answers (CORS)."""

import re
from collections.abc import Sequence

from litestar.config.cors import CORSConfig

from sash.api.middleware.asgi import Headers

_SENT = ("Authorization", "Idempotency-Key", "If-Match", "If-None-Match", "Traceparent", "X-Request-ID")
_READ = ("ETag", "Idempotency-Replayed", "Link", "Location", "Retry-After", "X-Request-ID")


def loopback_hosts(host: str) -> re.Pattern[bytes]:
    """A pattern of the Host headers that reach a service on the loopback address ``host``, with any port.

    Another site can let its own name resolve to this machine (DNS rebinding). Its pages then have the same origin as the
    service, and the browser sends the site's name as Host.
    """
    own = re.escape(f"[{host}]" if ":" in host else host)
    return re.compile(rf"(?:localhost|127(?:\.\d{{1,3}}){{3}}|\[::1\]|{own})(?::\d*)?".encode(), re.IGNORECASE)


class Cors:
    """CORS headers for pages of ``origins``; ``*`` allows every origin. Litestar's middleware omits them from some errors.

    Credentials such as cookies are not allowed: a page sends its key in a header.
    """

    def __init__(self, origins: Sequence[str]) -> None:
        self._config = CORSConfig(allow_origins=list(origins), allow_headers=list(_SENT), expose_headers=list(_READ))
        simple, preflight = self._config.simple_headers, self._config.preflight_headers
        self._simple = _encoded(simple)
        self.preflight = _encoded({name: preflight[name] for name in preflight if name not in {*simple, "Vary"}})
        """Headers of the answer to a preflight request, added to ``headers``."""

    def headers(self, origin: bytes) -> Headers:
        """The CORS headers of every answer to a request of ``origin``; for an origin that is not allowed, ``Vary`` alone."""
        if self._config.is_allow_all_origins:
            return self._simple
        vary = [(b"vary", b"Origin")]
        if not self._config.is_origin_allowed(origin.decode("latin-1")):
            return vary
        return [*vary, (b"access-control-allow-origin", origin), *self._simple]


def _encoded(headers: dict[str, str]) -> Headers:
    return [(name.lower().encode(), value.encode()) for name, value in headers.items()]
