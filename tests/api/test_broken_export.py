"""An export that breaks off ends in an error, so that a client does not take a part for the whole history."""

import socket
import subprocess
import sys
from urllib.parse import urlsplit

import httpx
import pytest
from conftest import ROOT, Served

MESSAGES = 24
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 600_000, "detail": "low"}}


def begun(url: str, conversation: str) -> None:
    """Store a history of 14 MB, more than the buffers between a server and a client that does not read hold."""
    for _ in range(MESSAGES // 6):
        entries = [{"message": {"role": "user", "content": [PICTURE]}}] * 6
        httpx.post(f"{url}/conversations/{conversation}/messages", json={"messages": entries}).raise_for_status()


def test_a_client_of_http_1_0_is_told_too(served: Served, conversation: str) -> None:
    """A broken export resets an HTTP/1.0 connection, whose end is the only sign of an answer's end. Some proxies use it."""
    begun(served.url, conversation)
    path = f"/conversations/{conversation}"
    with socket.create_connection(("127.0.0.1", urlsplit(served.url).port or 0), timeout=20) as connection:
        connection.sendall(f"GET {path}/export HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
        assert connection.recv(1000).startswith(b"HTTP/1.0 200")
        httpx.post(f"{served.url}{path}/rewind", json={"to_seq": 1}).raise_for_status()
        with pytest.raises(ConnectionResetError):  # noqa: PT012 - which piece it comes with is chance
            while connection.recv(1 << 20):
                pass


@pytest.mark.parametrize("edit", ["rewind", "erase"])
def test_the_connection_ends(served: Served, conversation: str, edit: str) -> None:
    """An export whose history is edited while it is sent ends in a connection error, after status 200 and some lines."""
    begun(served.url, conversation)
    path = f"{served.url}/conversations/{conversation}"
    came = 0
    with httpx.stream("GET", f"{path}/export") as answer:
        assert answer.status_code == 200
        pieces = answer.iter_bytes()
        came += next(pieces).count(b"\n")
        if edit == "rewind":
            httpx.post(f"{path}/rewind", json={"to_seq": MESSAGES - 1}).raise_for_status()
        else:
            httpx.delete(path).raise_for_status()
        with pytest.raises(httpx.TransportError):  # noqa: PT012
            for piece in pieces:
                came += piece.count(b"\n")
    assert 1 <= came < MESSAGES
    assert httpx.get(f"{served.url}/livez").status_code == 200


def test_the_command_says_so(served: Served, conversation: str) -> None:
    """``sash export`` into a pipe ends with status 1 and a line that says why, when the export breaks off."""
    begun(served.url, conversation)
    words = [sys.executable, "-m", "sash", "export", conversation, "--url", served.url]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as command:
        assert command.stdout is not None
        command.stdout.read(1000)
        httpx.post(f"{served.url}/conversations/{conversation}/rewind", json={"to_seq": 1}).raise_for_status()
        _, said = command.communicate(timeout=30)
    assert command.returncode == 1
    assert f"{served.url} broke off in the middle of its answer; try again" in said.decode()
