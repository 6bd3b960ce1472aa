"""POST …/usage: compare the provider's bill with the prediction."""

from typing import Annotated

import msgspec
from litestar import post
from litestar.params import FromPath
from msgspec import Meta

from service.api.body import checked_id, decode, if_match
from service.api.context import Context, Req, context_of, request_token, tenant_of
from service.api.openapi.operation import documented
from service.api.schemas import Calibration
from service.core import calibration as core
from service.core.models import Model, published_name
from service.core.parameters import Name
from service.operations.logging import best_effort, get_logger
from service.problems import BadRequest, Unprocessable
from service.store.history import require_version
from service.store.usage import margin_of, model_or_unknown

_log = get_logger()


Billed = Annotated[int, Meta(ge=0, le=100_000_000)]


class Usage(msgspec.Struct, forbid_unknown_fields=True):
    """The input tokens that the provider billed, as ``prompt_tokens`` or ``input_tokens``; cached and written ones count."""

    model: Name
    window_tokens: Annotated[int, Meta(ge=1, le=100_000_000, description="The window's `tokens.total`.")]
    prompt_tokens: Annotated[Billed | None, Meta(description="The name in chat completions.")] = None
    input_tokens: Annotated[
        Billed | None,
        Meta(description="The name in Responses and Anthropic. Add Anthropic's cached and written tokens."),
    ] = None
    cached_tokens: Annotated[
        Billed | None, Meta(description="Billed tokens that were read from the provider's prompt cache.")
    ] = None
    cache_write_tokens: Annotated[
        Billed | None, Meta(description="Billed tokens that were written to the prompt cache at a price of their own.")
    ] = None
    correction: Annotated[
        Annotated[float, Meta(gt=0, le=1000)] | None, Meta(description="The window's `correction`, if it had one.")
    ] = None

    def billed(self) -> int:
        """The billed tokens. Raises BadRequest unless exactly one of the two names is given."""
        if (self.prompt_tokens is None) == (self.input_tokens is None):
            raise BadRequest.at("#/prompt_tokens", "Give prompt_tokens or input_tokens, and not both")
        return self.prompt_tokens if self.prompt_tokens is not None else self.input_tokens or 0

    def from_cache(self) -> int | None:
        """Billed tokens that were read from or written to the prompt cache; None if the report has neither."""
        if self.cached_tokens is None and self.cache_write_tokens is None:
            return None
        return (self.cached_tokens or 0) + (self.cache_write_tokens or 0)


class Reported(msgspec.Struct, frozen=True):
    """The error is predicted - billed, in tokens: negative if the prediction was too low."""

    model: str
    error: int
    calibration: Calibration


_usage = msgspec.json.Decoder(Usage)


@post("/conversations/{conversation_id:str}/usage", operation_id="reportUsage", status_code=200)
@documented("Report what the provider billed", "models", takes=Usage, etag=False, errors=(507,))
async def report_usage(request: Req, conversation_id: FromPath[str]) -> Reported:
    """Report the tokens that a provider billed for a window. Later windows of an estimated model are corrected by it."""
    context, tenant, identity = context_of(request), tenant_of(request), checked_id(conversation_id)
    wanted = await decode(request, _usage)
    billed = wanted.billed()
    state = await context.reader.get(tenant, identity)
    require_version(state, if_match(request))
    model = model_or_unknown(wanted.model, context.models)
    _refuse_absurd(wanted, billed, model)
    _refuse_more_cached_than_billed(wanted, billed)
    known = await context.calibrations.report(
        tenant,
        model,
        billed=billed,
        predicted=wanted.window_tokens,
        correction=wanted.correction,
        token=request_token(request),
    )
    with best_effort:
        _record(context, wanted, model, billed, known)
    return Reported(model.id, wanted.window_tokens - billed, shown(model, known))


def _record(context: Context, wanted: Usage, model: Model, billed: int, known: core.ModelReports) -> None:
    """Record a report in metrics and the log."""
    context.metrics.windows.record_usage(model.id, predicted=wanted.window_tokens, billed=billed)
    if wanted.from_cache() is not None:
        read, written = wanted.cached_tokens or 0, wanted.cache_write_tokens or 0
        context.metrics.windows.record_cache(model.id, billed=billed, read=read, written=written)
    if billed > wanted.window_tokens and not model.exact:
        _warn_of_short(context, model, billed, wanted.window_tokens)
    _warn_of_drift(context, model, known)


def _refuse_absurd(wanted: Usage, billed: int, model: Model) -> None:
    """Raise Unprocessable for implausible figures, which would spoil the correction of the model's next windows."""
    if not core.is_plausible(billed, wanted.window_tokens, wanted.correction or 1.0, model.context_window):
        detail = f"Over {core.MOST_RATIO:g} times the window's predicted tokens or the model's context window"
        place = "prompt_tokens" if wanted.input_tokens is None else "input_tokens"
        raise Unprocessable.at(f"#/{place}", detail)


def _refuse_more_cached_than_billed(wanted: Usage, billed: int) -> None:
    """Raise Unprocessable if cached tokens exceed the bill: Anthropic's ``input_tokens`` do not include them."""
    if (wanted.from_cache() or 0) > billed:
        place = "cached_tokens" if wanted.cached_tokens else "cache_write_tokens"
        detail = "Cached and written tokens are part of the bill: add them to Anthropic's input_tokens"
        raise Unprocessable.at(f"#/{place}", detail)


def shown(model: Model, known: core.ModelReports) -> Calibration:
    """The calibration in the form that clients read."""
    return Calibration(known.reports, round(known.mean_error, 2), known.worst_error, margin_of(model, known))


def _warn_of_short(context: Context, model: Model, billed: int, predicted: int) -> None:
    """Log that an estimate was too low. For an exact model a drift is logged instead."""
    _log.warning(
        "a request was billed above its prediction",
        model=context.metrics.windows.label(published_name(model.id)),
        provider=model.provider,
        counting=model.counting,
        predicted=predicted,
        billed=billed,
        short_tokens=billed - predicted,
    )


def _warn_of_drift(context: Context, model: Model, known: core.ModelReports) -> None:
    """Log once that bills differ from an exact model's counts: its maker has changed something."""
    if model.exact and known.is_drifting and model.id not in context.drifting:
        context.drifting.add(model.id)
        _log.warning(
            "an exact model drifts: it is billed otherwise than it is counted",
            model=context.metrics.windows.label(published_name(model.id)),
            reports=known.reports,
            mean_error=round(known.mean_error, 2),
            worst_error=known.worst_error,
        )
