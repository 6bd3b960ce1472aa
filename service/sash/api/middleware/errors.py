"""Problems as responses: every error is sent as ``application/problem+json`` (RFC 9457)."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException

from sash.api.middleware.paths import with_head
from sash.core.chat.bounds import WHAT_IDS_ARE
from sash.core.chat.shapes import joined
from sash.operations.logging import describe, get_logger, printable
from sash.problems import BadRequest, CannotOpen, Internal, MethodNotAllowed, NotFound, Problem, TooLarge

PROBLEM_TYPE = "application/problem+json"
_log = get_logger()


def render(problem: Problem, instance: str) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of a problem."""
    if isinstance(problem, CannotOpen):
        _log.error("what is stored does not open", why=problem.detail, key_id=problem.members.get("key"))
    headers = dict(problem.headers)
    if problem.retry_after_seconds is not None:
        headers.setdefault("Retry-After", str(problem.retry_after_seconds))
    return problem.status, headers, msgspec.json.encode(problem.document(instance))


def note(problem: Problem, line: dict[str, Any]) -> None:
    """Note in a request's log line what it was answered with; the pointer is for /status alone."""
    line["problem"] = problem.slug
    if problem.errors:
        line["pointer"] = problem.errors[0].pointer


def on_problem(request: Request[Any, Any, Any], problem: Problem) -> Response[bytes]:
    """The response to a problem."""
    note(problem, request.scope["sash.exchange"].line)  # type: ignore[typeddict-item]
    status, headers, body = render(problem, request.url.path)
    return Response(body, status_code=status, headers=headers, media_type=PROBLEM_TYPE)


def on_http_exception(request: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
    """The response to an error of the framework: an unknown path or method."""
    problem: Problem
    match error.status_code:
        case HTTPStatus.NOT_FOUND:
            problem = _nowhere(request)
        case HTTPStatus.METHOD_NOT_ALLOWED:
            calls = request.app.state.paths.calls(request.scope["path"])
            said = f"This path does not take {printable(request.scope['method'])}"
            said += f"; it takes {joined(calls)}." if calls else "."
            if request.scope["path"].startswith("/owners/"):
                said += " GET /conversations?owner= lists an owner's conversations."
            problem = MethodNotAllowed(said, headers={"Allow": with_head((error.headers or {})["allow"])})
        case status if status < HTTPStatus.INTERNAL_SERVER_ERROR:
            problem = BadRequest("The request cannot be read.")
        case _:
            problem = Internal("The service failed; nothing is known to be lost, try again.")
    return on_problem(request, problem)


_NOTHING = "There is nothing at this path"
_PAGES = "/docs has all calls, /dashboard draws windows."


def _nowhere(request: Request[Any, Any, Any]) -> NotFound:
    """The problem of an unknown path, with the path that was probably meant."""
    path, paths = request.url.path, request.app.state.paths
    if meant := paths.meant_by(path):
        return NotFound(f"{_NOTHING}{meant} {_PAGES}")
    if path.startswith("/owners/") and path.count("/") > 2:
        return NotFound(f"{_NOTHING}: {_PAGES} An owner's id is percent-encoded in a path: a%2Fb for a/b.")
    if not path.startswith("/conversations/") or path.count("/") <= 2:
        return NotFound(f"{_NOTHING}: {_PAGES}")
    return slash_in_id(f" Below a conversation are {', '.join(paths.below(3, 'conversations'))}.")


def slash_in_id(below: str = "") -> NotFound:
    """The problem of a path below a conversation that does not exist: often the id has a slash."""
    return NotFound(
        f"{_NOTHING}.{below} An id cannot contain a slash, also not as %2F: write user-1 or user.1 for user/1 "
        f"({WHAT_IDS_ARE}). /docs has all calls."
    )


def too_large_body(limit: int) -> TooLarge:
    """The problem of a body over ``limit``, in bytes."""
    detail = (
        f"The body is over {limit} bytes: append in several requests, or import a long history with POST "
        "/conversations/import. The operator sets the limit: SASH_MAX_BODY_BYTES, or SASH_MAX_IMPORT_BYTES for imports, or "
        "the key's own."
    )
    return TooLarge(detail, members={"limit": limit, "unit": "bytes"})


def on_failure(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """The response to a defect of Sash."""
    return on_problem(request, problem_of(error, request.scope))


def problem_of(error: Exception, scope: Mapping[str, Any]) -> Problem:
    """The problem that was raised. The framework's error for a stream has a group as cause. Another error is logged."""
    found: BaseException | None = error.__cause__ if isinstance(error.__cause__, ExceptionGroup) else error
    while isinstance(found, ExceptionGroup) and len(found.exceptions) == 1:
        found = found.exceptions[0]
    if isinstance(found, Problem):
        return found
    operation = getattr(scope.get("route_handler"), "operation_id", None)  # the path is not logged: it holds ids
    _log.error("request failed", operation=operation, **describe(error))
    return Internal("The service failed; nothing is known to be lost, try again.")


HANDLERS: dict[int | type[Exception], Any] = {
    Problem: on_problem,
    HTTPException: on_http_exception,
    Exception: on_failure,
}
