"""Create, append to (``append_script``), change and erase conversations. Each method is one script, in one round trip."""

from collections.abc import Sequence

from sash.problems import ConversationExists
from sash.store.data import write_scripts
from sash.store.data.append_script import Appends
from sash.store.data.datakeys import DataKeys
from sash.store.data.layout import Target
from sash.store.data.marked_storage import MarkedStorage
from sash.store.data.object_storage import ObjectStorage
from sash.store.data.reading import Reader
from sash.store.data.replies import visible_owner
from sash.store.data.sealing import Kind
from sash.store.data.write_scripts import Written
from sash.store.redis.client import Client


class Conversations(Appends):
    """All conversations of a deployment. Every call names a tenant, which sees only its own."""

    def __init__(
        self,
        client: Client,
        *,
        retention_ms: int | None = None,
        data_keys: DataKeys | None = None,
        objects: ObjectStorage | None = None,
    ) -> None:
        storage = MarkedStorage(client, objects) if objects is not None else None
        super().__init__(client, data_keys or DataKeys(client), storage, retention_ms=retention_ms)
        self.reader = Reader(client, self.data_keys)

    def ttl_ms(self, ttl_seconds: int | None) -> int | None:
        """Return how long a conversation is kept after its last change, in milliseconds; None for ever."""
        return ttl_seconds * 1000 if ttl_seconds else self._retention_ms

    async def create(self, target: Target, settings: bytes, *, ttl_ms: int | None, now_ms: int, token: str) -> str:
        """Create a conversation without messages; gives its entity tag.

        ``token`` makes a repeated call of one request succeed. Raises ConversationExists, ConversationDamaged.
        """
        sealer = await self.data_keys.sealer(target.tenant, target.name)
        return await self._client.run(
            write_scripts.create(
                target.keys,
                name=target.name,
                settings=sealer.seal(Kind.SETTINGS, settings),
                now_ms=now_ms,
                ttl_ms=ttl_ms or self._retention_ms,
                token=token,
                owner=visible_owner(sealer, settings),
            )
        )

    async def require_absent(self, target: Target, *, token: str) -> bool:
        """Return whether this same request made the conversation before; ``token`` is as in ``create``.

        Raises ConversationExists where another request made it, before a large body is sent.
        """
        (found,) = await self._client.commands([("HMGET", target.keys.conversation, "id", "token")])
        if found[0] is not None and found[1] != token.encode():
            raise ConversationExists("A conversation with this id exists: choose another id.")
        return found[0] is not None

    async def change(
        self,
        target: Target,
        *,
        settings: bytes,
        standing: bytes,
        life: str,
        ttl_ms: int | None,
        if_match: str,
        now_ms: int,
        token: str,
        forget: Sequence[str] = (),
        kept: bytes = b"",
    ) -> Written:
        """Replace the stored settings ``standing`` by ``settings``, if the conversation's life is still ``life``.

        ``token`` makes a repeated call of one request succeed. ``forget`` names the parts of the index that recall no longer
        needs: ``words``, ``vectors``. ``kept`` are the settings that windows had, if these change.

        Raises:
            NotFound, and PreconditionFailed when the settings or the version have changed.
        """
        sealer = await self.data_keys.sealer(target.tenant, target.name)
        return await self._client.run(
            write_scripts.change(
                target.keys,
                life=life,
                if_match=if_match,
                settings=sealer.seal(Kind.SETTINGS, settings),
                standing=standing,
                ttl_ms=ttl_ms or self._retention_ms,
                now_ms=now_ms,
                token=token,
                owner=visible_owner(sealer, settings),
                forget_words="words" in forget,
                forget_vectors="vectors" in forget,
                kept=sealer.seal(Kind.SETTINGS, kept),
            )
        )

    async def erase(self, target: Target, *, life: str = "", if_match: str = "") -> None:
        """Erase all of a conversation: of one ``life``, or of any. Raises NotFound, PreconditionFailed."""
        await self.erasures.after(target, write_scripts.erase(target.keys, life=life, if_match=if_match))
