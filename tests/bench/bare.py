"""The baseline: handlers that answer bytes of a given size and do nothing else."""

import os
from typing import Any

from litestar import Litestar, Request, get, post

from tests.bench.others import settled

_JSON = "application/json"
_LIVE = b'{"status":"ok"}'


def _fixed(size_bytes: int) -> bytes:
    return b'{"messages":"%b"}' % (b"x" * (size_bytes - 15))


_WINDOW = _fixed(int(os.environ.get("WINDOW_BYTES", "1000")))
_TURN = _fixed(int(os.environ.get("TURN_BYTES", "1000")))


@get(["/livez", "/readyz"], media_type=_JSON)
async def live() -> bytes:
    return _LIVE


@get("/window", media_type=_JSON)
async def window() -> bytes:
    return _WINDOW


@post("/append", media_type=_JSON)
async def append(request: Request[Any, Any, Any]) -> bytes:
    await request.body()
    return _TURN


def application() -> Litestar:
    return settled(Litestar([live, window, append], openapi_config=None))
