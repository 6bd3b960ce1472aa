"""Follow conversations: what changed since a version, and a wake-up at each change.

A change is published only while somebody follows the conversation: the field ``followed`` says until when. So a conversation
without followers costs nothing. Messages of the store only wake; what changed is read from the conversation.
"""

from collections.abc import Callable
from typing import Final

from sash.problems import NotFound
from sash.store.data import read_scripts, script_calls
from sash.store.data.entries import wall_ms
from sash.store.data.layout import HISTORY, Target, check_identity
from sash.store.data.read_scripts import ChangesReply
from sash.store.redis.client import Client

LEASE_SECONDS: Final = 3600
"""How long changes are published after the latest renewal."""
_CONFIRM_SECONDS: Final = 3.0


class Following:
    """The channels that one worker listens to, and their leases."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._subscriptions = client.subscriptions(lambda _, __: None, lambda _, __: None)

    def listen(self, told: Callable[[str, bytes], None], gap: Callable[[str, bool], None]) -> None:
        """Set who is told, before anything is followed.

        ``told`` is called with a conversation's channel and what its change was: ``text`` where a reply in progress has a
        longer text, else nothing. ``gap`` is called with a channel of which messages may have been lost, and
        whether another server has it now, which may lack the newest writes.
        """
        self._subscriptions = self._client.subscriptions(told, gap)

    async def begin(self, target: Target) -> None:
        """Subscribe to a conversation's changes. Raises NotFound, StoreUnavailable."""
        await self._subscriptions.add(target.keys.conversation, _CONFIRM_SECONDS)
        await self.renew(target)

    async def renew(self, target: Target) -> None:
        """Have changes published for another hour. Raises NotFound, StoreUnavailable."""
        call = read_scripts.follow(target.keys[:1], until_ms=wall_ms() + LEASE_SECONDS * 1000)
        if not await self._client.run(call):
            raise script_calls.no_conversation()

    def end(self, target: Target) -> None:
        """End the subscription to a conversation."""
        self._subscriptions.remove(target.keys.conversation)

    async def watch(self, channel: str) -> None:
        """Subscribe to a list, whose key is the channel's name. Raises StoreUnavailable."""
        await self._subscriptions.add(channel, _CONFIRM_SECONDS)

    def unwatch(self, channel: str) -> None:
        """End the subscription to a list."""
        self._subscriptions.remove(channel)

    async def changes(self, target: Target, *, first_seq: int, limit: int) -> ChangesReply | None:
        """Return the state, and records from ``first_seq`` on; None where there is no conversation.

        Raises ConversationDamaged.
        """
        try:
            reply = await self._client.run(
                read_scripts.read_changes(target.keys[:HISTORY], first_seq=first_seq, limit=limit)
            )
        except NotFound:
            return None
        check_identity(reply.name, target.name)
        return reply

    async def close(self) -> None:
        """Close the connections that listen."""
        await self._subscriptions.close()
