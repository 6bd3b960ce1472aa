"""What headers of requests say: conditions, media types and codings. A client's mistake becomes a 4xx problem."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from sash.problems import BadRequest, PreconditionFailed, UnsupportedMediaType

MediaType = Callable[[bytes], object]
"""Says whether a Content-Type is taken. The latest answers are kept: a client sends one Content-Type always."""


def _media_type(pattern: bytes) -> MediaType:
    charset = rb'(\s*;\s*charset\s*=\s*"?utf-?8"?)?\s*'
    return lru_cache(maxsize=16)(re.compile(pattern + charset, re.IGNORECASE).fullmatch)


JSON_BODY = _media_type(rb"application/json")
PATCH_BODY = _media_type(rb"application/(merge-patch\+)?json")
_ETAG = re.compile(r"[\x21\x23-\x7e]{0,128}")
_GIVEN = re.compile(r"0|\d+-.*")
"""Tags of conversations: ``layout.etag_of``, and the one of a missing conversation."""
_TAG = re.compile(r'(?:W/)?"([^"]*)"\s*(?:,\s*|\Z)')


def refuse_coded(headers: Mapping[bytes, bytes]) -> None:
    """Raise UnsupportedMediaType for a compressed body, by its Content-Encoding."""
    encoding = header(headers, b"content-encoding") or "identity"
    if encoding.strip().lower() != "identity":
        raise UnsupportedMediaType(
            "Send the body as it is, without Content-Encoding.", headers={"Accept-Encoding": "identity"}
        )


def if_match(header: bytes) -> str:
    """The ETag that this If-Match requires; ``*`` for any state.

    Raises:
        BadRequest: the header is no ETag, or several.
        PreconditionFailed: no state of a conversation has such an ETag.
    """
    value = header.decode("latin-1").strip()
    if value == "*":
        return value
    tags = _tags(value)
    if len(tags) != 1 or not _ETAG.fullmatch(tags[0]):
        raise BadRequest.at(
            "#/header/if-match", 'If-Match takes one ETag as an answer gave it, with its quotes, such as "4-nB3p"'
        )
    if not _GIVEN.fullmatch(tags[0]):
        what = f'a version, and "{tags[0]}" is no ETag' if tags[0].isdigit() else "no ETag of a conversation"
        raise PreconditionFailed(
            f"If-Match names {what}: send the etag of your last answer (the header ETag, or the member etag) as it came."
        )
    return tags[0]


def if_none_match(header: bytes) -> Sequence[str]:
    """The ETags of this If-None-Match; ``*`` matches any state."""
    value = header.decode("latin-1")
    return ("*",) if value.strip() == "*" else [tag for tag in _tags(value) if _ETAG.fullmatch(tag)]


def header(headers: Mapping[bytes, bytes], name: bytes) -> str | None:
    """The header of this name, which is in lower case. None if there is none."""
    value = headers.get(name)
    return value.decode("latin-1") if value is not None else None


def _tags(value: str) -> list[str]:
    """The ETags of a comma-separated list, without quotes; empty if ``value`` is not such a list."""
    tags, at = [], 0
    while match := _TAG.match(value, at):
        tags.append(match.group(1))
        at = match.end()
    return tags if at == len(value.rstrip()) else []


def etag(tag: str) -> str:
    """The value of the ETag header: the tag in quotes."""
    return f'"{tag}"'
