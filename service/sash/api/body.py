"""Reading requests: the body, the query and the conditional headers. A client's mistake becomes a 4xx problem."""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode

import msgspec
from litestar import Request
from litestar.handlers import HTTPRouteHandler

from sash.api.incoming import Incoming
from sash.api.middleware.request_body import read_whole
from sash.api.openapi.operation import OPERATORS, operation_of
from sash.core.chat.json_bodies import decode_json
from sash.core.chat.mistakes import invalid
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


def query_of(request: Request[Any, Any, Any], kind: type[T], raw: bytes | None = None) -> T:
    """The query string, or ``raw`` in its place, as a Struct. Raises BadRequest with the parameter's name."""
    raw = request.scope["query_string"] if raw is None else raw
    try:
        query: T = _query_of(raw, kind)  # type: ignore[arg-type] # a class is hashable
    except msgspec.ValidationError:
        handler = request.route_handler
        body = operation_of(handler).takes if isinstance(handler, HTTPRouteHandler) else None
        in_body = getattr(body, "__struct_encode_fields__", ())
        raise invalid("/query", BadRequest, of=kind, value=dict(_pairs(raw)), from_text=True, in_body=in_body) from None
    return query


_METADATA = "metadata."


def query_with_metadata(request: Incoming, kind: type[T]) -> tuple[T, dict[str, str]]:
    """The query as a Struct, and its parameters ``metadata.…`` by the name behind the point. Raises BadRequest."""
    raw = request.scope["query_string"]
    if b"metadata" not in raw:
        return query_of(request, kind), {}
    pairs = _pairs(raw)
    wanted = [(name.removeprefix(_METADATA), value) for name, value in pairs if name.startswith(_METADATA)]
    for name, _ in wanted:
        if not name or [each for each, _ in wanted].count(name) > 1:
            raise BadRequest.at(f"#/query/{_METADATA}{name}", "Give each member of metadata once, with its name")
    rest = urlencode([pair for pair in pairs if not pair[0].startswith(_METADATA)])
    return query_of(request, kind, rest.encode()), dict(wanted)


class NoQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The query of an operation without parameters."""


async def check_no_query(request: Request[Any, Any, Any]) -> None:
    """Raise BadRequest for a query parameter of an operation that takes none. Pages and probes of operators take any.

    The framework calls it before each handler, so a window and an append, which read their own query, do not enter it. As a
    guard it would triple the processor time of ``GET /livez``, because the framework copies the handler for each guard.
    """
    raw = request.scope["query_string"]
    if raw and isinstance(handler := request.route_handler, HTTPRouteHandler):
        operation = operation_of(handler)
        if operation.query is None and operation.tag != OPERATORS:
            query_of(request, NoQuery, raw)


@lru_cache(maxsize=1024)
def _query_of(raw: bytes, kind: type[Any]) -> Any:
    """The query string as a Struct. Raises BadRequest, and ValidationError where a parameter is unknown or wrong.

    Cached, because a client sends the same query string at every turn.
    """
    values: dict[str, str] = {}
    for name, value in _pairs(raw):
        if name in values:
            raise BadRequest.at(f"#/query/{name}", "A query parameter is given twice")
        values[name] = value
    query = msgspec.convert(values, kind, strict=False)
    fields = dict(zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True))
    for name in values:
        if (
            getattr(query, fields[name]) is None
        ):  # the lax conversion reads the word null as None, which no parameter allows
            raise msgspec.ValidationError
    return query


def _pairs(raw: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(
            raw.decode("ascii"), keep_blank_values=True, strict_parsing=bool(raw), errors="strict", max_num_fields=64
        )
    except (UnicodeDecodeError, ValueError):
        detail = "The query string cannot be read: name=value pairs in UTF-8, with & between"
        raise BadRequest.at("#/query", detail) from None


def if_match(request: Incoming) -> str:
    """The ETag that If-Match requires; ``*`` for any state, the empty string without the header.

    Raises:
        BadRequest: the header is no ETag, or several.
        PreconditionFailed: no state of a conversation has such an ETag.
    """
    given = header(request.exchange.headers, b"if-match")
    value = (given or "").strip()
    if given is None or value == "*":
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


def if_none_match(request: Incoming) -> list[str]:
    """The ETags of If-None-Match; ``*`` matches any state."""
    given = request.exchange.headers.get(b"if-none-match")
    if given is None:
        return []
    value = given.decode("latin-1")
    return ["*"] if value.strip() == "*" else [tag for tag in _tags(value) if _ETAG.fullmatch(tag)]


def is_known(request: Incoming, tag: str) -> bool:
    """Whether If-None-Match names this state, so that the client has it already."""
    known = if_none_match(request)
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
