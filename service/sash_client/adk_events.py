# mypy: disable-error-code="import-not-found,import-untyped,misc"
"""Converts events of the Google ADK to entries, and entries to events.

Windows are made from the chat messages of entries. An entry's metadata has the original event. If an event becomes several
messages, such as the results of parallel calls, the first has the event, and the others have its id.
"""

import base64
import json
from collections.abc import Iterable, Iterator
from typing import Any

from google.adk.events.event import Event
from google.genai.types import Blob, Content, FunctionCall, FunctionResponse, Part

from sash_client.chat import assistant, calls_of, file_part, kept_in, parts_of, text_of
from sash_client.client import Pair
from sash_client.ids import safe_id

METADATA = "adk"


def entry_id(event: Event, place: int) -> str:
    """The id of an event's entry."""
    return safe_id(f"{event.id}-{place}")


def to_entries(event: Event) -> Iterator[dict[str, Any]]:
    """The entries of an event. An event without content is an empty message.

    Raises ValueError for a part that a chat message cannot contain.
    """
    kept: Any = event.model_dump(mode="json", by_alias=True, exclude_none=True)
    for place, chat in enumerate(_chats(event) or [{"role": "assistant", "content": ""}]):
        yield {"id": entry_id(event, place), "message": chat, "metadata": {METADATA: kept}}
        kept = event.id


def _chats(event: Event) -> list[dict[str, Any]]:
    parts = (event.content and event.content.parts) or []
    results = [
        {
            "role": "tool",
            "tool_call_id": result.id or result.name,
            "content": json.dumps(result.response, ensure_ascii=False),
        }
        for part in parts
        if (result := part.function_response)
    ]
    rest = [part for part in parts if not part.function_response]
    if not rest:
        return results
    said = _model(rest) if event.content and event.content.role == "model" else _user(rest)
    return [*results, said]


def _model(parts: list[Part]) -> dict[str, Any]:
    text = "".join(part.text for part in parts if part.text and not part.thought)
    calls = [part.function_call for part in parts if part.function_call]
    thoughts = [part for part in parts if part.thought or part.thought_signature]
    return assistant(
        text or None,
        [
            (call.id or call.name or "", call.name or "", json.dumps(call.args or {}, ensure_ascii=False))
            for call in calls
        ],
        [(part.text or "", base64.b64encode(part.thought_signature or b"").decode()) for part in thoughts],
    )


def _user(parts: list[Part]) -> dict[str, Any]:
    said = list(map(_said, parts))
    return {"role": "user", "content": said[0]["text"] if len(said) == 1 and said[0]["type"] == "text" else said}


def _said(part: Part) -> dict[str, Any]:
    if part.text is not None:
        return {"type": "text", "text": part.text}
    if part.inline_data and part.inline_data.mime_type:
        data = base64.b64encode(part.inline_data.data or b"").decode()
        return file_part(f"data:{part.inline_data.mime_type};base64,{data}", part.inline_data.display_name or "file")
    if part.file_data and part.file_data.file_uri and (part.file_data.mime_type or "").startswith("image/"):
        return {"type": "image_url", "image_url": {"url": part.file_data.file_uri}}
    raise ValueError(f"{', '.join(part.model_dump(exclude_none=True))} has no place in a chat message")


def to_events(pairs: Iterable[Pair]) -> list[Event]:
    """The original events of unchanged messages, and new events for messages that the window made or changed."""
    events: list[Event] = []
    for chat, entry in pairs:
        kept = kept_in(entry, METADATA)
        if isinstance(kept, str) and events and events[-1].id == kept:
            continue
        events.append(Event.model_validate(kept) if isinstance(kept, dict) else _event(chat))
    return events


def _event(chat: dict[str, Any]) -> Event:
    match chat["role"]:
        case "assistant":
            functions = [
                FunctionCall(id=call, name=name, args=json.loads(given)) for call, name, given in calls_of(chat)
            ]
            calls = [Part(function_call=function) for function in functions]
            said = [Part(text=text)] if (text := text_of(chat)) else []
            return Event(author="model", content=Content(role="model", parts=[*said, *calls]))
        case "tool":
            call = chat["tool_call_id"]
            response = FunctionResponse(id=call, name=call, response={"result": text_of(chat)})
            return Event(author="model", content=Content(role="user", parts=[Part(function_response=response)]))
        case _:
            return Event(author="user", content=Content(role="user", parts=[_part(*part) for part in parts_of(chat)]))


def _part(kind: str, value: str) -> Part:
    head, _, data = value.partition(";base64,")
    if kind == "text" or not data:
        return Part(text=value)
    return Part(inline_data=Blob(mime_type=head.removeprefix("data:"), data=base64.b64decode(data)))
