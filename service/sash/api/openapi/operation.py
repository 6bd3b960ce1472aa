"""``@documented``: a handler's declaration of its operation, in addition to path, method, operation id and docstring."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec
from litestar.handlers import HTTPRouteHandler

JSON: Final = "application/json"
ANY_TYPE: Final = ("*/*",)
"""The media types of an answer that is a picture or a file."""
SCREEN_TYPE: Final = "application/vnd.sash.screen+json"
"""The media type of an answer with a screen's messages."""
EVENTS: Final = ("text/event-stream",)
"""The media type of server-sent events, an answer that goes on; ``gives`` is what the data of each event is."""
OPERATORS: Final = "operations"
"""The tag of pages and probes for operators, which ignore query parameters, as scrapers and balancers may add their own."""
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
    """The body of a successful answer: a Struct, a type with a title, ``str`` for text, ``bytes`` for a picture or file, or
    None without a body.
    A Struct that the handler returns need not be named."""
    gives_screens: Any = None
    """The body of the answer in a screen's form, if the operation has one."""
    gives_types: tuple[str, ...] = (JSON,)
    also: tuple[int, str] | None = None
    """Another successful status and its meaning; the body is the same."""
    errors: tuple[int, ...] = ()
    """Error statuses that do not follow from the path, the method and the body."""
    is_open: bool = False
    """Whether the document has the answer's members in its example alone: figures for people, of which generators would make
    a seventh of a client."""
    is_page: bool = False
    """Whether the document leaves it out: a page for people, or a file to begin with, of which a client has no use."""
    etag: bool = True
    """Whether a successful answer below ``/conversations`` has the conversation's ETag."""


def documented(summary: str, tag: str, **rest: Any) -> Callable[[_Handler], _Handler]:
    """Declare a handler's operation, with the fields of Operation."""

    def declare(function: _Handler) -> _Handler:
        returned = function.__annotations__["return"]
        if isinstance(returned, type) and issubclass(returned, msgspec.Struct):
            rest.setdefault("gives", returned)
        vars(function)["operation"] = Operation(summary=summary, tag=tag, **rest)
        return function

    return declare


def operation_of(handler: HTTPRouteHandler) -> Operation:
    """A handler's declaration. Raises KeyError for a handler without one."""
    operation: Operation = vars(handler.fn)["operation"]
    return operation
