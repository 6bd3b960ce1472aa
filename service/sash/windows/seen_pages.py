"""Pages of history as one of several agents sees them: without messages for others, and other agents' calls as text."""

from collections.abc import Mapping
from contextlib import suppress

import msgspec

from sash.core.law.records import RESULTS, Record
from sash.core.law.sight import text_record
from sash.core.providers.interrupted import text_alone
from sash.store.data.layout import Target
from sash.store.data.reading import Reader
from sash.store.data.replies import Message, Page
from sash.store.data.scripts import HistoryEdited


async def seen_page(reader: Reader, target: Target, page: Page, view: str | None) -> Page:
    """The page as the agent ``view`` sees it, with fewer messages; without a view, as it is. Raises HistoryEdited.

    Another agent's call is what was said with it, and is left out where nothing was; its results are left out. A call may be
    on an earlier page, so those of the page's results are looked up.
    """
    if view is None:
        return page
    apart = [message for message in page.messages if message.record.measure.role in RESULTS]
    callers = await reader.callers(target, apart, made=page.made) if apart else {}
    seen = (_seen(message, callers, view) for message in page.messages)
    return msgspec.structs.replace(page, messages=[message for message in seen if message is not None])


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
