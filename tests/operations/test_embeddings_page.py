"""The page on vectors: word vectors from a wheel run as an endpoint, and recall finds by meaning with them."""

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from conftest import Served
from readme_blocks import ROOT, blocks, read

PAGE = "deploy/embeddings.md"
SHELL = blocks("sh", read(PAGE))


@pytest.fixture
def endpoint() -> Iterator[str]:
    """Run the page's first command with another port, and yield the address that it prints."""
    (script,) = re.findall(r"python (\S+)", SHELL[0])
    command = [sys.executable, script, "--port", "0"]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert process.stdout is not None
    line = process.stdout.readline().decode()
    yield line.split()[-1]
    process.terminate()
    process.wait(timeout=20)
    process.stdout.close()


@pytest.fixture
def served(endpoint: str, tmp_path: Path) -> Iterator[Served]:
    """Run the page's second command with this endpoint."""
    given = dict(word.split("=", 1) for word in SHELL[1].split() if word.startswith("SASH_"))
    assert given["SASH_EMBEDDINGS_URL"].endswith(":8002/v1/embeddings")
    served = Served(tmp_path / "data", **{**given, "SASH_EMBEDDINGS_URL": endpoint})
    served.start()
    yield served
    served.stop()


def test_vectors_from_a_wheel(served: Served) -> None:
    """With the page's two commands, a message is found that has none of the question's words."""
    texts = [
        "our puppy chewed the sofa again",
        "the train to Oslo was late",
        *(f"number {n} please" for n in range(40)),
    ]
    with httpx.Client(base_url=served.url, timeout=20) as sash:
        messages = [{"role": "user", "content": text} for text in texts]
        sash.post("/conversations/c-1/messages", json={"messages": messages}).raise_for_status()
        for _ in range(400):
            progress = sash.get("/conversations/c-1").json()["recall_progress"]
            if progress["vectors"] == len(texts):
                break
            time.sleep(0.05)

        found = sash.get("/conversations/c-1/search", params={"query": "dogs and other pets", "limit": 3}).json()

    assert progress == {"mode": "semantic", "messages": len(texts), "words": len(texts), "vectors": len(texts)}
    assert 1 in [
        hit["message"]["seq"] if "message" in hit and "seq" in hit["message"] else hit["seq"]
        for hit in found["messages"]
    ]


def test_the_endpoint_says_what_to_send(endpoint: str) -> None:
    """The endpoint takes a text or a list, as OpenAI's does, and refuses other bodies and paths."""
    one = httpx.post(endpoint, json={"model": "m", "input": "a dog"}).json()["data"]
    two = httpx.post(endpoint, json={"model": "m", "input": ["a dog", "a cat"]}).json()["data"]
    assert [len(each["embedding"]) for each in two] == [256, 256]
    assert one[0]["embedding"] == two[0]["embedding"]
    assert httpx.post(endpoint, json={"model": "m"}).status_code == 400
    assert httpx.post(endpoint.replace("v1", "v2"), json={"input": "x"}).status_code == 404
