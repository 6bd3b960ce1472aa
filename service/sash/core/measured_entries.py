"""An entry, from what was sent to what a window needs of it: checked, made regular, measured, with its digests."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec

from sash.core.chat.audiences import EVERYBODY, Party
from sash.core.chat.messages import (
    ROLE_AND_CONTENT,
    BareEntry,
    Entry,
    Grounding,
    check_envelope,
    digest,
    digests,
    encode_message,
    is_text_alone,
    validate_message,
)
from sash.core.chat.mistakes import problem_at
from sash.core.chat.open_calls import OpenCalls, is_made, with_call_id
from sash.core.chat.tool_groups import NO_CALLS, Calls, Place, calls_of
from sash.core.counts.measures.measures import Extra, measure
from sash.core.counts.text import both, extra_tokens
from sash.core.law.documents.grounding import Template, content_texts, sent_texts
from sash.core.providers.messages.members import has_foreign
from sash.core.providers.messages.words_said import has_word
from sash.core.providers.reading.native import (
    answering,
    check_native,
    compaction_of,
    needs_earlier,
    with_open_call,
    with_own_ids,
)
from sash.core.providers.reading.recognition import foreign
from sash.core.stored.record import DIGEST_BYTES, Flags, Record
from sash.core.stored.stored_grounding import NO_SOURCE, DocumentSource, StoredGrounding, encode_grounding
from sash.problems import BadRequest, Unprocessable

_EXPORTED_BYTES = 16
"""Bytes of an entry's digest in exports of layout 1. It begins with the digest of today."""


Earlier = Sequence[tuple[str, Mapping[str, Any]]]
"""Messages of the conversation before a request, with their entries' ids, oldest first."""
_encode: Any = msgspec.json.Encoder().encode


def check_entries(entries: Sequence[Entry], earlier: Earlier = (), plain: int = 0) -> None:
    """Check the entries of a request, to whose places problems point. The first ``plain`` are known to be texts alone.

    A result that does not say which call it answers gets the id of the open one, also of an ``earlier`` message's; if its
    entry was stored before, that of then. A provider's result without an id answers the oldest open call of its name.

    Raises InvalidEntry where an entry holds no chat message, Unprocessable where its message cannot have its documents or
    its status.
    """
    opened: OpenCalls | None = None
    for index, entry in enumerate(entries[plain:], plain):
        pointer = f"/messages/{index}"
        if not is_text_alone(entry.message):
            if needs_earlier(entry.message):
                if opened is None:
                    before = (each.message for each in entries[:index])
                    opened = OpenCalls(chain((message for _, message in earlier), before))
                is_result = entry.message["role"] == "tool"
                entry.message = (
                    _with_call(entries, index, earlier, opened) if is_result else _with_ids(entry, earlier, opened)
                )
            _check_message(entry, pointer)
        if opened is not None:
            opened.follow(entry.message)
        _check_beside(entry, pointer)


def _with_ids(entry: Entry, earlier: Earlier, opened: OpenCalls) -> dict[str, Any]:
    """The reply, each of its calls with an id that no open call has. An entry that is sent again keeps the ids it has."""
    calls = entry.message["tool_calls"]
    for identity, message in earlier:
        if identity == entry.id and len(stored := message.get("tool_calls") or ()) == len(calls):
            ids = [call["id"] for call in stored]
            named = [{**call, "id": each} if is_made(call) else call for call, each in zip(calls, ids, strict=True)]
            return {**entry.message, "tool_calls": named}
    return with_own_ids(entry.message, opened)


def _with_call(entries: Sequence[Entry], index: int, earlier: Earlier, opened: OpenCalls) -> dict[str, Any]:
    """The result with its call's id. ``opened`` are the open calls of the messages before it."""
    entry = entries[index]
    for identity, message in earlier:
        if identity == entry.id and message["role"] == "tool":
            return answering(entry.message, message["tool_call_id"])
    found = with_open_call(entry.message, opened)
    if found.get("tool_call_id"):
        return found
    place = f"/messages/{index}" if isinstance(entry, BareEntry) else f"/messages/{index}/message"
    return with_call_id(entry.message, opened, [each.message for each in entries[index + 1 :]], place)


def check_entry(entry: Entry, pointer: str, *, was_stored: bool = False) -> None:
    """Check one entry as ``check_entries`` does, and make its message regular.

    ``was_stored`` is as in ``validate_message``.
    """
    if not is_text_alone(entry.message):
        _check_message(entry, pointer, was_stored=was_stored)
    _check_beside(entry, pointer)


def _check_message(entry: Entry, pointer: str, *, was_stored: bool = False) -> None:
    """Check an entry's message, and make it regular."""
    message, place = entry.message, pointer if isinstance(entry, BareEntry) else f"{pointer}/message"
    if "native" in message:
        check_native(message, place)
        message = _chat_form(message)
        validate_message(message, place, foreign, was_stored=True)
    else:
        entry.message = message = validate_message(message, place, foreign, was_stored=was_stored)
    if len(message) > ROLE_AND_CONTENT and isinstance(entry, BareEntry):
        check_envelope(message, place)


def _check_beside(entry: Entry, pointer: str) -> None:
    """Check what an entry has beside its message. Windows show documents only with user messages, and only a reply is
    written bit by bit."""
    if entry.grounding is not None and entry.grounding.documents:
        _check_documents(entry.grounding, entry.message, pointer)
    if entry.status is not None or entry.continues:
        is_reply = entry.message["role"] == "assistant"
        if entry.status in ("in_progress", "interrupted") and not is_reply:
            raise Unprocessable.at(f"#{pointer}/status", "Only an assistant's message is in progress or interrupted")
        if entry.continues and not (is_reply and entry.id):
            what = "Only an assistant's message continues a reply in progress" if entry.id else "Name the reply in 'id'"
            raise Unprocessable.at(f"#{pointer}/continues", what)


def _check_documents(grounding: Grounding, message: Mapping[str, Any], pointer: str) -> None:
    """Check a message's documents, and give each its regular form."""
    if message["role"] != "user":
        raise Unprocessable.at(f"#{pointer}/grounding", "Documents belong to a user message")
    for index, document in enumerate(grounding.documents):
        document.regular()
        if document.text is msgspec.UNSET:
            what, hint = "The field 'text' is missing", ": it has the text that the model is to read"
            raise problem_at(what, f"#{pointer}/grounding/documents/{index}", hint, BadRequest)


def _chat_form(message: Mapping[str, Any]) -> dict[str, Any]:
    """The message without its native member. A result's pictures and files were read from that."""
    chat = {name: value for name, value in message.items() if name != "native"}
    if chat["role"] == "tool" and isinstance(chat["content"], list):
        chat["content"] = [part for part in chat["content"] if part["type"] == "text"] or ""
    return chat


def opened_by(entry: Entry) -> Calls:
    """Return the calls that an entry makes or answers; none while it is in progress."""
    return NO_CALLS if entry.status == "in_progress" else calls_of(entry.message)


def measure_entry(
    entry: Entry,
    message: Mapping[str, Any],
    calls: Calls,
    template: Template,
    said: bytes,
    *,
    o200k_alone: bool = False,
) -> tuple[Record, bytes, bytes]:
    """Return an entry's record, its body, and its documents as stored.

    ``message`` is the entry's message as it is stored, ``said`` is its content's digest, and ``o200k_alone`` is as in
    ``measure``.
    """
    measured = measure(message, image_sizes=entry.image_sizes or (), o200k_alone=o200k_alone)
    flags, grounding, added, digits = Flags.LEGACY_CALL if calls.legacy else 0, b"", None, 0
    if entry.grounding is not None and entry.grounding.documents:
        flags |= Flags.GROUNDED
        if measured.extra is not None:  # another text may stand behind the speaker's name
            measured = msgspec.structs.replace(measured, extra=msgspec.structs.replace(measured.extra, named=(0, 0)))
        body, start, end = encode_message(message)
        own_text = "".join(content_texts(message.get("content")))
        grounding, added, digits = _grounding(entry.grounding, own_text, start, end, template, measured.extra)
    else:
        body = _encode(message)
    if entry.metadata or entry.receipt:
        flags |= Flags.NOTED
    if entry.status == "in_progress":
        flags |= Flags.IN_PROGRESS
    elif entry.status == "interrupted" and not has_word(message):
        flags |= Flags.WORDLESS
    if "native" in message and entry.status != "in_progress" and compaction_of(message) is not None:
        flags |= Flags.COMPACTION  # which is neither pinned nor left out
    else:
        if entry.pinned:
            flags |= Flags.PINNED
        if not entry.sent:
            flags |= Flags.LEFT_OUT
    named = entry.author is not None or entry.audience
    record = Record(
        flags,
        measured,
        size=len(body),
        calls=len(calls.opens),
        content_digest=said,
        grounding=added,
        digits=digits,
        links="" if calls is NO_CALLS else calls.links,
        party=Party(entry.author, tuple(dict.fromkeys(entry.audience or ()))) if named else EVERYBODY,
    )
    return record, body, grounding


def in_place(record: Record, place: Place) -> Record:
    """Return a record with what an append adds for the message's place among the tool groups before it."""
    flags = (Flags.PARALLEL if place.is_parallel else 0) | (Flags.LATE if place.is_late else 0)
    return msgspec.structs.replace(record, flags=record.flags | flags) if flags else record


def entry_digest(entry: Entry) -> bytes:
    """Return the digest that tells whether two entries with the same id are the same."""
    said: list[Any] = [entry.message, entry.grounding, entry.pinned, entry.metadata or None, entry.image_sizes]
    if entry.status not in (None, "completed"):
        said.append(entry.status)
    if not entry.sent:
        said.append("not sent")
    if entry.author is not None or entry.audience:
        said.append(["for", entry.author, sorted({*(entry.audience or ())})])
    return digest(said, _EXPORTED_BYTES)[:DIGEST_BYTES]


def content_digest(message: Mapping[str, Any], identity: str) -> bytes:
    """Return the digest that finds a repeated message.

    A message without content (a refusal, a call) must not be a duplicate, so its digest is made from the entry's id.
    """
    content, native = message.get("content"), message.get("native")
    if content is None:
        return digest(identity, DIGEST_BYTES)
    is_chat = native is None or has_foreign(message)
    return digest([message["role"], content] if is_chat else [message["role"], content, native], DIGEST_BYTES)


def text_digests(texts: Iterable[tuple[str, str]]) -> list[bytes]:
    """Return the ``content_digest`` of each message that is a role and a text."""
    return digests(texts, DIGEST_BYTES)


def _grounding(
    given: Grounding, text: str, start: int, end: int, template: Template, extra: Extra | None
) -> tuple[bytes, tuple[int, int], int]:
    """Return an entry's documents as stored, and the record's ``grounding`` and ``digits``. ``text`` is the message's."""
    documents = [(document.id, document.text or "") for document in given.documents]
    shorter = [document.shorter for document in given.documents]
    sources = [DocumentSource(document.title, document.url, document.metadata) for document in given.documents]
    is_told = any(source != NO_SOURCE for source in sources)
    levels = shorter if any(shorter) else []
    stored = StoredGrounding(template.digest, start, end, documents, levels, sources if is_told else [])
    texts = sent_texts(template.written(stored))
    before, after = template.around(texts) if texts else ("", "")
    said = before + text + after
    (o200k, cl100k), (own_o200k, own_cl100k) = both(said), both(text)
    known = extra.mix.digits + extra.mix.marks + extra.mix.capitals if extra and extra.mix else 0
    return encode_grounding(stored), (o200k - own_o200k, cl100k - own_cl100k), extra_tokens(said) - known
