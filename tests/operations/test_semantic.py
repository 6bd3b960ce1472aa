"""Tests semantic recall with a real embeddings model behind an HTTP endpoint on this machine."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import redis
from conftest import http, lifespan
from recall.embeddings import MODEL, Endpoint, serving
from rigs.entries import indexed_values
from structlog.testing import capture_logs

from sash.app import create_app
from sash.operations.embedder import Embedder, NotEmbedded, quantized
from sash.operations.metrics import Metrics
from sash.operations.requests import Pseudonyms
from sash.operations.upstreams import Upstreams
from sash.settings import Settings
from sash.store.redis.embedded import EmbeddedStore

SECRET = "4711-secret"
TALK = [
    {"message": {"role": role, "content": text}}
    for pair in (
        ("our puppy chewed the sofa again", "young dogs do that"),
        ("the train to Oslo was late", "that is a pity"),
        ("I bake bread on Sundays", "with rye, I hope"),
        *((f"number {n} please", f"here is number {n}") for n in range(40)),
    )
    for role, text in zip(("user", "assistant"), pair, strict=True)
]
WINDOW = "model=gpt-4o-mini&reserve=0&max_tokens=250&recall_max_tokens=60"


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    """A running embeddings endpoint."""
    async with serving() as endpoint:
        yield endpoint


@asynccontextmanager
async def client_of(
    store: EmbeddedStore, endpoint: Endpoint, model: str = MODEL, **more: Any
) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client of an application with semantic recall."""
    settings = Settings(
        redis_url=store.url,
        durability="fast",
        embeddings_url=endpoint.url,
        embeddings_model=model,
        embeddings_key=SECRET,
        **more,
    )
    async with lifespan(create_app(settings)) as app, http(app) as client:
        yield client


async def talked(client: httpx.AsyncClient, conversation: str) -> None:
    await client.post("/conversations", json={"id": conversation, "recall": "semantic"})
    answer = await client.post(f"/conversations/{conversation}/messages", json={"messages": TALK})
    assert answer.status_code == 201, answer.text


async def embedded(client: httpx.AsyncClient, conversation: str) -> None:
    """Wait until every message has its vector."""
    for _ in range(1200):
        progress = (await client.get(f"/conversations/{conversation}")).json()["recall_progress"]
        if progress["vectors"] == progress["messages"] == progress["words"]:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(progress)


async def recalled(client: httpx.AsyncClient, conversation: str, question: str) -> list[int]:
    answer = await client.get(f"/conversations/{conversation}/window?{WINDOW}&recall_query={question}")
    assert answer.status_code == 200, answer.text
    return list(answer.json()["recalled"]["seqs"])


@pytest.mark.usefixtures("nothing_left")
async def test_a_message_is_found_by_its_meaning(store: EmbeddedStore, endpoint: Endpoint, conversation: str) -> None:
    """A question without a word of the message finds the message, in windows and by search."""
    async with client_of(store, endpoint) as client:
        await talked(client, conversation)
        await embedded(client, conversation)
        assert {1, 2} <= set(await recalled(client, conversation, "pet animals damaging furniture"))
        found = await client.get(f"/conversations/{conversation}/search?query=railway+delays&limit=2")
        assert 3 in {each["seq"] for each in found.json()["messages"]}
        assert max(len(asked["input"]) for asked in endpoint.asked) <= 64
        assert f"authorization: bearer {SECRET}" in endpoint.headers[0]


@pytest.mark.usefixtures("nothing_left")
async def test_a_call_is_traced_and_told(store: EmbeddedStore, endpoint: Endpoint, conversation: str) -> None:
    """Calls for messages and for a question carry the request's id and trace; their lines have conversation, tenant, model,
    tokens and price."""
    async with client_of(store, endpoint, "text-embedding-3-small") as client:
        client.headers.update({"x-request-id": "r-4711", "traceparent": f"00-{'a' * 32}-{'b' * 16}-01"})
        with capture_logs() as logs:
            await talked(client, conversation)
            await embedded(client, conversation)
            (await client.get(f"/conversations/{conversation}/search?query=railway+delays")).raise_for_status()
    assert all(f"traceparent: 00-{'a' * 32}-" in text and "x-request-id: r-4711" in text for text in endpoint.headers)
    asked = [line for line in logs if line["event"] == "upstream asked"]
    assert len(asked) == len(endpoint.asked)
    assert {(line["upstream"], line["tenant"], line["model"]) for line in asked} == {
        ("embeddings", "default", "text-embedding-3-small")
    }
    assert len({line["conversation"] for line in asked}) == 1
    assert asked[-1]["input_tokens"] == 2
    assert asked[-1]["input_usd"] == pytest.approx(2 * 0.02 / 1e6)


@pytest.mark.usefixtures("nothing_left")
async def test_until_there_is_a_vector_words_find_it(
    store: EmbeddedStore, endpoint: Endpoint, conversation: str
) -> None:
    """While the endpoint fails, appends and windows succeed and recall uses words; later every message gets its vector."""
    endpoint.status = 500
    async with client_of(store, endpoint) as client:
        with capture_logs() as lines:
            await talked(client, conversation)
            assert {1, 2} <= set(await recalled(client, conversation, "puppy"))
            async with asyncio.timeout(60):
                while "not embedded" not in {line["event"] for line in lines}:  # noqa: ASYNC110 - a log tells nobody
                    await asyncio.sleep(0.02)
        assert "puppy" not in str(lines)
        endpoint.status = 200
        await embedded(client, conversation)
        metrics = (await client.get("/metrics")).text
    assert "sash_embedding_failures_total" in metrics
    assert "sash_embedded_texts_total" in metrics


@pytest.mark.usefixtures("nothing_left")
async def test_vectors_of_another_model_are_made_anew(
    store: EmbeddedStore, endpoint: Endpoint, conversation: str, server: redis.Redis
) -> None:
    """After a change of the embeddings model, no vector is valid, and all messages are embedded again."""
    async with client_of(store, endpoint) as client:
        await talked(client, conversation)
        await embedded(client, conversation)
    asked = sum(len(each["input"]) for each in endpoint.asked)
    async with client_of(store, endpoint, model="another") as client:
        progress = (await client.get(f"/conversations/{conversation}")).json()["recall_progress"]
        assert progress["vectors"] == 0
        await embedded(client, conversation)
    assert sum(len(each["input"]) for each in endpoint.asked) >= asked + len(TALK)
    assert server.hget(f"sash:{{default/{conversation}}}:conversation", "embedded") == "another"


@pytest.mark.usefixtures("nothing_left")
async def test_what_is_taken_back_has_no_vector(store: EmbeddedStore, endpoint: Endpoint, conversation: str) -> None:
    """A redaction or rewind deletes the messages' vectors, and a change to lexical recall deletes all vectors."""
    async with client_of(store, endpoint) as client:
        await talked(client, conversation)
        await embedded(client, conversation)
        await client.delete(f"/conversations/{conversation}/messages/1")
        await client.post(f"/conversations/{conversation}/rewind", json={"to_seq": 40})
        with redis.Redis.from_url(store.url) as server:
            key = f"sash:{{default/{conversation}}}:vector_blocks"
            vectors = indexed_values(server, key, 1, 50)
            assert (len(vectors), vectors[0], len(vectors[1])) == (40, b"", 256)
            await client.patch(f"/conversations/{conversation}", json={"recall": "lexical"})
            assert not server.exists(key)


@pytest.mark.parametrize(
    "answer", [b"", b"[]", b'{"data": []}', b'{"data": [{"index": 1, "embedding": [1]}]}', b'{"data": [{"index": 0}]}']
)
async def test_an_answer_that_is_none_is_a_failure(answer: bytes) -> None:
    """A malformed embeddings answer raises NotEmbedded, gives no vector, and pauses requests to the endpoint."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(answer) + answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    metrics = Metrics()
    embedder = Embedder(metrics, Upstreams(metrics, Pseudonyms()), url=f"http://127.0.0.1:{port}/", model="m", key=None)
    with pytest.raises(NotEmbedded):
        await embedder.embed(["text"])
    assert embedder.pause_seconds > 0
    assert await embedder.vector_of("text", None) == b""
    await embedder.close()
    server.close()


def test_a_vector_becomes_signed_bytes() -> None:
    """A vector is stored as at most 256 signed bytes, the largest scaled to 127; a zero vector is stored as no bytes."""
    assert list(quantized([0.5, -1.0, 0.25])) == [64, 256 - 127, 32]
    assert len(quantized([1.0] * 1024)) == 256
    assert list(quantized([1e308, -1e308])) == [127, 256 - 127]
    assert quantized([0.0, 0.0]) == b""
    assert quantized([]) == b""
