"""The contract for programs, and a page on which people try it."""

from importlib.resources import files
from typing import Any

from litestar import Request, Response, get

from service.api.conversations import JSON
from service.api.openapi import document

Req = Request[Any, Any, Any]
_PAGE = files("service.api").joinpath("docs.html").read_bytes()
_POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@get("/openapi.json", operation_id="getOpenapi", sync_to_thread=False)
def get_openapi(request: Req) -> Response[bytes]:
    """The contract as an OpenAPI 3.1 document."""
    return Response(document(request.app.state.routes), media_type=JSON)


@get("/docs", operation_id="getDocs", sync_to_thread=False)
def get_docs() -> Response[bytes]:
    """Every operation with a form to send it; the page asks nobody but this service."""
    return Response(_PAGE, headers=_HEADERS, media_type="text/html")


HANDLERS = (get_openapi, get_docs)
