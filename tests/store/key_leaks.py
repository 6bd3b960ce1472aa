"""What a test may leave in the store: nothing.

A test that leaves a key behind hides a defect: an erasure that forgot something, or a key that will never expire. So
after each test every conversation is erased the way a client erases it, and then no key of Sash may remain. Keys that
are no conversation's (statistics, idempotency keys) may outlive it, but only with an expiry; the layout's number and the
keys of encryption at rest and of log lines' hashes stay.
"""

import re

import redis

from service.store.layout import PREFIX, keys_of
from service.store.versions import LAYOUT_KEY

_FOR_GOOD = re.compile(r"sash:\{[^/{}]+/keys/data\}:wrapped|sash:\{keys\}:(?:tenants|masters)|sash:\{logs\}:key")
_CONVERSATION = re.compile(r"sash:\{([^/{}]+)/([^/{}]+)\}:conversation")


def conversations_in(server: redis.Redis) -> list[tuple[str, str]]:
    """Tenant and id of each conversation that is stored."""
    found = (_CONVERSATION.fullmatch(key) for key in server.scan_iter(f"{PREFIX}*:conversation", count=1000))
    return sorted((match[1], match[2]) for match in found if match)


def leaks(server: redis.Redis, erased: list[tuple[str, str]]) -> list[str]:
    """A line for each key that should be gone; the keys are removed, so that the next test is not blamed."""
    tags = {keys_of(f"{tenant}/{conversation}").conversation.rpartition(":")[0] for tenant, conversation in erased}
    lines = []
    for key in sorted(server.scan_iter(f"{PREFIX}*", count=1000)):
        if _FOR_GOOD.fullmatch(key):
            continue
        if key.rpartition(":")[0] in tags:
            lines.append(f"{key} outlived its conversation")
        elif key != LAYOUT_KEY and server.pttl(key) == -1:
            lines.append(f"{key} will never expire")
        server.delete(key)
    return lines
