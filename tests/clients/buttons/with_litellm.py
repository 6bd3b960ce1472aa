"""LiteLLM's proxy: a client of chat completions that sends its whole chat with each request."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx2
from presses import URL, Model, press, text_of

from sash_client.client import path_of

KEY = "sk-0123456789abcdef0123456789abcdef"
CONFIG = """
model_list:
  - model_name: gpt-4o-mini
    litellm_params: {{model: openai/gpt-4o-mini, api_base: "http://127.0.0.1:{port}/v1", api_key: none}}
litellm_settings: {{callbacks: sash_hook.hook, num_retries: 0}}
"""
HOOK = f'from sash_client.litellm import SashHook\n\nhook = SashHook(url="{URL}", list="whole")\n'
PROXY, PROVIDER = (socket.create_server(("127.0.0.1", 0)) for _ in range(2))
PORT, PROVIDER_PORT = (each.getsockname()[1] for each in (PROXY, PROVIDER))
PROXY.close()
NOW: dict[str, Model] = {}
"""The model of the chat that is being pressed."""


async def provide(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one request as OpenAI does."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = int(head.partition("content-length:")[2].split("\r\n")[0])
    asked = json.loads(await reader.readexactly(length))
    try:
        text = await NOW["model"].answer([text_of(each) for each in asked["messages"]])
    except RuntimeError as error:
        status, body = "500 Error", {"error": {"message": str(error)}}
    else:
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        status = "200 OK"
        body = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
    answer = json.dumps(body).encode()
    lines = [
        f"HTTP/1.1 {status}",
        "content-type: application/json",
        f"content-length: {len(answer)}",
        "connection: close",
    ]
    writer.write("\r\n".join([*lines, "", ""]).encode() + answer)
    writer.close()


class Chat:
    def __init__(self, name: str, model: Model) -> None:
        NOW["model"] = model
        self.named = name
        self.shown: list[dict[str, Any]] = []

    @staticmethod
    def path(name: str) -> str:
        return path_of(f"default_user_id/{name}")

    async def ask(self, *messages: dict[str, Any]) -> None:
        if "server" not in SERVER:
            SERVER["server"] = await asyncio.start_server(provide, sock=PROVIDER)
        headers = {"Authorization": f"Bearer {KEY}", "x-sash-conversation": self.named}
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{PORT}", headers=headers, timeout=50) as client:
            answer = await client.post("/v1/chat/completions", json={"model": "gpt-4o-mini", "messages": messages})
            answer.raise_for_status()
        self.shown = [*messages, answer.json()["choices"][0]["message"]]

    async def send(self, text: str) -> None:
        await self.ask(*self.shown, {"role": "user", "content": text})

    async def regenerate(self) -> None:
        await self.ask(*self.shown[:-1])

    async def edit(self, place: int, text: str) -> None:
        await self.ask(*self.shown[: 2 * place], {"role": "user", "content": text})

    async def retry(self, text: str) -> None:
        await self.send(text)

    async def load(self) -> None:
        """Have the screen show what the log has."""
        async with httpx2.AsyncClient(base_url=URL) as client:
            page = (await client.get(f"{self.path(self.named)}/messages")).json()
        self.shown = [each["message"] for each in page["messages"] if text_of(each["message"])]

    async def back(self, branch: str) -> None:
        async with httpx2.AsyncClient(base_url=URL) as client:
            (await client.post(f"{self.path(self.named)}/branches/{branch}", json={})).raise_for_status()
        await self.load()


SERVER: dict[str, asyncio.Server] = {}


def main() -> None:
    """Press each button against a proxy of its own."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "sash_hook.py").write_text(HOOK)
        Path(folder, "config.yaml").write_text(CONFIG.format(port=PROVIDER_PORT))
        log = Path(folder, "log")
        command = [Path(sys.executable).with_name("litellm"), "--config", "config.yaml", "--host", "127.0.0.1"]
        with log.open("wb") as out:
            told = {**os.environ, "LITELLM_MASTER_KEY": KEY}
            proxy = subprocess.Popen([*command, "--port", str(PORT)], cwd=folder, env=told, stdout=out, stderr=out)
        try:
            while b"startup complete" not in log.read_bytes():
                if proxy.poll() is not None:
                    raise RuntimeError(log.read_text())
                asyncio.run(asyncio.sleep(0.2))
            press(Chat)
        finally:
            proxy.kill()
            proxy.wait(30)


if __name__ == "__main__":
    main()
