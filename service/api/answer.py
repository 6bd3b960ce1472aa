"""A response whose body is bytes already.

The framework's response class checks headers, cookies and media types for each answer. A window and an append, which are
requested at every turn, skip these checks.
"""

from litestar.status_codes import HTTP_304_NOT_MODIFIED
from litestar.types import Receive, Scope, Send

_JSON = b"application/json"


class Answer:
    """An ASGI application that answers with ``body`` as JSON and an ETag. A 304 is sent without a body."""

    def __init__(self, body: bytes, *, etag: str, status: int = 200) -> None:
        self._body = body
        self._status = status
        self._etag = etag

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI's signature
        headers = [(b"etag", f'"{self._etag}"'.encode())]
        if self._status != HTTP_304_NOT_MODIFIED:
            headers += ((b"content-type", _JSON), (b"content-length", b"%d" % len(self._body)))
        await send({"type": "http.response.start", "status": self._status, "headers": headers})
        await send({"type": "http.response.body", "body": self._body, "more_body": False})
