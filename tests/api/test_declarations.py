"""Each handler decodes the fields that it declares; nothing else checks that, as the busiest handlers read raw bytes."""

from typing import Any

import httpx
import msgspec
import pytest
from rigs.dialogue import append, user

from sash.api.middleware.paths import template_of
from sash.api.openapi.operation import operation_of
from sash.app import ROUTES
from sash.windows.counted import FreeMembers

BODIES = {handler: operation_of(handler).takes for handler in ROUTES if isinstance(operation_of(handler).takes, type)}
QUERIES = {handler: operation_of(handler).query for handler in ROUTES if operation_of(handler).query}
WRONG = [[True]]
"""A value that no member of any body takes, except members that are not checked."""


def fields(declared: dict[Any, Any]) -> Any:
    """Return a parametrization: each handler with every field that any handler declares, and that it checks."""
    every = sorted({field.encode_name for each in declared.values() for field in msgspec.structs.fields(each)})
    return pytest.mark.parametrize(
        ("handler", "checked"),
        [
            pytest.param(handler, [each for each in every if not is_unchecked(kind, each)], id=handler.operation_id)
            for handler, kind in declared.items()
        ],
    )


def is_unchecked(kind: type[Any], field: str) -> bool:
    """Whether every value is right for a field: of metadata, and of members that are kept as they are."""
    return field.startswith("metadata.") or (issubclass(kind, FreeMembers) and field in FreeMembers.__struct_fields__)


async def refused(client: httpx.AsyncClient, handler: Any, conversation: str, **rest: Any) -> dict[str, str]:
    """Send a request with one wrong field, which must answer 400, and return the first error."""
    path = template_of(next(iter(handler.paths))).format(
        conversation_id=conversation, seq=1, owner_id="somebody", name="history_read"
    )
    answer = await client.request(next(iter(handler.http_methods)), path, **rest)
    assert answer.status_code == 400, (rest, answer.text)
    place: dict[str, str] = answer.json().get("errors", [{"pointer": answer.json()["type"], "detail": ""}])[0]
    return place


@fields(BODIES)
async def test_a_body_is_what_is_declared(
    client: httpx.AsyncClient, conversation: str, handler: Any, checked: list[str]
) -> None:
    """A declared member is read and its type is checked; a member that only other bodies have is unknown."""
    await append(client, conversation, user("hi"))
    for field in checked:
        place = await refused(client, handler, conversation, json={field: WRONG})
        assert place["pointer"].startswith(f"#/{field}"), place
        is_unknown = "unknown field" in place["detail"] or "can be changed, not" in place["detail"]
        assert is_unknown == (field not in BODIES[handler].__struct_fields__), (field, place)


@fields(QUERIES)
async def test_a_query_is_what_is_declared(
    client: httpx.AsyncClient, conversation: str, handler: Any, checked: list[str]
) -> None:
    """A declared parameter is read and its type is checked; one that only other queries have is unknown."""
    await append(client, conversation, user("hi"))
    declared = {each.encode_name for each in msgspec.structs.fields(QUERIES[handler])}
    body = {"content": "{}", "headers": {"Content-Type": operation_of(handler).takes_types[0]}}
    rest = body if operation_of(handler).takes else {}
    for field in checked:
        query = {"owner": "somebody", field: ""} if "owner" in declared else {field: ""}
        place = await refused(client, handler, conversation, params=query, **rest)
        assert place["pointer"] in (f"#/query/{field}", f"/problems/invalid-{field}")
        assert ("unknown" in place["detail"]) == (field not in declared), (field, place)
