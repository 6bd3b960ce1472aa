"""What ``POST /window`` and ``POST /count`` answer, made without a server, for tests that ask for thousands."""

from collections.abc import Mapping
from typing import Any

import msgspec

from sash.core.counts.models.models import find_model
from sash.windows.counted import CountRequest, count_in_format
from sash.windows.request import decode_request
from sash.windows.stateless import window_of_request


def window_of(body: Mapping[str, Any], form: str = "openai") -> dict[str, Any]:
    """Return the window of a body whose messages are in ``form``. Raises the problem with which it would be refused."""
    wanted, sent = decode_request(msgspec.json.encode(body), form)  # an infinite number becomes null
    made, _ = window_of_request(wanted, {}, sent)
    found: dict[str, Any] = msgspec.json.decode(made.body)
    return found


def count_of(model: str, request: Mapping[str, Any], form: str = "openai") -> int:
    """Return the tokens of a request in ``form``."""
    kind: Any = CountRequest if form == "openai" else dict[str, Any]
    wanted = msgspec.json.decode(msgspec.json.encode({"model": model, **request}), type=kind)
    return count_in_format(wanted, find_model(model), form).tokens
