"""Data that a message has for its client alone: its metadata, and the receipt of the window that it answered.

Both are one value: the receipt and a line's end, if there is one, then the metadata as JSON, if there are any.
"""

from typing import Any, NamedTuple

from sash.store.data.layout import encode_json

_END = b"\n"


class ClientsOwn(NamedTuple):
    """The metadata as JSON, empty without any, and the receipt."""

    metadata: bytes = b""
    receipt: str | None = None


def packed_beside(metadata: dict[str, Any] | None, receipt: str | None) -> bytes:
    """Return metadata and receipt as one stored value; empty if there is neither."""
    told = encode_json(metadata) if metadata else b""
    return receipt.encode() + _END + told if receipt is not None else told


def read_beside(value: bytes | None) -> ClientsOwn:
    """Return metadata and receipt from their stored value."""
    if not value:
        return ClientsOwn()
    if value[:1] == b"{":
        return ClientsOwn(value)
    receipt, _, metadata = value.partition(_END)
    return ClientsOwn(metadata, receipt.decode())
