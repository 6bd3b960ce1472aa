"""The contract for programs, and a page on which people try it."""

import re
from base64 import b64encode
from hashlib import sha256
from importlib.resources import files
from typing import Any

from litestar import Request, Response, get

from service.api.conversations import JSON
from service.api.openapi import document

Req = Request[Any, Any, Any]
_PAGE = files("service.api").joinpath("docs.html").read_bytes()


def _digest(tag: str) -> str:
    """What the page's one element of a kind is known by, so that a browser runs nothing else."""
    (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>".encode(), _PAGE, re.DOTALL)
    return f"'sha256-{b64encode(sha256(text).digest()).decode()}'"


_POLICY = (
    f"default-src 'none'; img-src data:; style-src {_digest('style')}; script-src {_digest('script')}; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Cache-Control": "no-cache",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
}


@get("/openapi.json", operation_id="getOpenapi", sync_to_thread=False)
def get_openapi(request: Req) -> Response[bytes]:
    """The contract as an OpenAPI 3.1 document."""
    return Response(document(request.app.state.routes), headers={"Cache-Control": "max-age=300"}, media_type=JSON)


@get("/docs", operation_id="getDocs", sync_to_thread=False)
def get_docs() -> Response[bytes]:
    """Every operation with a form to send it; the page asks nobody but this service."""
    return Response(_PAGE, headers=_HEADERS, media_type="text/html")


HANDLERS = (get_openapi, get_docs)
