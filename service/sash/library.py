"""The library: windows and counts in your own process, without a server, a store or a network.

::

    from sash import window, count

    found = window(messages, model="gpt-4o-mini", reserve=1024)
    client.chat.completions.create(model="gpt-4o-mini", **found.request)

``POST /window`` and ``POST /count`` of the service go the same way: ``windows/stateless.py`` and ``windows/counted.py``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from sash.core.chat.json_bodies import decode_json
from sash.core.providers import CHAT, PROVIDERS
from sash.windows.asked import named_model
from sash.windows.counted import Count, CountRequest, count_in_format, model_of
from sash.windows.head import WindowHead
from sash.windows.request import decode_request
from sash.windows.stateless import window_of_request

_NO_MODELS: Mapping[str, Any] = {}
_count = msgspec.json.Decoder(CountRequest)
_provider_count = msgspec.json.Decoder(dict[str, Any])


class WindowAnswer(WindowHead, frozen=True, kw_only=True, omit_defaults=True):
    """A window: the members of the service's answer, and ``request``, which the provider's SDK takes beside the model.

    Sizes are in tokens. Members of members are attributes, too: ``window.tokens.total``.
    """

    request: dict[str, Any]


class _Sent(msgspec.Struct):
    request: dict[str, Any]


_sent = msgspec.json.Decoder(_Sent)


def window(
    messages: Sequence[Any],
    *,
    model: str,
    system: str | None = None,
    tools: Sequence[Any] | None = None,
    few_shots: Sequence[Any] | None = None,
    format: str = CHAT,  # noqa: A002 - the parameter's name in the service
    input_format: str = CHAT,
    **parameters: Any,
) -> WindowAnswer:
    """Return the newest messages that fit a model, ready to send in ``format``.

    ``messages`` are in the form ``input_format``: JSON objects, or objects of a provider's SDK. Each may be an entry with
    ``pinned`` or ``grounding``. ``parameters`` are those of ``POST /window``, such as ``reserve`` and ``max_tokens``, in
    tokens.

    Raises the problems of the service, which are exceptions with ``detail``, ``errors`` and ``members``: BadRequest,
    Unprocessable, EntryConflict, UnknownModel, WindowDoesNotFit, FormatCannotCarry.
    """
    asked = {"model": model, "system": system, "tools": tools, "few_shots": few_shots, "format": format, **parameters}
    body = _encode({name: value for name, value in asked.items() if value is not None} | {"messages": messages})
    wanted, sent = decode_request(body, input_format)
    made, _ = window_of_request(wanted, _NO_MODELS, sent)
    head = {name: getattr(made.head, name) for name in WindowHead.__struct_fields__}
    return WindowAnswer(**head, request=_sent.decode(made.body).request)


def count(
    request: Mapping[str, Any],
    *,
    model: str,
    format: str = CHAT,  # noqa: A002 - the parameter's name in the service
) -> Count:
    """Return the predicted ``prompt_tokens`` of a provider's ``request`` in ``format``; of a chat request also by message.

    Raises BadRequest, InvalidEntry, UnknownModel.
    """
    decoder: msgspec.json.Decoder[Any] = _count if PROVIDERS[format].is_chat_form else _provider_count
    wanted = decode_json(_encode({**request, "model": model}), decoder)
    name = wanted.model if isinstance(wanted, CountRequest) else model_of(wanted)
    return count_in_format(wanted, named_model(name, _NO_MODELS), format)


def _encode(value: Any) -> bytes:
    return msgspec.json.encode(value, enc_hook=_plain)


def _plain(value: Any) -> Any:
    """Return an object of an SDK (a pydantic model) as JSON objects, without the members that nobody set.

    Raises TypeError for other objects.
    """
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise TypeError(f"{type(value).__name__} is no JSON, and no object of a provider's SDK")
    return dump(mode="json", exclude_none=True, by_alias=True)
