"""The endpoint of ``deploy/embeddings.py`` for tests, which may fail and remembers what it was asked."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from deploy.embeddings import MODEL, vectors

__all__ = ["MODEL", "Endpoint", "serving", "vectors"]


class Endpoint:
    """``POST /v1/embeddings``. Each answer has ``status``, and no vectors unless that is 200; ``asked`` are the requests."""

    def __init__(self) -> None:
        self.url = ""
        self.status = 200
        self.asked: list[dict[str, Any]] = []
        self.headers: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode().lower():
                length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
                asked = json.loads(await reader.readexactly(length))
                self.asked.append(asked)
                self.headers.append(head)
                found = await asyncio.to_thread(vectors, asked["input"]) if self.status == 200 else []
                data = [{"object": "embedding", "index": index, "embedding": each} for index, each in enumerate(found)]
                tokens = sum(len(text.split()) for text in asked["input"])
                usage = {"prompt_tokens": tokens, "total_tokens": tokens}
                body = json.dumps({"object": "list", "data": data, "model": asked["model"], "usage": usage}).encode()
                writer.write(f"HTTP/1.1 {self.status} X\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving() -> AsyncIterator[Endpoint]:
    """Yield an endpoint on a free port."""
    endpoint = Endpoint()
    server = await asyncio.start_server(endpoint.serve, "127.0.0.1", 0)
    endpoint.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1/embeddings"
    try:
        yield endpoint
    finally:
        server.close()
