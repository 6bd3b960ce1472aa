"""Word vectors as an endpoint for semantic recall: ``python deploy/embeddings.py [--port 8002]``.

It answers OpenAI's ``POST /v1/embeddings`` on this machine. The vectors are those of the package wordllama, which has them
in its wheel: nothing is downloaded when it starts, and no text leaves the machine.
"""

import argparse
import contextlib
import json
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import wordllama

MODEL = "wordllama-l2-256"
_LONGEST_BODY = 32 * 1024 * 1024


@lru_cache(maxsize=1)
def model() -> Any:
    """Return the model, loaded from the wheel without a download."""
    return wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)


def vectors(texts: list[str]) -> list[list[float]]:
    """Return a vector of 256 numbers for each text."""
    return [[float(value) for value in row] for row in model().embed(texts)] if texts else []


class Handler(BaseHTTPRequestHandler):
    """Answers ``POST /v1/embeddings``."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Answer with a vector for each text of ``input``."""
        length = int(self.headers.get("Content-Length", 0))
        if self.path != "/v1/embeddings" or not 0 < length <= _LONGEST_BODY:
            self._answer(404, {"error": {"message": "POST /v1/embeddings"}})
            return
        try:
            given = json.loads(self.rfile.read(length))["input"]
            texts = [given] if isinstance(given, str) else [str(text) for text in given]
        except (ValueError, KeyError, TypeError):
            self._answer(400, {"error": {"message": 'Send {"input": ["a text"]}'}})
            return
        rows = [{"object": "embedding", "index": i, "embedding": row} for i, row in enumerate(vectors(texts))]
        self._answer(200, {"object": "list", "model": MODEL, "data": rows})

    def _answer(self, status: int, answer: dict[str, Any]) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing: a request has people's texts."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8002)
    options = parser.parse_args()
    vectors(["ready"])
    server = ThreadingHTTPServer((options.host, options.port), Handler)
    print(f"embeddings: {MODEL} on http://{options.host}:{server.server_port}/v1/embeddings", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        server.serve_forever()


if __name__ == "__main__":
    main()
