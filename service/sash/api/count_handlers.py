"""Counting: POST /count, the known models, and POST …/usage, which compares the provider's bill with the prediction."""

import time
from typing import Annotated, Any

import msgspec
from litestar import get, post
from litestar.params import FromPath
from msgspec import Meta

from sash.api.context import Context
from sash.api.incoming import LONG_BYTES, Incoming, run_in_turn_if_large
from sash.api.model_destinations import destinations_of
from sash.api.model_prices import prices_of, prompt_cache_of
from sash.api.openapi.operation import documented
from sash.api.schemas import (
    Calibration,
    ModelInfo,
    ModelList,
    PredictionOutcome,
)
from sash.core.chat.json_bodies import decode_json
from sash.core.chat.messages import ReceiptText
from sash.core.counts.models.models import NO_WINDOW, Model, countable_model, find_model, list_models, published_name
from sash.core.counts.requests.calibration import (
    MOST_CONSTANT,
    MOST_RATIO,
    NO_REPORTS,
    Correction,
    ModelReports,
    is_plausible,
)
from sash.core.counts.requests.iterations import Iteration, billed_for_window, billed_in_all
from sash.core.law.records.parameters import Name
from sash.core.providers import PROVIDERS
from sash.operations.diagnoses import CacheMiss, InputTransformation, drops_in, miss_in
from sash.operations.genai import of_bill
from sash.operations.logging import best_effort, get_logger
from sash.problems import BadRequest, NotFound, UnknownModel, Unprocessable
from sash.store.data.changing import require_version
from sash.store.data.layout import Target
from sash.store.data.usage import applied_correction, drifts, model_or_unknown
from sash.windows.asked import named_model
from sash.windows.counted import Count, CountQuery, CountRequest, count_in_format, model_of
from sash.windows.receipts import Receipt, read_receipt, require_of

_log = get_logger()
_count = msgspec.json.Decoder(CountRequest)
_provider_count = msgspec.json.Decoder(dict[str, Any])


@post("/count", operation_id="countTokens", status_code=200)
@documented("Count tokens", "models", query=CountQuery, takes=CountRequest, errors=(422,))
async def count(request: Incoming) -> Count:
    """Predict a request's ``prompt_tokens``; nothing is stored. Every name is answered.

    With ``format`` the body is that provider's own request, with an additional member ``model``.
    """
    form = request.query(CountQuery).format
    body = await request.read_body()
    decoder: msgspec.json.Decoder[Any] = _count if PROVIDERS[form].is_chat_form else _provider_count
    wanted = await run_in_turn_if_large(len(body), decode_json, body, decoder)
    name = wanted.model if isinstance(wanted, CountRequest) else model_of(wanted)
    context = request.context
    models = await context.store.calibrations.correct(request.tenant, context.models, name)
    model = named_model(name, models, countable_model)
    started = time.perf_counter()
    size = LONG_BYTES if model.waits else len(body)
    counted = await run_in_turn_if_large(size, count_in_format, wanted, model, form)
    if model.limits.bytes is not None and len(body) > model.limits.bytes:
        counted = msgspec.structs.replace(counted, over_limits=["bytes", *counted.over_limits])
    context.watching.metrics.counted(time.perf_counter() - started)
    line = request.line
    line["model"] = context.watching.metrics.windows.names.known(counted.model)
    line["tokens"] = counted.tokens + (counted.text or 0)
    return counted


@get("/models", operation_id="listModels")
@documented("List models", "models")
async def models(request: Incoming) -> ModelList:
    """Every model known by name."""
    return ModelList([_info(model) for model in list_models(request.context.models)])


@get("/models/{model_id:path}", operation_id="getModel")
@documented("Read a model", "models")
async def model(request: Incoming, model_id: FromPath[str]) -> ModelInfo:
    """One model. The name may be dated or fine-tuned, or begin with a provider's name."""
    context = request.context
    try:
        found = find_model(model_id.lstrip("/"), context.models)
    except UnknownModel as unknown:
        raise NotFound(unknown.detail, members=unknown.members) from None
    calibration = await context.store.calibrations.read(request.tenant, found)
    info = msgspec.structs.replace(_info(found), destinations=destinations_of(found))
    if calibration != NO_REPORTS:
        figures = shown(found, calibration), outcome_of(found, calibration)
        info = msgspec.structs.replace(info, calibration=figures[0], predictions=figures[1])
    return info


def _info(model: Model) -> ModelInfo:
    known = model.context_window < NO_WINDOW
    return ModelInfo(
        id=model.id,
        provider=model.provider,
        encoding=model.counted_with,
        exact=model.exact,
        counting=model.counting,
        context_window=model.context_window if known else None,
        context_window_source=model.context_window_source,
        model_assumed=model.assumed,
        max_input_tokens=model.max_input_tokens if known else None,
        max_output_tokens=model.max_output_tokens,
        margin=model.margin,
        limits=model.limits,
        prices=prices_of(model),
        prompt_cache=prompt_cache_of(model),
        calibration=None,
    )


Billed = Annotated[int, Meta(ge=0, le=100_000_000)]


class Usage(msgspec.Struct, forbid_unknown_fields=True):
    """The input tokens that the provider billed, as ``prompt_tokens`` or ``input_tokens``; cached and written ones count."""

    model: Name
    window_tokens: Annotated[
        Annotated[int, Meta(ge=1, le=100_000_000)] | None,
        Meta(description="The window's `tokens.total`. The window's `receipt` tells it, too."),
    ] = None
    receipt: Annotated[
        ReceiptText | None, Meta(description="The window's `receipt`, in place of `window_tokens` and `correction`.")
    ] = None
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
    iterations: Annotated[
        Annotated[list[Iteration], Meta(max_length=1000)] | None,
        Meta(
            description="Anthropic's `usage.iterations`, unchanged. The first pass tells what the window cost; a compaction "
            "does not, and corrects nothing.",
        ),
    ] = None
    input_transformations: Annotated[
        Annotated[list[InputTransformation], Meta(max_length=100_000)] | None,
        Meta(
            description="The reply's `input_transformations`, unchanged: reasoning that was dropped. The bill is then of "
            "less than the window, and corrects nothing.",
        ),
    ] = None
    cache_miss_reason: Annotated[
        str | CacheMiss | None,
        Meta(
            description="Why the prompt cache did not serve: Anthropic's `diagnostics.cache_miss_reason`, or OpenAI's "
            "`prompt_cache_diagnostics`, unchanged."
        ),
    ] = None

    def billed_for_window(self) -> int | None:
        """The billed tokens of the window as it was sent; None if the bill does not tell. Raises BadRequest."""
        billed = self.billed()
        if drops_in(self.input_transformations or ()):
            return None
        return billed_for_window(self.iterations) if self.iterations else billed

    def billed(self) -> int:
        """The billed tokens. Raises BadRequest unless exactly one of the two names is given."""
        if self.prompt_tokens is not None and self.input_tokens is not None:
            detail = "Give prompt_tokens or input_tokens, and not both: they are two names of the same figure"
            raise BadRequest.at("#/prompt_tokens", detail)
        if self.prompt_tokens is None and self.input_tokens is None:
            detail = (
                "The billed tokens are missing, or null: copy the number from the provider's usage, which calls it "
                "prompt_tokens or input_tokens. Without a bill there is nothing to report"
            )
            raise BadRequest.at("#/prompt_tokens", detail)
        return self.prompt_tokens if self.prompt_tokens is not None else self.input_tokens or 0

    def from_cache(self) -> int | None:
        """Billed tokens that were read from or written to the prompt cache; None if the report has neither."""
        if self.cached_tokens is None and self.cache_write_tokens is None:
            return None
        return (self.cached_tokens or 0) + (self.cache_write_tokens or 0)


class Reported(msgspec.Struct, frozen=True, omit_defaults=True):
    """The error is predicted - billed, in tokens: negative if the prediction was too low.

    ``compared`` is false, and the error 0, where the bill does not tell what the window cost, because the provider compacted
    the conversation first, or dropped reasoning.
    """

    model: str
    error: int
    calibration: Calibration
    compared: bool = True


_usage = msgspec.json.Decoder(Usage)


@post("/conversations/{conversation_id:str}/usage", operation_id="reportUsage", status_code=200)
@documented("Report what the provider billed", "models", takes=Usage, etag=False, errors=(507,))
async def report_usage(request: Incoming) -> Reported:
    """Report the tokens that a provider billed for a window. Later windows of an estimated model are corrected by it."""
    context, target = request.context, request.target
    wanted = await request.decode(_usage)
    model = model_or_unknown(wanted.model, context.models)
    predicted, correction, rounded = _predicted(wanted, target, model)
    billed = wanted.billed_for_window()
    state = await context.store.reader.get(target)
    _refuse_implausible(wanted, billed, model, predicted, correction)
    error = 0 if billed is None else predicted - billed
    if not request.was_done:
        require_version(state, request.if_match())
    if billed is None or request.was_done:
        known = await context.store.calibrations.read(target.tenant, model)
    else:
        known = await context.store.calibrations.report(
            target.tenant,
            model,
            billed=billed,
            predicted=predicted,
            correction=correction,
            token=request.token(),
            rounded=rounded,
        )
    if not request.was_done:
        with best_effort:
            _record(context, wanted, model, billed, predicted, known)
            if (spans := context.watching.metrics.spans) is not None:
                read, written = wanted.cached_tokens, wanted.cache_write_tokens
                name = context.watching.metrics.windows.names.known(model.id)
                spans.billed(target, of_bill(name, billed=wanted.billed(), read=read, written=written))
    return Reported(model.id, error, shown(model, known), compared=billed is not None)


def _predicted(wanted: Usage, target: Target, model: Model) -> tuple[int, Correction | float | None, float]:
    """The window's tokens, its correction, and how many of its parts were rounded up: from the receipt, or from the report's
    own members, which tell its margin alone.

    Raises BadRequest unless one of the two is given, and Unprocessable for a receipt of another conversation.
    """
    if (wanted.window_tokens is None) == (wanted.receipt is None):
        detail = "Give the window's receipt, or its tokens.total as window_tokens, and not both"
        raise BadRequest.at("#/window_tokens", detail)
    if wanted.receipt is None:
        return wanted.window_tokens or 0, wanted.correction, 0.0
    receipt = read_receipt(wanted.receipt, "#/receipt")
    require_of(receipt, target, "#/receipt")
    if not receipt.total:
        raise Unprocessable.at("#/receipt", "This window had no tokens, so no bill can be compared with it")
    if wanted.correction is not None:
        raise BadRequest.at("#/correction", "The receipt tells the correction: leave it out")
    factor = model.margin if receipt.correction is None else receipt.correction
    return receipt.total, Correction(factor, receipt.constant), _messages_in(receipt)


def _messages_in(receipt: Receipt) -> float:
    """How many messages a window has, if they are as long as the conversation's on average."""
    then = receipt.then
    return min(then.length, receipt.total * then.length / max(1, then.tokens))


def _record(
    context: Context, wanted: Usage, model: Model, billed: int | None, predicted: int, known: ModelReports
) -> None:
    """Record a report in metrics and the log."""
    bills = context.watching.metrics.bills
    in_all = billed_in_all(wanted.iterations) if wanted.iterations else wanted.billed()
    bills.record_usage(model.id, predicted=predicted, billed=billed, in_all=in_all)
    if wanted.from_cache() is not None:
        read, written = wanted.cached_tokens or 0, wanted.cache_write_tokens or 0
        bills.record_cache(model, billed=wanted.billed(), read=read, written=written)
    bills.record_diagnosis(model.id, drops_in(wanted.input_transformations or ()), miss_in(wanted.cache_miss_reason))
    if billed is None:
        return
    if billed > predicted and not model.exact:
        _warn_of_short(context, model, billed, predicted)
    _warn_of_drift(context, model, known)


def _refuse_implausible(
    wanted: Usage, billed: int | None, model: Model, predicted: int, correction: Correction | float | None
) -> None:
    """Raise Unprocessable for implausible figures, which would spoil the correction of the model's next windows.

    Cached tokens may not exceed the bill: Anthropic's ``input_tokens`` do not include them.
    """
    known = correction if isinstance(correction, Correction) else Correction(correction or 1.0)
    if billed is not None and not is_plausible(billed, predicted, known, model.context_window):
        detail = (
            f"Over {MOST_RATIO:g} times the window's predicted tokens and {MOST_CONSTANT:,}, or {MOST_RATIO:g} times the "
            "model's context window"
        )
        place = "prompt_tokens" if wanted.input_tokens is None else "input_tokens"
        raise Unprocessable.at(f"#/{place}", detail)
    if (wanted.from_cache() or 0) > wanted.billed():
        place = "cached_tokens" if wanted.cached_tokens else "cache_write_tokens"
        detail = "Cached and written tokens are part of the bill: add them to Anthropic's input_tokens"
        raise Unprocessable.at(f"#/{place}", detail)


def shown(model: Model, known: ModelReports) -> Calibration:
    """The calibration in the form that clients read."""
    margin, constant = applied_correction(model, known)
    return Calibration(known.reports, round(known.mean_error, 2), known.worst_error, margin, constant)


def outcome_of(model: Model, known: ModelReports) -> PredictionOutcome | None:
    """How a model's predictions did, in the form that clients read."""
    outcome = known.outcome
    return (
        None if outcome is None else PredictionOutcome(**msgspec.structs.asdict(outcome), drifts=drifts(model, known))
    )


def _warn_of_short(context: Context, model: Model, billed: int, predicted: int) -> None:
    """Log that an estimate was too low. For an exact model a drift is logged instead."""
    _log.warning(
        "a request was billed above its prediction",
        model=context.watching.metrics.windows.names.known(published_name(model.id)),
        provider=model.provider,
        counting=model.counting,
        predicted=predicted,
        billed=billed,
        short_tokens=billed - predicted,
    )


def _warn_of_drift(context: Context, model: Model, known: ModelReports) -> None:
    """Log once that bills differ from an exact model's counts: its maker has changed something."""
    if model.exact and drifts(model, known) and model.id not in context.drifting:
        context.drifting.add(model.id)
        _log.warning(
            "an exact model drifts: it is billed otherwise than it is counted",
            model=context.watching.metrics.windows.names.known(published_name(model.id)),
            reports=known.reports,
            mean_error=round(known.mean_error, 2),
            worst_error=known.worst_error,
        )
