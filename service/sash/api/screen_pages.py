"""Pages of a history in a screen's form: whole units, each a user's message or a turn, as many as asked for."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import NamedTuple

import msgspec

from sash.api.conversation_handlers import timestamp
from sash.api.incoming import Incoming
from sash.api.shown_messages import body_in
from sash.core.counts.models.families import DEVELOPER, USER
from sash.core.providers import CHAT
from sash.core.screens import SCREENS
from sash.core.screens.forks import ScreenWays, tell_ways
from sash.core.screens.screen_form import Object, ShownEntry, units_of
from sash.core.stored.record import Flags
from sash.core.stored.stored_grounding import NO_SOURCE
from sash.problems import edited_too_fast
from sash.store.data.beside_entries import read_beside
from sash.store.data.layout import Target
from sash.store.data.replies import Message, Page
from sash.store.data.stored_messages import STEP_BYTES

_AT_ONCE = 32
_ATTEMPTS = 8
_FEWEST, _MOST = 16, 1000
"""Messages to read at once. Each time there are twice as many, as turns may be long."""
_TITLE = 80

ReadPages = Callable[[int, int], Awaitable[tuple[Page, Page]]]
"""Reads messages: a page, and what a view sees of it."""


class ScreenPage(NamedTuple):
    """The screen's messages, ascending; where the next page begins, None at the end; and the page that tells the state."""

    messages: list[Object]
    following: int | None
    state: Page
    ways: ScreenWays | None
    """The ways behind the last message, where the path ends at a fork."""
    begins: list[int]
    """The places in ``messages`` where units begin."""


class _Gathered(NamedTuple):
    """Messages that were read in a row, what a view sees of them, and the pages with what stands beside them."""

    messages: list[Message]
    seen: list[tuple[Message, Page]]
    state: Page


async def screen_page(
    request: Incoming,
    target: Target,
    form: str,
    read: ReadPages,
    *,
    order: str,
    start: int | None,
    limit: int,
    in_window: Collection[int] | None,
) -> ScreenPage:
    """A page of at most ``limit`` units. It begins at the seq ``start``; with the order ``desc`` it ends there."""
    for _ in range(_ATTEMPTS):
        gathered = await (_onwards if order == "asc" else _backwards)(read, start, limit)
        made, others = await request.context.store.conversations.branches.other_ways(target)
        if gathered is not None and gathered.state.made == made:
            break
    else:
        raise edited_too_fast()
    messages, seen, state = gathered
    starts, end, following = (_ahead if order == "asc" else _back)(messages, state.length, limit)
    told: list[ShownEntry] = []
    entries: list[tuple[int, int]] = []
    for place, (message, page) in enumerate(seen):
        if place % _AT_ONCE == _AT_ONCE - 1:
            await asyncio.sleep(0)  # let other requests run between them
        if starts and starts[0] <= message.seq < end:
            told.append(_told(message, page, target, in_window))
            entries.append((message.seq, message.identity.created_ms))
    is_end = end > state.length
    units = units_of(told, starts, is_end=is_end)
    shown: list[Object] = []
    begins: list[int] = []
    for unit in units:
        begins.append(len(shown))
        shown += SCREENS[form].show(unit, _address(request))
    first = _last_in_unit(messages, before=starts[0]) if starts else 0
    here = [each for each in others if first <= each.after_seq < end]
    ways = tell_ways(shown, entries, here, is_end=is_end) if here else None
    return ScreenPage(shown, following, state, ways, begins)


def _address(request: Incoming) -> str:
    """The address of the service, as the request has it."""
    return f"{request.scope['scheme']}://{request.headers.get('host', '')}"


def shown_branch(request: Incoming, page: Page, form: str) -> list[Object]:
    """A branch's messages in a screen's form."""
    told = [_told(message, page, request.target, None) for message in page.messages]
    units = units_of(told, _starts(page.messages), is_end=False)
    return [each for unit in units for each in SCREENS[form].show(unit, _address(request))]


def _ahead(messages: list[Message], length: int, limit: int) -> tuple[list[int], int, int | None]:
    """Of messages from a place on: where the first ``limit`` units begin, where the last one ends, and the next place."""
    starts = _starts(messages)
    last = messages[-1].seq if messages else length
    end = starts[limit] if len(starts) > limit else last + 1
    if last < length and len(starts) <= limit:
        end = starts.pop() if len(starts) > 1 else end  # of the last one more may follow
    starts = [seq for seq in starts if seq < end][:limit]
    if end > length:
        return starts, end, None
    return starts, end, _last_in_unit(messages, before=end) + 1 if starts else end


def _back(messages: list[Message], length: int, limit: int) -> tuple[list[int], int, int | None]:
    """The same of messages up to a place, for the last ``limit`` units and the place before them."""
    starts = _starts(messages)
    if messages and messages[0].seq > 1 and not _is_begun(messages[0]) and len(starts) > 1:
        starts = starts[1:]  # the first one began before
    starts = starts[-limit:]
    end = messages[-1].seq + 1 if messages else length + 1
    return starts, end, starts[0] - 1 if starts and starts[0] > 1 else None


def _last_in_unit(messages: list[Message], *, before: int) -> int:
    """The seq of the last message before a place that is no system message; the one before all where there is none."""
    inside = (each.seq for each in reversed(messages) if each.seq < before and each.record.measure.role > DEVELOPER)
    return next(inside, messages[0].seq - 1 if messages else 0)


async def _onwards(read: ReadPages, start: int | None, limit: int) -> _Gathered | None:
    """The messages from ``start`` on, as many as ``limit`` whole units need. None if the log was edited meanwhile."""
    first, gathered, count = start or 1, None, limit + _FEWEST
    while True:
        count = min(_MOST, count)
        page, seen = await read(first, first + count - 1)
        gathered = _with(gathered, page, seen)
        if gathered is None:
            return None
        messages = gathered.messages
        last = messages[-1].seq if messages else page.length
        units = len(_starts(messages))
        if last >= page.length or units > limit or (units > 1 and _size(messages) > STEP_BYTES):
            return gathered
        first, count = last + 1, 2 * count


async def _backwards(read: ReadPages, start: int | None, limit: int) -> _Gathered | None:
    """The messages up to ``start``, as many as ``limit`` whole units need. None if the log was edited meanwhile."""
    count, gathered = min(_MOST, limit + _FEWEST), None
    span = (max(1, start - count + 1), start) if start else (-count, -1)
    while True:
        page, seen = await read(*span)
        gathered = _with(gathered, page, seen, is_before=True)
        if gathered is None:
            return None
        messages = gathered.messages
        if not messages or messages[0].seq == 1:
            return gathered
        units = len(_starts(messages)) - (not _is_begun(messages[0]))
        if units >= limit or (units > 0 and _size(messages) > STEP_BYTES):
            return gathered
        count = min(_MOST, 2 * count)
        span = (max(1, messages[0].seq - count), messages[0].seq - 1)


def _with(gathered: _Gathered | None, page: Page, seen: Page, *, is_before: bool = False) -> _Gathered | None:
    """What was gathered, and one page more. None if the log was edited between both."""
    shown = [(message, page) for message in seen.messages]
    if gathered is None:
        return _Gathered(page.messages, shown, page)
    if gathered.state.made != page.made:
        return None
    if is_before:
        return _Gathered([*page.messages, *gathered.messages], [*shown, *gathered.seen], gathered.state)
    return _Gathered([*gathered.messages, *page.messages], [*gathered.seen, *shown], page)


def _size(messages: list[Message]) -> int:
    return sum(message.record.size for message in messages)


def _is_begun(message: Message) -> bool:
    """Whether a unit begins with the message, whatever stands before it."""
    return message.record.measure.role == USER


def _starts(messages: list[Message]) -> list[int]:
    """The seqs with which units begin: each user's message, and the first behind it that is none, nor a system message."""
    starts: list[int] = []
    is_turn = False
    for message in messages:
        role = message.record.measure.role
        if role == USER:
            starts.append(message.seq)
            is_turn = False
        elif role > DEVELOPER and not is_turn:
            starts.append(message.seq)
            is_turn = True
    return starts


def _told(message: Message, page: Page, target: Target, in_window: Collection[int] | None) -> ShownEntry:
    """A message as a screen's form shows it."""
    body, _ = body_in(message, target, CHAT)
    metadata, _ = read_beside(page.metadata.get(message.seq))
    identity, record = message.identity, message.record
    grounding = page.grounding.get(message.seq)
    documents = []
    for index, (name, text) in enumerate(grounding.documents if grounding else ()):
        source = grounding.source(index) if grounding else NO_SOURCE
        title = source.title or (grounding.levels(index)[-1] if grounding else text)
        documents.append((source.url or name, title[:_TITLE]))
    return ShownEntry(
        seq=message.seq,
        id=identity.id,
        created_at=timestamp(identity.created_ms),
        message=msgspec.json.decode(body),
        status=identity.status,
        is_redacted=bool(record.flags & Flags.REDACTED),
        is_sent=not record.is_left_out,
        metadata=msgspec.json.decode(metadata) if metadata else {},
        documents=documents,
        in_window=None if in_window is None else message.seq in in_window,
    )
