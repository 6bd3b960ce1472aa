"""The words of an event: what a version changed, for all or for the view of one of several agents."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from sash.api.conversation_handlers import conversation_body
from sash.api.events.event_steps import EventForm, EventText, EventType
from sash.api.schemas import Conversation, StoredMessage
from sash.store.data.changes import ChangeKind, VersionChange
from sash.store.data.layout import Target
from sash.store.data.replies import WholeState
from sash.windows.seen_pages import seen_state

Role = Literal["system", "developer", "user", "assistant", "tool", "function"]
_TYPES: Final[tuple[tuple[ChangeKind, EventType], ...]] = (
    (ChangeKind.REWOUND, "rewound"),
    (ChangeKind.REPLACED, "replaced"),
    (ChangeKind.APPENDED, "appended"),
    (ChangeKind.REDACTED, "redacted"),
    (ChangeKind.AMENDED, "amended"),
    (ChangeKind.SETTINGS, "settings"),
    (ChangeKind.SUMMARY, "summary"),
    (ChangeKind.BRANCHES, "branches"),
)


class EventMessage(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A message that an event is about, as it is when the event is sent."""

    seq: int
    id: str
    role: Role
    entry: Annotated[
        StoredMessage | None,
        Meta(description="The whole entry: with `body=true`, and of a reply whose text was replaced."),
    ] = None


class ConversationEvent(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a version changed: drop the messages after ``to_seq``, if it is given, and those of ``left_out``; then put each
    of ``messages`` at its seq."""

    type: Annotated[
        EventType,
        Meta(
            description="The first of these that the version did: `rewound`, `replaced` (a longer text of a reply in "
            "progress, or its end), `appended`, `redacted`, `amended` (metadata or pin), `settings`, `summary`, "
            "`branches` (one is gone, or an entry in one was redacted). `unseen`: nothing that the `view` has. "
            "`reset`: read all anew, as `conversation` is its state; `erased`: it is gone. "
            "Of an owner's also `listed`: these are all; `left`: it has another owner now."
        ),
    ]
    conversation_id: str
    version: Annotated[int, Meta(description="The conversation's version after it; 0 of one that is erased.")]
    to_seq: Annotated[int | None, Meta(description="The messages after this one were forgotten first.")] = None
    messages: Annotated[
        list[EventMessage] | None,
        Meta(description="Messages that are new or changed; without those that a later version forgot."),
    ] = None
    left_out: Annotated[
        list[int] | None,
        Meta(description="Seqs that the `view` has no more, as another agent's reply became a call or was redacted."),
    ] = None
    summary_removed: Annotated[
        bool,
        Meta(description="The summary is gone, because it covered a message that was redacted, replaced or forgotten."),
    ] = False
    conversation: Annotated[Conversation | None, Meta(description="The state, of `reset` and `settings`.")] = None


class SeenMessages(msgspec.Struct, frozen=True):
    """Messages as one view has them, or as all have them: their ids and roles by seq, and whole ones.

    ``left_out`` are seqs of messages that it may have had before they were changed.
    """

    named: Mapping[int, tuple[str, Role]]
    entries: Mapping[int, StoredMessage]
    left_out: frozenset[int] = frozenset()


def text_of(
    target: Target,
    change: VersionChange,
    seqs: Sequence[int],
    seen: SeenMessages,
    form: EventForm,
    state: WholeState | None,
) -> EventText:
    """A version's event in one form. ``seqs`` are its messages, ``state`` is of one that changed the settings."""
    is_text = change.kinds & ChangeKind.REPLACED
    left_out = [seq for seq in seqs if seq == change.seq and seq in seen.left_out]
    messages = [
        EventMessage(
            seq=seq,
            id=seen.named[seq][0],
            role=seen.named[seq][1],
            entry=seen.entries[seq] if form.whole or (is_text and seq == change.seq) else None,
        )
        for seq in seqs
        if seq in seen.named
    ]
    kinds = change.kinds
    if form.view is not None:
        kinds = _seen_kinds(change, [*left_out, *(message.seq for message in messages)])
    is_about = kinds & ~(ChangeKind.SETTINGS | ChangeKind.SUMMARY | ChangeKind.BRANCHES)
    event = ConversationEvent(
        type=next((kind for flag, kind in _TYPES if kinds & flag), "unseen"),
        conversation_id=target.id,
        version=change.version,
        to_seq=change.to_seq,
        messages=messages if is_about else None,
        left_out=left_out or None,
        summary_removed=change.kinds != ChangeKind.SUMMARY and bool(change.kinds & ChangeKind.SUMMARY),
    )
    told = msgspec.json.encode(event)
    return EventText(event.type, told if state is None else with_state(told, target, state, form))


def _seen_kinds(change: VersionChange, seqs: Sequence[int]) -> ChangeKind:
    """What a version did, as far as it was about messages with these seqs, or about none."""
    kinds = change.kinds
    if change.seq not in seqs:
        kinds &= ~(ChangeKind.REPLACED | ChangeKind.REDACTED | ChangeKind.AMENDED)
    if not any(change.first_seq <= seq <= change.last_seq for seq in seqs):
        kinds &= ~ChangeKind.APPENDED
    return kinds


def with_state(told: bytes, target: Target, state: WholeState, form: EventForm) -> bytes:
    """The event with the conversation's state."""
    return told[:-1] + b',"conversation":' + conversation_body(target.id, seen_state(state, form.view)) + b"}"
