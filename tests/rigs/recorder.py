"""Records the JSON bodies that a served process takes, so that requests of programs can be checked against the document."""

import json
import os
from pathlib import Path
from typing import Any

from sash.api.middleware.asgi import Message, Receive, Scope, Send
from sash.api.middleware.layer import Middleware

VARIABLE = "RECORDED_REQUESTS"
"""The environment variable with the file for the requests, one a line."""
_GOOD = range(200, 300)


def install(path: Path) -> None:
    """Record what this process and its children answer well from now on."""
    answer = Middleware.__call__

    async def recorded(self: Middleware, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope.get("headers", ()))
        if scope["type"] != "http" or b"json" not in headers.get(b"content-type", b""):
            return await answer(self, scope, receive, send)
        parts: list[bytes] = []

        async def hear() -> Message:
            message = await receive()
            parts.append(message.get("body", b""))
            return message

        async def tell(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] in _GOOD:
                kind = headers[b"content-type"].decode().partition(";")[0]
                _append(path, [scope["method"], scope["path"], kind, b"".join(parts).decode()])
            await send(message)

        return await answer(self, scope, hear, tell)

    Middleware.__call__ = recorded  # type: ignore[method-assign]


def _append(path: Path, line: list[str]) -> None:
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, json.dumps(line).encode() + b"\n")
    finally:
        os.close(file)


def check_recorded(path: Path) -> int:
    """Fail if the document does not allow a recorded body. Returns the number of bodies."""
    from rigs.conformity import JSON_TYPES, check_sent, find_operation  # noqa: PLC0415 - it makes the whole document

    lines: list[Any] = [json.loads(line) for line in path.read_text().splitlines()]
    for method, name, kind, body in lines:
        operation = find_operation(method, name)
        if operation is not None and kind in JSON_TYPES and "requestBody" in operation:
            check_sent(operation, kind, body.encode())
    return len(lines)
