"""Pictures and files of any size, and turns with them in each provider's form."""

import base64
import struct
import zlib
from functools import cache
from random import Random

from validators.logs import Group, Object

FORMS = ("openai", "responses", "anthropic", "gemini")


@cache
def png(width: int, height: int, size: int = 0) -> str:
    """Return the base64 of a PNG of about ``size`` bytes, whose header has these sides."""
    header = _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    padding = _chunk(b"tEXt", Random(size).randbytes(size)) if size else b""
    found = b"\x89PNG\r\n\x1a\n" + header + padding + _chunk(b"IDAT", zlib.compress(b"\0")) + _chunk(b"IEND", b"")
    return base64.b64encode(found).decode()


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


@cache
def pdf(pages: int) -> str:
    """Return the base64 of a file that has the pages of a PDF."""
    return base64.b64encode(b"%PDF-1.4\n" + b"<< /Type /Page >>\n" * pages).decode()


def shown(form: str, text: str, *pictures: str) -> Group:
    """Return a question with pictures, as base64 of PNG files."""
    parts = [_text(form, text), *(_picture(form, each) for each in pictures)]
    return form, [{"role": "user", _KEYS.get(form, "content"): parts}]


def attached(form: str, text: str, document: str) -> Group:
    """Return a question with a PDF, in base64."""
    url = f"data:application/pdf;base64,{document}"
    part: Object = {
        "openai": {"type": "file", "file": {"filename": "a.pdf", "file_data": url}},
        "responses": {"type": "input_file", "filename": "a.pdf", "file_data": url},
        "anthropic": {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": document},
        },
        "gemini": {"inlineData": {"mimeType": "application/pdf", "data": document}},
    }[form]
    return form, [{"role": "user", _KEYS.get(form, "content"): [_text(form, text), part]}]


def seen(form: str, call: str, picture: str) -> list[Group]:
    """Return a call of a tool ``look``, and its result: a screenshot with a word."""
    match form:
        case "openai":
            function = {"name": "look", "arguments": "{}"}
            made: Object = {"role": "assistant", "tool_calls": [{"id": call, "type": "function", "function": function}]}
            parts = [_text(form, "seen"), _picture(form, picture)]
            return [(form, [made]), (form, [{"role": "tool", "tool_call_id": call, "content": parts}])]
        case "responses":
            item = {"type": "function_call", "call_id": call, "name": "look", "arguments": "{}"}
            output = [_text(form, "seen"), _picture(form, picture)]
            return [(form, [item]), (form, [{"type": "function_call_output", "call_id": call, "output": output}])]
        case "anthropic":
            use = {"type": "tool_use", "id": call, "name": "look", "input": {}}
            given = {
                "type": "tool_result",
                "tool_use_id": call,
                "content": [_text(form, "seen"), _picture(form, picture)],
            }
            return [(form, [{"role": "assistant", "content": [use]}]), (form, [{"role": "user", "content": [given]}])]
    asked = {"functionCall": {"id": call, "name": "look", "args": {}}}
    answer = {"id": call, "name": "look", "response": {"output": "seen"}, "parts": [_picture(form, picture)]}
    return [
        (form, [{"role": "model", "parts": [asked]}]),
        (form, [{"role": "user", "parts": [{"functionResponse": answer}]}]),
    ]


def told(form: str, text: str) -> Group:
    """Return a reply."""
    role = "model" if form == "gemini" else "assistant"
    return form, [{"role": role, "parts": [{"text": text}]} if form == "gemini" else {"role": role, "content": text}]


_KEYS = {"gemini": "parts"}


def _text(form: str, text: str) -> Object:
    if form == "gemini":
        return {"text": text}
    return {"type": "input_text" if form == "responses" else "text", "text": text}


def _picture(form: str, data: str) -> Object:
    url = f"data:image/png;base64,{data}"
    return {
        "openai": {"type": "image_url", "image_url": {"url": url}},
        "responses": {"type": "input_image", "image_url": url, "detail": "auto"},
        "anthropic": {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}},
        "gemini": {"inlineData": {"mimeType": "image/png", "data": data}},
    }[form]
