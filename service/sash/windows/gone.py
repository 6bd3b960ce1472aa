"""Why the window of a receipt cannot be made again."""

from datetime import UTC, datetime
from typing import Any, Final

from sash.problems import ReceiptGone
from sash.store.data.changes import ChangeKind, VersionChange
from sash.store.data.earlier import Past, rewound
from sash.windows.receipts import Receipt

_CHANGED: Final = {
    ChangeKind.REDACTED: ("redacted", "redacted"),
    ChangeKind.REPLACED: ("replaced", "replaced, because it was in progress,"),
}
_LOST: Final = {
    "settings": "The settings that this window was made with are not kept any more: the eight newest earlier ones are.",
    "summary": "The summary of that day is not kept any more: it was removed, a message that it covered was taken away, or "
    "eight newer ones were replaced since.",
}


def erased() -> ReceiptGone:
    """The problem of a conversation that was erased, has expired, or has begun anew."""
    detail = "The conversation of this window was erased, or has expired; if one has its id now, that is another one."
    return ReceiptGone(detail, members={"reason": "erased"})


def changed(receipt: Receipt, past: Past) -> ReceiptGone | None:
    """The problem of a window if a part of it is known to be gone; else None."""
    then, since = receipt.then, past.since
    taken = next((each for each in since.changes or () if rewound(each, then)), None)
    if taken is not None:
        return _by(past, taken, "rewound", f"The messages after {taken.to_seq} were rewound away")
    for kind, (reason, words) in _CHANGED.items():
        found = _of(kind, receipt, past)
        if found is not None:
            return _by(past, found, reason, f"Message {found.seq} was {words}")
    if past.lost:
        return ReceiptGone(_LOST[past.lost], members={"reason": past.lost})
    if since.changes is None or past.tail is None:
        detail = (
            "The history was changed since (rewound, redacted, or lost by its store), and when is not known any more."
        )
        return ReceiptGone(detail, members={"reason": "history"})
    return None


def amended(receipt: Receipt, past: Past) -> ReceiptGone | None:
    """The problem of a window that has other bytes now, and of which a message was amended since; None where none was.

    What is recorded tells no pin from metadata, on which no window depends. So causes that are certain go before this one.
    """
    found = _of(ChangeKind.AMENDED, receipt, past)
    if found is None:
        return None
    return _by(past, found, "amended", f"Message {found.seq} was amended (its pin or its metadata)")


def lost(seq: int) -> ReceiptGone:
    """The problem of a window with a picture, a file or a sound that the storage has lost since."""
    detail = (
        f"The storage has lost a picture, a file or a sound of message {seq}. An append that brings it again, or a backup, "
        "brings this window back."
    )
    return ReceiptGone(detail, members={"reason": "medium", "seq": seq})


def differs(*, stood: bool | None, recalls: bool) -> ReceiptGone:
    """The problem of a window that has other bytes now, or is refused, although no change is known.

    ``stood``: whether the log has the receipt's figures; ``recalls``: it depends on an index.
    """
    if stood is False:
        detail = (
            "The history is not the one that this window was made of: the store lost its newest messages, and others came "
            "in their place; or this is not the receipt as it was given."
        )
        return ReceiptGone(detail, members={"reason": "history"})
    if recalls:
        detail = (
            "What recall finds for this window is not the same any more, because its index or its ranking has changed."
        )
        return ReceiptGone(detail, members={"reason": "index"})
    detail = (
        "The rules by which this window was made are not these any more: this release, the model's figures or the "
        "deployment's settings differ; or a picture that was lost then is there again; or this is not the receipt as it was "
        "given; or the store lost its newest messages, and others with as many tokens came in their place."
    )
    return ReceiptGone(detail, members={"reason": "rules"})


def _of(kind: ChangeKind, receipt: Receipt, past: Past) -> VersionChange | None:
    """The first change of this kind since then, to a message that was there."""
    changes = past.since.changes or ()
    return next((each for each in changes if each.kinds & kind and each.seq <= receipt.then.length), None)


def _by(past: Past, change: VersionChange, reason: str, what: str) -> ReceiptGone:
    """The problem of a window whose messages a change took away."""
    members: dict[str, Any] = {"reason": reason, "version": change.version}
    if change.seq:
        members["seq"] = change.seq
    made_ms = past.since.times.get(change.version)
    if made_ms is not None:
        members["at"] = datetime.fromtimestamp(made_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return ReceiptGone(f"{what} at version {change.version}, after this window was made.", members=members)
