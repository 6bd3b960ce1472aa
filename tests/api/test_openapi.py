"""The OpenAPI document matches the service: every route, schema and example."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from jsonschema import Draft202012Validator
from rigs.conformity import CONTRACT, error_statuses, resolved, validator
from rigs.dialogue import statistics

from sash.api.middleware import idempotency
from sash.api.middleware.layer import is_open
from sash.api.middleware.paths import template_of
from sash.api.openapi import document, examples
from sash.api.openapi.operation import operation_of
from sash.app import ROUTES
from sash.problems import all_figures, problem_types
from sash.windows.counted import CountRequest

STORED = Path(__file__).resolve().parent.parent.parent / "openapi.json"
METHODS = ("get", "post", "put", "patch", "delete")


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in CONTRACT["paths"].items():
        yield from ((path, method, item[method]) for method in METHODS if method in item)


EVERY_OPERATION = pytest.mark.parametrize(
    ("path", "method", "operation"), [pytest.param(*each, id=each[2]["operationId"]) for each in operations()]
)


def nodes(node: Any, place: str = "#") -> Iterator[tuple[str, Any]]:
    """Yield every object of the document with its place, except those inside an example."""
    if isinstance(node, dict):
        yield place, node
        for key, each in node.items():
            if key not in ("example", "examples"):
                yield from nodes(each, f"{place}/{key}")
    elif isinstance(node, list):
        for index, each in enumerate(node):
            yield from nodes(each, f"{place}/{index}")


def examples_of() -> Iterator[tuple[str, dict[str, Any], Any]]:
    """Yield every example of a body, answer or parameter, with its place and schema."""
    for place, node in nodes(CONTRACT):
        if "schema" in node:
            if "example" in node:
                yield place, node["schema"], node["example"]
            for name, each in node.get("examples", {}).items():
                yield f"{place}/{name}", node["schema"], resolved(each)["value"]


def test_the_stored_document_is_the_service() -> None:
    """openapi.json equals the document generated from the routes, byte for byte."""
    assert STORED.read_bytes() == document(ROUTES)


def test_every_route_is_in_the_document() -> None:
    """The document's paths, methods and operation ids are those of the handlers, without pages for people."""
    served = {
        (template_of(path), method.lower(), handler.operation_id)
        for handler in ROUTES
        if not operation_of(handler).is_page
        for path in handler.paths
        for method in handler.http_methods
    }
    assert {(path, method, each["operationId"]) for path, method, each in operations()} == served


def test_operation_ids_are_unique() -> None:
    """Operation ids are unique, because a code generator makes a function of each."""
    ids = [each["operationId"] for _, _, each in operations()]
    assert len(set(ids)) == len(ids)


@EVERY_OPERATION
def test_every_operation_is_described(path: str, method: str, operation: dict[str, Any]) -> None:
    """Every operation has a declared tag, and a summary and a description (the handler's docstring)."""
    assert operation["tags"][0] in {tag["name"] for tag in CONTRACT["tags"]}
    assert operation["summary"], (path, method)
    assert operation["description"], (path, method)


@EVERY_OPERATION
def test_every_error_is_a_problem(path: str, method: str, operation: dict[str, Any]) -> None:
    """Every 4xx and 5xx is application/problem+json, with one schema."""
    errors = {status: resolved(each) for status, each in operation["responses"].items() if status >= "400"}
    assert {"4XX", "5XX"} == errors.keys(), (path, method)
    for answer in errors.values():
        assert list(answer["content"]) == ["application/problem+json"]


@EVERY_OPERATION
def test_a_key_is_asked_for_where_the_edge_asks(path: str, method: str, operation: dict[str, Any]) -> None:
    """Open paths declare that they need no key; all others may answer 401."""
    says_open = operation.get("security") == []
    assert says_open == is_open(path), method
    assert says_open != (401 in error_statuses()[operation["operationId"]])


def has_type(place: str) -> bool:
    """Whether generators make types of what is there. They do not read what a value without a type may be."""
    return not re.search("/(then|else)(/|$)", place)


def test_no_object_is_anonymous() -> None:
    """Every object is a component, so that every generator has a name for it."""
    anonymous = [
        place
        for place, node in nodes(CONTRACT)
        if (node.get("type") == "object" or "properties" in node)
        and not re.fullmatch(r"#/components/schemas/\w+", place)
        and not re.search(r"/schemas/\w+/properties$", place)
        and has_type(place)
    ]
    assert anonymous == []


SENT = {f"#/components/schemas/{name}" for name in ("SentMessage", "Message")}
"""Unions of what requests take for a message: the query's ``format`` tells which it is."""


def test_every_union_of_objects_has_a_discriminator() -> None:
    """A union of objects names the property that tells them apart, and each of its values maps to one schema.

    Of a chat message it is a named word, which Go's generated code checks by default.
    """
    for place, node in nodes(CONTRACT):
        if place in SENT or not has_type(place):
            continue
        either = node.get("oneOf") or node.get("anyOf") or []
        objects = [each for each in either if resolved(each).get("type") == "object"]
        if len(objects) > 1:
            tag = node["discriminator"]["propertyName"]
            mapping = node["discriminator"]["mapping"]
            assert [{"$ref": each} for each in dict.fromkeys(mapping.values())] == either, place
            for value, reference in mapping.items():
                said = resolved({"$ref": reference})
                words = resolved(said["properties"][tag])
                assert value in words.get("enum", [words.get("const")]), place
                assert ("enum" in words) == (place == "#/components/schemas/ChatMessage"), place
                assert tag in said["required"], place


def test_a_value_has_one_alternative_of_a_union() -> None:
    """Alternatives without a discriminator have different JSON types, so a generated client can tell which a value is."""
    for place, node in nodes(CONTRACT):
        if "discriminator" not in node and place not in SENT and has_type(place):
            kinds = [resolved(each).get("type") for each in node.get("oneOf") or node.get("anyOf") or []]
            assert len({"number" if kind == "integer" else str(kind) for kind in kinds}) == len(kinds), place


def is_any_object(schema: dict[str, Any]) -> bool:
    return schema.get("additionalProperties") is True and "properties" not in schema


def test_no_union_is_one_that_java_cannot_say() -> None:
    """No union has a list, or an object of any members, since generated Java does not compile with it."""
    for place, node in nodes(CONTRACT):
        either = [resolved(each) for each in node.get("oneOf") or node.get("anyOf") or [] if each != {"type": "null"}]
        is_loose = any(each.get("type") == "array" or is_any_object(each) for each in either)
        assert not (is_loose and len(either) > 1), place


def test_a_picture_is_binary() -> None:
    """An answer that is a picture or a file is declared as bytes, of which generators make a type."""
    media = CONTRACT["paths"]["/conversations/{conversation_id}/media/{digest}"]["get"]["responses"]
    for status in ("200", "206"):
        assert media[status]["content"]["*/*"]["schema"] == {"type": "string", "format": "binary"}


def shared(media: dict[str, Any]) -> list[dict[str, Any]]:
    """The examples of a body that it may share with others; those of a schema are a list of values."""
    found = media.get("examples", {})
    return list(found.values()) if "schema" in media else []


def test_references_lead_somewhere_and_components_are_used() -> None:
    """Every reference leads to a declared component, and every component is used."""
    used = {node["$ref"] for _, node in nodes(CONTRACT) if "$ref" in node}
    kinds = ("parameters", "headers", "responses", "schemas", "examples")
    used |= {node["$ref"] for _, media in nodes(CONTRACT) for node in shared(media) if "$ref" in node}
    declared = {f"#/components/{kind}/{name}" for kind in kinds for name in CONTRACT["components"][kind]}
    assert used == declared


def test_every_problem_type_is_named() -> None:
    """The one schema of problems names every type whose status an operation has, and has the figures of all."""
    members = CONTRACT["components"]["schemas"]["Problem"]["properties"]
    raised = set[int]().union(*error_statuses().values())
    said = re.findall(r"`/problems/([\w-]+)`", members["type"]["description"])
    assert sorted(said) == sorted(kind.slug for kind in problem_types() if kind.status in raised)
    assert all_figures().keys() <= members.keys()


def test_the_document_stays_small() -> None:
    """The document stays small, as generators write a file for each schema: half of the 437 kB that it once had."""
    assert len(STORED.read_bytes()) < 437_000 / 2


def test_schemas_are_json_schema() -> None:
    """Every component is valid JSON Schema 2020-12."""
    for schema in CONTRACT["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


def test_patterns_are_those_of_every_language() -> None:
    """No pattern uses syntax that only Python has."""
    patterns = [node["pattern"] for _, node in nodes(CONTRACT) if isinstance(node.get("pattern"), str)]
    assert patterns
    assert not [each for each in patterns if r"\Z" in each or r"\A" in each or "(?P" in each]


@EVERY_OPERATION
def test_an_idempotency_key_is_offered_where_it_counts(path: str, method: str, operation: dict[str, Any]) -> None:
    """An operation declares Idempotency-Key if the service honours it there, and only then."""
    names = {resolved(each)["name"] for each in operation.get("parameters", ())}
    remembered = method.upper() in idempotency._METHODS and not idempotency.is_pure(path)
    assert ("Idempotency-Key" in names) == remembered


def test_every_query_parameter_is_explained() -> None:
    """Every query parameter has a description."""
    query = {name: each for name, each in CONTRACT["components"]["parameters"].items() if each["in"] == "query"}
    assert [name for name, each in query.items() if not each.get("description")] == []


def test_bodies_refuse_unknown_members() -> None:
    """The schemas of request bodies allow no unknown members, like the decoders; a provider's message allows them."""
    for handler in ROUTES:
        body = operation_of(handler).takes
        if isinstance(body, type) and body is not CountRequest:  # which may be a provider's own
            assert CONTRACT["components"]["schemas"][body.__name__]["additionalProperties"] is False, body
    assert CONTRACT["components"]["schemas"]["UserMessage"]["additionalProperties"] is True


def test_bodies_and_answers_have_examples() -> None:
    """Every body and every answer has an example."""
    without = [
        operation["operationId"]
        for _, _, operation in operations()
        for side in (operation.get("requestBody", {}), *operation["responses"].values())
        for media in resolved(side).get("content", {}).values()
        if not {"example", "examples"} & media.keys()
    ]
    assert without == []


def test_examples_validate() -> None:
    """Every example is valid under its schema and has no member that the schema does not name."""
    errors = [
        f"{place}: {error.message}"
        for place, schema, example in examples_of()
        for error in validator(schema).iter_errors(example)
    ]
    assert errors == []


def comparable(answer: Any) -> Any:
    """Return an answer without the fields that differ each time."""
    if isinstance(answer, dict):
        moving = ("created_at", "updated_at", "expires_at", "etag", "receipt", "calibration", "next_cursor")
        return {key: comparable(each) for key, each in answer.items() if key not in moving}
    return [comparable(each) for each in answer] if isinstance(answer, list) else answer


async def test_the_examples_are_true(client: httpx.AsyncClient) -> None:
    """Sent in their order, the example requests get the example answers. With RECORD set, new answers are written."""
    given = [await answered(client, example) if example.request else example for example in examples.told()]
    pairs = list(zip(given, examples.told(), strict=True))
    if "RECORD" in os.environ:
        record([new if changed(new, old) else old for new, old in pairs])
        return
    for new, old in pairs:
        assert not changed(new, old), (old.request, new.answer)


def record(lines: list[examples.Example]) -> None:
    """Write the examples, one per line."""
    Path(str(examples.FILE)).write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))


async def answered(client: httpx.AsyncClient, example: examples.Example) -> examples.Example:
    """Return the example with the answer that the service gives."""
    method, url = example.request.split(" ")
    lines = {"content": example.body, "headers": {"Content-Type": "application/x-ndjson"}}
    sent = lines if isinstance(example.body, str) else {"json": example.body}
    answer = await client.request(method, url, **sent)
    return msgspec.structs.replace(example, status=answer.status_code, answer=answer.json())


def changed(new: examples.Example, old: examples.Example) -> bool:
    """Return whether an answer differs from its example in anything but the fields that differ each time."""
    return (new.status, comparable(new.answer)) != (old.status, comparable(old.answer))


async def test_the_example_of_an_export_is_true(client: httpx.AsyncClient) -> None:
    """The example of an export can be imported, and its export equals the example, line by line."""
    lines = {"Content-Type": "application/x-ndjson"}
    example = examples.example_of("exportConversation", 200).answer
    await client.post("/conversations/import", content=example, headers=lines)

    exported = (await client.get("/conversations/c-3/export")).text

    assert [json.loads(line) for line in exported.splitlines()] == [json.loads(line) for line in example.splitlines()]


async def test_models_have_their_example(client: httpx.AsyncClient) -> None:
    """The one model of the example is in the list of models, with the same fields."""
    (example,) = examples.example_of("listModels", 200).answer["models"]
    assert example in (await client.get("/models")).json()["models"]


async def test_statistics_have_their_example(client: httpx.AsyncClient) -> None:
    """The statistics have exactly the members of their example."""

    def shape(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: shape(each) for name, each in value.items()}
        return [shape(each) for each in value[:1]] if isinstance(value, list) else None

    await client.get("/window")
    given, example = shape(await statistics(client)), shape(examples.example_of("getStats", 200).answer)
    for part in ("quarter", "hour", "day", "month", "start"):
        for told in (given, example):
            told[part].pop("models")  # may be empty
            told[part].pop("timeline")
            told[part]["all"]["cache"].pop("misses")
            told[part]["requests"]["receipts"].pop("gone")

    assert given == example


@pytest.mark.parametrize(
    "media_type", CONTRACT["paths"]["/conversations/{conversation_id}"]["patch"]["requestBody"]["content"]
)
async def test_patches_of_each_media_type(client: httpx.AsyncClient, conversation: str, media_type: str) -> None:
    """PATCH accepts each media type that the document declares for it."""
    await client.post("/conversations", json={"id": conversation, "metadata": {"a": 1, "b": 2}})

    headers = {"Content-Type": media_type}
    answer = await client.patch(f"/conversations/{conversation}", content=b'{"metadata":{"a":null}}', headers=headers)

    assert answer.json()["metadata"] == {"b": 2}


async def test_the_service_gives_its_document(client: httpx.AsyncClient) -> None:
    """GET /openapi.json is the stored document."""
    answer = await client.get("/openapi.json")
    assert answer.headers["content-type"] == "application/json"
    assert answer.content == STORED.read_bytes()


async def test_the_page_asks_nobody_else(client: httpx.AsyncClient) -> None:
    """GET /docs names no address of another server, and its Content-Security-Policy allows none by default."""
    answer = await client.get("/docs")
    assert answer.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert not re.search(rb"https?://|src=[\"']//", answer.content)
