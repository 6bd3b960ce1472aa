"""Rows of recorded truth: a request as it was sent, and the input tokens that its provider billed for it.

::

    [{"id", "model", "request": {…}, "prompt_tokens", "format"?, "wire"?, "host"?, "kinds"?, "also_sent"?, "source"?}, …]

A file is one list of rows, or has a row a line. Other members of a row are kept for its reader and not used.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from sash.commands.source_error import SourceError
from sash.core.counts.models.models import find_model
from sash.core.law.records.parameters import CountFormat
from sash.core.providers import CHAT, PROVIDERS
from sash.problems import UnknownModel

_SHAPE: Final = '{"id", "model", "request", "prompt_tokens"}'


class TruthSource(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a row is from: a repository and the path of the recording in it, or the endpoint that was asked."""

    repo: str = ""
    path: str = ""
    url: str = ""
    asked_at: str = ""


class TruthRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """One request. ``prompt_tokens`` is None where nobody was asked yet; ``kinds`` tells what is in the request.

    ``also_sent`` are members that the recorder kept apart. ``host`` is the server that answered; "" is the maker's.
    ``wire`` is the format in which the request was sent, where it is not ``format``.
    """

    id: str
    model: str
    request: dict[str, Any]
    prompt_tokens: Annotated[int, Meta(ge=0)] | None = None
    format: CountFormat | None = None
    wire: CountFormat | None = None
    host: str = ""
    kinds: list[str] | None = None
    also_sent: dict[str, Any] | None = None
    source: TruthSource = TruthSource()

    @property
    def form(self) -> str:
        """The format of the request, as it is said or as the request shows it."""
        return self.wire or self.format or form_of_request(self.request, self.model)

    @property
    def sent(self) -> dict[str, Any]:
        """The request with the members that the recorder kept apart."""
        return self.request | (self.also_sent or {})


def form_of_request(request: Mapping[str, Any], model: str) -> str:
    """Return the format whose messages a request has; of two such formats, the one of the model's maker."""
    found = [name for name, each in PROVIDERS.items() if each.shape.messages in request]
    try:
        maker = find_model(model).provider
    except UnknownModel:
        maker = ""
    own = [name for name in found if PROVIDERS[name].maker == maker]
    return next(iter((*own, *found)), CHAT)


def rows_in(data: bytes, name: str) -> list[TruthRow]:
    """Return the rows in a file's bytes; ``name`` is the file's name in errors. Raises SourceError."""
    values = _values(data, name)
    rows = []
    for number, value in enumerate(values, 1):
        if not isinstance(value, dict) or "request" not in value:
            raise SourceError(f'{name}: row {number} has no "request": a row is {_SHAPE}')
        try:
            rows.append(msgspec.convert(value, TruthRow))
        except msgspec.ValidationError as error:
            raise SourceError(f"{name}: row {number}: {error}") from None
    if not rows:
        raise SourceError(f"{name}: holds no rows")
    return rows


def _values(data: bytes, name: str) -> Sequence[Any]:
    try:
        if data.lstrip()[:1] == b"[":
            found: list[Any] = msgspec.json.decode(data, type=list[Any])
            return found
        return [msgspec.json.decode(line) for line in data.splitlines() if line.strip()]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise SourceError(f"{name}: not JSON: {error}") from None


def rows_written(rows: Sequence[TruthRow]) -> bytes:
    """Return the bytes of a file with these rows, indented so that a change of a row is seen."""
    return msgspec.json.format(msgspec.json.encode(rows), indent=1) + b"\n"
