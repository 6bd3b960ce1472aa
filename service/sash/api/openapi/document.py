"""The OpenAPI document. The same service always gives the same bytes, so that a test can compare the stored copy."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec
from litestar.handlers import HTTPRouteHandler

from sash import __version__
from sash.api.middleware.idempotency import is_pure
from sash.api.middleware.layer import FIGURES_PATHS, is_open
from sash.api.middleware.paths import template_of
from sash.api.openapi import examples
from sash.api.openapi.components import REF, Json, components, open_object, plain, schema_of, without_untyped
from sash.api.openapi.faults import RESPONSE, problem_response, types_of
from sash.api.openapi.operation import ANY_TYPE, EVENTS, OPERATORS, SCREEN_TYPE, Operation, operation_of
from sash.api.request_parameters import HEADERS, all_parameters, declarer
from sash.api.schemas import ModelDestination, ProblemObject, WindowDocument

_DESCRIPTION: Final = """Stores chat conversations, counts their tokens once, and returns the window of messages that fits \
the model exactly, ready to send.

Append turns with `POST /conversations/{conversation_id}/messages`; read the messages to send with \
`GET /conversations/{conversation_id}/window`. Every error is `application/problem+json` (RFC 9457), told apart by `type`. \
Clients should ignore unknown members: a minor version may add members to an answer."""
_TAGS: Final = {
    "conversations": "Settings and state of a conversation.",
    "messages": "Append turns, and read them.",
    "branches": "Go back to ends of a conversation that were replaced.",
    "windows": "The messages to send, which fit the model exactly.",
    "models": "Tokens of a request, and the known models.",
    "operations": "For the service's operators.",
}
_SCHEMES: Final = {
    "apiKey": "A key belongs to one tenant. A service without keys listens on its own machine only.",
    "metricsKey": "SASH_METRICS_KEY allows reading figures of all tenants. A service without keys needs none.",
}
_UNCHANGED: Final = "Nothing has changed since the state that If-None-Match names."


@lru_cache(maxsize=4)
def document(handlers: Sequence[HTTPRouteHandler]) -> bytes:
    """The document of ``handlers``, as indented JSON. Raises KeyError for a handler without ``@documented``."""
    shown: dict[str, Json] = {}
    routes = [Route(handler, shown) for handler in handlers if not operation_of(handler).is_page]
    paths: dict[str, Json] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = route.operation()
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
        "tags": [{"name": name, "description": description} for name, description in _TAGS.items()],
        "paths": paths,
        "components": _components(routes) | {"examples": shown},
    }
    return _lines(content, 0).encode() + b"\n"


_WIDTH: Final = 140


def _lines(value: Any, depth: int) -> str:
    """JSON with one member a line, where an object or a list does not fit into one line."""
    flat = msgspec.json.encode(value).decode()
    if len(flat) <= _WIDTH - depth or not isinstance(value, dict | list):
        return flat
    if isinstance(value, dict):
        parts = [f"{msgspec.json.encode(name).decode()}:{_lines(each, depth + 1)}" for name, each in value.items()]
    else:
        parts = [_lines(each, depth + 1) for each in value]
    separator = f",\n{' ' * (depth + 1)}"
    opens, closes = "{}" if isinstance(value, dict) else "[]"
    return f"{opens}\n{' ' * (depth + 1)}{separator.join(parts)}\n{' ' * depth}{closes}"


class Route:
    """A handler's operation. Parameters and headers follow from its path and method.

    Writes below ``/conversations`` and ``/owners`` take an Idempotency-Key and ``If-Match``. A conversation's answers have
    an ETag, unless the operation says otherwise, and its reads with one take ``If-None-Match``.
    """

    def __init__(self, handler: HTTPRouteHandler, shown: dict[str, Json] | None = None) -> None:
        self.examples: dict[str, Json] = {} if shown is None else shown
        """Examples of answers by their schema, which operations share."""
        (template,), (self.method,) = handler.paths, handler.http_methods
        self.handler = handler
        self.path = template_of(template)
        self.declared: Operation = operation_of(handler)
        self.reads = self.method == "GET"
        self.of_conversations = self.path.startswith("/conversations")
        is_below = self.of_conversations or self.path.startswith("/owners")
        self.writes = not self.reads and is_below and not is_pure(self.path)
        self.unchanged = self.reads and self.of_conversations and self.declared.etag

    def operation(self) -> Json:
        """The OpenAPI operation object."""
        declared, identity = self.declared, str(self.handler.operation_id)
        operation: Json = {
            "operationId": identity,
            "tags": [declared.tag],
            "summary": declared.summary,
            "description": plain(self.handler.fn.__doc__ or ""),
        }
        if is_open(self.path):
            operation["security"] = []
        elif self.path in FIGURES_PATHS:
            operation["security"] = [{"metricsKey": []}]
        if parameters := [{"$ref": f"#/components/parameters/{name}"} for name in self._parameters()]:
            operation["parameters"] = parameters
        if declared.takes:
            media = {"schema": schema_of(declared.takes)[0], **self._example(examples.example_of(identity).body)}
            operation["requestBody"] = {"required": True, "content": dict.fromkeys(declared.takes_types, media)}
        good = {str(status): self._answer(status) for status in self._good()}
        bad = {f"{kind}XX": {"$ref": f"#/components/responses/{RESPONSE}"} for kind in (4, 5)}
        return operation | {"responses": good | bad}

    def _parameters(self) -> Iterator[str]:
        yield from re.findall(r"\{(\w+)\}", self.path)
        if self.unchanged:
            yield "IfNoneMatch"
        if self.writes:
            yield from ("IfMatch", "IdempotencyKey")
        if query := self.declared.query:
            yield from (
                f"{declarer(query, field).__name__}.{name}"
                for field, name in zip(query.__struct_fields__, query.__struct_encode_fields__, strict=True)
            )

    def _good(self) -> list[int]:
        also = [self.declared.also[0]] if self.declared.also else []
        return sorted([self.handler.status_code, *also, *([304] if self.unchanged else [])])

    def _answer(self, status: int) -> Json:
        declared = self.declared
        headers = dict(self._headers(status))
        if status in (204, 304) or declared.gives is None:
            said = declared.also[1] if declared.also and declared.also[0] == status else "Done."
            return {"description": _UNCHANGED if status == 304 else said, "headers": headers}
        if declared.gives_types == ANY_TYPE:
            said = declared.also[1] if declared.also and declared.also[0] == status else declared.summary
            return {
                "description": said.removesuffix(".") + ".",
                "headers": headers,
                "content": {"*/*": {"schema": {"type": "string", "format": "binary"}, "example": ""}},
            }
        schema, said = schema_of(declared.gives)
        if declared.gives_types == EVENTS:
            schema = {"type": "string", "description": said, "contentSchema": schema}
        example = self._example(examples.example_of(str(self.handler.operation_id), status).answer, schema)
        if declared.also and declared.also[0] == status:
            said = declared.also[1]
        answer: Json = {"description": said or f"{declared.summary}.", **({"headers": headers} if headers else {})}
        media: Json = {name: {"schema": schema, **example} for name in declared.gives_types}
        if "$ref" in schema and "text/html" in media:
            media["text/html"] = {"schema": {"type": "string"}, "example": "<!doctype html>"}
        if declared.gives_screens is not None:
            shown = examples.example_in("ui", str(self.handler.operation_id)).answer
            media[SCREEN_TYPE] = {"schema": schema_of(declared.gives_screens)[0], "example": shown}
        return answer | {"content": media}

    def _example(self, value: Any, schema: Json | None = None) -> Json:
        """The member of a body with its example: answers with one schema share that of the first operation with it."""
        name = (schema or {}).get("$ref", "").removeprefix(REF)
        if self.declared.is_open:
            value = {key: each for key, each in value.items() if key in (list(value)[:1] if name == "Stats" else value)}
        if not name:
            return {"example": value}
        self.examples.setdefault(name, {"value": value})
        return {"examples": {"answer": {"$ref": f"#/components/examples/{name}"}}}

    def _headers(self, status: int) -> Iterator[tuple[str, Json]]:
        names = {}
        if self.of_conversations and self.declared.etag:
            names["ETag"] = "ETag"
        # an append creates no resource with a path of its own
        if status == 202 or (status == 201 and self.declared.also is None):
            names["Location"] = "Location"
        if status == 200 and "next_cursor" in getattr(self.declared.gives, "__struct_fields__", ()):
            names["Link"] = "Link"
        if self.writes:
            names["Idempotency-Replayed"] = "Replayed"
        return ((name, {"$ref": f"#/components/headers/{names[name]}"}) for name in sorted(names))

    def errors(self) -> set[int]:
        """The operation's error statuses."""
        found = {421, 500, 503, *self.declared.errors}
        if self.path in FIGURES_PATHS:
            found.add(401)
        elif not is_open(self.path):
            found |= {401, 429}
        if self.declared.tag != OPERATORS:
            found.add(400)
        if "{" in self.path and "{owner_id}" not in self.path:
            found.add(404)
        if self.declared.takes:
            found |= {408, 413, 415}
        if self.writes:
            found |= {408, 409, 412, 413, 422}  # with an Idempotency-Key a body is always read
        return found


def _open_request(schema: Json) -> Json:
    """A request without the members that are not checked, which stands for a provider's own request, too."""
    members = {name: each for name, each in schema["properties"].items() if each.get("$ref") != f"{REF}ReplyControl"}
    members["text"] = {
        "description": "A text to count, alone or beside messages."
    }  # Responses has an object of this name
    description = f"{schema['description']} With `format`, that provider's own request, with the model's name."
    return {**schema, "description": description, "properties": members, "additionalProperties": True}


def _components(routes: Sequence[Route]) -> Json:
    declared = [route.declared for route in routes]
    statuses = {status for route in routes for status in route.errors()}
    sent = [said.takes for said in declared if said.takes not in (None, bytes)]
    bodies = [each for said in declared for each in (said.takes, said.gives, said.gives_screens)]
    types = [each for each in bodies if each not in (None, bytes)]
    figures = {said.gives for said in declared if said.is_open}
    answered = [ProblemObject, WindowDocument, *(each for each in types if each not in figures)]
    schemas = components(answered, sent)
    schemas |= {each.__name__: open_object(schema_of(each)[1]) for each in (*figures, ModelDestination)}
    parameters = all_parameters({each.query: None for each in declared if each.query}, schemas)
    schemas["Window"] = schemas.pop("WindowDocument")
    schemas["CountRequest"] = _open_request(schemas["CountRequest"])
    schemas[RESPONSE]["properties"]["type"]["description"] = types_of(statuses)
    responses = {RESPONSE: problem_response()}
    schemas = without_untyped([*(route.operation() for route in routes), parameters, responses], schemas)
    return {
        "securitySchemes": {
            name: {"type": "http", "scheme": "bearer", "description": description}
            for name, description in _SCHEMES.items()
        },
        "parameters": parameters,
        "headers": HEADERS,
        "responses": responses,
        "schemas": dict(sorted(schemas.items())),
    }
