"""The contract breaks no client of the last release, and ``breaking_changes`` finds every kind of breaking change."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from clients.breaking import breaking_changes, may_break

from sash.api.openapi import document
from sash.app import ROUTES

RELEASED = Path(__file__).with_name("released-openapi.json")
CONTRACT: dict[str, Any] = json.loads(document(ROUTES))


def schema(contract: dict[str, Any], name: str) -> Any:
    return contract["components"]["schemas"][name]


def operation(contract: dict[str, Any], path: str, method: str) -> Any:
    return contract["paths"][path][method]


def rename_operation(contract: dict[str, Any]) -> None:
    operation(contract, "/count", "post")["operationId"] = "count"


def remove_operation(contract: dict[str, Any]) -> None:
    del contract["paths"]["/count"]


def move_operation(contract: dict[str, Any]) -> None:
    operation(contract, "/count", "post")["tags"] = ["windows"]


def remove_parameter(contract: dict[str, Any]) -> None:
    operation(contract, "/conversations/{conversation_id}/messages", "get")["parameters"].pop()


def require_parameter(contract: dict[str, Any]) -> None:
    contract["components"]["parameters"]["WindowQuery.model"]["required"] = True


def remove_status(contract: dict[str, Any]) -> None:
    del operation(contract, "/conversations/{conversation_id}/window", "get")["responses"]["304"]


def add_status(contract: dict[str, Any]) -> None:
    operation(contract, "/count", "post")["responses"]["202"] = {"description": "Later."}


def remove_header(contract: dict[str, Any]) -> None:
    del operation(contract, "/conversations", "post")["responses"]["201"]["headers"]["Location"]


def change_media_type(contract: dict[str, Any]) -> None:
    contract["components"]["responses"]["Problem"]["content"] = {"application/json": {"schema": {}}}


def ask_for_a_key(contract: dict[str, Any]) -> None:
    del operation(contract, "/livez", "get")["security"]


def require_member(contract: dict[str, Any]) -> None:
    schema(contract, "Entry")["required"].append("id")


def refuse_member(contract: dict[str, Any]) -> None:
    del schema(contract, "Entry")["properties"]["pinned"]


def close_messages(contract: dict[str, Any]) -> None:
    schema(contract, "UserMessage")["additionalProperties"] = False


def remove_member(contract: dict[str, Any]) -> None:
    del schema(contract, "AppendedMessage")["properties"]["duplicate"]


def loosen_member(contract: dict[str, Any]) -> None:
    schema(contract, "WindowTokens")["required"].remove("total")


def refuse_null(contract: dict[str, Any]) -> None:
    schema(contract, "Entry")["properties"]["id"]["type"] = "string"


def answer_null(contract: dict[str, Any]) -> None:
    schema(contract, "AppendedMessage")["properties"]["seq"]["type"] = ["integer", "null"]


def tighten_bound(contract: dict[str, Any]) -> None:
    schema(contract, "Grounding")["properties"]["documents"]["maxItems"] = 10


def raise_minimum(contract: dict[str, Any]) -> None:
    schema(contract, "ConversationSettings")["properties"]["reserve"]["minimum"] = 1


def change_pattern(contract: dict[str, Any]) -> None:
    schema(contract, "Entry")["properties"]["id"]["pattern"] = "^[a-z]+$"


def change_format(contract: dict[str, Any]) -> None:
    schema(contract, "AppendedMessage")["properties"]["seq"].pop("format")


def remove_word(contract: dict[str, Any]) -> None:
    contract["components"]["parameters"]["WindowQuery.overflow"]["schema"]["enum"].remove("skip")


def answer_new_word(contract: dict[str, Any]) -> None:
    schema(contract, "Window")["properties"]["stop_reason"]["enum"].append("tired")


def remove_role(contract: dict[str, Any]) -> None:
    schema(contract, "ChatMessage")["oneOf"].pop()


def rename_schema(contract: dict[str, Any]) -> None:
    contract["components"]["schemas"]["Alive2"] = contract["components"]["schemas"].pop("Alive")
    media = operation(contract, "/livez", "get")["responses"]["200"]["content"]["application/json"]
    media["schema"] = {"$ref": "#/components/schemas/Alive2"}


BREAKING = [
    (rename_operation, "operationId"),
    (remove_operation, "gone"),
    (move_operation, "tags"),
    (remove_parameter, "gone"),
    (require_parameter, "required now"),
    (remove_status, "no longer answers 304"),
    (add_status, "answers 202 now"),
    (remove_header, "header Location is gone"),
    (change_media_type, "application/problem+json is gone"),
    (ask_for_a_key, "needs a key"),
    (require_member, "Entry (request).id: required now"),
    (refuse_member, "Entry (request).pinned: refused"),
    (close_messages, "unknown members are refused"),
    (remove_member, "AppendedMessage (answer).duplicate: gone"),
    (loosen_member, "WindowTokens (answer).total: may be missing"),
    (refuse_null, "Entry (request).id: null is refused"),
    (answer_null, "AppendedMessage (answer).seq: null is new"),
    (tighten_bound, "maxItems"),
    (raise_minimum, "minimum"),
    (change_pattern, "pattern"),
    (change_format, "format"),
    (remove_word, "parameter overflow: values"),
    (answer_new_word, "Window (answer).stop_reason: values"),
    (remove_role, "SentMessage (request): FunctionMessage is refused"),
    (rename_schema, "schema Alive: gone"),
]


def add_operation(contract: dict[str, Any]) -> None:
    contract["paths"]["/new"] = contract["paths"]["/count"]


def add_parameter(contract: dict[str, Any]) -> None:
    new = {"name": "new", "in": "query", "schema": {"type": "string"}}
    operation(contract, "/count", "post").setdefault("parameters", []).append(new)


def add_member(contract: dict[str, Any]) -> None:
    schema(contract, "Entry")["properties"]["new"] = {"type": "string"}
    schema(contract, "AppendedMessage")["properties"]["new"] = {"type": "string"}


def loosen_bound(contract: dict[str, Any]) -> None:
    schema(contract, "Grounding")["properties"]["documents"]["maxItems"] = 10_000


def add_word(contract: dict[str, Any]) -> None:
    contract["components"]["parameters"]["WindowQuery.overflow"]["schema"]["enum"].append("summarize")


def add_part(contract: dict[str, Any]) -> None:
    schema(contract, "UserContent")["then"]["items"]["oneOf"].append({"type": "object", "required": ["type"]})


def add_type(contract: dict[str, Any]) -> None:
    limit = contract["components"]["parameters"]["PageQuery.limit"]
    limit["schema"] = {"oneOf": [limit["schema"], {"type": "string", "const": "all"}]}


def describe(contract: dict[str, Any]) -> None:
    schema(contract, "Entry")["description"] = "In other words."


@pytest.mark.parametrize(("change", "said"), BREAKING, ids=lambda each: getattr(each, "__name__", ""))
def test_a_breaking_change_is_seen(change: Callable[[dict[str, Any]], None], said: str) -> None:
    """Each kind of breaking change is reported in a line with the expected words."""
    changed = copy.deepcopy(CONTRACT)
    change(changed)
    assert any(said in line for line in breaking_changes(CONTRACT, changed))


@pytest.mark.parametrize(
    "change",
    [add_operation, add_parameter, add_member, loosen_bound, add_word, add_part, add_type, describe],
    ids=lambda each: each.__name__,
)
def test_what_only_adds_breaks_nobody(change: Callable[[dict[str, Any]], None]) -> None:
    """A change that only adds, loosens a bound or rewords a description is not reported as breaking."""
    changed = copy.deepcopy(CONTRACT)
    change(changed)
    assert breaking_changes(CONTRACT, changed) == []


@pytest.mark.parametrize(
    ("old", "new", "allowed"),
    [
        ("1.2.0", "2.0.0", True),
        ("1.2.0", "1.3.0", False),
        ("1.2.0", "1.2.1", False),
        ("0.1.0", "0.2.0", True),
        ("0.1.0", "0.1.1", False),
        ("0.9.0", "1.0.0", True),
    ],
)
def test_versions_say_what_may_break(old: str, new: str, allowed: bool) -> None:  # noqa: FBT001 - a column
    """A new major version may break clients, and so may a new minor version before 1.0."""
    assert may_break(old, new) == allowed


def test_the_contract_keeps_the_last_release() -> None:
    """The contract breaks no client of the last release, unless the new version allows breaking changes.

    At each release, openapi.json is copied to released-openapi.json.
    """
    released = json.loads(RELEASED.read_bytes())
    broken = breaking_changes(released, CONTRACT)
    assert broken == [] or may_break(released["info"]["version"], CONTRACT["info"]["version"])
