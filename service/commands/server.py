"""A client of a running server, for commands: sends and reads JSON, and retries after temporary errors."""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx2
import msgspec

from service.commands.sources.conversation import SourceError
from service.settings import mask_url

_ATTEMPTS = 7
_FIRST_ATTEMPTS = 3  # before its first answer, a server is more likely absent than busy
_LONGEST_WAIT_SECONDS = 8.0
_PASSING = {408, 429, 502, 503, 504}
_TIMEOUT_SECONDS = 60.0


class Unreachable(Exception):  # noqa: N818 - it reads as what happened
    """The server did not answer, or its answer broke off."""


class Refused(Exception):  # noqa: N818
    """The server refused a request with ``status``; the text says why."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class RemoteServer:
    """One server, over one persistent connection.

    Every request may be sent twice, because entries have ids and a conversation is created once. So a request without an
    answer is sent again, with a longer pause each time.
    """

    def __init__(self, url: str, api_key: str | None = None, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._client = client_of(url, api_key, _TIMEOUT_SECONDS)
        self._url = mask_url(url)
        self._answered = False
        self._sleep = sleep

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._client.close()

    def post(self, path: str, value: Any) -> dict[str, Any]:
        """Return the answer to a POST. Raises Refused, Unreachable."""
        return self._post(path, msgspec.json.encode(value), "application/json")

    def post_lines(self, path: str, values: Sequence[Any]) -> dict[str, Any]:
        """Return the answer to a POST of newline-delimited JSON. Raises Refused, Unreachable."""
        return self._post(
            path, b"".join(msgspec.json.encode(value) + b"\n" for value in values), "application/x-ndjson"
        )

    def get(self, path: str) -> dict[str, Any]:
        """Return the answer to a GET. Raises Refused, Unreachable."""
        return _json(self._patiently(lambda: self._client.get(path)))

    def _post(self, path: str, body: bytes, kind: str) -> dict[str, Any]:
        return _json(self._patiently(lambda: self._client.post(path, content=body, headers={"Content-Type": kind})))

    def stream(self, path: str) -> Iterator[bytes]:
        """Yield the body of a GET, piece by piece. Raises Refused; Unreachable, also when the body breaks off."""
        began = False
        try:
            with self._client.stream("GET", path) as response:
                if response.status_code >= 400:
                    response.read()
                    raise Refused(response.status_code, _why(response))
                began = True
                yield from response.iter_bytes()
        except httpx2.HTTPError as error:
            if began:
                raise Unreachable(f"{self._url} broke off in the middle of its answer; try again") from None
            raise Unreachable(self._unreachable(error)) from None

    def _patiently(self, ask: Callable[[], httpx2.Response]) -> httpx2.Response:
        for attempt in range(_ATTEMPTS):
            wait, last = min(0.1 * 2.0**attempt, _LONGEST_WAIT_SECONDS), attempt == _ATTEMPTS - 1
            try:
                response = ask()
            except httpx2.HTTPError as error:
                if last or (not self._answered and attempt == _FIRST_ATTEMPTS - 1):
                    raise Unreachable(self._unreachable(error)) from None
            else:
                self._answered = True
                if response.status_code < 400:
                    return response
                if response.status_code not in _PASSING or last:
                    raise Refused(response.status_code, _why(response))
                wait = max(wait, _retry_after(response))
            self._sleep(wait)
        raise AssertionError("the last attempt returns or raises")

    def _unreachable(self, error: Exception) -> str:
        return (
            f"{self._url} does not answer: {error or type(error).__name__}. Is the server running there (sash serve)?"
        )


def client_of(url: str, key: str | None, timeout_seconds: float) -> httpx2.Client:
    """Return a client of the server at ``url``, which sends the key. Raises SourceError."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    wrong = SourceError(f"{mask_url(url)} is no URL of a server: write http://127.0.0.1:8000")
    try:
        client = httpx2.Client(base_url=url, headers=headers, timeout=timeout_seconds)
    except httpx2.InvalidURL:
        raise wrong from None
    if client.base_url.scheme not in {"http", "https"}:
        raise wrong
    return client


def _json(response: httpx2.Response) -> dict[str, Any]:
    """The answer about a conversation, which has its version; another server may answer 200, too. Raises Refused."""
    try:
        answer = msgspec.json.decode(response.content, type=dict[str, Any])
    except msgspec.MsgspecError:
        answer = {}
    if "version" not in answer:
        raise Refused(response.status_code, "The answer is not of a conversation: that is no Sash server.")
    return answer


def _why(response: httpx2.Response) -> str:
    """The detail of the problem in an answer, else its title."""
    try:
        problem = msgspec.json.decode(response.content, type=dict[str, Any])
    except msgspec.MsgspecError:
        return f"HTTP {response.status_code} without a problem in it: that may be no Sash server."
    return str(problem.get("detail") or problem.get("title") or f"HTTP {response.status_code}")


def _retry_after(response: httpx2.Response) -> float:
    text = response.headers.get("retry-after", "")
    return min(float(text), _LONGEST_WAIT_SECONDS) if text.isascii() and text.isdigit() else 0.0


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
