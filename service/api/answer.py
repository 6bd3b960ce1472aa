"""An answer that is bytes already.

The framework's own response looks over headers, cookies and media types for each answer; the two that are asked for at
every turn, a window and an append, do without.
"""

from litestar.status_codes import HTTP_304_NOT_MODIFIED
from litestar.types import Receive, Scope, Send

_JSON = b"application/json"


class Answer:
    """An ASGI application that says ``body`` as JSON, with an entity tag."""

    def __init__(self, body: bytes, *, etag: str, status: int = 200) -> None:
        self._body = body
        self._status = status
        self._etag = etag

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - as ASGI has it
        headers = [(b"etag", f'"{self._etag}"'.encode())]
        if self._status != HTTP_304_NOT_MODIFIED:
            headers += ((b"content-type", _JSON), (b"content-length", b"%d" % len(self._body)))
        await send({"type": "http.response.start", "status": self._status, "headers": headers})
        await send({"type": "http.response.body", "body": self._body, "more_body": False})
