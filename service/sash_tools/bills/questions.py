"""Questions to a provider: requests are sent to an endpoint that tells their input tokens, and its answers become rows."""

import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from os import environ
from typing import Any, Final, NamedTuple

import httpx2
import msgspec

from sash.commands.source_error import SourceError
from sash.core.counts.models.models import Model
from sash.core.providers import PROVIDERS
from sash.extras import how_to_install
from sash.settings import mask_url
from sash_client.errors import pause_seconds
from sash_tools.bills.token_endpoint import TokenEndpoint
from sash_tools.bills.token_endpoints import TOKEN_ENDPOINTS
from sash_tools.bills.truth_rows import TruthRow, TruthSource

_TIMEOUT_SECONDS: Final = 120.0
_WAITS_SECONDS: Final = (1.0, 4.0, 15.0)
"""Pauses before a request is sent again, where the provider is busy and asks for none."""
_HOPELESS: Final = frozenset({401, 402, 403, 404})
"""Statuses that every other request would get, too."""
_SHOWN_CHARACTERS: Final = 200


class NotTold(NamedTuple):
    """A request whose tokens were not told, and why."""

    id: str
    why: str


class Questions:
    """Asks one provider about one model, in one format. ``url`` and ``key_variable`` take the place of the usual variables.

    Raises SourceError if an address or a key is missing.
    """

    def __init__(self, form: str, model: Model, *, url: str | None, key_variable: str | None) -> None:
        self._form = form
        self._model = model
        self.asking: TokenEndpoint = TOKEN_ENDPOINTS[form]
        self.url = _address(self.asking, model, form, url)
        self._key = _key(self.asking, key_variable)

    @property
    def is_makers(self) -> bool:
        """Whether the maker itself is asked. Other servers of its format take fewer members."""
        return self._model.provider == PROVIDERS[self._form].maker

    @property
    def place(self) -> str:
        """The URL of the endpoint, without secrets."""
        return mask_url(self._endpoint)

    @property
    def _endpoint(self) -> str:
        return self.url + self.asking.path.replace("{model}", self._model.id)

    def ask(self, rows: Iterable[TruthRow]) -> Iterator[TruthRow | NotTold]:
        """Yield each request with its tokens, or why they are unknown. Raises SourceError if no request can succeed."""
        headers = self.asking.headers_with(self._key)
        with httpx2.Client(timeout=_TIMEOUT_SECONDS, headers=headers) as client:
            for row in rows:
                yield self._asked(client, row)

    def _asked(self, client: httpx2.Client, row: TruthRow) -> TruthRow | NotTold:
        body = self.asking.body(row.sent, self._model.id, is_makers=self.is_makers)
        response = self._answered(client, msgspec.json.encode(body))
        if response.status_code in _HOPELESS:
            raise SourceError(f"{self.place} answers {response.status_code}: {self._said(response)}")
        answer = _decoded(response)
        tokens = self.asking.told(answer) if response.is_success else None
        if tokens is None:
            return NotTold(row.id, f"{response.status_code}: {self._said(response)}")
        asked = TruthSource(url=self.place, asked_at=datetime.now(UTC).isoformat(timespec="seconds"))
        return TruthRow(
            id=f"{self._model.id}-{row.id}",
            model=self._model.id,
            request=row.sent,
            prompt_tokens=tokens,
            format=row.form,
            host=httpx2.URL(self.url).host,
            kinds=row.kinds,
            source=asked,
        )

    def _answered(self, client: httpx2.Client, body: bytes) -> httpx2.Response:
        """The answer to a body, which is sent again while the provider is busy. Raises SourceError."""
        waits = iter(_WAITS_SECONDS)
        while True:
            try:
                response = client.post(self._endpoint, content=body)
            except httpx2.HTTPError as error:
                raise SourceError(f"{self.place} does not answer: {error or type(error).__name__}") from None
            if (pause := pause_seconds(response, next(waits, None))) is None:
                return response
            time.sleep(pause)

    def _said(self, response: httpx2.Response) -> str:
        """The error's message on one line, without the key; providers may quote it."""
        answer = _decoded(response)
        error = answer.get("error", answer) if isinstance(answer, dict) else answer
        said = error.get("message", error) if isinstance(error, dict) else error
        line = " ".join(str(said or response.text or "an answer without tokens").split())
        return line.replace(self._key, "***")[:_SHOWN_CHARACTERS]


def _address(asking: TokenEndpoint, model: Model, form: str, url: str | None) -> str:
    """The address to ask, without a slash at its end."""
    named = url or next((environ[name] for name in asking.url_variables if environ.get(name)), None)
    if named is None and model.provider != PROVIDERS[form].maker:
        variable = asking.url_variables[0]
        raise SourceError(f"{model.id} is not of {PROVIDERS[form].maker}: name its server, {variable} or --base-url")
    address = (named or asking.url).rstrip("/")
    try:
        is_http = httpx2.URL(address).scheme in ("http", "https")
    except httpx2.InvalidURL:
        is_http = False
    if not is_http:
        raise SourceError(f"{mask_url(address)} is no http:// or https:// address")
    return address


def _key(asking: TokenEndpoint, variable: str | None) -> str:
    variables = (variable,) if variable else asking.key_variables
    for name in variables:
        if key := environ.get(name, "").strip():
            return key
    raise SourceError(f"set {' or '.join(variables)} to the provider's key")


def _decoded(response: httpx2.Response) -> Any:
    try:
        return msgspec.json.decode(response.content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def spread(rows: Sequence[TruthRow], limit: int) -> list[TruthRow]:
    """Return at most ``limit`` rows in their order: of each sort of request, as many as of the others while there are."""
    sorts: dict[tuple[str, ...], deque[int]] = {}
    for place, row in enumerate(rows):
        sorts.setdefault((row.form, *(row.kinds or ())), deque()).append(place)
    chosen: list[int] = []
    while len(chosen) < min(limit, len(rows)):
        chosen += [own.popleft() for own in sorts.values() if own]
    return [rows[place] for place in sorted(chosen[:limit])]


def listed_dollars(model: Model, tokens: int, replies: int) -> float | None:
    """Return what input and reply tokens cost by the listed prices, in dollars; None for an unlisted model.

    Raises SourceError without the extra ``tools``.
    """
    try:
        from genai_prices import Usage, calc_price  # noqa: PLC0415 - slow to import, and of the extra tools
    except ModuleNotFoundError:
        raise SourceError(f"prices are not installed: {how_to_install('tools')}") from None

    try:
        return float(calc_price(Usage(input_tokens=tokens, output_tokens=replies), model_ref=model.id).total_price)
    except (LookupError, ValueError):
        return None if model.input_price is None else model.input_price * (tokens + replies) / 1_000_000
