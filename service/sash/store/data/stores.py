"""All that is stored, by kind: each part reads and writes through the same client."""

from collections.abc import Sequence

import msgspec

from sash.store.data.agreements import Agreements
from sash.store.data.amendments import Amendments
from sash.store.data.api_keys import ApiKeys
from sash.store.data.branch_swaps import BranchSwaps
from sash.store.data.claims import Claims
from sash.store.data.columns import Columns
from sash.store.data.conversations import Conversations
from sash.store.data.datakeys import DataKeys
from sash.store.data.earlier import EarlierStates
from sash.store.data.following import Following
from sash.store.data.histories import Histories
from sash.store.data.indexing import Index
from sash.store.data.kept_models import KeptModels
from sash.store.data.media_contents import MediaContents
from sash.store.data.media_erasures import MediaErasures
from sash.store.data.object_storage import ObjectStorage
from sash.store.data.owner_erasures import OwnerErasures
from sash.store.data.owners import Owners
from sash.store.data.reading import Reader
from sash.store.data.redactions import Redactions
from sash.store.data.summaries import Summaries
from sash.store.data.tenants import Tenants
from sash.store.data.usage import Calibrations
from sash.store.redis.client import Client


class Stores(msgspec.Struct, frozen=True):
    """The parts of a deployment's store."""

    client: Client
    data_keys: DataKeys
    conversations: Conversations
    reader: Reader
    following: Following
    media: MediaContents
    erasures: MediaErasures
    histories: Histories
    redactions: Redactions
    summaries: Summaries
    earlier: EarlierStates
    agreements: Agreements
    branch_swaps: BranchSwaps
    amendments: Amendments
    owners: Owners
    owner_erasures: OwnerErasures
    tenants: Tenants
    index: Index
    columns: Columns
    kept_models: KeptModels
    claims: Claims
    calibrations: Calibrations
    api_keys: ApiKeys


def stores_of(
    client: Client,
    *,
    retention_seconds: int | None,
    encryption_keys: Sequence[bytes],
    objects: ObjectStorage | None = None,
) -> Stores:
    """Return the parts of the store behind ``client``; ``objects`` keep its pictures and files, if given."""
    data_keys = DataKeys(client, encryption_keys)
    retention_ms = retention_seconds * 1000 if retention_seconds else None
    conversations = Conversations(client, retention_ms=retention_ms, data_keys=data_keys, objects=objects)
    histories, agreements = Histories(client, conversations), Agreements(conversations)
    return Stores(
        client=client,
        data_keys=data_keys,
        conversations=conversations,
        reader=conversations.reader,
        following=Following(client),
        media=conversations.media,
        erasures=conversations.erasures,
        histories=histories,
        redactions=Redactions(client, conversations),
        summaries=Summaries(client, conversations),
        earlier=EarlierStates(client, conversations.reader, data_keys),
        agreements=agreements,
        branch_swaps=BranchSwaps(conversations, histories, agreements),
        amendments=Amendments(client, conversations),
        owners=Owners(client, conversations),
        owner_erasures=OwnerErasures(client),
        tenants=Tenants(client, conversations.reader),
        index=Index(client, conversations.reader, data_keys),
        columns=Columns(client),
        kept_models=KeptModels(client),
        claims=Claims(client, data_keys),
        calibrations=Calibrations(client),
        api_keys=ApiKeys(client),
    )
