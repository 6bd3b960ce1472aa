"""Pages of history as one of several agents sees them: without messages for others, and other agents' calls as text."""

from collections.abc import Mapping
from contextlib import suppress

import msgspec

from sash.core.law.history.visibility import text_record
from sash.core.providers.reading.interrupted import text_alone
from sash.core.stored.record import RESULTS, Record
from sash.store.data.agents import NO_AGENTS
from sash.store.data.layout import Target
from sash.store.data.reading import Reader
from sash.store.data.replies import Message, Page, WholeState
from sash.store.data.script_calls import HistoryEdited


async def seen_page(reader: Reader, target: Target, page: Page, view: str | None) -> Page:
    """The page as the agent ``view`` sees it, with fewer messages; without a view, as it is. Raises HistoryEdited.

    Another agent's call is what was said with it, and is left out where nothing was; its results are left out. A call may be
    on an earlier page, so those of the page's results are looked up.
    """
    if view is None:
        return page
    return page_seen_by(view, page, await callers_of(reader, target, page))


async def callers_of(reader: Reader, target: Target, page: Page) -> Mapping[int, Record]:
    """The messages whose calls the page's results answer, by the results' seqs. Raises HistoryEdited."""
    apart = [message for message in page.messages if message.record.measure.role in RESULTS]
    return await reader.callers(target, apart, made=page.made) if apart else {}


def page_seen_by(view: str, page: Page, callers: Mapping[int, Record]) -> Page:
    """The page as the agent ``view`` sees it. ``callers`` are as ``callers_of`` gives them."""
    seen = (_seen(message, callers, view) for message in page.messages)
    return msgspec.structs.replace(page, messages=[message for message in seen if message is not None])


def is_no_more_seen(message: Message, view: str) -> bool:
    """Whether the agent may have seen the message, which it does not see now: another agent's call without a text."""
    party = message.record.party
    return message.record.makes_calls and party.is_seen(view) and party.is_others(view)


def seen_state(state: WholeState, view: str | None) -> WholeState:
    """The state as the agent sees it: without compactions, agents, and a summary that covers a message for others."""
    if view is None:
        return state
    summary = state.summary if state.summary is not None and state.summary.is_seen(view) else None
    return msgspec.structs.replace(state, summary=summary, compactions={}, agents=NO_AGENTS)


async def seen_if_unedited(reader: Reader, target: Target, page: Page, view: str | None) -> Page:
    """The same, without messages if the conversation was edited since the page was read."""
    with suppress(HistoryEdited):
        return await seen_page(reader, target, page, view)
    return msgspec.structs.replace(page, messages=[])


def _seen(message: Message, callers: Mapping[int, Record], view: str) -> Message | None:
    """The message as the agent sees it; None if it does not."""
    record = message.record
    caller = callers.get(message.seq)
    if not record.party.is_seen(view) or (
        caller is not None and (caller.party.is_others(view) or not caller.party.is_seen(view))
    ):
        return None
    if not (record.makes_calls and record.party.is_others(view)):
        return message
    if not record.measure.o200k:
        return None
    body = msgspec.json.encode(text_alone(msgspec.json.decode(message.body)))
    return msgspec.structs.replace(message, record=text_record(record), body=body)
