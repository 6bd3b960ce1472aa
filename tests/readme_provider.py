"""A stand-in for OpenAI, Anthropic and Gemini on loopback. It calls the tool ``find_talk``, or says where the talk is.

Chat completions and Claude's messages report the tokens that ``POST /count`` returns. As with the providers, a tool call
without its result, or a result without its call, answers 400.
``python tests/readme_provider.py [PORT [SASH]]`` serves it on port 8001, for the Sash at http://127.0.0.1:8000.
"""

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

ANSWER = "At 12:10, in Robertson 2."
TOPIC = '{"topic": "gradle"}'


class Provider(ThreadingHTTPServer):
    """The server: ``requests`` are the request bodies in order, ``environment`` the variables that point SDKs to it."""

    daemon_threads = True

    def __init__(self, sash: str, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.sash = sash
        self.requests: list[dict[str, Any]] = []

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment variables that point the providers' SDKs to this server."""
        here = f"http://127.0.0.1:{self.server_port}"
        openai = {"OPENAI_BASE_URL": f"{here}/v1", "OPENAI_API_KEY": "none"}
        google = {"GOOGLE_GEMINI_BASE_URL": here, "GEMINI_API_KEY": "none"}
        return {**openai, **google, "ANTHROPIC_BASE_URL": here, "ANTHROPIC_API_KEY": "none"}

    def reply(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.requests.append(body)
        answers = {"/v1/chat/completions": self._completion, "/v1/messages": self._message}
        return answers.get(path, self._content if path.endswith(":generateContent") else self._response)(body)

    def _tokens(self, body: dict[str, Any]) -> int:
        counted = {name: body[name] for name in ("model", "messages", "tools") if name in body}
        tokens: int = httpx.post(f"{self.sash}/count", json=counted).raise_for_status().json()["tokens"]
        return tokens

    def _message(self, body: dict[str, Any]) -> dict[str, Any]:
        return {
            "id": f"msg_{len(self.requests)}",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": [{"type": "text", "text": ANSWER}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": self._tokens(body), "output_tokens": 1},
        }

    def _completion(self, body: dict[str, Any]) -> dict[str, Any]:
        tokens = self._tokens(body)
        message: dict[str, Any] = {"role": "assistant", "content": ANSWER, "refusal": None, "annotations": []}
        if _wants_talk(body, body["messages"]):
            call = {"id": f"call_{len(self.requests)}", "type": "function"}
            call["function"] = {"name": "find_talk", "arguments": TOPIC}
            message |= {"content": None, "tool_calls": [call]}
        reason = "tool_calls" if message["content"] is None else "stop"
        return {
            "id": f"chatcmpl-{len(self.requests)}",
            "object": "chat.completion",
            "created": 1,
            "model": body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": reason, "logprobs": None}],
            "usage": {"prompt_tokens": tokens, "completion_tokens": 1, "total_tokens": tokens + 1},
        }

    def _response(self, body: dict[str, Any]) -> dict[str, Any]:
        number = len(self.requests)
        said: dict[str, Any] = {"id": f"msg_{number}", "type": "message", "role": "assistant", "status": "completed"}
        said["content"] = [{"type": "output_text", "text": ANSWER, "annotations": []}]
        if _wants_talk(body, body["input"]):
            said = {"id": f"fc_{number}", "type": "function_call", "status": "completed", "call_id": f"call_{number}"}
            said |= {"name": "find_talk", "arguments": TOPIC}
        return {
            "id": f"resp_{number}",
            "object": "response",
            "created_at": 1,
            "status": "completed",
            "model": body["model"],
            "output": [{"id": f"rs_{number}", "type": "reasoning", "summary": []}, said],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": {
                "input_tokens": 1,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": 1,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": 2,
            },
        }

    def _content(self, body: dict[str, Any]) -> dict[str, Any]:
        part: dict[str, Any] = {"text": ANSWER}
        if _wants_talk(body, body["contents"]):
            part = {
                "functionCall": {"id": f"call_{len(self.requests)}", "name": "find_talk", "args": json.loads(TOPIC)}
            }
        return {
            "candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
        }


def _wants_talk(body: dict[str, Any], messages: list[dict[str, Any]]) -> bool:
    last = messages[-1]
    said = json.dumps(last)
    return (
        bool(body.get("tools")) and last.get("role") == "user" and "gradle" in said and "functionResponse" not in said
    )


def _unpaired(body: dict[str, Any]) -> list[str]:
    """Return the ids of tool calls without a tool result, and of tool results without a tool call."""
    messages = [*body.get("messages", ()), *body.get("input", ())]
    calls = [call["id"] for message in messages for call in message.get("tool_calls") or ()]
    calls += [item["call_id"] for item in messages if item.get("type") == "function_call"]
    results = [message["tool_call_id"] for message in messages if message.get("role") == "tool"]
    results += [item["call_id"] for item in messages if item.get("type") == "function_call_output"]
    parts = [part for content in body.get("contents", ()) for part in content["parts"]]
    calls += [part["functionCall"]["id"] for part in parts if "functionCall" in part]
    results += [part["functionResponse"]["id"] for part in parts if "functionResponse" in part]
    return sorted(set(calls) ^ set(results))


class _Handler(BaseHTTPRequestHandler):
    server: Provider
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        alone = _unpaired(body)
        answer = {"error": {"message": f"unpaired: {alone}"}} if alone else self.server.reply(self.path, body)
        data = json.dumps(answer).encode()
        self.send_response(400 if alone else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Log nothing: a failed test shows what the client received."""


@contextmanager
def provided(sash: str) -> Iterator[Provider]:
    """Yield a running provider that counts tokens with the server at ``sash``."""
    with Provider(sash) as provider:
        thread = threading.Thread(target=provider.serve_forever, daemon=True)
        thread.start()
        yield provider
        provider.shutdown()
        thread.join()


if __name__ == "__main__":
    given = sys.argv[1:]
    port, sash = int(given[0]) if given else 8001, given[1] if given[1:] else "http://127.0.0.1:8000"
    with Provider(sash, port) as standing_in, suppress(KeyboardInterrupt):
        print(f"a stand-in for the provider: {standing_in.environment['OPENAI_BASE_URL']}", flush=True)
        standing_in.serve_forever()
