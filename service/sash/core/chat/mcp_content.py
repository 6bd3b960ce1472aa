"""Content blocks of MCP's tool results as parts of chat messages (modelcontextprotocol.io, schema 2025-11-25)."""

from typing import Any, Final

Object = dict[str, Any]

_SOUNDS: Final = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mp3": "mp3", "audio/mpeg": "mp3"}


def of_mcp(block: Any) -> Any:
    """Return the chat part of a picture, a sound, a resource or a link to one of MCP's; every other value as it is.

    >>> of_mcp({"type": "image", "data": "aGk=", "mimeType": "image/png"})
    {'type': 'image_url', 'image_url': {'url': 'data:image/png;base64,aGk='}}
    """
    match block:
        case {"type": "image", "data": str(data), "mimeType": str(kind)}:
            return {"type": "image_url", "image_url": {"url": _data_url(kind, data)}}
        case {"type": "audio", "data": str(data), "mimeType": str(kind)}:
            form = _SOUNDS.get(kind)
            return _sound(data, form) if form else _file(_data_url(kind, data))
        case {"type": "resource", "resource": {"uri": str(uri), "text": str(text)}}:
            return {"type": "text", "text": f"{uri}\n{text}"}
        case {"type": "resource", "resource": {"uri": str(uri), "blob": str(data), **more}}:
            told = more.get("mimeType")
            return _file(_data_url(told if isinstance(told, str) else "application/octet-stream", data), uri)
        case {"type": "resource_link", "uri": str(uri)}:
            name = block.get("name")
            return {"type": "text", "text": f"{name}: {uri}" if isinstance(name, str) and name else uri}
    return block


def _data_url(kind: str, data: str) -> str:
    return f"data:{kind};base64,{data}"


def _sound(data: str, form: str) -> Object:
    return {"type": "input_audio", "input_audio": {"data": data, "format": form}}


def _file(data: str, name: str = "") -> Object:
    return {"type": "file", "file": {"file_data": data} | ({"filename": name} if name else {})}
