"""What providers refuse because a request is too large: bytes, pictures, pages, tools, messages, names of tools.

The figures are the vendors' own: platform.claude.com (api/overview, build-with-claude/vision and pdf-support),
developers.openai.com (guides/images-vision), ai.google.dev (file-input-methods, image-understanding). The request is read as
it is sent. Nothing of the service is called.
"""

import base64
import json
import re
import struct
from collections.abc import Iterator
from typing import Any

Object = dict[str, Any]

_IMAGES = ("image", "input_image", "computer_screenshot", "image_url", "image_generation_call")
_INLINE = ("inlineData", "inline_data", "fileData", "file_data")
_PAGE = re.compile(rb"/Type\s*/Page(?![a-zA-Z])")
_PNG = b"\x89PNG\r\n"
_LONGEST_WINDOW = re.compile(r"claude-(opus|sonnet|fable|mythos)-(4-[6-9]|[5-9])")
_CLAUDE = {
    "bytes": 32_000_000,
    "images": 100,
    "image_bytes": 10_000_000,
    "image_side": 8_000,
    "many_images": 20,
    "many_images_side": 2_000,
    "pages": 100,
    "messages": 100_000,
    "tool_name": 128,
}
VENDORS: dict[str, Object] = {
    "claude": _CLAUDE,
    "claude, a million tokens": {**_CLAUDE, "images": 600, "pages": 600},
    "openai": {"bytes": 512_000_000, "images": 1_500, "tools": 128, "tool_name": 64},
    "gemini": {"bytes": 100_000_000, "images": 3_600, "pages": 1_000, "tools": 512, "tool_name": 128},
}


def of_model(model: str) -> Object:
    """Return the limits of a model's vendor, by its name; nothing for another's."""
    if "claude" in model:
        return VENDORS["claude, a million tokens" if _LONGEST_WINDOW.search(model) else "claude"]
    if re.match(r"(gpt-|o\d)", model):
        return VENDORS["openai"]
    return VENDORS["gemini"] if model.startswith("gemini") else {}


def over(request: Object, most: Object) -> list[str]:
    """Return what a request is over, each with its figure."""
    pictures = list(_pictures(request))
    sides = [_side(data) for data in pictures]
    is_many = "many_images" in most and len(pictures) > most["many_images"]
    figures = {
        "bytes": len(json.dumps(request, ensure_ascii=False, separators=(",", ":")).encode()),
        "images": len(pictures),
        "image_bytes": max((len(data) for data in pictures if "://" not in data[:40]), default=0),
        "image_side": max(sides, default=0),
        "many_images_side": max(sides, default=0) if is_many else 0,
        "pages": sum(_pages(text) for text in _strings(request)),
        "tools": len(list(_tools(request))),
        "messages": len(request.get("messages") or request.get("input") or request.get("contents") or ()),
        "tool_name": max(map(len, _tools(request)), default=0),
    }
    return [
        f"{name}: {figure} over {most[name]}" for name, figure in figures.items() if figure > most.get(name, figure)
    ]


def pictures_in(request: Object) -> int:
    """Return how many pictures a request has."""
    return len(list(_pictures(request)))


def _pictures(value: Any) -> Iterator[str]:
    """Yield the base64, the data URL or the address of each picture."""
    match value:
        case {"type": "image_generation_call", "result": str(data)}:
            yield data
        case {"type": str(kind), **rest} if kind in _IMAGES:
            yield max(_strings(rest), key=len, default="")
        case dict():
            held = next((value[name] for name in _INLINE if isinstance(value.get(name), dict)), None)
            if held is not None and str(held.get("mimeType") or held.get("mime_type")).startswith("image/"):
                yield max(_strings(held), key=len, default="")
            for name, each in value.items():
                if name not in _INLINE:
                    yield from _pictures(each)
        case list():
            for each in value:
                yield from _pictures(each)


def _strings(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for each in value.values():
                yield from _strings(each)
        case list():
            for each in value:
                yield from _strings(each)


def _side(data: str) -> int:
    """The longer side of a PNG; 0 of others."""
    head = data.partition(";base64,")[2] if data.startswith("data:") else data
    try:
        found = base64.b64decode(head[:64].replace("-", "+").replace("_", "/"))
    except ValueError:
        return 0
    return max(struct.unpack(">II", found[16:24])) if found.startswith(_PNG) and len(found) >= 24 else 0


def _pages(text: str) -> int:
    """The pages of a PDF in base64."""
    data = text.partition(";base64,")[2] if text.startswith("data:application/pdf") else text
    if not data.startswith("JVBERi"):
        return 0
    return len(_PAGE.findall(base64.b64decode(data.replace("-", "+").replace("_", "/"))))


def _tools(request: Object) -> Iterator[str]:
    """Yield the tools' names."""
    config = request.get("config") or {}
    for tool in request.get("tools") or config.get("tools") or ():
        for each in tool.get("functionDeclarations") or [tool]:
            held = each.get(str(each.get("type"))) if isinstance(each.get(str(each.get("type"))), dict) else each
            yield str(held.get("name") or "")
