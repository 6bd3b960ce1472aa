"""What an append is refused for: problems of the script's replies."""

from typing import Any, NoReturn

from sash.core.chat.tool_groups import orphan
from sash.problems import Conflict, EntryConflict, Internal, Pointer, ReplyGone
from sash.store.data.script_calls import HistoryEdited, refusal
from sash.store.data.sealing import no_key_set
from sash.store.data.write_scripts import too_many_pinned

_CONFLICTS: tuple[tuple[type[EntryConflict] | type[ReplyGone], str, str], ...] = (
    (
        EntryConflict,
        "This id is stored with other content, and its message is complete",
        "leave a late part of a reply; else give this entry another id, or append with ?after_seq= the seq before",
    ),
    (
        EntryConflict,
        "A longer text of this reply in progress is stored",
        "leave this late retry, send the whole text so far, or end the reply with its status",
    ),
    (
        EntryConflict,
        "Many replies were begun after this one in progress, which can no longer be finished where it stands",
        "append the reply under another id, then erase this one (DELETE …/messages/id:…)",
    ),
    (
        EntryConflict,
        "A reply in progress has the role 'assistant', and keeps it",
        "end the reply under this id, and append this message under an id of its own",
    ),
    (
        ReplyGone,
        "The reply to continue is not here",
        "a rewind or an erasure took it away, and nothing was stored. Stop writing it; without 'continues' it is a new one",
    ),
    (
        EntryConflict,
        "A reply in progress keeps its author and its audience",
        "send both with each of its parts as with the first, or append under another id",
    ),
    (
        EntryConflict,
        "This id is that of a message that agrees, or of another one of the list",
        "give each new message an id of its own",
    ),
)


def refuse(reply: list[Any]) -> NoReturn:
    """Raise the problem in a reply of the append script."""
    match reply:
        case [b"conflict", index, why]:
            kind, detail, advice = _CONFLICTS[why]
            raise kind(f"{detail}: {advice}.", errors=[Pointer(f"#/messages/{index}/id", detail)])
        case [b"orphan", index]:
            raise orphan(f"/messages/{index}/message")
        case [b"pinned", index]:
            raise too_many_pinned(f"#/messages/{index}")
        case [b"again"]:
            raise HistoryEdited
        case [b"foreign"]:
            raise Internal("The store holds another conversation under this name.")
        case [b"sealed"]:
            raise no_key_set()
        case [b"undone"]:
            raise Conflict(
                "This request was done, and a rewind took its messages away: use a new key to store them again."
            )
        case _:
            raise refusal(reply)


def refused_entry(refused: EntryConflict | ReplyGone) -> int:
    """Return the index of the entry that an append refused."""
    return int(refused.errors[0].pointer.split("/")[2])
