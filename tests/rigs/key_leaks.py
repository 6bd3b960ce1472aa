"""Check that a test leaves no keys in the store.

A test that leaves a key behind hides a defect: an erasure that misses a key, or a key that never expires. So after each
test every conversation is erased as a client erases it, and then no key of Sash may remain. Keys that belong to no
conversation (statistics, idempotency keys) may remain if they have an expiry. The layout's number and writer, the keys for
encryption at rest and for the hashes of log lines, the store's mark, and the figures of models, need none.
"""

import re

import redis

from sash.store.data.layout import PREFIX, keys_of
from sash.store.redis.versions import LAYOUT_KEY, WRITER_KEY

_FOR_GOOD = re.compile(
    r"sash:\{[^/{}]+/keys/data\}:wrapped|sash:\{keys\}:(?:tenants|masters)|sash:\{media\}:store|sash:\{logs\}:key|sash:\{mark\}:time|sash:\{models\}:kept"
)
_CONVERSATION = re.compile(r"sash:\{([^/{}]+)/([^/{}]+)\}:conversation")


def conversations_in(server: redis.Redis) -> list[tuple[str, str]]:
    """Return tenant and id of each stored conversation."""
    found = (_CONVERSATION.fullmatch(key) for key in server.scan_iter(f"{PREFIX}*:conversation", count=1000))
    return sorted((match[1], match[2]) for match in found if match)


def leaks(server: redis.Redis, erased: list[tuple[str, str]]) -> list[str]:
    """Return a line for each leaked key, and delete all keys but permanent ones, so that no later test reports them."""
    tags = {keys_of(f"{tenant}/{conversation}").conversation.rpartition(":")[0] for tenant, conversation in erased}
    lines = []
    for key in sorted(server.scan_iter(f"{PREFIX}*", count=1000)):
        if _FOR_GOOD.fullmatch(key):
            continue
        if key.rpartition(":")[0] in tags:
            lines.append(f"{key} outlived its conversation")
        elif key not in {LAYOUT_KEY, WRITER_KEY} and server.pttl(key) == -1:
            lines.append(f"{key} will never expire")
        server.delete(key)
    return lines
