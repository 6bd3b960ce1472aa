"""``sash serve`` as a real process, with a real socket and its own store."""

import json
import os
import re
import signal
import socket
import time
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from conftest import Served
from rigs.dialogue import problem, user
from rigs.servers import wait_until


def talk(url: str, conversation: str) -> httpx.Response:
    """Append one message, as a chat service does, and return the answer, which has a window."""
    path = f"{url}/conversations/{conversation}/messages?model=gpt-4o-mini"
    return httpx.post(path, json={"messages": [user("hello there")]}, timeout=20)


def raw(url: str, request: bytes) -> bytes:
    """Return the server's answer to bytes that no client library would send."""
    with socket.create_connection(("127.0.0.1", urlsplit(url).port or 0), timeout=20) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while data := connection.recv(65536):
            answer += data
        return answer


def test_a_turn(served: Served) -> None:
    """An append answers with a window; the conversation can be read and erased."""
    answer = talk(served.url, "turn")

    assert answer.status_code == 201
    assert answer.json()["window"]["request"] == {"messages": [{"role": "user", "content": "hello there"}]}
    assert httpx.get(f"{served.url}/conversations/turn").json()["messages"]["count"] == 1
    gone = httpx.delete(f"{served.url}/conversations/turn")
    assert (gone.status_code, gone.content) == (204, b"")


def test_head_keeps_the_connection(served: Served) -> None:
    """After HEAD, 304 and 204, which have no body, the client can keep using the connection."""
    with httpx.Client(base_url=served.url) as client:
        client.post("/conversations", json={"id": "head"}).raise_for_status()
        tag = client.get("/conversations/head").headers["etag"]
        for _ in range(3):
            head = client.head("/conversations/head")
            assert (head.status_code, head.content) == (200, b"")
            same = client.get("/conversations/head", headers={"if-none-match": tag})
            assert (same.status_code, same.content) == (304, b"")
            problem(client.get("/nope"), 404, "not-found")
        assert client.delete("/conversations/head").status_code == 204
        problem(client.get("/conversations/head"), 404, "not-found")


def test_bad_input_over_a_socket(served: Served) -> None:
    """Bodies too large, too deep or not UTF-8 are 4xx over a socket, wrong lengths never 500; the server stays ready."""
    path = f"{served.url}/conversations/bad/messages"
    headers = {"content-type": "application/json"}
    large = b'{"messages":[{"message":{"role":"user","content":"' + b"x" * (4 * 1024 * 1024) + b'"}}]}'

    assert httpx.post(path, content=b"[" * 100_000, headers=headers).status_code == 400
    assert httpx.post(path, content=b'{"messages":["\xff"]}', headers=headers).status_code == 400
    assert httpx.post(path, content=large, headers=headers).status_code == 413
    assert httpx.post(path, content=iter([large[:100], large[100:]]), headers=headers).status_code == 413
    head = b"POST /count HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
    for length in (b"99", b"abc", b"-1", b"9" * 30):
        assert b" 500 " not in raw(served.url, head + length + b"\r\n\r\n{")
    wait_until(lambda: httpx.get(f"{served.url}/readyz").status_code == 200)  # another test may have ended the store
    assert httpx.get(f"{served.url}/conversations/bad").status_code == 404


@pytest.mark.parametrize(("kind", "status"), [("application/json", 413), ("text/plain", 415)])
async def test_a_refusal_reaches_a_client_that_sends_its_whole_body_first(
    served: Served, kind: str, status: int
) -> None:
    """A body of 16 MiB that is refused by its head gets its answer each time, and the connection can be used again."""
    path, large = f"{served.url}/conversations/refused/messages", b"x" * (16 * 1024 * 1024)
    async with httpx.AsyncClient(timeout=20) as client:
        for _ in range(5):
            assert (await client.post(path, content=large, headers={"content-type": kind})).status_code == status
            assert (await client.post(path, json={"messages": [user("hello")]})).status_code == 201


@pytest.mark.parametrize(
    ("request_line", "kind", "status"),
    [
        ("POST /conversations/held/messages", "text/plain", 415),
        ("POST /conversations/-/messages", "application/json", 400),
        ("POST /nothing/here", "application/json", 404),
        ("PUT /conversations/held", "application/json", 405),
        ("DELETE /conversations/held", "application/json", 404),
        ("POST /conversations/import", "application/json", 415),
    ],
)
def test_a_refused_client_that_sends_no_more_is_not_kept(
    served: Served, request_line: str, kind: str, status: int
) -> None:
    """A request that is refused before its body has come has its answer at once, and its connection is soon closed."""
    host, port = served.url.removeprefix("http://").split(":")
    head = f"{request_line} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: 9999\r\n\r\n"
    with socket.create_connection((host, int(port)), timeout=8) as client:
        client.sendall(head.encode() + b"some of it")
        assert client.recv(12) == f"HTTP/1.1 {status}".encode()
        while client.recv(65_536):
            pass


@pytest.mark.parametrize("size", [1, 100])
def test_small_chunks_that_come_at_once(served: Served, size: int) -> None:
    """An append and an import of two kilobytes in chunks of 1 or 100 bytes succeed."""
    entry = {"message": {"role": "user", "content": "x" * 2000}}
    appended = json.dumps({"messages": [entry]}).encode()
    imported = json.dumps({"id": "chunked"}).encode() + b"\n" + json.dumps(entry).encode()
    for path, media_type, body in (
        ("/conversations/chunked/messages", "application/json", appended),
        ("/conversations/import", "application/x-ndjson", imported),
    ):
        chunks = [body[at : at + size] for at in range(0, len(body), size)]
        headers = {"Content-Type": media_type}
        answer = httpx.post(f"{served.url}{path}", content=iter(chunks), headers=headers, timeout=50)

        assert answer.status_code == 201, answer.text
        httpx.delete(f"{served.url}/conversations/chunked").raise_for_status()


def test_a_restart_loses_nothing(served: Served) -> None:
    """Acknowledged messages are there after the server is killed, which also ends its store, and after it is stopped."""
    talk(served.url, "kept").raise_for_status()
    before = httpx.get(f"{served.url}/conversations/kept/messages").json()
    for how in (signal.SIGKILL, signal.SIGTERM):
        status = served.stop(how)
        served.start()

        assert status == (0 if how == signal.SIGTERM else -signal.SIGKILL)
        assert httpx.get(f"{served.url}/conversations/kept/messages").json() == before
    assert talk(served.url, "kept").json()["last_seq"] == 2
    httpx.delete(f"{served.url}/conversations/kept").raise_for_status()


def test_workers_end_with_their_parent(tmp_path: Path) -> None:
    """After SIGKILL of the server no worker remains, which would take a share of the next server's connections."""
    process = Served(tmp_path / "data")
    process.start()
    process.stop(signal.SIGKILL)

    address = ("127.0.0.1", urlsplit(process.url).port)
    give_up = time.monotonic() + 60
    listening = 0
    while listening == 0 and time.monotonic() < give_up:
        time.sleep(0.05)
        with socket.socket() as probe:
            listening = probe.connect_ex(address)
    assert listening != 0


def test_one_process_a_directory(served: Served) -> None:
    """A second server on the same data directory ends with an error that names it, and the first goes on."""
    second = Served(served.data_dir)

    with pytest.raises(AssertionError, match=re.escape(str(served.data_dir))):
        second.start()

    assert second.process is not None
    assert second.process.wait(timeout=10) == 1
    assert httpx.get(f"{served.url}/readyz").status_code == 200


def test_the_store_comes_back(served: Served) -> None:
    """When the store's process ends, as on a disk error, the server restarts it and goes on with its data."""
    talk(served.url, "again").raise_for_status()
    holder = re.search(r"server is process (\d+)", (served.data_dir / "sash.lock").read_text())
    assert holder is not None
    os.kill(int(holder[1]), signal.SIGKILL)

    give_up = time.monotonic() + 60
    while (answer := talk(served.url, "again")).status_code != 201:
        problem(answer, 503, "store-unavailable")
        assert time.monotonic() < give_up

    assert answer.json()["last_seq"] >= 2
    wait_until(lambda: httpx.delete(f"{served.url}/conversations/again").status_code == 204, 10)


def test_logs_hold_no_words(served: Served) -> None:
    """The log has JSON lines of requests, and no text or role from a message."""
    httpx.post(
        f"{served.url}/conversations/logged/messages", json={"messages": [user("xyzzy-secret")]}, timeout=20
    ).raise_for_status()
    httpx.post(f"{served.url}/conversations/logged/messages", json={"messages": [{"message": {"role": "xyzzy-role"}}]})
    httpx.delete(f"{served.url}/conversations/logged")
    time.sleep(0.1)

    text = (served.data_dir.parent / "serve.log").read_text()

    assert "xyzzy" not in text
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    assert any(line.get("operation") == "appendMessages" and line.get("status") == 201 for line in lines)
