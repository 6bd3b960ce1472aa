"""GET …/media/{digest}: a picture, a file or a sound of a conversation."""

import re

from litestar import Response, get
from litestar.params import FromPath

from sash.api.headers import etag, header
from sash.api.incoming import Incoming, run_in_turn_if_large
from sash.api.openapi.operation import ANY_TYPE, documented
from sash.core.stored.split_media import Text, content_of
from sash.problems import NotFound, RangeNotSatisfiable

_DIGEST = re.compile(r"[0-9a-f]{32}")
_RANGE = re.compile(r"bytes=(?:(\d{1,18})-(\d{0,18})|-(\d{1,18}))")
_SAFE = re.compile(r"image/(?:png|jpeg|gif|webp|avif)|(?:audio|video)/[a-z0-9.+-]+")
"""Types that a browser may show. It would run the scripts of others, such as SVG."""


@get("/conversations/{conversation_id:str}/media/{digest:str}", operation_id="getMedia")
@documented(
    "Read a picture or a file",
    "messages",
    gives=bytes,
    gives_types=ANY_TYPE,
    also=(206, "The part that Range names."),
    errors=(410, 416),
)
async def get_media(request: Incoming, digest: FromPath[str]) -> Response[bytes]:
    """A picture, a file or a sound that a message of the conversation has, by the ``digest`` that pages show; 410 if the
    storage has lost it."""
    target, context = request.target, request.context
    if not _DIGEST.fullmatch(digest):
        raise NotFound("The conversation has no such picture or file.")
    about = await context.store.media.about(target, bytes.fromhex(digest))
    headers = {
        "ETag": etag(digest),
        "Accept-Ranges": "bytes",
        "Content-Type": about.type,
        "Content-Disposition": f'{"inline" if _SAFE.fullmatch(about.type) else "attachment"}; filename="{digest[:12]}"',
        "Content-Security-Policy": "sandbox",
    }
    if request.is_known(digest):
        return Response(b"", status_code=304, headers=headers)
    await request.exchange.make_room(2 * about.size)
    text = await context.store.media.text(target, about)
    content = await run_in_turn_if_large(len(text), _content, text, about.is_base64)
    first, last = _part(request, digest, len(content))
    if (first, last) == (0, len(content) - 1):
        return Response(content, headers=headers)
    headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
    return Response(content[first : last + 1], status_code=206, headers=headers)


def _content(text: Text, is_base64: bool) -> bytes:  # noqa: FBT001 - an argument of a thread
    return content_of(text, is_base64=is_base64)


def _part(request: Incoming, digest: str, size: int) -> tuple[int, int]:
    """The first and last byte that Range asks for; all bytes for several ranges, or a state that has changed (If-Range).

    Raises RangeNotSatisfiable.
    """
    whole = 0, size - 1
    found = _RANGE.fullmatch((header(request.exchange.headers, b"range") or "").strip())
    if found is None or header(request.exchange.headers, b"if-range") not in (None, etag(digest)):
        return whole
    first, last, suffix = found.groups()
    if suffix is not None:
        first, last = max(0, size - int(suffix)), size - 1
        empty = not int(suffix)
    else:
        first, last = int(first), min(int(last), size - 1) if last else size - 1
        empty = first >= size
        if not empty and last < first:
            return whole  # no range: RFC 9110 wants it ignored
    if empty:
        raise RangeNotSatisfiable(
            f"The picture or file has {size} bytes.", headers={"Content-Range": f"bytes */{size}"}
        )
    return first, last
