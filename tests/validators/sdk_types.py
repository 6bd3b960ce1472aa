"""The types of the providers' own SDKs, as judges of requests."""

from typing import Any

from anthropic.types.beta.message_create_params import MessageCreateParamsNonStreaming
from google.genai import types
from google.genai.interactions import CreateModelInteraction
from openai.types.chat import ChatCompletionMessageParam
from openai.types.responses import ResponseInputItemParam
from pydantic import TypeAdapter, ValidationError

from validators import converse, ollama

Object = dict[str, Any]

_CHAT: TypeAdapter[Any] = TypeAdapter(ChatCompletionMessageParam)
_ITEM: TypeAdapter[Any] = TypeAdapter(ResponseInputItemParam)
_CLAUDE: TypeAdapter[Any] = TypeAdapter(MessageCreateParamsNonStreaming)


def refused(form: str, model: str, request: Object) -> list[str]:
    """Return what the SDK has no type for; an empty list if it takes the request."""
    match form:
        case "openai" if not model.startswith("gpt-"):
            return []  # servers of OpenAI's form take more than its SDK has types for
        case "openai":
            return [why for each in request["messages"] for why in _unfit(_CHAT.validate_python, each)]
        case "responses":
            return [why for each in request["input"] for why in _unfit(_ITEM.validate_python, each)]
        case "anthropic":
            return _unfit(_CLAUDE.validate_python, {"model": model, "max_tokens": 1, **request})
        case "converse":
            return converse.refused_by_sdk(request, model)
        case "ollama":
            return ollama.refused_by_sdk(request)
        case "interactions":
            return _unfit(CreateModelInteraction.model_validate, {"model": model, **request})
    contents = [why for each in request["contents"] for why in _unfit(types.Content.model_validate, each)]
    return [*contents, *_unfit(types.GenerateContentConfig.model_validate, request["config"])]


def _unfit(read: Any, value: Object) -> list[str]:
    try:
        _complete(read(value))
    except ValidationError as error:
        return [f"{str(error)[:300]} in {value}"]
    return []


def _complete(value: Any) -> Any:
    """Read pydantic's lazy lists, which validate their members only then."""
    if isinstance(value, dict):
        return {name: _complete(each) for name, each in value.items()}
    if value is None or isinstance(value, str | int | float) or hasattr(value, "model_fields_set"):
        return value
    return [_complete(each) for each in value]
