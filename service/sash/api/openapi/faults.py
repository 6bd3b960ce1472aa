"""Problems in the document: one schema and one response for all, since a client goes by ``type``."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from sash.api.openapi.components import Json, plain, ref
from sash.problems import Problem, UnknownModel, problem_types

RESPONSE: Final = "Problem"
"""The component of a problem's schema, and that of the response with it."""


def meaning(kind: type[Problem]) -> list[str]:
    """The meaning of a problem type, then what to do about it, in Markdown."""
    return [plain(paragraph) for paragraph in (kind.__doc__ or "").split("\n\n")]


def problem_response() -> Json:
    """The response of all problems, with an example of one."""
    return {
        "description": "A problem. Its `type` says which, and its page what to do.",
        "headers": {
            "Retry-After": {"$ref": "#/components/headers/RetryAfter"},
            "WWW-Authenticate": {"$ref": "#/components/headers/Authenticate"},
        },
        "content": {"application/problem+json": {"schema": ref(RESPONSE), "example": example_of(UnknownModel)}},
    }


def types_of(statuses: set[int]) -> str:
    """The types of problems with these statuses, in Markdown."""
    found = [kind for kind in problem_types() if kind.status in statuses]
    told = "; ".join(f"{kind.status} `/problems/{kind.slug}`" for kind in sorted(found, key=lambda each: each.status))
    return f"The URI reference of the type: {told}. A minor version may add types."


def example_of(kind: type[Problem]) -> Json:
    """A problem of this type."""
    problem = kind(kind.example or f"{kind.title}.", members=dict(_figures_example(kind)))
    return problem.document("/conversations/c-1/messages")


def _figures_example(kind: type[Problem]) -> Iterator[tuple[str, Any]]:
    figures: type[msgspec.Struct] | None = vars(kind).get("Figures")
    if figures is not None:
        _, found = msgspec.json.schema_components([figures])
        schema = found[figures.__name__]
        for name in schema.get("required", ()):
            yield name, schema["properties"][name]["examples"][0]
