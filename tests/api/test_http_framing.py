"""Requests with wrong or ambiguous framing: the right answers, and no smuggled request is executed.

Wrong framing never reaches the application: the HTTP library answers 400 without a body and closes the connection. Other
errors in a request are problems as usual.
"""

import gzip
import re
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx
import pytest
from conftest import Served

BODY = b'{"messages":[{"message":{"role":"user","content":"x"}}]}'
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
CHUNKED = b"Transfer-Encoding: chunked\r\n"
_PATIENCE_SECONDS = 5
_QUIET_SECONDS = 0.15


def post(headers: bytes, body: bytes, conversation: bytes = b"%(id)s") -> bytes:
    """Return the bytes of an append; the test fills in the conversation's id."""
    return (
        b"POST /conversations/%s/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%s\r\n%s"
        % (
            conversation,
            headers,
            body,
        )
    )


def chunks(*pieces: bytes) -> bytes:
    """Return a chunked body."""
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in (*pieces, b""))


SMUGGLED = post(LENGTH, BODY, b"smuggled-%(id)s")


class Case(NamedTuple):
    """The bytes sent, the statuses that come back, whether the connection closes, and how many messages are stored."""

    sent: bytes
    statuses: list[int]
    closes: bool
    stored: int


CLOSED, OPEN = True, False
REFUSED = ([400], CLOSED, 0)
KEPT = ([201], OPEN, 1)
CASES: dict[str, Case] = {
    "plain": Case(post(LENGTH, BODY), *KEPT),
    "in chunks": Case(post(CHUNKED, chunks(BODY[:9], BODY[9:])), *KEPT),
    "a chunk's extension": Case(post(CHUNKED, b"%x;a=b\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)), *KEPT),
    "a trailer that is a length": Case(
        post(CHUNKED, b"%x\r\n%s\r\n0\r\nContent-Length: 3\r\n\r\n" % (len(BODY), BODY)), *KEPT
    ),
    "expected": Case(post(LENGTH + b"Expect: 100-continue\r\n", BODY), [100, 201], OPEN, 1),
    "length and chunks": Case(post(LENGTH + CHUNKED, chunks(BODY)), [201], CLOSED, 1),
    "chunks end before the length": Case(
        post(CHUNKED + b"Content-Length: %d\r\n" % (5 + len(SMUGGLED)), chunks() + SMUGGLED), *REFUSED
    ),
    "the length ends before the chunks": Case(
        post(b"Content-Length: 4\r\n" + CHUNKED, chunks(BODY) + SMUGGLED), [201], CLOSED, 1
    ),
    "two lengths": Case(post(LENGTH + b"Content-Length: 0\r\n", BODY + SMUGGLED), *REFUSED),
    "the same length twice": Case(post(LENGTH + LENGTH, BODY), *KEPT),
    "lengths in a list": Case(post(b"Content-Length: 5, 6\r\n", BODY), *REFUSED),
    "no length": Case(post(b"", BODY), [400, 400], CLOSED, 0),
    "a length too small": Case(post(b"Content-Length: %d\r\n" % (len(BODY) - 1), BODY), [400, 400], CLOSED, 0),
    "an empty length": Case(post(b"Content-Length:\r\n", BODY), *REFUSED),
    "a signed length": Case(post(b"Content-Length: +%d\r\n" % len(BODY), BODY), *REFUSED),
    "a negative length": Case(post(b"Content-Length: -1\r\n", BODY), *REFUSED),
    "a hexadecimal length": Case(post(b"Content-Length: 0x38\r\n", BODY), *REFUSED),
    "a length of 2^63": Case(post(b"Content-Length: 9223372036854775808\r\n", BODY), [413], CLOSED, 0),
    "a length of 20 digits": Case(post(b"Content-Length: 99999999999999999999\r\n", BODY), *REFUSED),
    "an unknown coding": Case(post(b"Transfer-Encoding: xchunked\r\n", chunks(BODY)), *REFUSED),
    "chunked, but not last": Case(post(b"Transfer-Encoding: chunked, identity\r\n", chunks(BODY)), *REFUSED),
    "compressed on the way": Case(
        post(b"Transfer-Encoding: gzip, chunked\r\n", chunks(gzip.compress(BODY))), [400], OPEN, 0
    ),
    "two codings": Case(post(CHUNKED + b"Transfer-Encoding: identity\r\n", chunks(BODY)), *REFUSED),
    "a coding behind a control character": Case(post(b"Transfer-Encoding: \x0bchunked\r\n", chunks(BODY)), *REFUSED),
    "a space before the colon": Case(post(b"Transfer-Encoding : chunked\r\n", chunks(BODY)), *REFUSED),
    "chunks in HTTP/1.0": Case(post(CHUNKED, chunks(BODY)).replace(b"HTTP/1.1", b"HTTP/1.0"), *REFUSED),
    "a chunk's size is no number": Case(post(CHUNKED, b"zz\r\n" + BODY), *REFUSED),
    "a chunk's size is negative": Case(post(CHUNKED, b"-1\r\n" + BODY), *REFUSED),
    "a chunk's size overflows": Case(post(CHUNKED, b"fffffffffffffffff\r\n" + BODY), *REFUSED),
    "a chunk longer than its size": Case(post(CHUNKED, b"5\r\n%s\r\n0\r\n\r\n" % BODY), *REFUSED),
    "chunks with bare newlines": Case(post(CHUNKED, b"%x\n%s\n0\n\n" % (len(BODY), BODY)), *REFUSED),
    "a folded header": Case(post(LENGTH + b"X: a\r\n b\r\n", BODY), *REFUSED),
    "NUL in a header": Case(post(LENGTH + b"X: a\0b\r\n", BODY), *REFUSED),
    "a bare return in a header": Case(post(LENGTH + b"X: a\rY: b\r\n", BODY), *REFUSED),
    "a header without a colon": Case(post(LENGTH + b"Xab\r\n", BODY), *REFUSED),
    "a header of a megabyte": Case(post(LENGTH + b"X: %s\r\n" % (b"a" * 1_000_000), BODY), [431], CLOSED, 0),
    "5,000 headers": Case(post(LENGTH + b"X: a\r\n" * 5_000, BODY), [431], CLOSED, 0),
    "bytes in a path": Case(b"GET /conversations/\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n", *REFUSED),
    "half an escape in a path": Case(b"GET /conversations/%%zz HTTP/1.1\r\nHost: localhost\r\n\r\n", [400], OPEN, 0),
    "a space in a path": Case(b"GET /conversations/a b HTTP/1.1\r\nHost: localhost\r\n\r\n", *REFUSED),
    "a method of another server": Case(b"CONNECT example.org:80 HTTP/1.1\r\nHost: localhost\r\n\r\n", [405], OPEN, 0),
    "HTTP/0.9": Case(b"GET /livez\r\n\r\n", *REFUSED),
    "HTTP/3.0": Case(b"GET /livez HTTP/3.0\r\nHost: localhost\r\n\r\n", *REFUSED),
    "TLS": Case(bytes.fromhex("16030100a5010000a10303") + bytes(150), *REFUSED),
}


def told(url: str, sent: bytes, *, answers: int, closes: bool) -> tuple[list[int], bool]:
    """Return the statuses of all answers, and whether the connection ended."""
    there = urlsplit(url)
    found: list[int] = []
    got = b""
    with socket.create_connection((there.hostname, there.port), timeout=_PATIENCE_SECONDS) as connection:
        with suppress(BrokenPipeError, ConnectionResetError):  # refused before the end: the answer may still arrive
            connection.sendall(sent)
        while True:
            enough = len(found) >= answers and not closes
            connection.settimeout(_QUIET_SECONDS if enough else _PATIENCE_SECONDS)
            try:
                piece = connection.recv(65_536)
            except ConnectionResetError:
                return found, True
            except TimeoutError:
                return found, False
            if not piece:
                return found, True
            got += piece
            found = [int(status) for status in re.findall(rb"HTTP/1\.[01] (\d{3})", got)]


@pytest.mark.parametrize("name", CASES)
def test_framing(served: Served, fresh: Callable[[], str], name: str) -> None:
    """Each request gets the answers and stores the messages in the table; a smuggled request is not executed."""
    case, conversation = CASES[name], fresh()
    sent = case.sent.replace(b"%%", b"%").replace(b"%(id)s", conversation.encode())
    if sent.count(b"smuggled-"):  # lengths that count the smuggled request were made with the placeholder
        grown = len(conversation) - len(b"%(id)s")
        sent = sent.replace(b": %d\r\n" % (5 + len(SMUGGLED)), b": %d\r\n" % (5 + len(SMUGGLED) + grown))

    statuses, closed = told(served.url, sent, answers=len(case.statuses), closes=case.closes)

    if case.statuses == [431] and not statuses:
        statuses = [431]  # unread bytes reset the connection, and the answer was lost
    assert (statuses, closed) == (case.statuses, case.closes)
    with httpx.Client(base_url=served.url) as client:
        kept = client.get(f"/conversations/{conversation}")
        assert (kept.json()["messages"]["count"] if kept.status_code == 200 else 0) == case.stored
        assert client.get(f"/conversations/smuggled-{conversation}").status_code == 404


@pytest.mark.parametrize(
    "sent",
    [
        post(b"Content-Length: %d\r\n" % (len(BODY) + 5), BODY),
        post(CHUNKED, b"%x\r\n%s" % (len(BODY), BODY)),
        post(CHUNKED, b"%x\r\n%s\r\n" % (len(BODY), BODY)),
        post(LENGTH, BODY)[:-20],
        post(LENGTH, BODY)[:70],
    ],
)
def test_a_client_that_goes_away(served: Served, fresh: Callable[[], str], sent: bytes) -> None:
    """A body that stops before its end is not stored, even if the part that arrived is whole JSON."""
    conversation = fresh()
    there = urlsplit(served.url)
    with socket.create_connection((there.hostname, there.port), timeout=_PATIENCE_SECONDS) as connection:
        connection.sendall(sent.replace(b"%(id)s", conversation.encode()))
        connection.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))

    assert re.findall(rb"HTTP/1\.[01] (\d{3})", answer) in ([b"400"], [])
    assert httpx.get(f"{served.url}/conversations/{conversation}").status_code == 404


def test_requests_in_a_row(served: Served, fresh: Callable[[], str]) -> None:
    """Pipelined requests are executed and answered in order: a later one sees the effect of an earlier one."""
    conversation = fresh().encode()
    appends = [post(LENGTH, BODY, conversation)] * 20
    reading = b"GET /conversations/%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" % conversation
    there = urlsplit(served.url)
    with socket.create_connection((there.hostname, there.port), timeout=_PATIENCE_SECONDS) as connection:
        connection.sendall(b"".join(appends) + reading)
        answers = b"".join(iter(lambda: connection.recv(65_536), b""))

    assert re.findall(rb"HTTP/1\.1 (\d{3})", answers) == [b"201"] * 20 + [b"200"]
    assert [int(seq) for seq in re.findall(rb'"first_seq":(\d+)', answers)] == [*range(1, 21), 1]
