"""The dashboard: one page, built once from the files of ``page/``, that sends requests to this service only.

There is no build step. The page's content security policy allows its own style and script by their hashes, so a browser
runs no script that a message may contain.
"""

from base64 import b64encode
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from typing import NamedTuple

_SCRIPTS = ("base.js", "charts.js", "status.js", "deployment.js", "conversation.js", "main.js")


class DashboardPage(NamedTuple):
    """A page and its headers."""

    body: bytes
    headers: dict[str, str]


@lru_cache(maxsize=1)
def dashboard() -> DashboardPage:
    """The dashboard's page and headers, built at the first call."""
    folder = files("service.operations") / "page"
    style = (folder / "style.css").read_bytes()
    script = b"".join((folder / name).read_bytes() for name in _SCRIPTS)
    body = (folder / "page.html").read_bytes().replace(b"/*STYLE*/", style).replace(b"/*SCRIPT*/", script)
    policy = {
        "default-src": "'none'",
        "script-src": _digest(script),
        "style-src": _digest(style),
        "img-src": "data:",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    headers = {
        "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in policy.items()),
        "Cache-Control": "no-cache",
        "Referrer-Policy": "no-referrer",
        "X-Frame-Options": "DENY",
    }
    return DashboardPage(body, headers)


def _digest(text: bytes) -> str:
    return f"'sha256-{b64encode(sha256(text).digest()).decode()}'"
