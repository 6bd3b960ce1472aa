"""The indexer: writes the words and vectors of messages for recall, in the background.

::

    append ── appended ──▶ entries wait a moment ──▶ words of all waiting conversations at once ──▶ index.lua
                                                              │ if the index does not end just before them
    fork, import, settings, search ── notice ──▶ a task for the conversation: from the end of its index, a few hundred
                                                 messages at a time, until all are indexed

No request waits for the index: a reader computes the words of messages that are not indexed yet. A conversation that was
never indexed, a worker that died and an index that the store evicted need the same work: continue where the index ends.
"""

import asyncio
from collections import defaultdict
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextvars import Context, copy_context
from typing import Any, Final, Literal, NamedTuple

from sash.core.law.fixed_parts.conversation_settings import few_settings
from sash.operations.embedder import BATCH, Embedder, NotEmbedded
from sash.operations.logging import best_effort, describe, get_logger
from sash.problems import NotFound, Problem
from sash.store.data.append_script import AppendReply
from sash.store.data.entries import NewEntry
from sash.store.data.indexing import SHORT_BYTES, Index
from sash.store.data.layout import Target, life_of
from sash.store.data.reading import Reader
from sash.store.data.replies import Made
from sash.store.data.script_calls import HistoryEdited
from sash.tasks import end_tasks

_STEP_MESSAGES: Final = 250
_PAUSE_SECONDS: Final = 0.2
_ATTEMPTS: Final = 8
_AT_ONCE: Final = 4
_LIMIT_TASKS: Final = 10_000
"""Conversations that may wait. A conversation over the limit is indexed after its next append or search."""
_LIMIT_BYTES: Final = 4 * 1024 * 1024
"""Bodies of messages that may wait in memory. Messages over the limit are read from the store again."""
_log = get_logger()


class Waiting(NamedTuple):
    """Digests and bodies of an append's entries, and the history to which their words may be written."""

    first_seq: int
    digests: Sequence[bytes]
    bodies: Sequence[bytes]
    made: Made
    semantic: bool
    cause: Context
    """The context of the request that appended them."""


class Indexer:
    """Writes the index of conversations. ``default`` is the recall mode of conversations without one."""

    def __init__(self, reader: Reader, index: Index, *, default: str, embedder: Embedder | None) -> None:
        self._embedder = embedder
        self._reader = reader
        self._index = index
        self._default = default
        self._waiting: defaultdict[Target, list[Waiting]] = defaultdict(list)
        self._waiting_bytes = 0
        self._tasks: dict[Target | str, asyncio.Task[None]] = {}
        self._slots = asyncio.Semaphore(_AT_ONCE)

    def mode(self, settings: bytes) -> str:
        """A conversation's recall mode, by its encoded settings, decrypted."""
        return few_settings(settings).recall or self._default

    def appended(self, target: Target, entries: Sequence[NewEntry], reply: AppendReply) -> None:
        """Index an append's entries in the background, if the conversation has recall on. Never fails."""
        with best_effort:
            mode = self.mode(reply.settings)
            if mode == "off":
                return
            fresh = [
                (step.seq, entry.identity.digest, entry.body)
                for entry, step in zip(entries, reply.entries, strict=True)
                if not step.duplicate
            ]
            size = sum(len(body) for _, _, body in fresh)
            seqs = [seq for seq, _, _ in fresh]
            if self._waiting_bytes + size > _LIMIT_BYTES or seqs != list(
                range(seqs[0], seqs[0] + len(seqs)) if seqs else ()
            ):
                self.notice(target, reply.settings)
            elif fresh:
                self._waiting_bytes += size
                made = life_of(reply.etag).encode(), reply.edited
                semantic = mode == "semantic" and self._embedder is not None
                (first, *_), digests, bodies = zip(*fresh, strict=True)
                waiting = Waiting(first, digests, bodies, made, semantic, copy_context())
                self._waiting[target].append(waiting)
                self._begin("appended", self._write_waiting())

    def notice(self, target: Target, settings: bytes) -> None:
        """Index the missing messages in the background, if the conversation has recall on and no task. Never fails."""
        with best_effort:
            if self.mode(settings) != "off":
                self._begin(target, self._work(target))

    async def close(self) -> None:
        """Stop all tasks. The next append or search starts them again."""
        await end_tasks(*self._tasks.values())

    def _begin(self, name: Target | str, work: Coroutine[Any, Any, None], cause: Context | None = None) -> None:
        if name in self._tasks or len(self._tasks) >= _LIMIT_TASKS:
            work.close()
            return
        task = asyncio.create_task(work, context=cause)
        self._tasks[name] = task
        task.add_done_callback(lambda _: self._tasks.pop(name, None))

    # ---- new entries

    async def _write_waiting(self) -> None:
        """Write the words of all waiting entries, until none waits."""
        while True:
            await asyncio.sleep(_PAUSE_SECONDS)
            waiting, self._waiting, self._waiting_bytes = self._waiting, defaultdict(list), 0
            if not waiting:
                return
            for step in _steps(waiting):
                written = await self._written(step)
                for target, part in step:
                    bodies = sum(len(each.bodies) for each in waiting[target])
                    if target not in written or part.semantic or len(part.bodies) < bodies:
                        self._begin(target, self._work(target), part.cause)

    async def _written(self, step: Sequence[tuple[Target, Waiting]]) -> set[Target]:
        """Write the waiting words of these conversations, and return those of which all words were written."""
        try:
            words = await self._index.words_of_bodies([(target, part.bodies) for target, part in step])
        except Exception:  # noqa: BLE001 - such as one tenant's keys; each conversation catches up alone, and logs its own error
            return set()
        writes = (self._write(target, part, each) for (target, part), each in zip(step, words, strict=True))
        done = await asyncio.gather(*writes, return_exceptions=True)
        return {target for (target, _), written in zip(step, done, strict=True) if written is True}

    async def _write(self, target: Target, part: Waiting, words: Sequence[bytes]) -> bool:
        """Write a conversation's waiting words. False if the index does not end just before them."""
        digests = await self._index.stored_digests(target, part.digests)
        length = part.first_seq - 1
        written = await self._index.write(target, "words", length, words, made=part.made, digests=digests)
        return written is not None

    # ---- missing messages

    async def _work(self, target: Target) -> None:
        for attempt in range(_ATTEMPTS):
            await asyncio.sleep(_PAUSE_SECONDS * 2**attempt)
            try:
                async with self._slots:
                    if await self._extend(target, "words") and await self._extend(target, "vectors"):
                        return
            except HistoryEdited:
                continue
            except NotEmbedded:
                await asyncio.sleep(self._embedder.pause_seconds if self._embedder else 0)
            except NotFound:
                return
            except Problem as problem:
                _log.info("index waits", problem=problem.slug)
            except Exception as error:  # noqa: BLE001 - a background task: only the log shows the error
                _log.error("index failed", **describe(error))
                return

    async def _extend(self, target: Target, part: Literal["words", "vectors"]) -> bool:
        """Write an index up to the newest message, that of vectors in semantic mode. False if the conversation changed.

        Raises HistoryEdited, NotEmbedded.
        """
        state = await self._reader.get(target)
        mode = self.mode(state.settings)
        embedder = self._embedder if part == "vectors" and mode == "semantic" else None
        if mode == "off" or (part == "vectors" and embedder is None):
            return True
        progress, model = await self._index.progress(target), ""
        length, most = progress.words, _STEP_MESSAGES
        if embedder is not None:
            model, most = embedder.model, BATCH
            length = progress.vectors if progress.model == model else 0
        while length < state.length:
            first, last = length + 1, min(state.length, length + most)
            digests = await self._index.digests(target, first, last)
            records = await self._reader.records(target, first, last, state=state)
            if embedder is not None:
                texts = await self._index.texts(target, first, records, state=state)
                elements = await embedder.embed(texts, target=target)
            else:
                elements = await self._index.words(target, first, records, state=state)
            written = await self._index.write(
                target, part, length, elements, made=state.made, digests=digests, model=model
            )
            if written is None:
                return False
            length = written[0]
        return True


def _steps(waiting: Mapping[Target, Sequence[Waiting]]) -> Iterator[list[tuple[Target, Waiting]]]:
    """The conversations that wait, in steps of a few milliseconds, between which other tasks run."""
    step: list[tuple[Target, Waiting]] = []
    size = 0
    for target, parts in waiting.items():
        part = _joined(parts)
        more = sum(map(len, part.bodies))
        if step and size + more > SHORT_BYTES:
            yield step
            step, size = [], 0
        step.append((target, part))
        size += more
    yield step


def _joined(parts: Sequence[Waiting]) -> Waiting:
    """The parts up to a gap, which is there if another process appended in between."""
    first = parts[0]
    digests: list[bytes] = []
    bodies: list[bytes] = []
    for part in parts:
        if part.first_seq != first.first_seq + len(bodies) or part.made != first.made:
            break
        digests += part.digests
        bodies += part.bodies
    return Waiting(first.first_seq, digests, bodies, first.made, parts[-1].semantic, parts[-1].cause)
