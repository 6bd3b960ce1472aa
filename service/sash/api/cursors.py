"""Cursors: the place where a page begins, in a form that clients send back unchanged."""

import base64
import binascii
from typing import Annotated

import msgspec

Cursor = Annotated[
    str, msgspec.Meta(extra_json_schema={"pattern": "^[A-Za-z0-9_-]+$", "minLength": 1, "maxLength": 256})
]
"""The schema of any cursor of this service; each listing accepts only cursors of its own."""


def cursor_of(text: str) -> str:
    """The cursor of a place in a listing."""
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def place_in(cursor: str) -> str:
    """The place that a cursor was made of; empty if it is no cursor of this service."""
    try:
        return base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        return ""
