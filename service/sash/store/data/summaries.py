"""Summaries of conversations: put, replaced or removed, and the right to write the next one."""

from contextlib import suppress
from typing import Any, Unpack

from sash.core.counts.measures.measures import measure
from sash.core.law.history.notes import summary_message
from sash.core.stored.stored_summary import Summary
from sash.problems import Unprocessable
from sash.store.data import write_scripts
from sash.store.data.changing import ATTEMPTS, Change, Changing, busy
from sash.store.data.layout import Target, encode_json
from sash.store.data.replies import State
from sash.store.data.script_calls import HistoryEdited
from sash.store.data.sealing import Kind
from sash.store.data.write_scripts import SummaryTooLong, Written


class Summaries(Changing):
    """The summaries of all conversations."""

    async def put(
        self,
        target: Target,
        summary: Summary | None,
        standing: State | None = None,
        **change: Unpack[Change],
    ) -> Written:
        """Put, replace or remove the summary.

        With ``standing``, only if nothing was redacted, rewound or summarised since that state.

        Raises:
            NotFound, PreconditionFailed, and Unprocessable when it covers more messages than there are, or one in progress.
        """
        edited: str = "*"
        covered: int | str = "*"
        if standing is not None:
            edited = standing.made[1].decode().partition("~")[0]
            covered = standing.summary.through_seq if standing.summary else 0
        if summary is not None:
            summary = summary.for_those(await self._who_may_see(target, summary.through_seq))
        sealer = await self._data_keys.sealer(target.tenant, target.name)
        call = write_scripts.summarize(
            target.keys,
            **change,
            summary=sealer.seal(Kind.SUMMARY, encode_json(summary)) if summary else b"",
            through_seq=summary.through_seq if summary else 0,
            edited=edited,
            covered=covered,
        )
        try:
            return await self._client.run(call)
        except SummaryTooLong as error:
            detail = f"A summary can cover messages up to {error.last_seq}, the last that is not in progress"
            raise Unprocessable.at("#/through_seq", detail) from None

    async def _who_may_see(self, target: Target, last_seq: int) -> frozenset[str] | None:
        """The agents that may see all messages up to ``last_seq``; None for everybody. Raises NotFound, Conflict."""
        for _ in range(ATTEMPTS):
            state = await self._reader.get(target)
            with suppress(HistoryEdited):
                return await self._narrowed(target, min(last_seq, state.length), state)
        raise busy()

    async def _narrowed(self, target: Target, last_seq: int, state: State) -> frozenset[str] | None:
        names, first, before = None, 1, state.summary
        if before is not None and before.through_seq <= last_seq:
            names = None if before.audience is None else frozenset(before.audience)
            first = before.through_seq + 1
        async for _, records in self._reader.steps(
            target, first if state.rich else last_seq + 1, last_seq, state=state
        ):
            for party in records.parties()[1]:
                names = party.narrowed(names)
        return names

    async def lease(self, target: Target, holder: str, *, now_ms: int, until_ms: int) -> bool:
        """Take the right to summarise until ``until_ms``, or return it with 0.

        Gives False where another holder has it, or there is no conversation.
        """
        call = write_scripts.lease(target.keys[:1], holder=holder, now_ms=now_ms, until_ms=until_ms)
        return await self._client.run(call) == 1


def make_summary(text: str, through_seq: int, compaction: dict[str, Any] | None = None) -> Summary:
    """Return a summary with its message's measure; ``compaction`` is the chat message of a provider's compaction item."""
    return Summary(
        text=text,
        through_seq=through_seq,
        measure=measure(summary_message(text)),
        compaction=compaction,
        compaction_measure=measure(compaction) if compaction is not None else None,
    )
