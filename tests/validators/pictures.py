"""The media type of a picture, by its bytes, as Anthropic and Bedrock compare it with the one that is told."""

import base64

_BEGIN = {b"\x89PNG": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}


def belied(told: object, data: object) -> str:
    """Return the type that a picture's bytes have where another one is told; empty where they agree, or say nothing."""
    try:
        head = base64.b64decode(str(data)[:24].replace("-", "+").replace("_", "/") + "==")
    except ValueError:
        return ""
    found = "image/webp" if head[:4] == b"RIFF" and head[8:12] == b"WEBP" else ""
    found = found or next((kind for begins, kind in _BEGIN.items() if head.startswith(begins)), "")
    return found if found != told else ""
