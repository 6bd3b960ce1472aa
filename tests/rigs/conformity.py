"""Check every answer that a test gets against the OpenAPI document: status, media type, headers and body."""

import json
import re
from functools import cache
from typing import Any

import httpx
from jsonschema_rs import Draft202012Validator

from sash.api.openapi import document
from sash.app import ROUTES

CONTRACT: dict[str, Any] = json.loads(document(ROUTES))
_SAID_HEADERS = {"etag", "location", "link", "retry-after", "www-authenticate", "idempotency-replayed"}


def validator(schema: dict[str, Any], *, closed: bool = True) -> Draft202012Validator:
    """Return a validator of one of the document's schemas; ``closed`` refuses members that the document does not name."""
    schemas = CONTRACT["components"]["schemas"]
    if closed:
        schemas = {
            name: {"additionalProperties": False, **each} if "properties" in each else each
            for name, each in schemas.items()
        }
    return Draft202012Validator({**schema, "components": {"schemas": schemas}})


async def conform(answer: httpx.Response) -> None:
    """Fail the test if the document does not allow the answer. An httpx event hook."""
    operation = find_operation(answer.request.method, answer.request.url.path)
    if operation is None:
        return
    name, status = operation["operationId"], answer.status_code
    assert str(status) in operation["responses"], f"{name} may not answer {status}"
    said = resolved(operation["responses"][str(status)])
    headers = _SAID_HEADERS & set(answer.headers)
    assert headers <= {each.lower() for each in said.get("headers", ())}, f"{name} {status}: {sorted(headers)}"
    if "content" in said:
        await check_body(name, answer, said["content"])


async def check_body(name: str, answer: httpx.Response, content: dict[str, Any]) -> None:
    """Check the body against the schema of its media type."""
    media_type = answer.headers["content-type"].partition(";")[0]
    assert media_type in content or "*/*" in content, f"{name} {answer.status_code}: {media_type}"
    if re.fullmatch(r"application/(problem\+)?json", media_type):
        errors = _validator(json.dumps(content[media_type]["schema"])).iter_errors(json.loads(await answer.aread()))
        assert [error.message for error in errors] == [], f"{name} {answer.status_code}"


@cache
def _validator(schema: str) -> Draft202012Validator:
    return validator(json.loads(schema))


def resolved(node: dict[str, Any]) -> dict[str, Any]:
    """Return the node of the document that a node's ``$ref`` leads to, or the node itself."""
    while "$ref" in node:
        found: Any = CONTRACT
        for step in node["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        node = found
    return node


def find_operation(method: str, path: str) -> Any:
    """Return a request's operation, or None; if two path templates match, the one with fewer parameters."""
    for pattern, item in _patterns():
        if method.lower() in item and pattern.fullmatch(path):
            return item[method.lower()]
    return None


@cache
def _patterns() -> list[tuple[re.Pattern[str], dict[str, Any]]]:
    def pattern(path: str) -> re.Pattern[str]:
        kinds = {"{model_id}": ".+"}
        steps = (kinds.get(step, "[^/]+") if step.startswith("{") else re.escape(step) for step in path.split("/"))
        return re.compile("/".join(steps))

    paths = sorted(CONTRACT["paths"].items(), key=lambda each: each[0].count("{"))
    return [(pattern(path), item) for path, item in paths]
