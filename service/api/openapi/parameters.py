"""What goes beside the body: path, query and header parameters, and the headers of answers."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from service.api.openapi.components import REF, Json, property_schema
from service.api.openapi.meanings import MEANINGS
from service.api.openapi.operations import Operation

_ID: Final[Json] = {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$"}
_PATH: Final[dict[str, tuple[str, Json, Any]]] = {
    "conversation_id": ("The conversation's id.", _ID, "c-1"),
    "owner_id": ("The owner's id.", _ID, "user-42"),
    "owner": ("The owner's id.", _ID, "user-42"),
    "seq": ("The message's sequence number.", {"type": "integer", "format": "int64", "minimum": 1}, 1),
    "model_id": ("The model's name.", {"type": "string", "minLength": 1}, "gpt-4o-mini"),
}
_TAG = '"8-nB3pXJw0m2vSdY6q-Zk4tQ1aL"'
HEADERS: Final[dict[str, Json]] = {
    "ETag": {
        "description": "Names one state of a conversation, for If-Match and If-None-Match. Opaque: send it back as it came.",
        "schema": {"type": "string"},
        "example": _TAG,
    },
    "Location": {"description": "Where it is.", "schema": {"type": "string"}, "example": "/conversations/c-1"},
    "Link": {
        "description": 'The next page, while there is one: `<…>; rel="next"` (RFC 8288).',
        "schema": {"type": "string"},
        "example": '</conversations/c-1/messages?order=asc&limit=100&cursor=YTEwMTpuQjNwWEp3MG0ydlNkWTZx>; rel="next"',
    },
    "RetryAfter": {"description": "Try again after so many seconds.", "schema": {"type": "integer"}, "example": 1},
    "RequestId": {"description": "The request's id, as the log has it.", "schema": {"type": "string"}},
    "Replayed": {
        "description": "`true` when this is the answer of an earlier request under the same Idempotency-Key.",
        "schema": {"type": "string"},
        "example": "true",
    },
    "Authenticate": {"description": "How to say who you are.", "schema": {"type": "string"}, "example": "Bearer"},
}
_STRING: Final[Json] = {"type": "string"}
_CONDITIONS: Final[dict[str, tuple[str, str, Json, str]]] = {
    "IfMatch": (
        "If-Match",
        "Only if the conversation is still in the state of this ETag; `*` for any state.",
        {"type": "string", "pattern": '^(\\*|(W/)?"[^"]*")$'},
        _TAG,
    ),
    "IfNoneMatch": ("If-None-Match", "Only if the conversation is no longer in the state of this ETag.", _STRING, _TAG),
    "IdempotencyKey": (
        "Idempotency-Key",
        "The same key with the same request is answered as before; 1 to 255 visible ASCII characters.",
        {"type": "string", "pattern": "^[!-~]{1,255}$"},
        "k-1",
    ),
}


def all_parameters(queries: Iterable[type]) -> Json:
    """Every parameter that there is, by its component's name."""
    named: Json = {
        name: {"name": name, "in": "path", "required": True, "description": text, "schema": schema, "example": example}
        for name, (text, schema, example) in _PATH.items()
    }
    for name, (header, text, schema, example) in _CONDITIONS.items():
        named[name] = {"name": header, "in": "header", "description": text, "schema": schema, "example": example}
    for query in queries:
        named |= _query_parameters(query)
    return named


def parameters_of(row: Operation, method: str, path: str) -> Iterator[Json]:
    """References to the parameters of one operation."""
    for name in re.findall(r"\{(\w+)\}", path):
        yield _ref(name)
    if row.conditional:
        yield _ref("IfNoneMatch" if method == "GET" else "IfMatch")
    if row.idempotent:
        yield _ref("IdempotencyKey")
    if row.query:
        for name in row.query.__struct_fields__:
            yield _ref(f"{row.query.__name__}.{name}")


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/parameters/{name}"}


def _query_parameters(query: type) -> Json:
    _, found = msgspec.json.schema_components([query], ref_template=REF + "{name}")
    name = query.__name__
    fields = found[name]["properties"]
    required = found[name].get("required", ())
    return {f"{name}.{field}": _query_parameter(name, field, fields[field], required) for field in fields}


def _query_parameter(owner: str, field: str, schema: Json, required: Sequence[str]) -> Json:
    said = schema.get("description", "")
    schema = property_schema(schema, owner, field)
    schema.pop("description", None)
    if isinstance(schema.get("type"), list):
        schema["type"] = schema["type"][0]  # a parameter that is not there is left out
    description = MEANINGS.get(owner, {}).get(field) or said
    parameter: Json = {"name": field, "in": "query", "schema": schema}
    if field in required:
        parameter["required"] = True
    return {**parameter, "description": description} if description else parameter
