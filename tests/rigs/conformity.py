"""Check every answer that a test gets against the OpenAPI document: status, media type, headers, body, and the request."""

import json
import re
from functools import cache
from typing import Any

import httpx
from jsonschema_rs import Draft202012Validator

from sash.api.openapi import document
from sash.api.openapi.document import Route
from sash.app import ROUTES

CONTRACT: dict[str, Any] = json.loads(document(ROUTES))
FAULTS = 400
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
    """Fail the test if the document does not allow the answer, or a request that was answered well. An httpx event hook."""
    operation = find_operation(answer.request.method, answer.request.url.path)
    if operation is None:
        return
    if answer.is_success:
        check_request(operation, answer.request)
    name, status = operation["operationId"], answer.status_code
    assert status < FAULTS or status in error_statuses()[name], f"{name} may not answer {status}"
    said = resolved(operation["responses"][f"{status // 100}XX" if status >= FAULTS else str(status)])
    headers = _SAID_HEADERS & set(answer.headers)
    assert headers <= {each.lower() for each in said.get("headers", ())}, f"{name} {status}: {sorted(headers)}"
    if "content" in said:
        await check_body(name, answer, said["content"])


def check_request(operation: dict[str, Any], request: httpx.Request) -> None:
    """Check a request that was answered well: its body is one that the document allows."""
    media_type = request.headers.get("content-type", "").partition(";")[0].lower()
    if media_type in JSON_TYPES and "requestBody" in operation:
        check_sent(operation, media_type, request.content)


JSON_TYPES = ("application/json", "application/merge-patch+json")


def check_sent(operation: dict[str, Any], media_type: str, body: bytes) -> None:
    """Check the JSON of a request that was answered well."""
    try:
        value = json.loads(body, parse_constant=str)
    except ValueError:
        return  # half of a pair is JSON to the service
    schema = operation["requestBody"]["content"][media_type]["schema"]
    errors = [
        f"{error.instance_path}: {error.message}"
        for error in _validator(json.dumps(schema), closed=False).iter_errors(value)
    ]
    assert errors == [], f"{operation['operationId']} took what the document does not"


async def check_body(name: str, answer: httpx.Response, content: dict[str, Any]) -> None:
    """Check the body against the schema of its media type."""
    media_type = answer.headers["content-type"].partition(";")[0]
    assert media_type in content or "*/*" in content, f"{name} {answer.status_code}: {media_type}"
    if re.fullmatch(r"application/(problem\+)?json", media_type):
        errors = _validator(json.dumps(content[media_type]["schema"])).iter_errors(json.loads(await answer.aread()))
        assert [error.message for error in errors] == [], f"{name} {answer.status_code}"


@cache
def _validator(schema: str, *, closed: bool = True) -> Draft202012Validator:
    return validator(json.loads(schema), closed=closed)


@cache
def error_statuses() -> dict[str, set[int]]:
    """The error statuses of each operation, which the document has as 4XX and 5XX."""
    return {str(handler.operation_id): Route(handler).errors() for handler in ROUTES}


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
