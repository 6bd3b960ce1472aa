"""Whether the service may take traffic: the store answers, takes every command, and keeps what it is given as asked."""

from service.problems import StorePermissionDenied, StoreUnavailable
from service.store.client import Client
from service.store.datakeys import DataKeys
from service.store.durability import Inspection
from service.store.versions import stored_layout, too_new


async def judged(client: Client, data_keys: DataKeys) -> list[Inspection]:
    """What was found of the servers that may be written to. Raises StoreUnavailable, with what to change."""
    lost = client.lost_files  # its socket may be lost too, and then there is nobody to ask
    if lost:
        raise StoreUnavailable(f"Not ready: {lost}.")
    denied: StorePermissionDenied | None = None
    try:
        unfit = too_new(await stored_layout(client)) or await data_keys.refusal()
    except StorePermissionDenied as error:
        unfit, denied = "", error  # one command; the judgement of the server names every one
    if unfit:
        raise StoreUnavailable(f"Not ready: {unfit}.")
    servers = client.servers
    refused = next((found for found in servers if found.refused), None)
    if refused is not None:
        raise refused.problem("Not ready")
    if denied is not None:
        raise denied
    if not servers:
        raise StoreUnavailable("Not ready: no server was met yet.")
    return servers
