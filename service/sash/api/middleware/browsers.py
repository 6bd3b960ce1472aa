"""Protection against foreign web pages: the Host headers that are accepted, and the origins that may read answers (CORS)."""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from litestar.config.cors import CORSConfig

from sash.api.middleware.asgi import Headers
from sash.problems import MisdirectedRequest

Hosts = Callable[[bytes], object]
"""Says whether a Host header is answered."""

_SENT = ("Authorization", "Idempotency-Key", "If-Match", "If-None-Match", "Traceparent", "X-Request-ID")
_SHOWN_HOST = 100
"""Characters of a foreign Host that the answer repeats."""
_READ = ("ETag", "Idempotency-Replayed", "Link", "Location", "Retry-After", "X-Request-ID")


def loopback_hosts(host: str) -> Hosts:
    """Return a function that tells if a Host header has ``host``, a loopback address or localhost, with any port.

    Another site can let its own name resolve to this machine (DNS rebinding). Its pages then have the same origin as the
    service, and the browser sends the site's name as Host. The latest answers are kept: a client sends one Host always.
    """
    own = re.escape(f"[{host}]" if ":" in host else host)
    names = re.compile(rf"(?:localhost|127(?:\.\d{{1,3}}){{3}}|\[::1\]|{own})(?::\d*)?".encode(), re.IGNORECASE)
    return lru_cache(maxsize=16)(names.fullmatch)


def misdirected(host: bytes) -> MisdirectedRequest:
    """The problem of a request to a foreign Host."""
    came = f"'Host: {host.decode('latin-1')[:_SHOWN_HOST]}' came" if host else "no Host came"
    return MisdirectedRequest(
        "Without API keys the service answers only at localhost and loopback addresses: use one of them, "
        "or set SASH_API_KEYS or SASH_ALLOW_ANONYMOUS. A proxy on this machine must send the header "
        f"'Host: localhost'; {came}."
    )


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
