"""The dashboard: one page, built once from the files of ``page/``, that sends requests to this service only.

There is no build step.
"""

import re
from base64 import b64encode
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from typing import NamedTuple

import msgspec

from sash.core.providers import PROVIDERS

_SCRIPTS = (
    "base.js",
    "charts.js",
    "status.js",
    "deployment.js",
    "conversations.js",
    "strip.js",
    "sides.js",
    "follow.js",
    "conversation.js",
    "main.js",
)


class ServedPage(NamedTuple):
    """A page and its headers."""

    body: bytes
    headers: dict[str, str]


@lru_cache(maxsize=1)
def dashboard() -> ServedPage:
    """The dashboard's page and headers, built at the first call."""
    folder = files("sash.operations") / "page"
    style = (folder / "style.css").read_bytes()
    script = b'"use strict";\nconst FORMATS = %b;\n' % msgspec.json.encode(list(PROVIDERS))
    script += b"".join((folder / name).read_bytes() for name in _SCRIPTS)
    return page_of((folder / "page.html").read_bytes().replace(b"/*STYLE*/", style).replace(b"/*SCRIPT*/", script))


def page_of(body: bytes, *, forms: str = "'none'") -> ServedPage:
    """Return the page and its headers. The content security policy allows only the page's own style and script, by their
    hashes, and forms that lead to ``forms``. So a browser never runs a script that is part of a message."""
    policy = (
        f"default-src 'none'; form-action {forms}; "
        f"script-src {_hash_of(b'script', body)}; style-src {_hash_of(b'style', body)}; img-src data:; "
        "connect-src 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
    headers = {
        "Content-Security-Policy": policy,
        "Cache-Control": "no-cache",
        "Referrer-Policy": "no-referrer",
        "X-Frame-Options": "DENY",
    }
    return ServedPage(body, headers)


def _hash_of(tag: bytes, body: bytes) -> str:
    """The policy's source for the page's one element ``tag``."""
    (text,) = re.findall(b"<%b>(.*?)</%b>" % (tag, tag), body, re.DOTALL)
    return f"'sha256-{b64encode(sha256(text).digest()).decode()}'"
