"""POST /count, and the known models."""

import time
from typing import Any

import msgspec
from litestar import get, post
from litestar.params import FromPath

from service.api.body import LONG_BYTES, query_of, read_body, run_in_thread_if_large
from service.api.context import Req, context_of, line_of, tenant_of
from service.api.openapi.operation import documented
from service.api.schemas import Count, CountRequest, ModelInfo, ModelList, SchemaFormat
from service.api.usage import shown
from service.core.calibration import NO_REPORTS
from service.core.counting import count_request, plain_text_tokens
from service.core.messages import decode_json, encode_message, validate_message
from service.core.mistakes import invalid
from service.core.models import NO_WINDOW, Model, find_model, list_models
from service.core.parameters import LONGEST_NAME, CountFormat
from service.core.provider_requests import count_provider_request
from service.core.settings import FunctionDefinition, check_tools
from service.problems import BadRequest, NotFound, UnknownModel
from service.windows.asked import named_model

_count = msgspec.json.Decoder(CountRequest)
_provider_count = msgspec.json.Decoder(dict[str, Any])


class CountQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The format of the request in the body."""

    format: CountFormat = "openai"


@post("/count", operation_id="countTokens", status_code=200)
@documented("Count tokens", "models", query=CountQuery, takes=CountRequest, errors=(422,))
async def count(request: Req) -> Count:
    """Predict a request's ``prompt_tokens``; nothing is stored.

    With ``format`` the body is that provider's own request, with an additional member ``model``.
    """
    form = query_of(request, CountQuery).format
    body = await read_body(request)
    decoder: msgspec.json.Decoder[Any] = _count if form == "openai" else _provider_count
    wanted = await run_in_thread_if_large(len(body), decode_json, body, decoder)
    name = wanted.model if isinstance(wanted, CountRequest) else _model_of(wanted)
    context = context_of(request)
    models = await context.calibrations.correct(tenant_of(request), context.models, name)
    model = named_model(name, models, "#/model")
    started = time.perf_counter()
    size = LONG_BYTES if model.waits else len(body)
    counted = await run_in_thread_if_large(size, count_in_format, wanted, model, form)
    context.metrics.counted(time.perf_counter() - started)
    line = line_of(request)
    line["model"] = context.metrics.windows.label(counted.model)
    line["tokens"] = counted.tokens + (counted.text or 0)
    return counted


def _model_of(request: dict[str, Any]) -> str:
    """The member ``model`` of a body that is a provider's request. Raises BadRequest."""
    name = request.get("model")
    if isinstance(name, str) and 0 < len(name) <= LONGEST_NAME:
        return name
    raise BadRequest.at("#/model", f"The model's name, of 1 to {LONGEST_NAME} characters")


def count_in_format(wanted: CountRequest | dict[str, Any], model: Model, form: str) -> Count:
    """The count of a chat request, or of another provider's request. Raises InvalidEntry, BadRequest."""
    if isinstance(wanted, CountRequest):
        return count_of(wanted, model)
    return Count(**msgspec.structs.asdict(count_provider_request(form, wanted, model)), text=None)


def count_of(wanted: CountRequest, model: Model) -> Count:
    """The count of a chat request, in tokens. Raises InvalidEntry, BadRequest."""
    for index, message in enumerate(wanted.messages or ()):
        validate_message(message, f"/messages/{index}")
        encode_message(message)
    check_tools(wanted.tools)
    _check_beside(wanted)
    text = plain_text_tokens(wanted.text, model) if wanted.text is not None else None
    if wanted.messages is None:
        return Count(model.id, model.counted_with, model.exact, 0, 0, 0, [], text)
    counted = count_request(
        model,
        messages=wanted.messages,
        tools=wanted.tools,
        tool_choice=wanted.tool_choice,
        functions=wanted.functions,
        function_call=wanted.function_call,
        response_format=wanted.response_format,
        prediction=wanted.prediction,
    )
    return Count(**msgspec.structs.asdict(counted), text=text)


def _check_beside(wanted: CountRequest) -> None:
    """Raise BadRequest for legacy functions or a response format that providers refuse."""
    for index, function in enumerate(wanted.functions or ()):
        _checked(function, FunctionDefinition, f"/functions/{index}")
    if wanted.response_format is not None and wanted.response_format.get("type") == "json_schema":
        _checked(wanted.response_format, SchemaFormat, "/response_format")


def _checked(value: Any, kind: Any, pointer: str) -> None:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise invalid(error, pointer, BadRequest, of=kind, value=lambda: value) from None


@get("/models", operation_id="listModels")
@documented("List models", "models")
async def models(request: Req) -> ModelList:
    """Every model known by name."""
    return ModelList([_info(model) for model in list_models(context_of(request).models)])


@get("/models/{model_id:path}", operation_id="getModel")
@documented("Read a model", "models")
async def model(request: Req, model_id: FromPath[str]) -> ModelInfo:
    """One model. The name may be dated or fine-tuned, or begin with a provider's name."""
    context = context_of(request)
    try:
        found = find_model(model_id.lstrip("/"), context.models)
    except UnknownModel as unknown:
        raise NotFound(unknown.detail, members=unknown.members) from None
    calibration = await context.calibrations.read(tenant_of(request), found)
    info = _info(found)
    if calibration != NO_REPORTS:
        info = msgspec.structs.replace(info, calibration=shown(found, calibration))
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
        max_input_tokens=model.max_input_tokens if known else None,
        max_output_tokens=model.max_output_tokens,
        margin=model.margin,
        calibration=None,
    )
