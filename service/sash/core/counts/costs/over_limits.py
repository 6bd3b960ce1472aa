"""The limits of a model's provider that a request is over, beside the number of its tokens."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sash.core.counts.measures.measures import Measure
from sash.core.counts.measures.media_facts import IMAGE, Medium
from sash.core.providers.form.request_limits import RequestLimits


def over_limits(measures: Sequence[Measure], tools: Sequence[Mapping[str, Any]], limits: RequestLimits) -> list[str]:
    """Return the names of the limits that a request of these messages and tools is over, except ``bytes``."""
    media = [medium for each in measures if each.extra is not None for medium in each.extra.media]
    images = [medium for medium in media if medium.kind == IMAGE]
    side = max((medium.side for medium in images), default=0)
    is_many = limits.many_images is not None and len(images) > limits.many_images
    figures = {
        "images": len(images),
        "image_bytes": max((each.size for each in images if not each.is_linked), default=0),
        "image_side": side,
        "many_images_side": side if is_many else 0,
        "pages": _pages(media),
        "tools": len(tools),
        "messages": len(measures),
        "tool_name": max(map(len, tool_names(tools)), default=0),
    }
    return [name for name, most in figures.items() if (limit := getattr(limits, name)) is not None and most > limit]


def _pages(media: Sequence[Medium]) -> int:
    return sum(medium.pages for medium in media)


def tool_names(tools: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the names of tools that have one."""
    return (name for name in map(tool_name, tools) if name is not None)


def tool_name(tool: Mapping[str, Any]) -> str | None:
    """Return a tool's name, of a function or of a custom tool; None if it has none."""
    body = tool.get(str(tool.get("type", "function")))
    name = body.get("name") if isinstance(body, Mapping) else None
    return name if isinstance(name, str) else None
