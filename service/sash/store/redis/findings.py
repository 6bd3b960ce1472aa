"""What a check found. A module without the store's client, so that a command's help does not wait for it."""

from typing import Literal

import msgspec

Verdict = Literal["good", "advice", "problem"]


class Finding(msgspec.Struct, frozen=True):
    """The result of one check; ``change`` says what to do where it is not good."""

    subject: str
    verdict: Verdict
    found: str
    change: str | None = None


def halves(detail: str) -> tuple[str, str | None]:
    """Split a problem's detail, or an error of the settings, into what is wrong and what to do about it."""
    found, _, change = detail.rstrip(".").partition(": ")
    return found, change or None
