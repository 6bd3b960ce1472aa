"""The sender's list, read and checked."""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import msgspec
from msgspec import Meta

from sash.api.append_handlers import (
    MESSAGES_AN_ENTRY,
    EntryInQuery,
    ForgetTail,
    check_receipts,
    earlier_messages,
    too_many,
)
from sash.api.incoming import Incoming, run_in_turn_if_large
from sash.api.message_formats import MessageFormat, read_own
from sash.api.schemas import AgreeMessages
from sash.api.sent_texts import SentText, TextEntries, encoded_texts, plain_texts, read_texts
from sash.core.agree.chat_lines import ChatLine, ChatLines
from sash.core.chat.json_bodies import decode_json
from sash.core.chat.messages import Entry, decode_entries, is_text_alone
from sash.core.law.records.parameters import WindowQuery
from sash.core.measured_entries import Earlier, check_entries, content_digest, text_digests
from sash.core.providers import CHAT
from sash.core.providers.reading.native import needs_earlier
from sash.core.providers.reading.native_entries import ReadEntries, chat_entries
from sash.problems import EntryConflict, Problem, TooLarge, Unprocessable
from sash.settings import Settings

_MOST_UNITS = 5000
"""Questions and turns of one list."""
_MOST_MESSAGES = MESSAGES_AN_ENTRY * _MOST_UNITS


class AgreeQuery(WindowQuery, frozen=True, forbid_unknown_fields=True, kw_only=True, rename={"part": "list"}):
    """The parameters of the window afterwards, and of which part of the chat the list is."""

    format: MessageFormat = CHAT
    after_seq: Annotated[
        EntryInQuery | None,
        Meta(description="The list is what stands behind this message: its seq, or `id:` and its own id."),
    ] = None
    part: Annotated[
        Literal["whole", "end"] | None,
        Meta(
            title="Part",
            description="`end`: the list is the end of the chat, and begins where its first message stands. `whole`: it is "
            "the whole chat, whatever it looks like.",
        ),
    ] = None
    forget: ForgetTail = False


class AgreeNative(msgspec.Struct, forbid_unknown_fields=True):
    """The chat in a provider's format, each message alone or in an entry."""

    in_address: ClassVar = WindowQuery
    messages: Annotated[list[dict[str, Any]], Meta(min_length=1)]


_messages = msgspec.json.Decoder(AgreeMessages)
_native_messages = msgspec.json.Decoder(AgreeNative)


class SentList(NamedTuple):
    """The sender's list, and the size of the body."""

    entries: Sequence[Entry]
    read: ReadEntries
    """The entries with the places in the body that they came from."""
    said: ChatLines
    """The entries as they are compared with the log."""
    plain: int
    """The number of entries at the beginning that are plain texts."""
    size_bytes: int

    def digests(self, count: int) -> list[bytes]:
        """The digests of the first ``count`` messages, which are plain texts."""
        if isinstance(self.entries, TextEntries):
            return text_digests((each.role, each.content) for each in self.entries.texts[:count])
        return [content_digest(each.message, "") for each in self.entries[:count]]


async def read_list(request: Incoming, asked: AgreeQuery) -> SentList:
    """Read and check the list. Under an Idempotency-Key each entry gets an id.

    Raises Unprocessable, InvalidEntry, TooLarge, EntryConflict for an id that it has twice.
    """
    if asked.part is not None and asked.after_seq is not None:
        raise Unprocessable.at("#/query/list", "Give list= or after_seq=: the place behind which the list begins")
    context, body = request.context, await request.read_body()
    read = await run_in_turn_if_large(len(body), _entries, body, asked.format, context.settings)
    try:
        earlier: Earlier = ()
        after = asked.after_seq
        made = () if isinstance(read.entries, TextEntries) else read.entries  # texts have no calls and no receipts
        if (asked.part or after) and any(needs_earlier(entry.message) for entry in made):
            named = int(after) if after is not None and after.isdigit() else after
            earlier = await earlier_messages(context, request.target, named)
        said, plain = await run_in_turn_if_large(len(body), _checked, read.entries, earlier)
        check_receipts(made, request.target)
    except Problem as problem:
        read.point(problem)
        raise
    if request.claim is not None:
        for place, entry in enumerate(read.entries):
            entry.id = entry.id or request.fresh_id(place)
    return SentList(read.entries, read, said, plain, len(body))


def _entries(body: bytes, form: str, settings: Settings) -> ReadEntries:
    if form == CHAT:
        read = chat_entries(read_texts(body) or decode_entries(body, _messages).messages)
    else:
        values = decode_json(body, _native_messages).messages
        if len(values) > _MOST_MESSAGES:
            raise too_many(_MOST_MESSAGES, "messages")
        read = read_own(form, values, settings.send_members, settings.allow_items)
    if len(read.entries) > _MOST_MESSAGES:
        raise too_many(_MOST_MESSAGES, "messages")
    return read


def _checked(entries: Sequence[Entry], earlier: Earlier) -> tuple[ChatLines, int]:
    """The list as it is compared, and how many of the first are plain texts, once it is checked. Raises as ``read_list``
    does."""
    texts = entries.texts if isinstance(entries, TextEntries) else None
    plain = _plain(entries) if texts is None else plain_texts(texts)
    if plain < len(entries):
        check_entries(entries, earlier, plain)
    listed: Sequence[Entry | SentText] = texts or entries
    roles = [each.role for each in texts] if texts else [each.message["role"] for each in entries]
    if 2 * roles.count("user") > _MOST_UNITS:
        detail = f"A list may have {_MOST_UNITS} questions and turns: send the chat's end with list=end"
        raise TooLarge.at("#/messages", detail, {"limit": _MOST_UNITS, "unit": "units"})
    places: dict[str, int] = {}
    for place, each in enumerate(listed):
        if each.id is not None and places.setdefault(each.id, place) != place:
            raise EntryConflict.at(f"#/messages/{place}/id", "The list has this id twice: give each message its own")

    def make(place: int) -> ChatLine:
        entry = entries[place]
        return ChatLine(body=entry.message, role=roles[place], named=entry.id, status=entry.status)

    def bodies() -> list[bytes]:
        return [msgspec.json.encode(each.message) for each in entries] if texts is None else encoded_texts(texts)

    odd = frozenset(place for place in range(plain, len(entries)) if listed[place].status is not None)
    return ChatLines(bodies, roles, odd, make), plain


def _plain(entries: Sequence[Entry]) -> int:
    """The number of entries at the beginning that are complete and a text, which is a message whatever it says. A long list
    has little else."""
    for place, entry in enumerate(entries):
        message = entry.message
        if (
            not is_text_alone(message)
            or not message["content"]
            or message["content"].isspace()
            or entry.status is not None
            or entry.grounding is not None
            or entry.continues
        ):
            return place
    return len(entries)
