"""Requests of an application that is mounted under a path of another one, such as ``app.mount("/sash", sash)``."""

from urllib.parse import quote

from sash.api.middleware.asgi import Message, Scope, Send

_PATHS = {b"location": b"", b"link": b"<"}
"""Headers that begin with a path of the service, and what stands before the path."""


def within(scope: Scope, send: Send) -> tuple[Scope, Send]:
    """A request's scope without the path of the mount, and a ``send`` that writes the mount into paths of headers.

    Where a proxy has taken the path off already, the scope's path is the service's own and stays.
    """
    root = scope["root_path"].rstrip("/")
    raw_root = quote(root).encode("ascii")
    raw = scope.get("raw_path") or b""
    own = {
        "root_path": "",
        "path": scope["path"].removeprefix(root) if scope["path"].startswith(f"{root}/") else scope["path"],
        "raw_path": raw.removeprefix(raw_root) if raw.startswith(raw_root + b"/") else raw,
    }

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [(name, _prefixed(name, value, raw_root)) for name, value in message["headers"]]
            message = {**message, "headers": headers}
        await send(message)

    return {**scope, **own}, sent


def _prefixed(name: bytes, value: bytes, root: bytes) -> bytes:
    before = _PATHS.get(name.lower())
    if before is None or not value.startswith(before + b"/"):
        return value
    return before + root + value[len(before) :]
