"""Histories as screens have them: read page by page, put, and compared."""

from typing import Any

import httpx
from rigs.dialogue import every_page

Object = dict[str, Any]
SCREENS = "application/vnd.sash.screen+json"


async def shown(client: httpx.AsyncClient, conversation: str, *, form: str = "ui", **query: Any) -> list[Object]:
    """Return the whole history in a screen's form, page by page, in the order of its pages."""
    return await every_page(client, conversation, SCREENS, format=form, **query)


async def put(
    client: httpx.AsyncClient, conversation: str, messages: list[Object], *, form: str = "ui", **query: Any
) -> Object:
    """Have the log agree with a screen's chat, which must succeed."""
    path = f"/conversations/{conversation}/messages"
    answer = await client.put(path, json={"messages": messages}, params={"format": form, **query})
    assert answer.status_code in (200, 201), answer.text
    body: Object = answer.json()
    return body


def plain(messages: list[Object]) -> list[Object]:
    """The messages without what Sash tells of them."""
    found = []
    for message in messages:
        metadata = {name: each for name, each in message.get("metadata", {}).items() if name != "sash"}
        own = {name: each for name, each in message.items() if name != "metadata"}
        found.append({**own, "metadata": metadata} if metadata else own)
    return found
