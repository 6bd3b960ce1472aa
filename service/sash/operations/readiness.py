"""Readiness: whether a request is better sent here than nowhere, from what is known already.

The service is ready while any server of the store serves any verb: what this replica refuses, the others would refuse too.
``watch.py`` looks four times a second, so that ``GET /readyz`` asks nobody.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from sash import __version__
from sash.operations.conditions import Observation
from sash.store.data.datakeys import DataKeys
from sash.store.redis.client import Client
from sash.store.redis.durability import Inspection
from sash.store.redis.permissions import OF_READS, denial
from sash.store.redis.servers import ONLY, Health
from sash.store.redis.versions import layout_refusal

Verb = Literal["read", "append", "erase"]
VERBS: tuple[Verb, ...] = Verb.__args__  # type: ignore[attr-defined]


class Shard(msgspec.Struct, frozen=True):
    """What one server of the store serves now."""

    name: Annotated[str, Meta(description="`store` for a single server; a node's address in a cluster.")]
    serves: list[Verb]
    why: Annotated[str, Meta(description="Why the other verbs are refused; empty if all are served.")]

    @property
    def told(self) -> str:
        """Why it refuses verbs, with its name where there are several servers."""
        return self.why if self.name == ONLY else f"{self.name}: {self.why}"


def shards_of(seen: Observation) -> list[Shard]:
    """What each server of the store serves."""
    is_full = seen.is_memory_full
    return [Shard(each.name, *_serves(each, seen.trouble, is_full=is_full)) for each in seen.servers]


def _serves(server: Health, trouble: str, *, is_full: bool) -> tuple[list[Verb], str]:
    """The verbs that a server serves, and why not the others."""
    found = server.found
    if found is None:
        return [], trouble or "there is no connection to it"
    if server.is_silent:
        return [], f"it has sent nothing for {server.silent_seconds:.1f} s"
    if found.info.get("loading") == "1":
        return [], "it is loading its data"
    return _takes(found, is_full=is_full)


def _takes(found: Inspection, *, is_full: bool) -> tuple[list[Verb], str]:
    """The verbs that a server which answers takes, and why not the others."""
    if found.info.get("aof_last_write_status", "ok") != "ok":
        return ["read"], "its last write to the append-only file failed"
    if found.refused:
        verbs: list[Verb] = [] if OF_READS.intersection(found.denied) else ["read"]
        return verbs, denial(found.denied).detail if found.denied else found.refusal
    if found.shortage is not None:
        return ["read", "erase"] if found.shortage.erasures else ["read"], found.shortage.why
    return (["read", "erase"], "its memory is full") if is_full else ([*VERBS], "")


async def closed(client: Client, data_keys: DataKeys) -> str:
    """Why nothing may be served although the store answers: its data has another layout, or is sealed with other keys.

    Notes the layout in a store that has none. Raises StoreUnavailable.
    """
    return client.closed or await layout_refusal(client, __version__) or await data_keys.refusal()
