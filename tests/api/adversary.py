"""Hooks with which schemathesis tests this contract; its command line loads this module.

::

    test_schemathesis ── python -m schemathesis.cli, with schemathesis.toml ── these hooks ── sash serve, with keys

No check is off. Exceptions to checks are here and in schemathesis.toml, each with its reason.
"""

import json
import re
from itertools import count
from typing import Any

import schemathesis
from schemathesis.core.parameters import ParameterLocation

from sash.core.chat.regular import regular, regular_tool

_numbers = count(1)
_ROOM = 100_000
_FRAMING = {"connection", "content-length", "expect", "host", "te", "trailer", "transfer-encoding", "upgrade"}
_MODELS = {"appendMessages": "query", "getWindow": "query", "buildWindow": "body", "countTokens": "body"}
"""The part of the request that names the model, by operation."""

RULES = {
    re.compile(r"The cursor is not from this listing"): "a cursor is opaque: an answer gives it, no schema",
    re.compile(r"This is no receipt"): "a receipt is opaque: an answer gives it, no schema",
    re.compile(r"The receipt tells the correction"): "generators make no types of a choice between members",
    re.compile(r"Send back one ETag as it was given"): "an ETag is opaque: an answer gives it, no schema",
    re.compile(
        r"(Give prompt_tokens or input_tokens|The billed tokens are missing|Give the window's receipt, or its tokens)"
    ): "generators make no types of a choice between members",
    re.compile(
        r"The field 'text' is missing at \S+/documents/"
    ): "generators make no types of a choice between members",
    re.compile(r"An unknown field .* did you mean"): "no keyword tells another spelling from a provider's new member",
    re.compile(
        r"An unknown field 'documents' .* go into"
    ): "no keyword tells another place from a provider's new member",
    re.compile(r"The template must contain \{content\} and \{documents\}, once each"): "a pattern cannot count",
    re.compile(r"The template must contain \{messages\} once"): "a pattern cannot count",
    re.compile(r"This is no compaction item"): "an item is the provider's own, and its schema too",
    re.compile(r'Write "auto", "none", "required" or'): "the type is that of requests, which are counted with any word",
    re.compile(r"A tool result must follow its call directly"): "no keyword speaks of the item before",
    re.compile(r"A tool call of a few-shot must have its result behind it"): "no keyword speaks of the item behind",
    re.compile(r"Line \d+: "): "lines are text to a schema, whatever is in them",
    re.compile(r"The body nests deeper than \d+ levels"): "no keyword bounds depth",
}
"""Error details allowed for a body that fits its schema, and why JSON Schema cannot express each rule."""


_ID = {"conversation_id": "$response.body#/id"}
_UNMOVED = {**_ID, "If-Match": "$response.header.ETag"}
_APPENDED = {"conversation_id": "$response.body#/conversation_id"}
_ENTRY = {**_APPENDED, "seq": "$response.body#/last_seq"}
_FIRST = {"conversation_id": "$response.body#/conversations/0/id"}
_CURSOR = {"cursor": "$response.body#/next_cursor"}
_BRANCH = {**_APPENDED, "branch": "$response.body#/branches/0/id"}
_ORDER = {"conversation_id": "$request.path.conversation_id", "order": "$request.query.order"}
_LINKS = (
    ("Conversation", _ID, "getConversation appendMessages listMessages getWindow exportConversation"),
    ("Conversation", _ID, "forkConversation deleteSummary deleteConversation"),
    ("Conversation", _UNMOVED, "changeConversation"),
    ("Conversation", {"owner": "$response.body#/owner"}, "listConversations"),
    ("Conversation", {"owner_id": "$response.body#/owner"}, "deleteOwner"),
    ("AppendedMessages", _APPENDED, "getConversation getWindow appendMessages rewindConversation putSummary"),
    ("AppendedMessages", _APPENDED, "forkConversation deleteConversation"),
    ("AgreedMessages", _APPENDED, "getConversation getWindow agreeMessages listMessages listBranches"),
    ("Conversation", _ID, "getConversation appendMessages listMessages getWindow listBranches"),
    ("BranchList", _BRANCH, "swapBranch dropBranch"),
    ("SwappedBranch", _APPENDED, "getConversation getWindow listMessages listBranches"),
    ("AppendedMessages", _ENTRY, "getMessage changeMessage redactMessage"),
    ("Window", _APPENDED, "reportUsage"),
    ("MessagePage", _ORDER | _CURSOR, "listMessages"),
    ("Erasure", {"erasure_id": "$response.body#/id"}, "getErasure"),
    ("ConversationPage", _FIRST, "getConversation"),
    ("ConversationPage", {"owner": "$request.query.owner"} | _CURSOR, "listConversations"),
    ("ModelList", {"model_id": "$response.body#/models/0/id"}, "getModel"),
)
"""The answer's schema, the parameters as runtime expressions, and the next operations that take them."""


BODIES: dict[str, Any] = {
    "AppendedMessages.rewindConversation": {"to_seq": "$response.body#/first_seq"},
    "AppendedMessages.putSummary": {"text": "Until now.", "through_seq": "$response.body#/last_seq"},
    "AppendedMessages.forkConversation": {"at_seq": "$response.body#/last_seq"},
    "Window.reportUsage": {
        "model": "$response.body#/model",
        "window_tokens": "$response.body#/tokens/total",
        "prompt_tokens": "$response.body#/tokens/total",
    },
}
"""Bodies of links."""


def links() -> dict[str, dict[str, Any]]:
    """Return the links of each schema of answers, by operation (OpenAPI's Link Object): from values to the next operations.

    They make meaningful sequences: append, read the message, redact it, read it again. No client follows them, so the
    document does not have them.
    """
    found: dict[str, dict[str, Any]] = {}
    for shape, parameters, operations in _LINKS:
        for operation in operations.split():
            body = BODIES.get(f"{shape}.{operation}")
            link = {"operationId": operation, "parameters": parameters} | ({"requestBody": body} if body else {})
            found.setdefault(shape, {})[operation] = link
    return found


def add_links(document: dict[str, Any]) -> None:
    """Give each answer the links of its schema."""
    known = links()
    for item in document["paths"].values():
        for operation in item.values():
            for answer in operation["responses"].values():
                for media in answer.get("content", {}).values():
                    shape = media.get("schema", {}).get("$ref", "").rpartition("/")[2]
                    answer.setdefault("links", {}).update(known.get(shape, {}))


@schemathesis.hook
def before_load_schema(context: Any, raw_schema: dict[str, Any]) -> None:  # noqa: ARG001 - the hook's shape
    """Add links to the document, and say what a request without ``format`` takes: no schema reads the query."""
    schemas = raw_schema["components"]["schemas"]
    chat, text = {"$ref": "#/components/schemas/ChatMessage"}, {"type": "string"}
    schemas["SentMessage"]["anyOf"] = [{"$ref": "#/components/schemas/Entry"}, chat]
    schemas["Message"]["anyOf"] = [chat]
    kinds = [{"properties": {"type": {"const": kind}}, "required": ["type", kind]} for kind in ("function", "custom")]
    schemas["Tool"]["oneOf"] = kinds
    schemas["CountRequest"] |= {"additionalProperties": False}
    schemas["CountRequest"]["properties"] |= {"text": text}
    add_links(raw_schema)


@schemathesis.serializer("application/x-ndjson")
def ndjson(ctx: Any, value: Any) -> bytes:  # noqa: ARG001 - the serializer's shape
    """Return text and bytes as they are; a generated value of another type becomes one line of JSON."""
    return (
        value.encode() if isinstance(value, str) else value if isinstance(value, bytes) else json.dumps(value).encode()
    )


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: dict[str, Any]) -> None:  # noqa: ARG001 - the hook's shape
    """Replace the example's idempotency key, version and id where the server would refuse a valid request for them.

    An idempotency key is for one request. A conversation is hardly ever at the example's version, or at a bare 0, which
    the coverage phase makes from the pattern of a quoted version. In the stateful phase a new id must not exist already.
    """
    headers = case.headers or {}
    if headers.get("Idempotency-Key") == "k-1":
        headers["Idempotency-Key"] = f"k-{next(_numbers)}"
    if case.meta.generation.mode.is_negative:
        return
    _reach(case)
    in_story = case.meta.phase.name.value == "stateful"
    if headers.get("If-Match", "").startswith(('"8-', "0")) or (in_story and "If-Match" in headers):
        headers["If-Match"] = "*"
    if "{conversation_id}" not in case.operation.path:
        headers.pop("If-Match", None)  # what begins has no version
    if in_story:
        headers.pop("Idempotency-Key", None)
        if isinstance(case.body, dict):
            case.body.pop("id", None)


def _reach(case: Any) -> None:
    """Give three of four requests for windows and counts a known model and a large budget.

    A random string names no model, and a window of a few tokens holds no message: both answer 422 at once.
    """
    asked = {"query": case.query, "body": case.body}.get(_MODELS.get(case.operation.definition.raw["operationId"], ""))
    if not isinstance(asked, dict) or next(_numbers) % 4 == 0:
        return
    asked["model"] = "gpt-4o-mini"
    if "max_tokens" in asked and not case.path.endswith("/count"):  # there it controls a reply
        asked["max_tokens"] = _ROOM


@schemathesis.hook
def filter_failure(context: Any, failure: Any, case: Any, response: Any) -> bool:  # noqa: ARG001 - the hook's shape
    """Return whether a failure counts. A 400 to a valid body counts unless its detail matches one of ``RULES``.

    A generated NDJSON body that is not a string is text once it is sent; the check allows for that in text/plain only.
    """
    match type(failure).__name__:
        case "RejectedPositiveData" if "format" in (case.query or {}) and case.method == "POST":
            return False  # the body is in a provider's form, which our schema does not describe
        case "RejectedPositiveData" if response.status_code == 400:
            detail = response.json()["detail"]
            return not any(rule.search(detail) for rule in RULES)
        case "AcceptedNegativeData" if "format" in (case.query or {}) and case.path.endswith("/count"):
            return False  # the body is a provider's request, which our schema does not describe
        case "AcceptedNegativeData" if _is_made_regular(case.body):
            return False  # the document has regular messages and tools alone; irregular ones of servers are taken too
        case "AcceptedNegativeData" if case.media_type == "application/x-ndjson":
            return not case.meta.is_negative_at(ParameterLocation.BODY)
        case _:
            return True


def _is_made_regular(body: Any) -> bool:
    """Return whether a request has a message or a tool that Sash makes regular."""
    if not isinstance(body, dict):
        return False
    lists = [body.get(name) for name in ("messages", "few_shots", "tools")]
    messages, few_shots, tools = ([each for each in found if isinstance(each, dict)] for found in map(_listed, lists))
    said = [each.get("message", each) for each in messages] + few_shots
    return any(_is_irregular(message) for message in said) or any(regular_tool(tool) is not tool for tool in tools)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _is_irregular(message: Any) -> bool:
    if not isinstance(message, dict):
        return False
    is_lone = message.get("role") == "tool" and message.get("tool_call_id") in (None, "")
    return is_lone or regular(message) != message


@schemathesis.hook
def filter_headers(context: Any, headers: dict[str, Any]) -> bool:  # noqa: ARG001 - the hook's shape
    """Return whether no header is about framing: HTTP libraries handle that, and test_http_framing.py tests it."""
    return not {name.lower() for name in headers or ()} & _FRAMING
