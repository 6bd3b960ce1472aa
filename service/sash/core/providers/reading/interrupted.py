"""Calls that nobody answered: the calls of a chat message, and the message without some of them."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from sash.core.providers.form.provider import Provider
from sash.core.providers.messages.pieces import Object
from sash.core.providers.messages.sharing import restore, share
from sash.core.providers.openai.chat_mends import without_blanks


def calls_in(message: Mapping[str, Any]) -> list[Object]:
    """Return a message's tool calls, or its one call in the form before tool calls, which has no id."""
    calls: list[Object] = message.get("tool_calls") or [message["function_call"]]
    return calls


def without_calls(message: Mapping[str, Any], numbers: Collection[int], provider: Provider | None) -> Object:
    """Return a message without the calls of these numbers, also in its member ``native``, which is of ``provider``."""
    chat = {name: value for name, value in message.items() if name not in ("tool_calls", "function_call", "native")}
    if left := [call for number, call in enumerate(message.get("tool_calls") or ()) if number not in numbers]:
        chat["tool_calls"] = left
    native = message.get("native")
    if native is None or provider is None:
        return chat
    own = list(_without(restore(message), set(numbers), provider))
    kept = {name: value for name, value in native.items() if name != "at"}
    return {**chat, "native": {**kept, "messages": [share(each, chat) for each in own]}}


def text_alone(message: Mapping[str, Any]) -> Object:
    """Return what an assistant's message said, as a message of its own: without calls, reasoning and provider's parts.

    Parts that are blank texts stay away, as several providers refuse them.
    """
    said: Object = {"role": message["role"], "content": message.get("content") or message.get("refusal") or ""}
    return without_blanks(said) | ({"name": message["name"]} if message.get("name") else {})


def _without(messages: list[Object], numbers: set[int], provider: Provider) -> Iterator[Object]:
    """Yield own messages without calls of these numbers, and without messages that had nothing else."""
    number = -1
    for message in messages:
        if provider.is_call(message):
            number += 1
            if number not in numbers:
                yield message
            continue
        changed = dict(message)
        for name, parts in message.items():
            if isinstance(parts, list):
                changed[name] = []
                for part in parts:
                    is_call = isinstance(part, dict) and provider.is_call(part)
                    number += is_call
                    if not (is_call and number in numbers):
                        changed[name].append(part)
        if changed == message or any(changed.get(name) for name in message if isinstance(message[name], list)):
            yield changed
