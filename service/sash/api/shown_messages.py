"""Stored messages as clients read them: their pictures and files by their facts, or in their places."""

import secrets
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from sash.api.conversation_handlers import timestamp
from sash.api.incoming import Incoming
from sash.api.schemas import EncodingTokens, LostMedium, StoredMessage
from sash.core.chat.messages import Document, Grounding
from sash.core.providers import CHAT
from sash.core.providers.messages.members import FOREIGN, as_it_came
from sash.core.providers.reading.native import own_messages
from sash.core.stored.record import Flags
from sash.core.stored.split_media import Shown, StoredMedium, Text
from sash.core.stored.stored_grounding import StoredGrounding
from sash.problems import FormatCannotCarry
from sash.store.data.beside_entries import read_beside
from sash.store.data.layout import Target
from sash.store.data.replies import Message, Page
from sash.windows.lost_media import filled_with, lost_among, told

MediaForm = Annotated[
    Literal["described", "inline"],
    Meta(
        title="MediaForm",
        description="Pictures and files over 8 KB: their path, and beside it their facts as `media` (`described`), or "
        "themselves in their places (`inline`).",
    ),
]


def media_path(target: Target) -> str:
    """The path of a conversation's media, to which a digest is added."""
    return f"/conversations/{target.id}/media/"


async def with_media(
    request: Incoming, target: Target, page: Page, limit_bytes: int, *, newest_first: bool = False
) -> Page:
    """A page with pictures and files in their places. It has at most ``limit_bytes``, or one message.

    Raises HistoryEdited.
    """
    messages = page.messages[::-1] if newest_first else page.messages
    (first, *_) = [*in_parts(messages, limit_bytes)] or [[]]
    media = {message.seq: message.record.media for message in first if message.record.media}
    if media:
        await request.exchange.make_room(sum(each.length for found in media.values() for each in found))
        wanted = (each for found in media.values() for each in found)
        contents = await request.context.store.media.read(target, wanted, made=page.made)
        first = [_whole(message, contents) if message.seq in media else message for message in first]
    return msgspec.structs.replace(page, messages=first[::-1] if newest_first else first)


def _whole(message: Message, contents: Mapping[bytes, Text]) -> Message:
    """The message with its media in their places, and a line of text for each that is lost."""
    media = message.record.media
    body, record = told(message.record, filled_with(message.body, media, contents), message.seq)
    return msgspec.structs.replace(message, body=body, record=record, lost=lost_among(message.body, media, contents))


def in_parts(messages: list[Message], limit_bytes: int) -> Iterator[list[Message]]:
    """Yield the messages in parts of at most ``limit_bytes`` with their pictures and files, or of one message."""
    part: list[Message] = []
    held = 0
    for message in messages:
        size = message.record.size + sum(each.length for each in message.record.media)
        if part and held + size > limit_bytes:
            yield part
            part, held = [], 0
        part.append(message)
        held += size
    if part:
        yield part


def stored_message(message: Message, page: Page, target: Target, form: str = CHAT) -> StoredMessage:
    """A message of a page in the form that clients read."""
    record, grounding = message.record, page.grounding.get(message.seq)
    metadata, receipt = read_beside(page.metadata.get(message.seq))
    body, own = body_in(message, target, form)
    return StoredMessage(
        seq=message.seq,
        id=message.identity.id,
        created_at=timestamp(message.identity.created_ms),
        message=msgspec.Raw(body),
        tokens=EncodingTokens(*record.reference_tokens),
        pinned=record.pinned,
        sent=not record.is_left_out,
        grounding=_documents(grounding) if grounding else None,
        grounding_tokens=EncodingTokens(*record.grounding) if record.grounding else None,
        metadata=msgspec.Raw(metadata) if metadata else None,
        redacted=bool(record.flags & Flags.REDACTED),
        own=own,
        status=message.identity.status,  # type: ignore[arg-type] # checked at the append
        author=record.party.author,
        audience=[*record.party.audience] or None,
        receipt=receipt,
        lost=[_lost(*each) for each in message.lost.items()] or None,
    )


def _lost(digest: str, medium: StoredMedium) -> LostMedium:
    return LostMedium(digest, medium.type, medium.size, medium.width or None, medium.height or None)


def _documents(stored: StoredGrounding) -> Grounding:
    """A message's documents, which can be appended again as they are."""
    documents = []
    for index, (identity, text) in enumerate(stored.documents):
        shorter = stored.shorter[index] if stored.shorter else []
        short, levels = (shorter[0], None) if len(shorter) == 1 else (None, shorter or None)
        source = msgspec.structs.asdict(stored.source(index))
        documents.append(Document(text=text, id=identity, short=short, levels=levels, **source))
    return Grounding(documents)


def body_in(message: Message, target: Target, form: str) -> tuple[bytes, list[dict[str, Any]] | None]:
    """The message as JSON, and in a provider's form: None in chat form, and where the form has no place for it."""
    extra, media = message.record.measure.extra, message.record.media
    has_foreign = extra is not None and extra.native_in(FOREIGN) is not None
    if form == CHAT and not (has_foreign or media):
        return message.body, None
    shown = Shown(message.body, media, secrets.token_hex(16), media_path(target)) if media else None
    decoded = msgspec.json.decode(shown.body if shown else message.body)
    own = None
    if form != CHAT:
        with suppress(FormatCannotCarry):
            own = own_messages(form, decoded)
    if shown:
        return msgspec.json.encode(shown.of(as_it_came(decoded) if has_foreign else decoded)), own and shown.of(own)
    return msgspec.json.encode(as_it_came(decoded)) if has_foreign else message.body, own
