"""Reading query strings, each as the Struct that its operation declares. A client's mistake becomes a 400 problem."""

from contextlib import suppress
from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode

import msgspec
from litestar import Request
from litestar.handlers import HTTPRouteHandler

from sash.api.openapi.operation import OPERATORS, operation_of
from sash.core.chat.mistakes import invalid
from sash.problems import BadRequest

T = TypeVar("T")

_METADATA = "metadata."


class NoQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The query of an operation without parameters."""


@lru_cache(maxsize=1024)
def read_query(raw: bytes, kind: Any, handler: Any) -> Any:
    """A query string as a Struct, for a handler whose body may have what is no parameter. Raises BadRequest with its name.

    Cached, because a client sends the same query string at every turn.
    """
    values: dict[str, str] = {}
    for name, value in _pairs(raw):
        if name in values:
            raise BadRequest.at(f"#/query/{name}", "A query parameter is given twice")
        values[name] = value
    fields = dict(zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True))
    with suppress(msgspec.ValidationError):
        query = msgspec.convert(values, kind, strict=False)
        # The lax conversion reads the word null as None, which no parameter allows.
        if all(getattr(query, fields[name]) is not None for name in values):
            return query
    body = operation_of(handler).takes if isinstance(handler, HTTPRouteHandler) else None
    in_body = getattr(body, "__struct_encode_fields__", ())
    raise invalid("/query", BadRequest, of=kind, value=values, from_text=True, in_body=in_body)


def query_with_metadata(request: Request[Any, Any, Any], kind: type[T]) -> tuple[T, dict[str, str]]:
    """The query as a Struct, and its parameters ``metadata.…`` by the name behind the point. Raises BadRequest."""
    raw = request.scope["query_string"]
    pairs = _pairs(raw) if b"metadata" in raw else []
    wanted = [(name.removeprefix(_METADATA), value) for name, value in pairs if name.startswith(_METADATA)]
    for name, _ in wanted:
        if not name or [each for each, _ in wanted].count(name) > 1:
            raise BadRequest.at(f"#/query/{_METADATA}{name}", "Give each member of metadata once, with its name")
    if wanted:
        raw = urlencode([pair for pair in pairs if not pair[0].startswith(_METADATA)]).encode()
    query: T = read_query(raw, kind, request.route_handler)  # type: ignore[arg-type] # a class is hashable
    return query, dict(wanted)


async def check_no_query(request: Request[Any, Any, Any]) -> None:
    """Raise BadRequest for a query parameter of an operation that takes none. Pages and probes of operators take any.

    The framework calls it before each handler, so a window and an append, which read their own query, do not enter it. As a
    guard it would triple the processor time of ``GET /livez``, because the framework copies the handler for each guard.
    """
    raw = request.scope["query_string"]
    if raw and isinstance(handler := request.route_handler, HTTPRouteHandler):
        operation = operation_of(handler)
        if operation.query is None and operation.tag != OPERATORS:
            read_query(raw, NoQuery, handler)


def _pairs(raw: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(
            raw.decode("ascii"), keep_blank_values=True, strict_parsing=bool(raw), errors="strict", max_num_fields=64
        )
    except (UnicodeDecodeError, ValueError):
        detail = "The query string cannot be read: name=value pairs in UTF-8, with & between"
        raise BadRequest.at("#/query", detail) from None
