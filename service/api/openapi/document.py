"""The parts put together; the same bytes for the same service, so that the stored copy can be compared."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

import msgspec
from litestar.handlers import HTTPRouteHandler

from service import __version__
from service.api.openapi.components import Json, named_components, plain, ref, struct_components
from service.api.openapi.faults import problem_responses, problem_schemas, response_name
from service.api.openapi.links import all_links, links_of
from service.api.openapi.operations import OPERATIONS, TAGS, Answer, Operation
from service.api.openapi.parameters import HEADERS, all_parameters, parameters_of
from service.api.openapi.shapes import WINDOWS
from service.api.ring import FIGURES_PATHS, OPEN_PATHS
from service.problems import Pointer

_DESCRIPTION: Final = """Holds chat conversations, counts their tokens once, and hands back the window of messages that \
fits the model exactly, ready to send.

Append turns with `POST /conversations/{conversation_id}/messages`; read what to send with \
`GET /conversations/{conversation_id}/window`. Every error is `application/problem+json` (RFC 9457), told apart by `type`. \
Clients should ignore members that they do not know: an answer may gain one in a minor version."""


@lru_cache(maxsize=4)
def document(handlers: Sequence[HTTPRouteHandler]) -> bytes:
    """The document of ``handlers``, as indented JSON with a line's end. Raises KeyError for a handler without a row."""
    content: Json = {
        "openapi": "3.1.0",
        "info": {
            "title": "Sash",
            "version": __version__,
            "summary": "The part of a window that slides.",
            "description": _DESCRIPTION,
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": "/", "description": "This server."}],
        "security": [{"apiKey": []}],
        "tags": [{"name": name, "description": description} for name, description in TAGS.items()],
        "paths": _paths(handlers),
        "components": _components(),
    }
    _drop_unused(content)
    return msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n"


def _drop_unused(content: Json) -> None:
    """Drop components that nothing refers to, such as a problem that no operation answers with."""
    while True:
        used = set(re.findall(rb'"#/components/(\w+)/([^"]+)"', msgspec.json.encode(content)))
        unused = [
            (kind, name)
            for kind, each in content["components"].items()
            for name in each
            if kind != "securitySchemes" and (kind.encode(), name.encode()) not in used
        ]
        if not unused:
            return
        for kind, name in unused:
            del content["components"][kind][name]


def openapi_path(path: str) -> str:
    """The framework's path as a template of OpenAPI: ``{seq:str}`` is ``{seq}``."""
    return re.sub(r"\{(\w+):\w+\}", r"{\1}", path)


def _paths(handlers: Sequence[HTTPRouteHandler]) -> Json:
    paths: dict[str, Json] = {}
    for handler in handlers:
        (template,), (method,) = handler.paths, handler.http_methods
        path = openapi_path(template)
        paths.setdefault(path, {})[method.lower()] = _operation(handler, method, path)
    return paths


def _operation(handler: HTTPRouteHandler, method: str, path: str) -> Json:
    identity = str(handler.operation_id)
    row = OPERATIONS[identity]
    operation: Json = {
        "operationId": identity,
        "tags": [row.tag],
        "summary": row.summary,
        "description": plain(handler.fn.__doc__ or ""),
    }
    if path in OPEN_PATHS:
        operation["security"] = []
    elif path in FIGURES_PATHS:
        operation["security"] = [{"metricsKey": []}]
    if parameters := list(parameters_of(row, method, path)):
        operation["parameters"] = parameters
    if row.body:
        schema = {**_schema(row.body), "minLength": 1} if row.body == "Text" else _schema(row.body)
        media: Json = {"schema": schema, "example": row.body_example}
        types = (row.media_type, row.or_type) if row.or_type else (row.media_type,)
        operation["requestBody"] = {"required": True, "content": dict.fromkeys(types, media)}
    operation["responses"] = {
        **{str(status): _answer(answer, row) for status, answer in sorted(row.answers.items())},
        **{
            str(status): {"$ref": f"#/components/responses/{response_name(status)}"}
            for status in _errors(row, method, path)
        },
    }
    return operation


def _answer(answer: Answer, row: Operation) -> Json:
    headers = {name: {"$ref": f"#/components/headers/{name}"} for name in answer.headers}
    if row.idempotent:
        headers["Idempotency-Replayed"] = {"$ref": "#/components/headers/Replayed"}
    headers["X-Request-ID"] = {"$ref": "#/components/headers/RequestId"}
    said: Json = {"description": answer.description, "headers": headers}
    if answer.shape is None:
        return said
    name = answer.shape if isinstance(answer.shape, str) else answer.shape.__name__
    if links := dict(links_of(name)):
        said["links"] = links
    example = {"example": answer.example} if answer.example is not None else {}
    media = {"schema": _schema(answer.shape), **example}
    types = (answer.media_type, answer.or_type) if answer.or_type else (answer.media_type,)
    return {**said, "content": dict.fromkeys(types, media)}


def _schema(shape: type | str) -> Json:
    name = shape if isinstance(shape, str) else shape.__name__
    return {"type": "string"} if name == "Text" else ref(name)


def _errors(row: Operation, method: str, path: str) -> list[int]:
    """Every status that the operation may answer with when something is wrong."""
    found = {421, 500, 503, *row.errors}
    if path in FIGURES_PATHS:
        found.add(401)
    elif path not in OPEN_PATHS:
        found |= {401, 429}
    if row.body or row.query or row.conditional or (row.stored and "{" in path):
        found.add(400)
    if row.body:
        found |= {408, 413, 415}
    if row.fills:
        found.add(507)
    if row.conditional and method != "GET":
        found.add(412)
    if row.idempotent:
        found |= {408, 409, 413, 422}  # a body is read for its key's sake, even where none is wanted
    return sorted(found)


def _components() -> Json:
    schemas = {**struct_components(_structs()), **named_components(), **problem_schemas()}
    return {
        "securitySchemes": {
            "apiKey": {
                "type": "http",
                "scheme": "bearer",
                "description": "A key belongs to one tenant. A service without keys listens on its own machine alone.",
            },
            "metricsKey": {
                "type": "http",
                "scheme": "bearer",
                "description": "SASH_METRICS_KEY opens figures of all tenants; a service without keys needs none.",
            },
        },
        "parameters": all_parameters(row.query for row in OPERATIONS.values() if row.query),
        "headers": HEADERS,
        "responses": problem_responses(),
        "links": all_links(),
        "schemas": dict(sorted(schemas.items())),
    }


def _structs() -> Iterator[type]:
    yield Pointer
    yield from WINDOWS
    for row in OPERATIONS.values():
        if isinstance(row.body, type):
            yield row.body
        yield from (answer.shape for answer in row.answers.values() if isinstance(answer.shape, type))
