"""What a handler says of its operation beside path, method, operation id and docstring."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec
from litestar.handlers import HTTPRouteHandler

JSON: Final = "application/json"
_Handler = TypeVar("_Handler", bound=Callable[..., Any])


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """A handler's declaration. Headers, conditions and most errors follow from the path and the method."""

    summary: str
    tag: str
    query: type[msgspec.Struct] | None = None
    takes: Any = None
    """The body: a Struct, or ``str`` for text."""
    takes_types: tuple[str, ...] = (JSON,)
    gives: Any = None
    """The body of a good answer: a Struct, a type with a title, ``str`` for text, or None for an answer without one."""
    gives_types: tuple[str, ...] = (JSON,)
    also: tuple[int, str] | None = None
    """Another good status, and what it means; its body is the same."""
    errors: tuple[int, ...] = ()
    """What else may go wrong: statuses that do not follow from the path, the method and the body."""
    etag: bool = True
    """Whether a good answer below ``/conversations`` names the state of the conversation."""


def documented(summary: str, tag: str, **rest: Any) -> Callable[[_Handler], _Handler]:
    """Declare a handler's operation, with the fields of Operation."""
    operation = Operation(summary=summary, tag=tag, **rest)

    def declare(function: _Handler) -> _Handler:
        vars(function)["operation"] = operation
        return function

    return declare


def operation_of(handler: HTTPRouteHandler) -> Operation:
    """A handler's declaration. Raises KeyError for a handler without one."""
    operation: Operation = vars(handler.fn)["operation"]
    return operation
