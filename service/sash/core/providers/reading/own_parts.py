"""Parts of providers' own messages as the service asks for them: which are reasoning, and a message without them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sash.core.providers import PROVIDERS
from sash.core.providers.form.provider import Provider
from sash.core.providers.messages.pieces import Object
from sash.core.providers.messages.reasoning_members import MEMBERS, SIGNED


def parts_of(provider: Provider, messages: Iterable[Mapping[str, Any]]) -> Iterator[Any]:
    """Yield the blocks, parts or items of a provider's messages. A thought beside a message's parts is one of them."""
    for given in messages:
        beside = _reasoning_beside(given, provider)
        yield from ({name: given[name]} for name in beside)
        message = {name: value for name, value in given.items() if name not in beside} if beside else given
        parts = message.get(provider.shape.parts) if message.get("type") in (None, "", "message") else None
        if isinstance(parts, list):
            yield from parts
        elif parts is not None:
            yield parts
        else:
            yield message


def _reasoning_beside(message: Mapping[str, Any], provider: Provider) -> list[str]:
    """The members of a message, beside its parts, that are reasoning."""
    reasoning = provider.kinds.reasoning
    if not reasoning.members:
        return []
    return [name for name, value in message.items() if reasoning.has_member(name, value)]


def is_reasoning(part: Any, provider: Provider) -> bool:
    """Return whether a block, an item or a part holds only reasoning."""
    return isinstance(part, dict) and provider.kinds.reasoning.has(part) and not provider.is_call(part)


def without_reasoning(message: Mapping[str, Any], *, seals: bool = True) -> dict[str, Any]:
    """Return the message without its reasoning, also in its member ``native``. With ``seals``, also without signatures."""
    gone = MEMBERS if seals else MEMBERS - {SIGNED}
    left = {name: value for name, value in message.items() if name not in gone}
    if seals and (calls := left.get("tool_calls")):
        left["tool_calls"] = [{name: value for name, value in call.items() if name != SIGNED} for call in calls]
    if native := left.get("native"):
        provider = PROVIDERS[native["format"]]
        left["native"] = {**native, "messages": _without_reasoning(native["messages"], provider, seals=seals)}
    return left


def _without_reasoning(own: list[Object], provider: Provider, *, seals: bool) -> list[Object]:
    """Return a provider's messages without reasoning; a thought is never shortened.

    Where the provider stores items, those of the reply then lose their ids: it refuses one without the reasoning before it.
    """
    messages = [left for message in own for left in _without_parts(message, provider, seals=seals)]
    if provider.kinds.stored and len(messages) < len(own):
        return [{name: value for name, value in item.items() if name != "id"} for item in messages]
    return messages


def _without_parts(message: Object, provider: Provider, *, seals: bool) -> list[Object]:
    """Return the message without its reasoning, in a list; an empty list if it had nothing else."""
    if message.get("role") == "user":  # it has none of its own
        return [message]
    if beside := _reasoning_beside(message, provider):
        return [{name: value for name, value in message.items() if name not in beside}]
    if is_reasoning(message, provider):
        return []
    key = provider.shape.parts
    parts = message.get(key)
    if not isinstance(parts, list):
        return [message]
    left = [_unsigned(part, provider) if seals else part for part in parts if not is_reasoning(part, provider)]
    return [{**message, key: left}] if left or not parts else []


def _unsigned(part: Any, provider: Provider) -> Any:
    """Return a part without its signature; a part with nothing else becomes an empty text."""
    seals = provider.kinds.seals
    if not isinstance(part, dict) or seals.isdisjoint(part):
        return part
    return {name: value for name, value in part.items() if name not in seals} or provider.shape.text_part("")
