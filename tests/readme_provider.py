"""A stand-in for OpenAI, Anthropic and Gemini on loopback. It calls the tool ``find_talk``, or says where the talk is.

It takes chat completions, Responses, Anthropic's Messages and Gemini's contents, whole and streamed, and reports the tokens
that ``POST /count`` returns. So do its counting endpoints: ``input_tokens``, ``count_tokens`` and ``countTokens``. What a
provider refuses answers 400 with that provider's error (``rigs/standin/rules.py``).
``python tests/readme_provider.py [PORT [SASH]]`` serves it on port 8001, for the Sash at http://127.0.0.1:8000.
"""

import argparse
import json
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from typing import Any
from urllib.parse import unquote

import httpx
from rigs.standin.replies import ANSWER, TOPIC, Said, counted, reply, talk
from rigs.standin.rules import error, form_of, is_count, refused, window_of
from rigs.standin.streams import events

__all__ = ["ANSWER", "TOPIC", "Plan", "Provider", "Said", "provided"]

Plan = Callable[[str, dict[str, Any]], Said]
"""Returns what is said to a request, by its format and its body."""
_MODEL = re.compile(r"/models/([^/:]+):|/model/([^/]+)/")


class Provider(ThreadingHTTPServer):
    """The server: ``requests`` are the taken bodies in order, ``environment`` the variables that point SDKs to it.

    ``refusals`` are the reasons of its answers 400. ``surcharge`` are tokens that it bills beside those of ``POST /count``.
    A stream pauses for ``pause_seconds`` before each event, and breaks off after ``whole_events``, if that is a number. The
    next ``failures`` answers are 500.
    """

    daemon_threads = True

    def __init__(self, sash: str, port: int = 0, plan: Plan = talk) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.sash = httpx.Client(base_url=sash)
        self.plan = plan
        self.requests: list[dict[str, Any]] = []
        self.refusals: list[str] = []
        self.surcharge = 0
        self.pause_seconds = 0.0
        self.whole_events: int | None = None
        self.failures = 0

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment variables that point the providers' SDKs to this server."""
        here = f"http://127.0.0.1:{self.server_port}"
        openai = {"OPENAI_BASE_URL": f"{here}/v1", "OPENAI_API_KEY": "none"}
        google = {"GOOGLE_GEMINI_BASE_URL": here, "GEMINI_API_KEY": "none"}
        amazon = {"AWS_ENDPOINT_URL_BEDROCK_RUNTIME": here, "AWS_BEARER_TOKEN_BEDROCK": "none"}
        local = {"OLLAMA_HOST": here, "OLLAMA_API_KEY": "none"}
        coheres = {"CO_API_URL": here, "CO_API_KEY": "none"}
        return {
            **openai,
            **google,
            **amazon,
            **local,
            **coheres,
            "ANTHROPIC_BASE_URL": here,
            "ANTHROPIC_API_KEY": "none",
        }

    def handle_error(self, *told: Any) -> None:
        """Print what went wrong, unless a client left."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(*told)

    def server_close(self) -> None:
        super().server_close()
        self.sash.close()

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Return the status and the body of the answer to a request."""
        form = form_of(path)
        if self.failures:
            self.failures -= 1
            return 500, error(form, "The server had an error while processing the request.")
        body = body.get("generateContentRequest", body)
        body = body["input"]["converse"] if form == "converse" and "input" in body else body
        named = _MODEL.search(path)
        model = named[1] or unquote(named[2]) if named else body["model"]
        request = window_of(form, body)
        if found := refused(form, request, model):
            self.refusals += found
            return 400, error(form, found[0])
        self.requests.append(body)
        number = len(self.requests)
        if is_count(path):
            return 200, counted(form, self._tokens(form, {**body, "model": model}))
        tokens = self._tokens(form, {"model": model, **request})
        return 200, reply(form, self.plan(form, body), model=model, number=number, tokens=tokens)

    def _tokens(self, form: str, request: dict[str, Any]) -> int:
        answer = self.sash.post("/count", params={"format": form}, json=request)
        tokens: int = answer.raise_for_status().json()["tokens"]
        return tokens + self.surcharge


class _Handler(BaseHTTPRequestHandler):
    server: Provider
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        path = self.path.partition("?")[0]
        status, answer = self.server.answer(path, body)
        if status == 200 and (body.get("stream") or path.endswith(":streamGenerateContent")):
            self._stream(events(form_of(path), answer, body))
            return
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, told: Iterator[str]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in islice(told, self.server.whole_events):
            time.sleep(self.server.pause_seconds)
            data = event.encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        if self.server.whole_events is None:
            self.wfile.write(b"0\r\n\r\n")
        else:
            self.close_connection = True

    def log_message(self, *_: Any) -> None:
        """Log nothing: a failed test shows what the client received."""


@contextmanager
def provided(sash: str, plan: Plan = talk) -> Iterator[Provider]:
    """Yield a running provider that counts tokens with the server at ``sash``."""
    with Provider(sash, plan=plan) as provider:
        thread = threading.Thread(target=provider.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield provider
        provider.shutdown()
        thread.join()


if __name__ == "__main__":
    told = argparse.ArgumentParser(description="A stand-in for OpenAI, Anthropic and Gemini, which needs no key.")
    told.add_argument("port", nargs="?", type=int, default=8001, help="the port on 127.0.0.1 (8001)")
    told.add_argument("sash", nargs="?", default="http://127.0.0.1:8000", help="the Sash that counts its tokens")
    given = told.parse_args()
    with Provider(given.sash, given.port) as standing_in, suppress(KeyboardInterrupt):
        print(f"a stand-in for the provider: {standing_in.environment['OPENAI_BASE_URL']}", flush=True)
        standing_in.serve_forever()
