"""Problems as the document's responses: one schema a problem type, told apart by ``type``; one response a status."""

from collections.abc import Iterator, Mapping
from http import HTTPStatus

from service.api.openapi.components import Json, ref, union
from service.problems import (
    BadRequest,
    ConversationDamaged,
    FormatCannotCarry,
    Internal,
    InvalidEntry,
    NotFound,
    OrphanToolResult,
    PreconditionFailed,
    Problem,
    TooLarge,
    TooManyPinned,
    TooManyRequests,
    Unauthorized,
    UnknownModel,
    Unprocessable,
    WindowDoesNotFit,
)

_NUMBER: Json = {"type": "integer", "format": "int64"}
_NEAR: Json = {
    "type": "array",
    "items": {"type": "string"},
    "description": "Models whose names look alike, nearest first.",
}
_LINE: Json = {**_NUMBER, "description": "The line of an import, from 1."}
MEMBERS: Mapping[type[Problem], Mapping[str, Json]] = {
    BadRequest: {"line": _LINE},
    InvalidEntry: {"line": _LINE},
    OrphanToolResult: {"line": _LINE},
    PreconditionFailed: {"version": {**_NUMBER, "description": "The conversation's version now."}},
    TooLarge: {
        "limit": {**_NUMBER, "description": "What is allowed."},
        "unit": {"type": "string", "description": "What `limit` counts, such as `bytes` or `entries`."},
        "line": _LINE,
    },
    NotFound: {"near": _NEAR},
    Unprocessable: {
        "reserve": {**_NUMBER, "description": "The reserve that leaves nothing, in tokens."},
        "context_window": {**_NUMBER, "description": "The model's context window, in tokens."},
    },
    TooManyRequests: {
        "limit": {"type": "number", "description": "What a tenant may send."},
        "unit": {"type": "string", "description": "What `limit` counts."},
    },
    UnknownModel: {"near": _NEAR},
    WindowDoesNotFit: {
        "budget": {**_NUMBER, "description": "The tokens that the window may have."},
        "needed": {**_NUMBER, "description": "The tokens that it cannot do without."},
        "shortfall": {**_NUMBER, "description": "The tokens by which it is over."},
        "costs": ref("Costs"),
    },
    TooManyPinned: {"limit": {**_NUMBER, "description": "How many a conversation may have."}},
    ConversationDamaged: {"part": {"type": "string", "description": "The key that is missing or too short."}},
    Internal: {
        "key": {"type": "string", "description": "The id of the data key that what is stored needs, and lacks."}
    },
}
"""Figures for programs beside what every problem says."""

_EXAMPLES: Mapping[type[Problem], Json] = {
    WindowDoesNotFit: {
        "detail": "What is always in the window costs 1210 tokens and the budget is 976: 234 over.",
        "budget": 976,
        "needed": 1210,
        "shortfall": 234,
        "costs": {"priming": 3, "system": 21, "question": 1186},
    },
    UnknownModel: {"detail": "No model is called 'gtp-4o-mini'.", "near": ["gpt-4o-mini"]},
    TooLarge: {"detail": "A body may have 4194304 bytes.", "limit": 4194304, "unit": "bytes"},
    PreconditionFailed: {
        "detail": "The conversation is at version 9 now: read it again and decide anew.",
        "version": 9,
    },
    TooManyPinned: {"detail": "A conversation may have 1000 pinned messages.", "limit": 1000},
    ConversationDamaged: {"detail": "The store lost a part of this conversation (details).", "part": "details"},
    TooManyRequests: {
        "detail": "A tenant may send 50 requests a second: try again in 1 s.",
        "limit": 50,
        "unit": "requests a second",
    },
    FormatCannotCarry: {"errors": [{"pointer": "#/messages/3/content/1", "detail": "has no place in this format"}]},
}


def problem_types(root: type[Problem] = Problem) -> Iterator[type[Problem]]:
    """Every problem type, in the order in which they are declared, parents first.

    A class without a slug of its own is of its parent's type.
    """
    for kind in root.__subclasses__():
        if "slug" in vars(kind):
            yield kind
        yield from problem_types(kind)


def by_status() -> dict[int, list[type[Problem]]]:
    """Problem types by status."""
    found: dict[int, list[type[Problem]]] = {}
    for kind in problem_types():
        found.setdefault(kind.status, []).append(kind)
    return found


def problem_schemas() -> dict[str, Json]:
    """A component for each problem type, and a union for each status that has several."""
    schemas = {_name(kind): _schema(kind) for kind in problem_types()}
    for status, kinds in by_status().items():
        if len(kinds) > 1:
            names = {f"/problems/{kind.slug}": _name(kind) for kind in kinds}
            schemas[f"Problem{status}"] = union("type", names, f"A problem that is answered with {status}.")
    costs = {**_NUMBER, "minimum": 0}
    schemas["Costs"] = {
        "type": "object",
        "description": "The tokens of what must be in the window, by what it is.",
        "additionalProperties": costs,
    }
    return schemas


def _name(kind: type[Problem]) -> str:
    return f"{kind.__name__}Problem"


def _schema(kind: type[Problem]) -> Json:
    members = MEMBERS.get(kind, {})
    return {
        "type": "object",
        "description": f"{kind.title} (RFC 9457).",
        "properties": {
            "type": {"type": "string", "const": f"/problems/{kind.slug}"},
            "title": {"type": "string"},
            "status": {"type": "integer", "description": f"Always {kind.status}."},
            "detail": {"type": "string", "description": "A sentence for people, without anybody's messages."},
            "instance": {"type": "string", "description": "The path of the request."},
            "errors": {"type": "array", "items": ref("Pointer"), "description": "The places that are wrong."},
            **members,
        },
        "required": ["type", "title", "status", "detail", "instance"],
    }


def response_name(status: int) -> str:
    """The name of a status's response component."""
    return HTTPStatus(status).phrase.title().replace(" ", "").replace("-", "")


def problem_responses() -> dict[str, Json]:
    """A response for each status that a problem has."""
    return {response_name(status): _response(status, kinds) for status, kinds in by_status().items()}


def _response(status: int, kinds: list[type[Problem]]) -> Json:
    schema = ref(f"Problem{status}") if len(kinds) > 1 else ref(_name(kinds[0]))
    headers = {"X-Request-ID": {"$ref": "#/components/headers/RequestId"}}
    if any(kind.retry_after_seconds is not None for kind in kinds):
        headers["Retry-After"] = {"$ref": "#/components/headers/RetryAfter"}
    if Unauthorized in kinds:
        headers["WWW-Authenticate"] = {"$ref": "#/components/headers/Authenticate"}
    examples = {kind.slug: {"summary": kind.title, "value": _example(kind)} for kind in kinds}
    description = "; ".join(kind.title for kind in kinds) + "."
    content = {"application/problem+json": {"schema": schema, "examples": examples}}
    return {"description": description, "headers": headers, "content": content}


def _example(kind: type[Problem]) -> Json:
    return {
        "type": f"/problems/{kind.slug}",
        "title": kind.title,
        "status": kind.status,
        "detail": f"{kind.title}.",
        "instance": "/conversations/c-1/messages",
        **_EXAMPLES.get(kind, {}),
    }
