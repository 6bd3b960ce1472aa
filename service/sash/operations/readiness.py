"""Readiness: the store answers, takes writes, allows every command, and is as durable as the settings require."""

from sash.problems import StorePermissionDenied, StoreUnavailable
from sash.store.data.datakeys import DataKeys
from sash.store.redis.client import Client
from sash.store.redis.durability import Inspection
from sash.store.redis.versions import layout_refusal


async def judged(client: Client, data_keys: DataKeys) -> list[Inspection]:
    """The findings on each writable server. Raises StoreUnavailable; its detail says what to change."""
    lost = client.lost_files  # checked first: the store's socket may be lost too, and then no call can be made
    if lost:
        raise StoreUnavailable(f"Not ready: {lost}.")
    denied: StorePermissionDenied | None = None
    try:
        unfit = await layout_refusal(client) or await data_keys.refusal()
    except StorePermissionDenied as error:
        unfit, denied = "", error  # it names one command; refused.problem below names all
    if unfit:
        raise StoreUnavailable(f"Not ready: {unfit}.")
    servers = client.servers
    refused = next((found for found in servers if found.refused), None)
    if refused is not None:
        raise refused.problem("Not ready")
    if denied is not None:
        raise denied
    if client.shortage:
        raise StoreUnavailable(f"Not ready: {client.shortage}. Reads and erasure go on, writes get 507.")
    if not servers:
        raise StoreUnavailable("Not ready: no server of the store has answered yet.")
    return servers
