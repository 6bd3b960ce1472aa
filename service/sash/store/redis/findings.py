"""What a check found. A module without the store's client, so that a command's help does not wait for it."""

import re
from typing import Final, Literal

import msgspec

Verdict = Literal["good", "advice", "problem"]
_REFUSALS: Final = {
    "username-password|Authentication required|WRONGPASS|NOAUTH": "put user and password into SASH_REDIS_URL",
    "IP address mismatch|Hostname mismatch": "name its host in SASH_REDIS_URL as its certificate does",
    "certificate verify failed": "name the file of its CA in SASH_REDIS_URL (?ssl_ca_certs=/path/ca.pem)",
    "WRONG_VERSION_NUMBER|as reply type byte": (
        "give SASH_REDIS_URL the store's port, with rediss:// where it speaks TLS and redis:// where it does not"
    ),
    "cluster support disabled": "begin SASH_REDIS_URL with redis://, as it is no cluster",
    "DB index is out of range": "end SASH_REDIS_URL with a database that it has, such as /0",
}
"""What to do when a server was reached and refuses to serve us, by the words of redis-py, of TLS or of the server."""


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


def advice_on(why: str) -> str:
    """What to do about a store that was reached and refuses, by ``why``; empty for one that was not reached."""
    return next((advice for words, advice in _REFUSALS.items() if re.search(words, why)), "")
