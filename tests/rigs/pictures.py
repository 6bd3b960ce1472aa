"""Messages with pictures, files and sounds over 8 KB, in the forms of each provider."""

import base64
import random
from functools import cache
from io import BytesIO
from typing import Any

from PIL import Image


@cache
def png(number: int, side: int = 90) -> bytes:
    """Return a picture of noise, which no compression makes smaller: a side of 90 has 24 KB."""
    image = Image.frombytes("RGB", (side, side), random.Random(number).randbytes(3 * side * side))
    written = BytesIO()
    image.save(written, "PNG")
    return written.getvalue()


def in_base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def picture_part(number: int, side: int = 90) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": "data:image/png;base64," + in_base64(png(number, side))}}


def pictured(text: str, *numbers: int, side: int = 90) -> dict[str, Any]:
    """Return a user's message with a text and pictures."""
    return {"role": "user", "content": [{"type": "text", "text": text}, *(picture_part(n, side) for n in numbers)]}


def blob(number: int, size: int = 20_000) -> bytes:
    """Return bytes of no known form."""
    return random.Random(-1 - number).randbytes(size)


def media_in(value: Any) -> list[dict[str, Any]]:
    """Return the facts of pictures and files that a page shows, in their order."""
    match value:
        case {"media": {"digest": str()} as facts, **rest}:
            return [facts, *media_in(list(rest.values()))]
        case dict():
            return media_in(list(value.values()))
        case list():
            return [facts for each in value for facts in media_in(each)]
        case _:
            return []
