"""Problems in the document: one schema for each problem type, one response for each status."""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import msgspec

from sash.api.openapi.components import Json, components, plain, ref, union
from sash.problems import Problem, ProblemDocument, Unauthorized, problem_types


def by_status(statuses: set[int]) -> dict[int, list[type[Problem]]]:
    """The problem types of each of the statuses."""
    return {status: [kind for kind in problem_types() if kind.status == status] for status in sorted(statuses)}


def problem_schemas(statuses: set[int]) -> dict[str, Json]:
    """A component for each problem type, and a union for each status with several types."""
    schemas: dict[str, Json] = {}
    for status, kinds in by_status(statuses).items():
        for kind in kinds:
            schemas |= _schemas(kind)
        if len(kinds) > 1:
            names = {f"/problems/{kind.slug}": _name(kind) for kind in kinds}
            schemas[f"Problem{status}"] = union("type", names, f"A problem with status {status}.")
    return schemas


def _name(kind: type[Problem]) -> str:
    return f"{kind.__name__}Problem"


def _figures(kind: type[Problem]) -> type[msgspec.Struct] | None:
    figures: type[msgspec.Struct] | None = vars(kind).get("Figures")
    return figures


def _schemas(kind: type[Problem]) -> dict[str, Json]:
    """The component of a problem type, with the members of every problem and its own; also the types that it refers to."""
    found = components([ProblemDocument])
    schema = found.pop("ProblemDocument")
    own: Json = {
        "type": {"type": "string", "const": f"/problems/{kind.slug}"},
        "status": {"type": "integer", "description": f"Always {kind.status}."},
    }
    if figures := _figures(kind):
        found |= components([figures])
        own |= found.pop(figures.__name__)["properties"]
    schema["description"] = meaning(kind)[0]
    return {**found, _name(kind): {**schema, "properties": schema["properties"] | own}}


def meaning(kind: type[Problem]) -> list[str]:
    """The meaning of a problem type, then what to do about it, in Markdown."""
    return [plain(paragraph) for paragraph in (kind.__doc__ or "").split("\n\n")]


def response_name(status: int) -> str:
    """The name of a status's response component."""
    return HTTPStatus(status).phrase.title().replace(" ", "").replace("-", "")


def problem_responses(statuses: set[int]) -> dict[str, Json]:
    """A response for each status."""
    return {response_name(status): _response(status, kinds) for status, kinds in by_status(statuses).items()}


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
    problem = kind(kind.example or f"{kind.title}.", members=dict(_figures_example(kind)))
    return problem.document("/conversations/c-1/messages")


def _figures_example(kind: type[Problem]) -> Iterator[tuple[str, Any]]:
    if figures := _figures(kind):
        _, found = msgspec.json.schema_components([figures])
        schema = found[figures.__name__]
        for name in schema.get("required", ()):
            yield name, schema["properties"][name]["examples"][0]
