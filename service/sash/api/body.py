"""Reading requests: the body and the conditional headers. A client's mistake becomes a 4xx problem."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from sash.api.incoming import Incoming
from sash.api.middleware.request_body import read_whole
from sash.core.chat.json_bodies import decode_json
from sash.problems import BadRequest, PreconditionFailed, UnsupportedMediaType
from sash.processor import PROCESSOR

T = TypeVar("T")

LONG_BYTES = 32 * 1024
"""Work on this many bytes or more runs in a thread, so that the event loop stays free for other requests."""

_CHARSET = r'(\s*;\s*charset\s*=\s*"?utf-?8"?)?\s*'
JSON_BODY = re.compile("application/json" + _CHARSET, re.IGNORECASE)
PATCH_BODY = re.compile(r"application/(merge-patch\+)?json" + _CHARSET, re.IGNORECASE)
_ETAG = re.compile(r"[\x21\x23-\x7e]{0,128}")
_GIVEN = re.compile(r"0|\d+-.*")
"""Tags of conversations: ``layout.etag_of``, and the one of a missing conversation."""
_TAG = re.compile(r'(?:W/)?"([^"]*)"\s*(?:,\s*|\Z)')


async def read_body(request: Incoming, media_type: re.Pattern[str] = JSON_BODY) -> bytes:
    """The body's bytes, unchanged. Raises UnsupportedMediaType, BadRequest, TooLarge."""
    headers = request.exchange.headers
    if b"content-encoding" in headers:
        refuse_coded(headers)
    if not media_type.fullmatch(headers.get(b"content-type", b"").decode("latin-1")):
        raise UnsupportedMediaType(
            "Send JSON in UTF-8: Content-Type: application/json.", headers={"Accept": "application/json"}
        )
    return await read_whole(request.receive)


def refuse_coded(headers: Mapping[bytes, bytes]) -> None:
    """Raise UnsupportedMediaType for a compressed body, by its Content-Encoding."""
    encoding = header(headers, b"content-encoding") or "identity"
    if encoding.strip().lower() != "identity":
        raise UnsupportedMediaType(
            "Send the body as it is, without Content-Encoding.", headers={"Accept-Encoding": "identity"}
        )


async def decode(request: Incoming, decoder: msgspec.json.Decoder[T], media_type: re.Pattern[str] = JSON_BODY) -> T:
    """The body as the decoder's type. Raises UnsupportedMediaType, BadRequest, TooLarge."""
    body = await read_body(request, media_type)
    return await run_in_turn_if_large(len(body), decode_json, body, decoder)


async def run_in_turn_if_large(size_bytes: int, function: Callable[..., T], *arguments: Any) -> T:
    """The function's result; the call waits for its turn (processor.py) if ``size_bytes`` is at least LONG_BYTES."""
    if size_bytes < LONG_BYTES:
        return function(*arguments)
    return await PROCESSOR.run(function, *arguments)


def if_match(request: Incoming) -> str:
    """The ETag that If-Match requires; ``*`` for any state, the empty string without the header.

    Raises:
        BadRequest: the header is no ETag, or several.
        PreconditionFailed: no state of a conversation has such an ETag.
    """
    given = request.exchange.headers.get(b"if-match")
    if given is None:
        return ""
    value = given.decode("latin-1").strip()
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


def refuse_state(request: Incoming, what: str) -> None:
    """Raise PreconditionFailed where If-Match names a state of ``what``, which has none; ``"0"`` names its absence."""
    if if_match(request) not in ("", "0"):
        raise PreconditionFailed(f"{what} has no ETag that If-Match could name: leave the header out.")


def if_none_match(header: bytes) -> Sequence[str]:
    """The ETags of this If-None-Match; ``*`` matches any state."""
    value = header.decode("latin-1")
    return ("*",) if value.strip() == "*" else [tag for tag in _tags(value) if _ETAG.fullmatch(tag)]


def is_known(request: Incoming, tag: str) -> bool:
    """Whether If-None-Match names this state, so that the client has it already."""
    given = request.exchange.headers.get(b"if-none-match")
    known = if_none_match(given) if given is not None else ()
    return tag in known or "*" in known


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
