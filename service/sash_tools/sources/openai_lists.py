"""Read lists as OpenAI's API gives them: items of a conversation, and messages of an Assistants thread.

``GET /v1/conversations/{id}/items`` and ``GET /v1/threads/{id}/messages`` answer ``{"object": "list", "data": […],
"has_more": …}``, the newest first unless the call asked for another order. ``POST /v1/conversations`` takes
``{"items": […]}``, the oldest first. The answer does not say its order, so it is read off: from the times, from calls and
their results, or from a reply that stands before its question. Where none of these says it, ``--order`` must.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sash.commands.source_error import SourceError
from sash_client.ids import safe_id
from sash_tools.sources.agents_sdk import is_item
from sash_tools.sources.conversation import SourceConversation
from sash_tools.sources.provider_files import native_entries

_RESPONSES: Final = "responses"
_OUTPUT: Final = "_output"
_MORE: Final = "further pages, which has_more tells of"
Objects = list[dict[str, Any]]


def is_thread_message(value: Any) -> bool:
    """Return whether a JSON value is a message of an Assistants thread."""
    return isinstance(value, dict) and value.get("object") == "thread.message"


def listed_in(value: Mapping[str, Any]) -> Objects | None:
    """Return the items or messages of a list of OpenAI's; None for another object."""
    is_page = value.get("object") == "list" or "has_more" in value
    found = value.get("data") if is_page else value.get("items")
    if not isinstance(found, list) or not found or not all(isinstance(each, dict) for each in found):
        return None
    is_known = all(is_thread_message(each) or is_item(each) or {"role", "content"} <= each.keys() for each in found)
    return found if is_known else None


def read_list(value: Mapping[str, Any], listed: Objects, stem: str, name: str, order: str) -> list[SourceConversation]:
    """Return the conversations of a list, and count pages that it lacks as left out. Raises SourceError."""
    read = read_values(listed, stem, name, order if "data" in value or order != "auto" else "given")
    if value.get("has_more") is True:
        for each in read:
            each.left_out[_MORE] = 1
    return read


def read_values(listed: Objects, stem: str, name: str, order: str) -> list[SourceConversation]:
    """Return one conversation, or one for each thread that the messages name. Raises SourceError.

    ``order`` is ``oldest``, ``newest``, ``auto`` for a list as the API answers it, and ``given`` for one that was written.
    """
    threads: dict[str, Objects] = {}
    for value in listed:
        thread = value.get("thread_id") if is_thread_message(value) else None
        threads.setdefault(thread if isinstance(thread, str) and thread else stem, []).append(value)
    return [
        _thread(held, identity, name, order) if any(map(is_thread_message, held)) else _items(held, stem, name, order)
        for identity, held in threads.items()
    ]


def _items(items: Objects, stem: str, name: str, order: str) -> SourceConversation:
    placed = [
        {"id": safe_id(item["id"]), "message": item} if isinstance(item.get("id"), str) and item["id"] else item
        for item in _oldest_first(items, name, order)
    ]
    return SourceConversation(
        id=safe_id(stem), settings={}, entries=native_entries(placed, name, _RESPONSES), left_out={}
    )


def _thread(messages: Objects, identity: str, name: str, order: str) -> SourceConversation:
    entries, left_out = [], Counter[str]()
    for place, message in enumerate(_oldest_first(messages, name, order), 1):
        try:
            content = _content(message, left_out)
            made = {"id": safe_id(message["id"]), "message": {"role": message["role"], "content": content}}
        except (AttributeError, KeyError, TypeError):
            raise SourceError(f"{name}: message {place} is not as the Assistants API lists messages") from None
        if content:
            entries.append(made)
        else:
            left_out["messages without content"] += 1
    return SourceConversation(id=safe_id(identity), settings={}, entries=entries, left_out=dict(left_out))


def _content(message: Mapping[str, Any], left_out: Counter[str]) -> Any:
    """Return the content of a thread's message: text alone, or a user's parts."""
    parts: Objects = []
    is_user = message["role"] == "user"
    if attached := message.get("attachments"):
        left_out["attachments"] += len(attached)
    for part in message["content"]:
        match part:
            case {"type": "text", "text": {"value": str(text)}}:
                parts.append({"type": "text", "text": text})
                if noted := part["text"].get("annotations"):
                    left_out["annotations"] += len(noted)
            case {"type": "image_file", "image_file": {"file_id": str(file)}} if is_user:
                parts.append({"type": "file", "file": {"file_id": file}})
            case {"type": "image_url", "image_url": {"url": str()} as image} if is_user:
                parts.append({"type": "image_url", "image_url": image})
            case _:
                left_out[f"{part['type']} of a thread's message"] += 1
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def _oldest_first(listed: Objects, name: str, order: str) -> Objects:
    """Return the list with the oldest first. Raises SourceError where ``auto`` finds nothing that says the order."""
    newest_first = order == "newest" if order in ("newest", "oldest") else _is_newest_first(listed)
    if newest_first is None and order == "auto" and len(listed) > 1:
        raise SourceError(
            f"{name}: is a list of OpenAI's API, and nothing in it says its order: "
            "write --order newest for one as the API lists by default, or --order oldest for one with order=asc"
        )
    return listed[::-1] if newest_first else listed


def _is_newest_first(listed: Objects) -> bool | None:
    """Return whether the newest comes first; None where neither times, calls nor a reply before its question say it."""
    first, last = listed[0].get("created_at"), listed[-1].get("created_at")
    if isinstance(first, int | float) and isinstance(last, int | float) and first != last:
        return first > last
    places: dict[Any, dict[bool, int]] = {}
    for place, item in enumerate(listed):
        if isinstance(item.get("call_id"), str):
            places.setdefault(item["call_id"], {})[str(item.get("type")).endswith(_OUTPUT)] = place
    for call in places.values():
        if len(call) == 2:
            return call[True] < call[False]
    said: Sequence[Any] = [item["role"] for item in listed if item.get("role") in ("user", "assistant")]
    return True if said and said[0] == "assistant" and said[-1] == "user" else None
