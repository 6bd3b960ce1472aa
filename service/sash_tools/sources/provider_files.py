"""Read providers' own messages in a file: a request as it was sent, its list of messages, or one message on each line."""

from os import environ
from pathlib import Path
from typing import Any

import msgspec

from sash.commands.source_error import SourceError
from sash.core.providers import PROVIDERS
from sash.core.providers.reading.native import read_request
from sash.core.providers.reading.native_entries import as_entry, read_entries
from sash.problems import Problem
from sash.variables import words
from sash_client.ids import safe_id
from sash_tools.sources.conversation import SourceConversation
from sash_tools.sources.values import values_in


def native_conversations_in(data: bytes, name: str, form: str) -> list[SourceConversation]:
    """Return the conversations of a file with a provider's own messages. Raises SourceError."""
    stem = Path(name).stem or "conversation"
    values, lines = values_in(data, name)
    if any(isinstance(value, dict) and value.get("object") == "list" and "data" in value for value in values):
        raise SourceError(f"{name}: is a list of OpenAI's API, which is read without --format")
    if not lines and isinstance(values[0], list):
        values = values[0]
    if values and all(_list_of(value, form) is not None for value in values):
        many = len(values) > 1
        return [_request(value, f"{stem}-{n}" if many else stem, name, form) for n, value in enumerate(values, 1)]
    return [SourceConversation(id=safe_id(stem), settings={}, entries=native_entries(values, name, form), left_out={})]


def _list_of(value: Any, form: str) -> list[Any] | None:
    """Return the messages of a whole request; None where the value is not a request."""
    if not isinstance(value, dict):
        return None
    found = value.get(PROVIDERS[form].shape.messages, value.get("entries", value.get("messages")))
    if isinstance(found, str):  # a prompt alone
        return [{"role": "user", "content": found}]
    return found if isinstance(found, list) else None


def _request(value: dict[str, Any], stem: str, name: str, form: str) -> SourceConversation:
    try:
        around = read_request(form, {**value, PROVIDERS[form].shape.messages: []})
    except Problem as problem:
        raise SourceError(f"{name}: {problem.detail}") from None
    texts = [_text(message["content"]) for message in around.messages]
    settings = {
        "system": "\n\n".join(texts) or None,
        "tools": around.tools or None,
        "tool_choice": around.tool_choice if around.tools else None,
        "model": value.get("model"),
    }
    left_out = {"a provider's own tools": len(around.hosted)} if around.hosted else {}
    return SourceConversation(
        id=safe_id(value["id"]) if isinstance(value.get("id"), str) and value["id"] else safe_id(stem),
        settings={key: held for key, held in settings.items() if held is not None},
        entries=native_entries(_list_of(value, form) or [], name, form),
        left_out=left_out,
    )


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def _allowed() -> tuple[str, ...]:
    """Return the kinds of items that SASH_ALLOW_ITEMS names, as the service reads it. Raises SourceError."""
    given = environ.get("SASH_ALLOW_ITEMS", "").strip()
    try:
        return words(given) if given else ()
    except ValueError as error:
        raise SourceError(f"SASH_ALLOW_ITEMS is {given!r}: write {error}") from None


def native_entries(values: list[Any], name: str, form: str) -> list[dict[str, Any]]:
    """Return entries with chat messages; one without an id gets an id from its place."""
    named = []
    for place, value in enumerate(values, 1):
        if not isinstance(value, dict):
            raise SourceError(f"{name}: element {place} is no message")
        entry = as_entry(form, value)
        entry = entry if "message" in entry else {"message": entry}
        named.append({"id": f"import-{place}"} | entry)
    try:
        read = read_entries(form, named, "", allowed=_allowed())
    except Problem as problem:
        raise SourceError(f"{name}: {problem.detail}") from None
    return [{field: held for field, held in msgspec.to_builtins(entry).items() if held} for entry in read.entries]
