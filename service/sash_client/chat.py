"""Functions with which adapters write and read chat messages."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any


def kept_in(entry: Mapping[str, Any] | None, name: str) -> Any:
    """The value under ``name`` in the entry's metadata; None without an entry, or if another program appended it."""
    return ((entry or {}).get("metadata") or {}).get(name)


def assistant(
    text: str | None, calls: Iterable[tuple[str, str, str]] = (), thoughts: Iterable[tuple[str, str | None]] = ()
) -> dict[str, Any]:
    """A reply with its text, calls (id, name, arguments) and thoughts (text, signature), which are counted separately."""
    functions = [
        {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}
        for identity, name, arguments in calls
    ]
    thinking = [{"type": "thinking", "thinking": text, "signature": signature} for text, signature in thoughts]
    chat: dict[str, Any] = {"role": "assistant", "content": text}
    return chat | ({"tool_calls": functions} if functions else {}) | ({"thinking_blocks": thinking} if thinking else {})


def file_part(data_url: str, name: str) -> dict[str, Any]:
    """The part of a file: an image, audio that chat completions take, or a document."""
    head, _, data = data_url.partition(";base64,")
    kind = head.removeprefix("data:")
    if kind.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": data_url}}
    if kind in {"audio/wav", "audio/mp3", "audio/mpeg"}:
        return {"type": "input_audio", "input_audio": {"data": data, "format": "wav" if kind == "audio/wav" else "mp3"}}
    return {"type": "file", "file": {"file_data": data_url, "filename": name}}


def text_of(chat: Mapping[str, Any]) -> str:
    """The text of a message, without its other parts."""
    content = chat.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text") or "" for part in content)


def calls_of(chat: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Id, name and arguments of each call of a function."""
    for call in chat.get("tool_calls") or ():
        if function := call.get("function"):
            yield call["id"], function["name"], function["arguments"]


def parts_of(chat: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The parts of a user message, each as ``("text", text)`` or ``("url", URL)``; the URL may be a data URL."""
    content = chat.get("content") or ""
    for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
        match part:
            case {"image_url": {"url": url}} | {"file": {"file_data": url}}:
                yield "url", url
            case {"input_audio": {"data": data, "format": kind}}:
                yield "url", f"data:audio/{kind};base64,{data}"
            case _:
                yield "text", part.get("text") or ""
