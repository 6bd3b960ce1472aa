"""A recorded request with its billed and predicted tokens."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from sash.core.chat.regular import regular_choice
from sash.core.counts.costs.counting import RequestCount, count_request
from sash.core.counts.costs.request_shapes import RequestShape, Stands, bills_of, has_stood
from sash.core.counts.models.models import Model, countable_model
from sash.core.counts.requests.provider_requests import asks_for_reasoning, count_provider_request
from sash.core.providers import CHAT, PROVIDERS
from sash.core.providers.destinations.hosts import BILLED_AS_MADE
from sash.core.providers.form.requests_read import ChatRequest
from sash.core.providers.reading.native import read_request
from sash.problems import InvalidEntry
from sash_tools.bills.request_kinds import NOT_SHOWN, kind_of, kinds_of
from sash_tools.bills.truth_rows import TruthRow

OTHERS = "Other makers"
GEMINI = "Gemini"
_VENDORS = {"openai": "OpenAI", "anthropic": "Claude", "google": GEMINI}
"""Vendors' names, by the maker of the model."""
_OPENAIS_HOSTS = frozenset({"", "openai", "azure", "api.openai.com"})
_COUNTED = ("messages", "tools", "functions", "function_call", "response_format", "prediction")


class Bill(NamedTuple):
    """One request, what it was billed, and what it is predicted to be billed. ``kind`` is its hardest part.

    ``is_exact`` is what an answer says; ``shape`` is None where a part of the request is a guess. ``counting`` is how its
    model's tokens are counted; "unknown" where nobody lists the model. ``chat`` is a request of Claude's, Gemini's or
    Responses in chat form; None where it cannot be read.
    """

    vendor: str
    row: TruthRow
    file: str
    family: str
    kind: str
    billed: int
    predicted: int
    is_exact: bool
    counting: str
    shape: RequestShape | None = None
    chat: ChatRequest | None = None

    @property
    def id(self) -> str:
        return self.row.id

    @property
    def request(self) -> Mapping[str, Any]:
        return self.row.sent

    @property
    def error(self) -> int:
        """Predicted minus billed tokens; negative if the prediction is short."""
        return self.predicted - self.billed

    @property
    def ratio(self) -> float:
        """Predicted tokens for each billed one."""
        return self.predicted / max(1, self.billed)

    @property
    def is_with_vocabulary(self) -> bool:
        """Whether the maker's own vocabulary counted it, which does not come with Sash."""
        return self.vendor == GEMINI and self.counting == "vocabulary"

    @property
    def is_shown(self) -> bool:
        """Whether the request shows all that is billed, as far as its kind tells."""
        return self.kind not in NOT_SHOWN.get(self.vendor, ())


def comparisons(row: TruthRow, file: str, models: Mapping[str, Model]) -> Iterator[Bill]:
    """Yield the row as ``compared``. If a vocabulary for Gemini is there, the row is compared without it, and Gemini's own
    bills with it, too.

    Raises UnknownModel, InvalidEntry.
    """
    model = countable_model(row.model, models)
    if model.is_evident:
        yield _compared(row, file, msgspec.structs.replace(model, vocabulary=None))
    found = _compared(row, file, model)
    if found.is_with_vocabulary or not model.is_evident:
        yield found


def compared(row: TruthRow, file: str, models: Mapping[str, Model]) -> Bill:
    """Return a row that was billed with its current prediction. Raises UnknownModel, InvalidEntry."""
    return _compared(row, file, countable_model(row.model, models))


def _compared(row: TruthRow, file: str, model: Model) -> Bill:
    shapes: list[RequestShape] = []
    count, chat = _counted(row, model, lambda shape: not shapes.append(shape))  # type: ignore[func-returns-value]
    shape = shapes[0] if count.exact else None
    is_exact = shape is not None and has_stood(shape)
    family = model.rules.family
    vendor = vendor_of(row, model)
    kind = family if vendor == OTHERS else kind_of(row, row.kinds or kinds_of(chat))
    return Bill(
        vendor,
        row,
        file,
        family,
        kind,
        row.prompt_tokens or 0,
        count.tokens,
        is_exact,
        model.counting,
        shape,
        chat,
    )


def vendor_of(row: TruthRow, model: Model) -> str:
    """Return the table's name for who billed a row. Gateways and other sellers bill in their own ways."""
    if model.provider == "openai" and row.host not in _OPENAIS_HOSTS:
        return OTHERS
    sent_in = PROVIDERS[row.form]
    if model.provider not in {sent_in.maker, *BILLED_AS_MADE.get(row.form, ())}:
        return OTHERS
    return _VENDORS.get(model.provider, OTHERS) + (" Responses" if sent_in.has_openais_items else "")


def predicted_tokens(row: TruthRow, model: Model) -> int:
    """Return a request's predicted tokens for another model than the row's. Raises InvalidEntry."""
    return _counted(row, model, has_stood)[0].tokens


def bills_of_row(row: TruthRow, model: Model) -> int:
    """Return how many bills have shown the shape of a request to a model; 0 where it is a guess. Raises InvalidEntry."""
    shapes: list[RequestShape] = []
    _counted(row, model, lambda shape: not shapes.append(shape))  # type: ignore[func-returns-value]
    return bills_of(shapes[0]) if shapes else 0


def _counted(row: TruthRow, model: Model, stands: Stands) -> tuple[RequestCount, ChatRequest | None]:
    if row.form != CHAT:
        return count_provider_request(row.form, row.sent, model, stands=stands), _read(row)
    fields = {name: value for name, value in row.sent.items() if name in _COUNTED}
    choice = regular_choice(row.sent.get("tool_choice"))
    thinks = asks_for_reasoning(row.sent)
    return count_request(model, **fields, tool_choice=choice, thinks=thinks, stands=stands), _read(row)


def _read(row: TruthRow) -> ChatRequest | None:
    try:
        return read_request(row.form, row.sent)
    except InvalidEntry:
        return None
