"""A running server, for commands: the adapters' client with more patience, and the stream of an export."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import msgspec

from sash.commands.source_error import SourceError
from sash.settings import mask_url
from sash_client.client import Ask, Sash, asked
from sash_client.errors import SashUnreachable, pause_seconds, refusal, tell_pause, unreachable

_FIRST_WAITS_SECONDS = (0.1, 0.2)  # before its first answer, a server is more likely absent than busy
_WAITS_SECONDS = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
_TIMEOUT_SECONDS = 60.0


def server_at(url: str, key: str | None) -> Sash:
    """Return a client of the server at ``url``. Raises SourceError."""
    client_of(url, key).close()
    return Sash(url, key, timeout_seconds=_TIMEOUT_SECONDS, waits_seconds=_FIRST_WAITS_SECONDS)


def post(server: Sash, path: str, body: Any) -> Any:
    """Return the answer to a POST of JSON. Raises SashError."""
    return ask(server, Ask("POST", path, body=msgspec.json.encode(body)))


def ask(server: Sash, request: Ask) -> Any:
    """Return the JSON of an answer, None if there is nothing at the path. Raises SashError."""
    answer = server.do(asked(request))
    server.waits_seconds = _WAITS_SECONDS
    return answer


def stream(client: httpx2.Client, path: str) -> Iterator[bytes]:
    """Yield the body of a GET, piece by piece. Raises SashError, also when the body breaks off."""
    waits, began = iter(_FIRST_WAITS_SECONDS), False
    while True:
        wait = next(waits, None)
        try:
            with client.stream("GET", path) as response:
                if began := response.is_success:
                    yield from response.iter_bytes()
                    return
                response.read()
            refused, pause = refusal(response), pause_seconds(response, wait)
        except httpx2.RequestError as error:
            if began:
                detail = f"{client.base_url.copy_with(userinfo=b'')} broke off in the middle of its answer; try again"
                raise SashUnreachable(0, {"detail": detail}) from None
            refused, pause = unreachable(error), wait
        if pause is None:
            raise refused
        tell_pause(refused, pause)
        time.sleep(pause)


def client_of(url: str, key: str | None) -> httpx2.Client:
    """Return a client of the server at ``url``, which sends the key. Raises SourceError."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    wrong = SourceError(f"{mask_url(url)} is no URL of a server: write http://127.0.0.1:8000")
    try:
        client = httpx2.Client(base_url=url, headers=headers, timeout=_TIMEOUT_SECONDS)
    except httpx2.InvalidURL:
        raise wrong from None
    if client.base_url.scheme not in {"http", "https"}:
        raise wrong
    return client


def read_key(path: str | None) -> str | None:
    """Return the key in a file: its first line that is not a comment. Raises SourceError."""
    if path is None:
        return None
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise SourceError(f"the key file {path} cannot be read: {reason}") from None
    keys = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    if not keys or not (keys[0].isascii() and keys[0].isprintable()) or " " in keys[0]:
        raise SourceError(f"the key file {path} holds no key: expected one line of visible ASCII characters")
    return keys[0]
