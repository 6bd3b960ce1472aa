"""The part of a log that the sender's list is compared with, and what the comparison finds."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from sash.api.incoming import Incoming
from sash.api.sent_lists import AgreeQuery, SentList
from sash.core.agree.agreement import ANYWHERE, Agreement, AskWays, Carried, Given, IsPart, agree, leading
from sash.core.agree.chat_lines import USER, ChatLine, ChatLines
from sash.core.agree.chat_walk import Longer
from sash.core.law.fixed_parts.conversation_settings import read_settings
from sash.problems import PartOfTheChat, TooLarge, Unprocessable
from sash.store.data.agreements import Chat
from sash.store.data.branches import BranchesRead, Took, took
from sash.store.data.layout import Target
from sash.store.data.replies import State
from sash.store.data.script_calls import HistoryEdited

_MOST_NEW = 4
"""The most new messages of a usual turn: a question or two, and a reply that is begun."""
_MOST_COMPARED = 20_000
"""The most messages of the log that a list is compared with."""
_SPOKEN = frozenset({"user", "assistant"})
_SPARE = 16
_EACH = 4
"""Messages of the log to read for each of the list: a screen does not show a turn's calls and results."""
_BEFORE = 200
"""Messages to read before one that is named by its id, so that its turn is whole."""


class ComparedLog(NamedTuple):
    """The part of the log that was read, what makes it agree, and the state, where it was needed."""

    chat: Chat
    found: Agreement
    state: State | None
    behind: int | None = None
    """Of a usual turn, how many messages stand before the list; None for any number."""
    is_usual: bool = False
    read: BranchesRead | None = None
    """The branches, where the chat goes on in some."""
    took: Sequence[Took] = ()
    """Of these, those whose messages the log gets."""

    @property
    def keep_seq(self) -> int:
        """The last message that stays."""
        return self.chat.first_seq - 1 + self.found.keep

    @property
    def from_log(self) -> int:
        """The number of messages that the log has, and that are appended again behind others."""
        again = (each.at for each in self.found.pieces if isinstance(each, Carried | Longer))
        return sum(not self.found.branch_of(self.chat.first_seq + at) for at in again)

    @property
    def changes(self) -> bool:
        """Whether the log changes."""
        return bool(self.found.pieces) or self.keep_seq < self.chat.length or self.found.system is not None


def usual_turn(request: Incoming, sent: SentList, asked: AgreeQuery) -> ComparedLog | None:
    """What changes if the log is what the list has before its last question; the write itself finds out whether it is.

    So the usual turn is one round trip. None where a list of plain texts would not tell it.
    """
    said, place = sent.said, len(sent.said)
    if request.was_done or asked.view is not None or (asked.after_seq is not None and not asked.after_seq.isdigit()):
        return None
    if said[-1].status == "in_progress" and said[-1].is_bare:
        place -= 1
    while place > 0 and said[place - 1].kind == USER:
        place -= 1
    is_usual = 0 < len(said) - place <= _MOST_NEW and sent.plain >= place
    if not is_usual or not _SPOKEN.issuperset(said.roles[:place]):
        return None
    behind = None if asked.part == "end" else int(asked.after_seq or 0)
    if behind is None and not place:
        return None  # only the log tells where it begins
    found = Agreement(place, place, tuple(map(Given, range(place, len(said)))))
    return ComparedLog(
        Chat(first_seq=(behind or 0) + 1, length=(behind or 0) + place), found, None, behind, is_usual=True
    )


async def compare_log(request: Incoming, target: Target, sent: SentList, asked: AgreeQuery) -> ComparedLog:
    """Read as much of the log as the list needs, and compare.

    Raises HistoryEdited, PartOfTheChat, TooLarge, Unprocessable.
    """
    chats, view, said = request.context.store.agreements, asked.view, sent.said
    after = await _after(request, target, asked.after_seq) if asked.after_seq is not None else 0
    base = ANYWHERE if asked.part == "end" else None if asked.after_seq is None else 0
    count, ways, read = _EACH * len(said) + _SPARE, None, None
    while True:
        count = min(count, _MOST_COMPARED)
        first = -count if base == ANYWHERE else after + 1
        chat = await chats.chat(target, first, first + count - 1, view)  # to the last one, -1, if first is from the end
        if base == ANYWHERE and chat.first_seq > 1:
            chat = await _with_named(request, target, chat, said[0].id, view)
        if read is not None and read.etag != chat.etag:
            raise HistoryEdited
        if after > chat.length:
            detail = f"The conversation ends with message {chat.length}: name one that is there"
            raise Unprocessable.at("#/query/after_seq", detail)
        state, system, opening = await _beginning(request, target, chat, said, view)
        found = agree(
            chat.messages,
            said,
            base=base,
            is_whole=asked.part == "whole",
            is_all=chat.first_seq == 1 if base == ANYWHERE else chat.is_all,
            system=system,
            opening=opening,
            ways=ways and ways._replace(first_seq=chat.first_seq),
        )
        if isinstance(found, AskWays):
            ways, read = await chats.ways(target, chat, view)
            continue
        if isinstance(found, Agreement):
            return _along(chat, found, state, read)
        if isinstance(found, IsPart):
            raise PartOfTheChat.at(
                "#/messages/0",
                "The list begins in the middle of the chat: say list=end for its end, or list=whole to put away what is "
                "before",
            )
        if count == _MOST_COMPARED:
            detail = f"A list is compared with {_MOST_COMPARED} messages of the log: send the chat's end with list=end"
            raise TooLarge.at("#/messages", detail, {"limit": _MOST_COMPARED, "unit": "messages"})
        count *= 8


def _along(chat: Chat, found: Agreement, state: State | None, read: BranchesRead | None) -> ComparedLog:
    """What changes where the chat goes on in branches: their messages are appended where the first of them hangs."""
    if not found.taken or read is None:
        return ComparedLog(chat, found, state)
    fork, last = found.taken[0].after_seq, chat.first_seq - 1 + found.keep
    if last <= fork:
        return ComparedLog(chat, found, state, read=read)
    keep = fork - chat.first_seq + 1
    pieces = (*map(Carried, range(keep, found.keep)), *found.pieces)
    ends = [*(each.after_seq for each in found.taken[1:]), last]
    used = [(way.number, min(end, last) - way.after_seq) for way, end in zip(found.taken, ends, strict=True)]
    carried = {each.at for each in found.pieces if isinstance(each, Carried | Longer)}
    length = found.taken[-1].after_seq + len(found.taken[-1].lines) - chat.first_seq + 1
    is_whole = carried.issuperset(range(found.keep, length))
    end = found.taken[-1].number
    taken = [took(read, number, count, is_whole=is_whole and number == end) for number, count in used if count > 0]
    return ComparedLog(chat, msgspec.structs.replace(found, keep=keep, pieces=pieces), state, read=read, took=taken)


async def _after(request: Incoming, target: Target, named: str) -> int:
    """The seq behind which the list begins. Raises Unprocessable."""
    if named.isdigit():
        return int(named)
    seq = await request.context.store.reader.seq_of(target, named)
    if seq is None:
        raise Unprocessable.at("#/query/after_seq", "No entry of this conversation has this id")
    return seq


async def _with_named(request: Incoming, target: Target, chat: Chat, named: str | None, view: str | None) -> Chat:
    """The end of the chat, back to the turn that has the message with this id."""
    if named is None or any(each.id == named for each in chat.messages):
        return chat
    seq = await request.context.store.reader.seq_of(target, f"id:{named}")
    if seq is None or chat.length - seq > _MOST_COMPARED:
        return chat
    return await request.context.store.agreements.chat(target, max(1, seq - _BEFORE), -1, view)


async def _beginning(
    request: Incoming, target: Target, chat: Chat, said: ChatLines, view: str | None
) -> tuple[State | None, str | None, Sequence[ChatLine] | None]:
    """The state, its system prompt and the log's first messages, as a list needs them that begins with system messages."""
    prompts = len(leading(said))
    if not prompts or not chat.version:
        return None, None, None
    state = await request.context.store.reader.get(target)
    opening = None
    if chat.first_seq > 1:
        opening = (await request.context.store.agreements.chat(target, 1, prompts, view)).messages
    if state.etag != chat.etag:
        raise HistoryEdited
    return state, read_settings(state.settings).system, opening
