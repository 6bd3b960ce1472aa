"""Make a branch the end of its log again: what was the end becomes a branch, in the same step."""

from collections.abc import Callable
from contextlib import suppress

import msgspec

from sash.problems import PreconditionFailed
from sash.store.data import script_calls
from sash.store.data.agreements import Agreements
from sash.store.data.append_script import AppendReply, Forgotten, Writing
from sash.store.data.branches import NOTHING_SEALED, SealedTail, no_branch, took
from sash.store.data.changing import ATTEMPTS, Change, busy, require_version
from sash.store.data.conversations import Conversations
from sash.store.data.histories import Histories
from sash.store.data.layout import Target
from sash.store.data.replies import State
from sash.store.data.script_calls import HistoryEdited


class Swapped(msgspec.Struct, frozen=True):
    """The state after a swap: its entity tag; the last message before the branch's, and what became of the log's end."""

    version: int
    etag: str
    after_seq: int = 0
    messages: int = 0
    sealed: SealedTail = NOTHING_SEALED


class BranchSwaps:
    """Swaps branches of all conversations of a deployment."""

    def __init__(self, conversations: Conversations, histories: Histories, agreements: Agreements) -> None:
        self._conversations = conversations
        self._histories = histories
        self._agreements = agreements

    async def swap(self, target: Target, name: str, change: Change, progress: Callable[[], None]) -> Swapped:
        """Make the branch with this id the log's end. Its messages keep their seqs, ids and costs.

        A branch that hangs in others brings the beginnings of these; their rests hang behind them. Raises NotFound,
        PreconditionFailed, TooManyPinned.
        """
        for _ in range(ATTEMPTS):
            state = await self._conversations.reader.get(target)
            done = await self._conversations.reader.was_done(target, change["token"])
            if done:
                return Swapped(state.version, state.etag)
            if state.life != change["life"]:
                raise script_calls.no_conversation()
            require_version(state, change["if_match"])
            with suppress(HistoryEdited, PreconditionFailed):  # another write came first: read again
                return await self._swap(target, name, state, change, progress)
        raise busy()

    async def _swap(
        self, target: Target, name: str, state: State, change: Change, progress: Callable[[], None]
    ) -> Swapped:
        """Swap in one state. Raises HistoryEdited, PreconditionFailed."""
        read = await self._conversations.branches.all(target)
        if read.etag != state.etag:
            raise HistoryEdited
        head = read.head(name)
        chain = read.chain(head)
        if any(each.number not in read.branches for each in chain):
            raise no_branch()
        ends = [*(each.after_seq for each in chain[1:]), head.last_seq]
        wanted = {
            seq: each.number
            for each, end in zip(chain, ends, strict=True)
            for seq in range(each.after_seq + 1, end + 1)
        }
        found = await self._agreements.of_branches(target, read, wanted)
        used = [took(read, each.number, end - each.after_seq) for each, end in zip(chain, ends, strict=True)]
        writing: Writing = {
            "settings": state.settings,
            "if_match": state.etag,
            "now_ms": change["now_ms"],
            "token": change["token"],
            "fresh": True,
        }
        entries = [found[seq] for seq in wanted]

        async def append(forgotten: Forgotten) -> AppendReply:
            writing["after"] = msgspec.structs.replace(forgotten, took=used)
            return await self._conversations.append(target, entries, **writing)

        after_seq = chain[0].after_seq
        reply = await self._histories.forget_and_append(target, after_seq, state, append, progress)
        return Swapped(reply.version, reply.etag, after_seq, len(entries), reply.sealed)
