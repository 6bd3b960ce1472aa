"""The OpenAPI document. The same service always gives the same bytes, so that a test can compare the stored copy."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

import msgspec
from litestar.handlers import HTTPRouteHandler

from sash import __version__
from sash.api.middleware.idempotency import is_pure
from sash.api.middleware.layer import FIGURES_PATHS, is_open
from sash.api.middleware.paths import template_of
from sash.api.openapi import examples
from sash.api.openapi.components import Json, components, plain, schema_of, union
from sash.api.openapi.faults import problem_responses, problem_schemas, response_name
from sash.api.openapi.links import all_links, links_of
from sash.api.openapi.operation import ANY_TYPE, EVENTS, OPERATORS, Operation, operation_of
from sash.api.request_parameters import HEADERS, all_parameters, declarer
from sash.api.schemas import WINDOWS
from sash.problems import Pointer

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
    routes = [Route(handler) for handler in handlers]
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
        "components": _components(routes),
    }
    return msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n"


class Route:
    """A handler's operation. Parameters and headers follow from its path and method.

    Writes below ``/conversations`` and ``/owners`` take an Idempotency-Key and ``If-Match``. A conversation's answers have
    an ETag, unless the operation says otherwise, and its reads with one take ``If-None-Match``.
    """

    def __init__(self, handler: HTTPRouteHandler) -> None:
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
            media = {"schema": schema_of(declared.takes)[0], "example": examples.example_of(identity).body}
            operation["requestBody"] = {"required": True, "content": dict.fromkeys(declared.takes_types, media)}
        good = {str(status): self._answer(status) for status in self._good()}
        bad = {str(s): {"$ref": f"#/components/responses/{response_name(s)}"} for s in sorted(self.errors())}
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
        example = examples.example_of(str(self.handler.operation_id), status).answer
        if declared.also and declared.also[0] == status:
            said = declared.also[1]
        answer: Json = {"description": said or f"{declared.summary}.", "headers": headers}
        if links := links_of(schema.get("$ref", "").rpartition("/")[2]):
            answer["links"] = links
        media: Json = {name: {"schema": schema, "example": example} for name in declared.gives_types}
        if "$ref" in schema and "text/html" in media:
            media["text/html"] = {"schema": {"type": "string"}, "example": "<!doctype html>"}
        return answer | {"content": media}

    def _headers(self, status: int) -> Iterator[tuple[str, Json]]:
        names = {"X-Request-ID": "RequestId"}
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


def _components(routes: Sequence[Route]) -> Json:
    declared = [route.declared for route in routes]
    statuses = {status for route in routes for status in route.errors()}
    types = [each for operation in declared for each in (operation.takes, operation.gives) if each not in (None, bytes)]
    schemas = components([Pointer, *WINDOWS.values(), *types])
    parameters = all_parameters({each.query: None for each in declared if each.query}, schemas)
    names = {value: window.__name__ for value, window in WINDOWS.items()}
    schemas |= problem_schemas(statuses)
    schemas["Window"] = union("format", names, "A window, by the format of its request.")
    return {
        "securitySchemes": {
            name: {"type": "http", "scheme": "bearer", "description": description}
            for name, description in _SCHEMES.items()
        },
        "parameters": parameters,
        "headers": HEADERS,
        "responses": problem_responses(statuses),
        "links": all_links({str(route.handler.operation_id): route.declared.summary for route in routes}),
        "schemas": dict(sorted(schemas.items())),
    }
