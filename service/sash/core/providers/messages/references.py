"""References: addresses and names of what is kept elsewhere. Each has an issuer, who alone can read it, and may have an end.

``reference_of`` tells both from the text alone, when a message is measured. A window asks ``is_readable`` and ``has_ended``.
What cannot be read is a line of text in the window.

A window's time is that of the conversation's newest message. So a window depends on the conversation alone, an entity tag
and a receipt hold, and a beginning that a provider has cached changes only when a message comes.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, urlsplit

_HOUR: Final = 3600
_GOOGLES_FILES: Final = "https://generativelanguage.googleapis.com/"


class _Issuer(NamedTuple):
    """A maker, a pattern of how its references begin, and the seconds for which each can be read; 0 without an end."""

    maker: str
    begins: re.Pattern[str]
    seconds: int = 0


_ISSUERS: Final = (
    _Issuer("google", re.compile(re.escape(_GOOGLES_FILES)), 48 * _HOUR),  # ai.google.dev/gemini-api/docs/files
    _Issuer("google", re.compile("gs://")),
    _Issuer("aws", re.compile("s3://")),
    _Issuer("openai", re.compile(r"file-|gAAAAA")),  # a file's id; what is sealed by OpenAI
    _Issuer("anthropic", re.compile(r"file_[0-9A-Za-z]")),
)
_OPEN_WEIGHTS: Final = "gpt-oss"
"""Models of a maker that others run, who cannot read what the maker sealed or keeps (lidge-jun/opencodex 2228)."""
_SELLERS: Final = frozenset({"aws"})
"""Issuers who sell others' models, too."""
_UNKNOWN: Final = "unknown"
"""The maker of a model whose name is not known, such as a deployment's."""
_SIGNED: Final = re.compile(r"[?&](?:x-amz-expires|x-goog-expires|x-oss-expires|expires|se|exp)=", re.IGNORECASE)
_MOST_SECONDS: Final = 10**10
LONGEST_NAME: Final = 200
"""The most characters of the name of a file that is kept elsewhere."""


class Reference(NamedTuple):
    """Who alone can read a reference; empty if anybody can. ``until`` is its end in seconds since 1970, and ``lasts`` the
    seconds that it can be read after it came; 0 where it has none."""

    issuer: str = ""
    until: int = 0
    lasts: int = 0


NO_REFERENCE: Final = Reference()


def reference_of(text: str) -> Reference:
    """Return what an address, an id or a sealed text tells of itself.

    >>> reference_of("https://generativelanguage.googleapis.com/v1beta/files/a")
    Reference(issuer='google', until=0, lasts=172800)
    >>> reference_of("https://b.s3.amazonaws.com/a.png?X-Amz-Date=20240101T000000Z&X-Amz-Expires=60").until
    1704067260
    """
    for each in _ISSUERS:
        if each.begins.match(text):
            return Reference(each.maker, 0, each.seconds)
    if "://" in text[:40] and _SIGNED.search(text):
        return Reference("", _end_of(text))
    return NO_REFERENCE


def is_googles_file(part: Mapping[str, Any]) -> bool:
    """Return whether a part of a chat message is a file at Google's, which no other provider can fetch.

    >>> is_googles_file({"type": "file", "file": {"file_id": "https://generativelanguage.googleapis.com/v1beta/files/a"}})
    True
    """
    match part:
        case {"type": "file", "file": {"file_id": str(url)}} | {"type": "image_url", "image_url": {"url": str(url)}}:
            return url.startswith(_GOOGLES_FILES)
    return False


def is_sealed(message: Mapping[str, Any]) -> bool:
    """Return whether a stored message of the assistant has own items with reasoning that their issuer alone can read."""
    native = message.get("native")
    if native is None or message["role"] != "assistant":
        return False
    sealed = (own.get("encrypted_content") for own in native.get("messages", ()) if own.get("type") == "reasoning")
    return any(isinstance(text, str) and reference_of(text).issuer for text in sealed)


def is_readable(issuer: str, form_maker: str, maker: str, model: str) -> bool:
    """Return whether a reference of this issuer can be read by a model of ``maker``, in the form of ``form_maker``.

    >>> is_readable("openai", "openai", "openai", "gpt-5"), is_readable("openai", "openai", "x-ai", "grok-4")
    (True, False)
    """
    if not issuer:
        return True
    if issuer != form_maker or _OPEN_WEIGHTS in model.lower():
        return False
    return issuer in _SELLERS or maker in (issuer, _UNKNOWN)


def _end_of(address: str) -> int:
    """The end of a signed address, in seconds since 1970; 0 where it cannot be told."""
    try:
        told = {name.lower(): value for name, value in parse_qsl(urlsplit(address).query)}
    except ValueError:
        return 0
    for name in ("amz", "goog", "oss"):
        if (began := _time(told.get(f"x-{name}-date"))) and (seconds := _number(told.get(f"x-{name}-expires"))):
            return began + seconds
    if "sig" in told and (ends := _time(told.get("se"))):  # a shared access signature of Azure's
        return ends
    is_signed = not told.keys().isdisjoint({"signature", "sig", "hmac", "token", "policy", "ossaccesskeyid", "hm"})
    return _number(told.get("expires") or told.get("exp")) if is_signed else 0


def _number(text: Any) -> int:
    found = int(text) if isinstance(text, str) and text.isascii() and text.isdigit() and len(text) <= 10 else 0
    return found if found < _MOST_SECONDS else 0


def _time(text: Any) -> int:
    """A time in UTC, as signed addresses write it, in seconds since 1970; 0 for another text."""
    digits = re.sub(r"[-:]", "", text) if isinstance(text, str) else ""
    for form in ("%Y%m%dT%H%M%SZ", "%Y%m%dT%H%MZ", "%Y%m%d"):
        try:
            return int(datetime.strptime(digits, form).replace(tzinfo=UTC).timestamp())
        except ValueError:
            continue
    return 0
