"""Reading requests: the body, the query, the conditions. All that a client can get wrong ends here as a 4xx."""

import asyncio
import re
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec
from litestar import Request
from litestar.exceptions import ClientException

from service.core.messages import IDS, decode_json, invalid
from service.problems import BadRequest, Pointer, UnsupportedMediaType

T = TypeVar("T")
Req = Request[Any, Any, Any]

LONG_BYTES = 32 * 1024
"""Work on more than this is done in a thread, so that the loop stays free for others."""

_JSON = re.compile(r'application/json(\s*;\s*charset\s*=\s*"?utf-?8"?)?\s*', re.IGNORECASE)
_PLAIN = {"Accept": "application/json", "Accept-Encoding": "identity"}
_VERSION = re.compile(r'(?:W/)?"(\d{1,18})[^"]*"')


async def read_body(request: Req) -> bytes:
    """The body as it came. Raises UnsupportedMediaType, BadRequest; too large a body raises 413 in the framework."""
    encoding = request.headers.get("content-encoding", "identity")
    if encoding.strip().lower() != "identity":
        raise UnsupportedMediaType(
            "Send the body as it is, without Content-Encoding.", headers={"Accept-Encoding": "identity"}
        )
    if not _JSON.fullmatch(request.headers.get("content-type", "")):
        raise UnsupportedMediaType(
            "Send JSON in UTF-8: Content-Type: application/json.", headers={"Accept": "application/json"}
        )
    try:
        return await request.body()
    except ClientException:
        raise
    except RuntimeError:
        raise BadRequest("The body ended early.") from None


async def decode(request: Req, decoder: msgspec.json.Decoder[T]) -> T:
    """The body as the decoder's type."""
    body = await read_body(request)
    return await worker(len(body), decode_json, body, decoder)


async def worker(size_bytes: int, function: Callable[..., T], *arguments: Any) -> T:
    """Call in place for small work, in a thread for large."""
    if size_bytes < LONG_BYTES:
        return function(*arguments)
    return await asyncio.to_thread(function, *arguments)


def query_of(request: Req, kind: type[T]) -> T:
    """The query string as a Struct. Raises BadRequest naming the parameter."""
    raw: bytes = request.scope["query_string"]
    if not raw:
        return kind()
    try:
        pairs = parse_qsl(
            raw.decode("ascii"), keep_blank_values=True, strict_parsing=True, errors="strict", max_num_fields=64
        )
    except (UnicodeDecodeError, ValueError):
        raise BadRequest("The query string cannot be read.") from None
    values = dict(pairs)
    if len(values) < len(pairs):
        raise BadRequest("A query parameter is given twice.")
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        raise invalid(error, "/query", BadRequest) from None


def checked_id(value: str, what: str = "conversation") -> str:
    """The id, when it is one. Raises BadRequest."""
    if not IDS.fullmatch(value):
        detail = "1 to 128 letters, digits, '.', '_' and '-', beginning with a letter or digit"
        raise BadRequest(f"A {what} id is {detail}.", errors=[Pointer(f"#/path/{what}_id", detail)])
    return value


def if_match(request: Req) -> str:
    """The version that must stand, or nothing. Raises BadRequest for what is not one of our ETags."""
    return _version(request, "if-match")


def if_none_match(request: Req) -> str:
    """The version that the client has, or nothing."""
    try:
        return _version(request, "if-none-match")
    except BadRequest:
        return ""  # somebody else's tag never matches


def _version(request: Req, header: str) -> str:
    value = request.headers.get(header)
    if value is None or value.strip() == "*":
        return ""
    match = _VERSION.fullmatch(value.strip())
    if match is None:
        raise BadRequest('A version is written as its ETag: "7".')
    return match.group(1)


def etag(version: int) -> str:
    """The ETag of a version."""
    return f'"{version}"'
