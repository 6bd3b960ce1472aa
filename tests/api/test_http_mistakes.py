"""Errors name what is wrong, what is allowed there, and what was probably meant."""

import copy
import json
import re
from typing import Any

import httpx
import msgspec
import pytest

from sash.api.middleware.paths import template_of
from sash.api.openapi.faults import meaning
from sash.api.openapi.operation import operation_of
from sash.app import ROUTES
from sash.problems import problem_types

USER = {"role": "user", "content": "hello"}


async def refused(client: httpx.AsyncClient, method: str, path: str, **rest: Any) -> tuple[str, str, str]:
    """Return the detail of a 400 answer, and the pointer and detail of its first error."""
    answer = await client.request(method, path, **rest)
    assert answer.status_code == 400, answer.text
    problem = answer.json()
    place = problem["errors"][0]
    return problem["detail"], place["pointer"], place["detail"]


async def refused_message(client: httpx.AsyncClient, conversation: str, message: Any) -> tuple[str, str, str]:
    path = f"/conversations/{conversation}/messages"
    return await refused(client, "POST", path, json={"messages": [{"message": message}]})


async def test_all_mistakes_are_listed(client: httpx.AsyncClient, conversation: str) -> None:
    """`errors` has each wrong place of a body or a query, up to eight; a misspelt field that is needed is one of them."""
    body = {"id": "no id", "modle": "gpt-4o", "reserve": "x", "ttl_seconds": 0, "metadata": []}
    answer = await client.post("/conversations", json=body)
    pointers = [each["pointer"] for each in answer.json()["errors"]]
    assert pointers == ["#/id", "#/modle", "#/reserve", "#/ttl_seconds", "#/metadata"]
    assert "at #/id" in answer.json()["detail"]
    query = {"modle": "gpt-4o", "limit": "0", "stable": "perhaps"}
    answer = await client.get(f"/conversations/{conversation}/window", params=query)
    assert [each["pointer"] for each in answer.json()["errors"]] == ["#/query/modle", "#/query/limit", "#/query/stable"]
    entries = [{"id": "no id", "message": USER}] * 20
    answer = await client.post(f"/conversations/{conversation}/messages", json={"messages": entries})
    assert [each["pointer"] for each in answer.json()["errors"]] == [f"#/messages/{place}/id" for place in range(8)]
    answer = await client.put(f"/conversations/{conversation}/summary", json={"texts": "x", "through": 1})
    assert [each["pointer"] for each in answer.json()["errors"]] == ["#/texts", "#/through"]


ROLES = "one of 'system', 'developer', 'user', 'assistant', 'tool' or 'function'"


async def test_a_wrong_role_names_the_roles(client: httpx.AsyncClient, conversation: str) -> None:
    """An error about an unknown role such as ``bot`` names the known roles, and the one that is meant."""
    said, pointer, detail = await refused_message(client, conversation, {"role": "bot", "content": "x"})
    assert (pointer, detail) == (
        "#/messages/0/message/role",
        f"Invalid value 'bot': {ROLES}; did you mean 'assistant'?",
    )
    assert said == f"Invalid value 'bot' at {pointer}: {ROLES}; did you mean 'assistant'?"


async def test_a_wrong_part_names_the_parts(client: httpx.AsyncClient, conversation: str) -> None:
    """An error about an unknown type of a content part names the known types."""
    message = {"role": "user", "content": [{"type": "txt", "text": "x"}]}
    _, pointer, detail = await refused_message(client, conversation, message)
    assert pointer == "#/messages/0/message/content/0/type"
    assert detail.startswith("Invalid value 'txt': one of 'text', 'image_url', 'input_audio', 'file', ")


@pytest.mark.parametrize("place", ["query", "body"])
async def test_a_wrong_choice_names_the_choices(client: httpx.AsyncClient, conversation: str, place: str) -> None:
    """An error about a window parameter names the allowed values, in a query and in a body."""
    if place == "query":
        path, rest = f"/conversations/{conversation}/window", {"params": {"overflow": "drop"}}
        _, pointer, detail = await refused(client, "GET", path, **rest)
    else:
        _, pointer, detail = await refused(client, "POST", "/window", json={"overflow": "drop", "messages": []})
    assert pointer == ("#/query/overflow" if place == "query" else "#/overflow")
    assert detail == "Invalid value 'drop': one of 'skip' or 'stop'"


async def test_a_wrong_switch_names_true_and_false(client: httpx.AsyncClient) -> None:
    """An error about ``stable``, which is true, false or a word, names all three."""
    _, _, detail = await refused(client, "POST", "/window", json={"stable": "yes", "messages": []})
    assert detail == "Invalid value 'yes': one of true, false or 'auto'"


@pytest.mark.parametrize(
    ("message", "misspelt", "meant"),
    [
        ({"role": "user", "contnt": "x"}, "contnt", "content"),
        ({"role": "assistant", "content": None, "toolCalls": []}, "toolCalls", "tool_calls"),
        ({"role": "tool", "content": "x", "toolCallId": "c"}, "toolCallId", "tool_call_id"),
    ],
)
async def test_a_misspelt_field_of_a_message(
    client: httpx.AsyncClient, conversation: str, message: Any, misspelt: str, meant: str
) -> None:
    """A misspelt field is refused with the right name, and not kept as a provider's field."""
    said, pointer, detail = await refused_message(client, conversation, message)
    assert pointer == f"#/messages/0/message/{misspelt}"
    assert detail == f"An unknown field '{misspelt}'; did you mean '{meant}'?"
    assert said.endswith(f"did you mean '{meant}'?")


@pytest.mark.parametrize("field", ["reasoning_content", "cache_control", "tool_name", "annotations", "audio", "weight"])
async def test_a_providers_field_is_kept(client: httpx.AsyncClient, conversation: str, field: str) -> None:
    """A field that a provider adds to messages is kept."""
    message = {"role": "assistant", "content": "x", field: "y"}
    path = f"/conversations/{conversation}/messages"
    answer = await client.post(path, json={"messages": [{"message": message}]})
    assert answer.status_code == 201
    assert (await client.get(f"{path}/1")).json()["message"] == message


@pytest.mark.parametrize(
    ("path", "body", "pointer", "meant"),
    [
        ("/conversations", {"sytem": "x"}, "#/sytem", "system"),
        ("/conversations", {"ttlSeconds": 5}, "#/ttlSeconds", "ttl_seconds"),
        ("/window", {"message": [USER], "model": "gpt-4o"}, "#/message", "messages"),
        ("/window", {"messages": [{"message": USER, "pined": True}]}, "#/messages/0/pined", "pinned"),
        ("/count", {"Model": "gpt-4o", "text": "x"}, "#/Model", "model"),
    ],
)
async def test_a_misspelt_field_of_an_envelope(
    client: httpx.AsyncClient, path: str, body: Any, pointer: str, meant: str
) -> None:
    """An unknown field in a body of Sash's own is refused with the field that was meant."""
    _, found, detail = await refused(client, "POST", path, json=body)
    assert found == pointer
    assert detail.endswith(f"; did you mean '{meant}'?")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (b'"a"},', "trailing comma"),
        (b'"\xff"}', "not UTF-8"),
        (b'"a\tb"}', "invalid character"),
        (b'"a","weight":1e400}', "out of range"),
    ],
)
@pytest.mark.parametrize("wrapped", [False, True])
async def test_a_fault_of_the_json_is_named(
    client: httpx.AsyncClient, conversation: str, wrong: bytes, says: str, *, wrapped: bool
) -> None:
    """A body that is not JSON says what is wrong with it, whether its messages are bare or in entries."""
    message = b'{"role":"user","content":' + wrong
    given = b'{"message":' + message.rstrip(b",") + b"}" + b"," * message.endswith(b",") if wrapped else message
    body, headers = b'{"messages":[' + given + b"]}", {"Content-Type": "application/json"}
    answer = await client.post(f"/conversations/{conversation}/messages", content=body, headers=headers)
    assert answer.status_code == 400
    assert says in answer.json()["detail"]
    assert "role" not in answer.json()["detail"]


@pytest.mark.parametrize(
    ("path", "body", "pointer"),
    [
        ("/messages", b'{"messages":[%s,{"role":"user","content":"y","n":1e400}]}', "#/messages/1/n"),
        (
            "/messages",
            b'{"messages":[%s,{"message":{"role":"user","content":"y","n":-1e400}}]}',
            "#/messages/1/message/n",
        ),
        (
            "/messages",
            b'{"messages":[{"message":%s,"metadata":{"a/b":[1,{"c":1e400}]}}]}',
            "#/messages/0/metadata/a~1b/1/c",
        ),
        ("/messages?format=gemini", b'{"messages":[%s,{"parts":[{"text":"y","n":1e400}]}]}', "#/messages/1/parts/0/n"),
        ("/messages", b'{"messages":[{"role":"user","content":"y","n":1e400}],}', "#"),
        ("", b' {"metadata":{"a":%s,"n":1e400}}', "#/metadata/n"),
        ("", b'{"metadata":{"a":[123,' + b"9" * 4301 + b"]}}", "#/metadata/a/1"),
        ("", b'{"metadata":' + b'{"a":' * 50 + b"1e400" + b"}" * 51, "#/metadata" + "/a" * 50),
    ],
)
async def test_a_number_out_of_range_is_pointed_to(
    client: httpx.AsyncClient, conversation: str, path: str, body: bytes, pointer: str
) -> None:
    """The pointer to a number that is out of range has the names of members, in any body."""
    body = body.replace(b"%s", b'{"role":"user","content":"x"}')
    await client.post("/conversations", json={"id": conversation})
    method = "POST" if path else "PATCH"
    headers = {"Content-Type": "application/json"}
    _, found, detail = await refused(
        client, method, f"/conversations/{conversation}{path}", content=body, headers=headers
    )
    assert (found, detail) == (pointer, "Number out of range")


async def test_a_number_out_of_range_in_other_bodies(client: httpx.AsyncClient) -> None:
    """A count and a line of an import point to a number that is out of range as an append does."""
    bare, headers = b'{"role":"user","content":"y","n":1e400}', {"Content-Type": "application/json"}
    body = b'{"model":"gpt-4o","messages":[{"role":"user","content":"x"},' + bare + b"]}"
    _, found, _ = await refused(client, "POST", "/count", content=body, headers=headers)
    assert found == "#/messages/1/n"
    lines = b'{}\n{"message":' + bare + b"}\n"
    headers = {"Content-Type": "application/x-ndjson"}
    _, found, _ = await refused(client, "POST", "/conversations/import", content=lines, headers=headers)
    assert found == "#/lines/2/message/n"


async def test_a_bare_chat_message_without_its_list(client: httpx.AsyncClient, conversation: str) -> None:
    """The error about a message sent without its list has an example of the right body, which the server accepts."""
    path = f"/conversations/{conversation}/messages"
    _, _, detail = await refused(client, "POST", path, json=USER)
    example = json.loads(detail.partition(" goes into ")[2])
    assert (await client.post(path, json=example)).status_code == 201


@pytest.mark.parametrize(
    ("path", "body", "hint"),
    [
        (
            "/conversations/c/messages",
            {"model": "gpt-4o", "messages": [USER]},
            "; it goes into the address, as ?model=",
        ),
        ("/conversations/c/messages", {"contents": []}, "; ?format=gemini takes such messages, in 'messages'"),
        ("/window", {"model": "gpt-4o", "input": []}, "; ?format=responses takes such messages, in 'messages'"),
        ("/count", {"model": "gpt-4o", "contents": []}, "; ?format=gemini takes such messages"),
    ],
)
async def test_a_providers_request(client: httpx.AsyncClient, path: str, body: Any, hint: str) -> None:
    """A member of a provider's request that has its place elsewhere is refused with that place."""
    _, _, detail = await refused(client, "POST", path, json=body)
    assert detail.endswith(f"'{hint}")


@pytest.mark.parametrize(
    ("member", "form"), [("contents", "gemini"), ("input", "responses"), ("max_tokens", "anthropic")]
)
async def test_an_import_of_a_providers_request(client: httpx.AsyncClient, member: str, form: str) -> None:
    """The error about a provider's request in place of an export names the command and the format that read it."""
    headers = {"Content-Type": "application/x-ndjson"}
    line = json.dumps({"model": "x", member: []}).encode()
    _, _, detail = await refused(client, "POST", "/conversations/import", content=line, headers=headers)
    assert f"`sash import --format={form}`" in detail


async def test_a_field_like_no_other(client: httpx.AsyncClient) -> None:
    """An unknown field that is like no known one is told the known ones; in settings it may be data of one's own."""
    said, _, detail = await refused(client, "POST", "/conversations/x/rewind", json={"zzzz": 1})
    assert detail == "An unknown field 'zzzz'; known are 'to_seq', 'forget'"
    assert said == "An unknown field 'zzzz' at #/zzzz; known are 'to_seq', 'forget'."
    _, _, detail = await refused(client, "POST", "/conversations", json={"zzzz": 1})
    assert detail == """An unknown field 'zzzz'; data of your own goes into 'metadata': {"metadata": {"zzzz": "…"}}"""


async def test_a_missing_place_is_shown_as_a_number(client: httpx.AsyncClient) -> None:
    """The error about a missing seq shows one, and not a text."""
    _, _, detail = await refused(client, "POST", "/conversations/x/rewind", json={})
    assert detail == """The field 'to_seq' is missing: write {"to_seq": 6}"""


async def test_documents_beside_a_question(client: httpx.AsyncClient) -> None:
    """Documents beside a user's text are refused with their place, since they would be stored and not sent."""
    entry = {"role": "user", "content": "a talk?", "documents": [{"text": "The Network Latency Tax"}]}
    path = "/conversations/x/messages"
    _, pointer, detail = await refused(client, "POST", path, json={"messages": [entry]})
    assert pointer == "#/messages/0/documents"
    assert '{"grounding": {"documents": [{"text": "…"}]}}' in detail
    reply = {"role": "assistant", "content": "yes", "documents": []}
    assert (await client.post(path, json={"messages": [reply]})).status_code == 201


async def test_a_system_prompt_to_count(client: httpx.AsyncClient) -> None:
    """A system prompt beside the messages of a count is a message there, which the hint says."""
    counted = {"model": "gpt-4o", "system": "Be kind.", "messages": [USER]}
    _, _, detail = await refused(client, "POST", "/count", json=counted)
    assert "a system prompt is a message with the role 'system'" in detail


async def test_a_missing_parameter(client: httpx.AsyncClient) -> None:
    """A missing parameter is called one, and is not shown as JSON."""
    _, pointer, detail = await refused(client, "GET", "/conversations/x/window/diff")
    assert (pointer, detail) == ("#/query", "The parameter 'from' is missing")


async def test_a_pointer_is_a_uri_fragment(client: httpx.AsyncClient) -> None:
    """A pointer to a field with any name is a URI fragment (RFC 6901, section 6)."""
    _, pointer, detail = await refused(client, "POST", "/conversations/x/rewind", json={"é/[x]\0": 1})
    assert (pointer, detail) == ("#/%C3%A9~1%5Bx%5D%00", "An unknown field 'é/[x]\\x00'; known are 'to_seq', 'forget'")


async def test_the_first_word_of_a_field(client: httpx.AsyncClient) -> None:
    """The error about an unknown field that is the beginning of a known one suggests it, however long its rest is."""
    _, _, detail = await refused(client, "POST", "/conversations", json={"ttl": 3600})
    assert detail == "An unknown field 'ttl'; did you mean 'ttl_seconds'?"


async def test_a_misspelt_parameter(client: httpx.AsyncClient, conversation: str) -> None:
    """The error about a query parameter in camel case suggests its right name."""
    path = f"/conversations/{conversation}/window?model=gpt-4o&maxTokens=500"
    said, pointer, detail = await refused(client, "GET", path)
    assert (pointer, detail) == ("#/query/maxTokens", "An unknown parameter 'maxTokens'; did you mean 'max_tokens'?")
    assert said == "An unknown parameter 'maxTokens' at #/query/maxTokens; did you mean 'max_tokens'?"


async def test_a_misspelt_model(client: httpx.AsyncClient, conversation: str) -> None:
    """The detail of an unknown model's error names similar models, for clients that print only the detail."""
    answer = await client.get(f"/conversations/{conversation}/window?model=gtp-4o")
    assert answer.status_code == 422
    assert "No model is called 'gtp-4o'; did you mean 'gpt-4o'" in answer.json()["detail"]


async def test_a_model_unlike_any_other(client: httpx.AsyncClient) -> None:
    """The detail of an unknown model's error says how to use a model that is in no list."""
    answer = await client.post("/window", json={"model": "our-own-7b", "messages": []})
    detail = (
        "No model is called 'our-own-7b'. For a name of your own, such as a deployment's on Azure, name the model behind it "
        "here (your request to the provider keeps its name), or add it to SASH_MODELS_FILE. "
        "With max_tokens any name is taken, and its tokens are estimated."
    )
    assert (answer.status_code, answer.json()["detail"]) == (422, detail)


@pytest.mark.parametrize("name", ["acme-chat", "my-gpt-4o-mini", "prod-gpt4o", "gpt4o-mini-eastus", "contoso_gpt-4o"])
async def test_the_name_of_a_deployment_is_no_slip(client: httpx.AsyncClient, name: str) -> None:
    """An operator's own name for a model is not taken for a misspelt one, however many letters they share."""
    answer = await client.post("/window", json={"model": name, "messages": []})
    said = answer.json()["detail"]
    assert answer.status_code == 422
    assert "did you mean" not in said
    assert "SASH_MODELS_FILE" in said


FOREIGN = {
    "a message of Anthropic": {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "t", "content": "x"}],
    },
    "a content of Gemini": {"role": "user", "parts": [{"text": "hello"}]},
    "an item of OpenAI's Responses": {"type": "function_call_output", "call_id": "c", "output": "x"},
}


@pytest.mark.parametrize("what", FOREIGN)
async def test_another_apis_message_is_recognised(client: httpx.AsyncClient, conversation: str, what: str) -> None:
    """The error about another API's message names that API, shows a chat message, and gives the format to use instead."""
    _, pointer, detail = await refused_message(client, conversation, FOREIGN[what])
    form = what.rpartition(" ")[2].lower()
    assert detail.endswith(f"use ?format={form} to send it unchanged")
    assert pointer == "#/messages/0/message"
    assert detail.startswith(f"This is {what}, and not a chat message")
    assert '{"role": "user", "content": "Hello"}' in detail


@pytest.mark.parametrize("what", FOREIGN)
async def test_another_apis_bare_message_is_recognised(client: httpx.AsyncClient, conversation: str, what: str) -> None:
    """Another API's message is recognised without an entry around it, also if it has no role."""
    path = f"/conversations/{conversation}/messages"
    _, pointer, detail = await refused(client, "POST", path, json={"messages": [FOREIGN[what]]})
    assert pointer == "#/messages/0"
    assert detail.startswith(f"This is {what}, and not a chat message")


SNAPSHOT = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "input_text", "text": "x"}]}
MISPLACED = [
    (
        "responses",
        "anthropic",
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]},
    ),
    ("responses", "anthropic", {"type": "tool_use", "id": "t", "name": "f", "input": {}}),
    ("responses", "gemini", {"role": "model", "parts": [{"text": "x"}]}),
    ("anthropic", "responses", FOREIGN["an item of OpenAI's Responses"]),
    ("anthropic", "responses", {"role": "user", "content": [SNAPSHOT]}),
    ("anthropic", "gemini", FOREIGN["a content of Gemini"]),
    ("gemini", "anthropic", {"role": "model", "parts": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]}),
    ("gemini", "responses", FOREIGN["an item of OpenAI's Responses"]),
]


@pytest.mark.parametrize(("form", "other", "message"), MISPLACED)
async def test_a_message_in_another_providers_format(
    client: httpx.AsyncClient, conversation: str, form: str, other: str, message: Any
) -> None:
    """A part of another provider is refused, and the error names the format that takes it; /count refuses it too."""
    path = f"/conversations/{conversation}/messages?format={form}"
    _, pointer, detail = await refused(client, "POST", path, json={"messages": [message]})
    assert pointer == "#/messages/0"
    assert f"use ?format={other} to send it" in detail
    key = {"responses": "input", "anthropic": "messages", "gemini": "contents"}[form]
    _, pointer, _ = await refused(client, "POST", f"/count?format={form}", json={"model": "gpt-5", key: [message]})
    assert pointer == f"#/{key}/0"


@pytest.mark.parametrize("item", [{"foo": 1}, {"type": "function_call_output", "output": "x"}])
async def test_an_item_without_its_id(client: httpx.AsyncClient, conversation: str, item: Any) -> None:
    """An object that is no item of Responses, and a result without its call's id, are refused."""
    path = f"/conversations/{conversation}/messages?format=responses"
    said, pointer, _ = await refused(client, "POST", path, json={"messages": [{"message": item}]})
    assert pointer == "#/messages/0/message"
    assert said.startswith("The field ")


async def test_a_wrong_owner_is_named(client: httpx.AsyncClient) -> None:
    """The error about an owner's id in a path says which ids are allowed."""
    said, pointer, _ = await refused(client, "DELETE", "/owners/a%07b")
    assert pointer == "#/path/owner_id"
    assert said.startswith("The owner id must be 1 to 256 characters of any text without control characters")


async def test_a_bare_message_without_a_role(client: httpx.AsyncClient, conversation: str) -> None:
    """The error about a bare message without a role names the missing role."""
    path = f"/conversations/{conversation}/messages"
    said, _, _ = await refused(client, "POST", path, json={"messages": [{"content": "x"}]})
    assert said.startswith("The field 'role' is missing at #/messages/0: one of 'system', 'developer', 'user', ")


ORPHAN = {"role": "tool", "tool_call_id": "zz", "content": "x"}


@pytest.mark.parametrize("path", ["/window", "/conversations/{}/messages", "/conversations/{}/messages?format=gemini"])
async def test_the_pointer_into_a_bare_message(client: httpx.AsyncClient, conversation: str, path: str) -> None:
    """A pointer into a bare message has no step ``message``, which the body does not have."""
    body = {"messages": [USER, ORPHAN], **({"model": "gpt-4o"} if path == "/window" else {})}
    answer = await client.post(path.format(conversation), json=body)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "#/messages/1/tool_call_id"


@pytest.mark.parametrize("blocks", [-1, "hm", ["hm"], {"type": "thinking"}])
async def test_thinking_blocks_of_another_shape(client: httpx.AsyncClient, conversation: str, blocks: Any) -> None:
    """Thinking that Anthropic's form could not send is refused when it is appended, with a pointer to it."""
    message = {"role": "assistant", "content": "yes", "thinking_blocks": blocks}
    _, pointer, _ = await refused_message(client, conversation, message)
    assert pointer.startswith("#/messages/0/message/thinking_blocks")


@pytest.mark.parametrize("kind", [{}, [], None, 5, "x" * 500])
async def test_a_part_of_no_kind_at_all(client: httpx.AsyncClient, conversation: str, kind: Any) -> None:
    """The error about a part's type has a pointer to it, whatever its value is."""
    message = {"role": "tool", "tool_call_id": "c", "content": [{"type": kind, "text": "x"}]}
    _, pointer, _ = await refused_message(client, conversation, message)
    assert pointer == "#/messages/0/message/content/0/type"


async def test_usage_by_the_name_of_other_apis(client: httpx.AsyncClient, conversation: str) -> None:
    """A usage report may use input_tokens, the name in Responses and Anthropic, for prompt_tokens."""
    await client.post("/conversations", json={"id": conversation})
    path, body = f"/conversations/{conversation}/usage", {"model": "o3", "window_tokens": 100}
    answer = await client.post(path, json={**body, "input_tokens": 90})
    assert (answer.status_code, answer.json()["error"]) == (200, 10)


@pytest.mark.parametrize("given", [{}, {"input_tokens": 90, "prompt_tokens": 90}])
async def test_usage_is_given_once(client: httpx.AsyncClient, conversation: str, given: dict[str, int]) -> None:
    """A usage report with neither name of the billed tokens, or both, is refused."""
    await client.post("/conversations", json={"id": conversation})
    body = {"model": "o3", "window_tokens": 100, **given}
    _, pointer, _ = await refused(client, "POST", f"/conversations/{conversation}/usage", json=body)
    assert pointer == "#/prompt_tokens"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/models"),
        ("GET", "/models/gpt-4o"),
        ("GET", "/conversations/{}"),
        ("PATCH", "/conversations/{}"),
        ("DELETE", "/conversations/{}"),
        ("GET", "/conversations/{}/messages/1"),
        ("POST", "/conversations/{}/rewind"),
        ("PUT", "/conversations/{}/summary"),
    ],
)
async def test_a_parameter_of_a_call_that_takes_none_is_refused(
    client: httpx.AsyncClient, conversation: str, method: str, path: str
) -> None:
    """A query parameter is an error where a call takes none, and the call does nothing."""
    body: dict[str, Any] = {"json": {}} if method in ("PATCH", "POST", "PUT") else {}
    _, pointer, detail = await refused(client, method, path.format(conversation), params={"force": "1"}, **body)
    assert pointer == "#/query/force"
    assert detail.startswith("An unknown parameter 'force'; the call takes ")


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/metrics", "/stats", "/dashboard"])
async def test_operators_may_add_parameters(client: httpx.AsyncClient, path: str) -> None:
    """Probes, figures and pages ignore parameters, because balancers, scrapers and links add their own."""
    assert (await client.get(path, params={"x": "1"})).status_code == 200


ASKING: dict[str, tuple[str, str, Any, str]] = {
    "a slash in an id": ("GET", "/conversations/user/1", None, "write user-1 or user.1 for user/1"),
    "an encoded slash": ("GET", "/conversations/user%2F1", None, "write user-1 or user.1 for user/1"),
    "a slash before messages": ("POST", "/conversations/a/b/messages", {}, "An id cannot contain a slash"),
    "a list as body": (
        "POST",
        "{}/messages",
        [{"role": "user", "content": "x"}],
        'put the list into {"messages": […]}',
    ),
    "a text as body": ("POST", "{}/messages", "hello", 'send {"messages": [{"role": "user", "content": "Hello"}]}'),
    "content of a document": ("POST", "{}/messages", {"content": "t"}, "a document's text goes into 'text'"),
    "page_content": ("POST", "{}/messages", {"page_content": "t"}, "a document's text goes into 'text'"),
    "pageContent": ("POST", "{}/messages", {"pageContent": "t"}, "a document's text goes into 'text'"),
    "documents beside a message": (
        "POST",
        "{}/messages",
        {"messages": [{"message": USER, "documents": ["t"]}]},
        'documents go into \'grounding\': {"grounding": {"documents": [{"text": "…"}]}}',
    ),
    "a document's score": (
        "POST",
        "{}/messages",
        {"text": "t", "score": 1},
        "send the most relevant document first",
    ),
    "a text as document": ("POST", "{}/messages", "t", 'put the text into {"text": "…"}'),
    "after": ("GET", "{}/messages?after=3", None, "send the 'next_cursor' of the page before as ?cursor="),
    "page": ("GET", "/conversations?page=2", None, "send the 'next_cursor' of the page before as ?cursor="),
    "offset": ("GET", "{}/messages?offset=20", None, "send the 'next_cursor' of the page before as ?cursor="),
    "user_id": ("POST", "/conversations", {"user_id": "ann"}, "the user's id goes into 'owner'"),
    "user_id of a list": ("GET", "/conversations?user_id=ann", None, "the user's id goes into 'owner'"),
    "title": ("POST", "/conversations", {"title": "Trip"}, '{"metadata": {"title": "…"}}'),
    "deployment": ("GET", "{}/window?deployment=x", None, "name the model that is deployed in 'model'"),
    "the name of a deployment": (
        "GET",
        "{}/window?model=acme-chat",
        None,
        "name the model behind it",
    ),
    "q": ("GET", "{}/search?q=x", None, "the text to search for goes into 'query'"),
    "an owner with a slash": ("GET", "/owners/a/b/search?query=x", None, "percent-encoded in a path: a%2Fb for a/b"),
    "after_seq of an id alone": (
        "POST",
        "{}/messages?after_seq=m-2",
        {"messages": [USER]},
        "'id:' and its own id, as in id:m-7",
    ),
    "after_seq behind the end": (
        "POST",
        "{}/messages?after_seq=9",
        {"messages": [USER]},
        "The conversation ends with message 0",
    ),
    "per_page": ("GET", "{}/messages?per_page=5", None, "the number of items on a page goes into 'limit'"),
    "sort": ("GET", "{}/messages?sort=desc", None, "send ?order=asc or ?order=desc"),
    "name of a list": ("GET", "/conversations?name=Trip", None, "a part of the title goes into 'title'"),
    "channel of a list": ("GET", "/conversations?channel=web", None, "?metadata.channel=web"),
    "q of a list": ("GET", "/conversations?q=x", None, "GET /owners/{owner}/search?query=…"),
    "a slash in a new id": ("POST", "/conversations", {"id": "user/1"}, "write user-1 or user.1 for user/1"),
    "max_output_tokens": ("GET", "{}/window?max_output_tokens=9", None, "kept free for the reply go into 'reserve'"),
    "max_completion_tokens": ("POST", "/conversations", {"max_completion_tokens": 9}, "go into 'reserve'"),
    "completion_tokens": (
        "POST",
        "{}/usage",
        {"completion_tokens": 9},
        "send the tokens of the prompt as 'prompt_tokens'",
    ),
    "human": ("POST", "{}/messages", {"messages": [{"role": "human", "content": "x"}]}, "did you mean 'user'?"),
    "newest": ("GET", "{}/messages?order=newest", None, "did you mean 'desc'?"),
    "two slips": ("GET", "{}/window?overlfow=skip", None, "did you mean 'overflow'?"),
    "a name like no other": ("GET", "{}/window?overlook=skip", None, "the call takes 'model'"),
    "thread_id": ("POST", "/conversations", {"thread_id": "t-1"}, "the conversation's id goes into 'id'"),
    "instructions": ("POST", "/conversations", {"instructions": "x"}, "the system prompt goes into 'system'"),
    "messages of a new one": ("POST", "/conversations", {"messages": []}, "POST /conversations/{id}/messages"),
    "max_tokens of a new one": ("POST", "/conversations", {"max_tokens": 5}, "it is a parameter of each window"),
    "temperature": ("POST", "/conversations", {"temperature": 1}, "it goes to the model"),
    "last_n": ("GET", "{}/window?last_n=3", None, "'limit' is the number of newest messages, and 'turns' that of"),
    "a budget": ("GET", "{}/window?token_limit=3", None, "a window's largest number of tokens goes into 'max_tokens'"),
    "the model in the address of a window and in its body": (
        "POST",
        "/window?model=gpt-4o",
        {"messages": [], "model": "gpt-4o-mini"},
        "Give model once: in the address, or in the body",
    ),
    "the model in the address of a count": ("POST", "/count?model=gpt-4o", {}, 'it goes into the body: {"model": …}'),
    "a parameter in the body": ("POST", "{}/messages", {"reserve": 5}, "it goes into the address, as ?reserve="),
    "null for after_seq": ("POST", "{}/messages?after_seq=null", {"messages": []}, "or leave the parameter out"),
    "null for a number": (
        "GET",
        "{}/window?reserve=null",
        None,
        "not 'null' at #/query/reserve: give a value, or leave",
    ),
    "nothing for a number": (
        "GET",
        "{}/window?reserve=",
        None,
        "not an empty value at #/query/reserve: give a value, or",
    ),
    "undefined for a number": ("GET", "{}/window?reserve=undefined", None, "give a value, or leave the parameter out"),
    "null billed tokens": (
        "POST",
        "{}/usage",
        {"model": "gpt-4o", "window_tokens": 5, "prompt_tokens": None},
        "The billed tokens are missing, or null: copy the number from the provider's usage",
    ),
    "the provider's usage as it is": ("POST", "{}/usage", {"usage": {}}, "copy its figures"),
    "a text for the messages": (
        "POST",
        "{}/messages",
        {"messages": "hi"},
        'send [{"role": "user", "content": "Hello"}]',
    ),
    "a message for the messages": ("POST", "{}/messages", {"messages": USER}, "put the object into a list, [{…}]"),
    "no messages": ("POST", "{}/messages", {"messages": []}, 'not an empty list at #/messages: send [{"role": "user"'),
    "messages of texts": ("POST", "{}/messages", {"messages": ["hi"]}, 'send {"role": "user", "content": "Hello"}'),
    "a text for few-shots": (
        "POST",
        "/conversations",
        {"few_shots": "hi"},
        'send [{"role": "user", "content": "Hello"}]',
    ),
    "a text for a tool": ("POST", "/conversations", {"tools": ["search"]}, 'send {"type": "function", "function":'),
    "a number in quotes": ("POST", "/window", {"reserve": "5", "messages": []}, "write the number without quotes"),
    "an id without quotes": ("POST", "/conversations", {"id": 5}, 'write it in quotes, "5"'),
    "another method": ("GET", "/window", None, "takes POST (Build a window from a history in the body)"),
    "put for post": ("PUT", "{}/rewind", {}, "it takes POST (Take away the messages after a given one)"),
    "an unknown conversation": ("GET", "/conversations/none/window", None, "POST /conversations/{id}/messages"),
    "a singular": ("GET", "/conversation/c-1", None, "did you mean /conversations/{conversation_id}?"),
    "a prefix": ("POST", "/v1/conversations", {}, "did you mean /conversations? Paths have no prefix such as /v1"),
    "a path without its conversation": (
        "POST",
        "/messages",
        {},
        "did you mean /conversations/{conversation_id}/messages?",
    ),
    "the provider's path": ("POST", "/v1/chat/completions", {}, "Sash does not call the model"),
    "a usual probe": ("GET", "/health", None, "GET /livez"),
    "a made-up call": ("POST", "{}/append", {}, "Below a conversation are branches, events, export, fork, messages"),
    "a list to count": ("POST", "/count", [], 'put the list into {"model": "gpt-4o-mini", "messages": […]}'),
    "text of a message": (
        "POST",
        "{}/messages",
        {"messages": [{"role": "user", "text": "x"}]},
        "what 'text' has goes into",
    ),
    "claude as a format": ("POST", "{}/messages?format=claude", {"messages": [USER]}, "did you mean 'anthropic'?"),
    "chat as a format": ("GET", "{}/window?format=chat_completions", None, "did you mean 'openai'?"),
    "a part without its type": (
        "POST",
        "{}/messages",
        {"messages": [{"role": "user", "content": [{"text": "x"}]}]},
        'write {"type": "text", "text": "…"}',
    ),
    "a reply that is done": (
        "POST",
        "{}/messages",
        {"messages": [{"role": "assistant", "content": "x", "status": "done"}]},
        "did you mean 'completed'?",
    ),
    "recall that is on": ("POST", "/conversations", {"recall": "on"}, "did you mean 'lexical'?"),
    "the agent of a window": ("GET", "{}/window?agent=billing", None, "goes into 'view'"),
    "the order of a window": ("GET", "{}/window?order=newest", None, "a window has the newest messages that fit"),
    "events since a version": ("GET", "{}/events?since=3", None, "goes into 'after'"),
    "a prompt to count": (
        "POST",
        "/count",
        {"model": "gpt-4o", "prompt": "x"},
        "a plain text to count goes into 'text'",
    ),
    "a title beside the documents": (
        "POST",
        "/conversations",
        {"grounding_template": "{content} {title} {documents}"},
        "{title} is of each",
    ),
    "the source of a document": (
        "POST",
        "{}/messages",
        {"text": "t", "source": "a.pdf"},
        "a document's address goes into",
    ),
    "an own member of a document": (
        "POST",
        "{}/messages",
        {"messages": [{"message": USER, "grounding": {"documents": [{"text": "t", "embedding": [1]}]}}]},
        'data of your own into \'metadata\': {"metadata": {"embedding": "…"}}',
    ),
    "a list for documents": (
        "POST",
        "{}/messages",
        {"messages": [{"message": USER, "grounding": ["t"]}]},
        'put the list into {"documents": […]}',
    ),
    "an empty title": ("GET", "/conversations?title=", None, "give a value, or leave the parameter out"),
    "a result without its call": (
        "POST",
        "{}/messages",
        {"messages": [{"role": "tool", "content": "x"}]},
        "the id of the call",
    ),
    "LangChain's pair": (
        "POST",
        "{}/messages",
        {"messages": [["human", "x"]]},
        'not a list at #/messages/0: send {"role": "user", "content": "Hello"}',
    ),
    "LangChain's call": (
        "POST",
        "{}/messages",
        {
            "messages": [
                {"role": "assistant", "tool_calls": [{"name": "f", "args": {}, "id": "x", "type": "tool_call"}]}
            ]
        },
        "did you mean 'function'?",
    ),
    "functions": ("POST", "/conversations", {"functions": [{"name": "f"}]}, "tools go into 'tools'"),
    "functions of a window": (
        "POST",
        "/window",
        {"messages": [], "functions": [{"name": "f"}]},
        "tools go into 'tools'",
    ),
    "Gemini's tools": (
        "POST",
        "/conversations",
        {"tools": [{"functionDeclarations": [{"name": "f"}]}]},
        "The field 'type' is missing at #/tools/0: one of 'function' or 'custom'",
    ),
    "Anthropic's system blocks": (
        "POST",
        "/conversations",
        {"system": [{"type": "text", "text": "x"}]},
        'not a list at #/system: send one text, "…"',
    ),
    "a pair for few-shots": (
        "POST",
        "/conversations",
        {"few_shots": [["q", "a"]]},
        'not a list at #/few_shots/0: send {"role": "user", "content": "Hello"}',
    ),
    "an input and an output for few-shots": (
        "POST",
        "/conversations",
        {"few_shots": [{"input": "q", "output": "a"}]},
        "The field 'role' is missing at #/few_shots/0: one of 'system', 'developer', 'user',",
    ),
    "top_k of a search": ("GET", "{}/search?query=x&top_k=3", None, "the number of messages goes into 'limit'"),
    "stream of an append": ("POST", "{}/messages", {"messages": [USER], "stream": True}, "it goes to the model"),
    "a format in capitals": ("GET", "{}/window?format=OpenAI", None, "did you mean 'openai'?"),
    "an owner's list": ("GET", "/owners/ann", None, "GET /conversations?owner= lists an owner's conversations"),
    "useChat's list without its format": (
        "PUT",
        "{}/messages",
        {"messages": [{"id": "u-1", "role": "user", "parts": [{"type": "text", "text": "x"}]}]},
        "as `useChat` holds them, with ?format=ui",
    ),
    "a word for a number": (
        "GET",
        "{}/window?limit=few",
        None,
        "Expected a whole number from 1 to 1000000000, not 'few'",
    ),
}


@pytest.mark.parametrize("mistake", ASKING)
async def test_a_mistake_of_the_first_hour(client: httpx.AsyncClient, conversation: str, mistake: str) -> None:
    """What other services call something else, or take in another shape, is refused with what to write."""
    method, path, body, said = ASKING[mistake]
    if ("document" in said and "messages" not in body) or mistake == "a text as document":
        body = {"messages": [{"role": "user", "content": "x", "grounding": {"documents": [body]}}]}
    await client.post("/conversations", json={"id": conversation, "model": "gpt-4o"})

    answer = await client.request(method, path.format(f"/conversations/{conversation}"), json=body)

    assert 400 <= answer.status_code < 500
    assert said in answer.json()["detail"]


async def test_an_empty_body(client: httpx.AsyncClient, conversation: str) -> None:
    """The error about an empty body has a right one, which the server accepts."""
    path, headers = f"/conversations/{conversation}/messages", {"Content-Type": "application/json"}
    _, _, detail = await refused(client, "POST", path, content=b"", headers=headers)
    example = json.loads(detail.partition(": send ")[2])
    assert (await client.post(path, json=example)).status_code == 201


async def test_a_body_that_is_too_large(client: httpx.AsyncClient, conversation: str) -> None:
    """The error about a body over the limit says how to send it, and who sets the limit."""
    path, long = f"/conversations/{conversation}/messages", {"role": "user", "content": "x" * 5_000_000}
    answer = await client.post(path, json={"messages": [long]})
    assert answer.status_code == 413
    assert "The body is over 4194304 bytes: append in several requests" in answer.json()["detail"]
    assert "SASH_MAX_BODY_BYTES" in answer.json()["detail"]


async def test_a_reply_that_is_completed_twice(client: httpx.AsyncClient, conversation: str) -> None:
    """The error about another text of a completed reply says that it is final, and the advice in it works."""
    path = f"/conversations/{conversation}/messages"
    reply = {"id": "r-1", "role": "assistant", "content": "Ye", "status": "in_progress"}
    await client.post(path, json={"messages": [USER, reply]})
    await client.post(path, json={"messages": [reply | {"content": "Yes", "status": "completed"}]})
    again = {"messages": [reply | {"content": "Yes, two", "status": "completed"}]}

    answer = await client.post(path, json=again)

    assert answer.status_code == 409
    assert "else give this entry another id, or append" in answer.json()["detail"]
    assert (await client.post(path, json=again, params={"after_seq": 1})).status_code == 201
    assert (await client.get(f"{path}/2")).json()["message"]["content"] == "Yes, two"


def bodies() -> list[Any]:
    return [handler for handler in ROUTES if hasattr(operation_of(handler).takes, "__struct_encode_fields__")]


def named(handler: Any, conversation: str) -> tuple[str, str]:
    """The method and path of an operation, for the given conversation."""
    (path,), (method,) = handler.paths, handler.http_methods
    path = template_of(path).replace("{conversation_id}", conversation)
    return method, re.sub(r"\{\w+\}", "1", path)


@pytest.mark.parametrize("handler", bodies(), ids=lambda handler: handler.operation_id)
async def test_a_member_of_the_body_in_the_address(client: httpx.AsyncClient, conversation: str, handler: Any) -> None:
    """Each member of each body is told its place when it is in the address, and what the call takes there is not."""
    declared = operation_of(handler)
    method, path = named(handler, conversation)
    taken = declared.query.__struct_encode_fields__ if declared.query else ()
    for member in declared.takes.__struct_encode_fields__:
        if member not in taken:
            _, pointer, detail = await refused(client, method, path, params={member: "1"}, json={})
            assert (pointer, detail.partition("; ")[2]) == (
                f"#/query/{member}",
                f'it goes into the body: {{"{member}": …}}',
            )


@pytest.mark.parametrize("nothing", ["null", "", "undefined", "None"])
@pytest.mark.parametrize("handler", ROUTES, ids=lambda handler: handler.operation_id)
async def test_a_parameter_without_a_value(
    client: httpx.AsyncClient, conversation: str, handler: Any, nothing: str
) -> None:
    """A refused parameter without a value can be left out, unless the call needs it; the error says so."""
    declared = operation_of(handler)
    method, path = named(handler, conversation)
    for field in msgspec.structs.fields(declared.query) if declared.query else ():
        answer = await client.request(method, path, params={field.encode_name: nothing}, json={})
        problem = answer.json() if answer.status_code == 400 else {"errors": []}
        for wrong in problem["errors"]:
            if wrong["pointer"] == f"#/query/{field.encode_name}" and "cursor" not in wrong["pointer"]:
                assert ("leave the parameter out" in wrong["detail"]) is not field.required


@pytest.mark.parametrize("handler", bodies(), ids=lambda handler: handler.operation_id)
async def test_a_text_for_a_list_is_told_what_to_send(
    client: httpx.AsyncClient, conversation: str, handler: Any
) -> None:
    """Wherever a list is wanted and a text came, the error has what to send."""
    method, path = named(handler, conversation)
    for field in msgspec.structs.fields(operation_of(handler).takes):
        answer = await client.request(method, path, json={field.encode_name: "hi"})
        for wrong in answer.json().get("errors", ()):
            if "Expected a list" in wrong["detail"]:
                assert re.search(r": (send|put) ", wrong["detail"])


PYTHON = re.compile(r"\b(int|str|float|bool|dict|tuple|None|NoneType|NaN|True|False|Struct|msgspec)\b|`| \| |\^\[")
WRONG = ("\u0007", 1.5, True, -1, [[1]], {"a": {}}, [{"b": None}], "None")
"""Values of every type, of which each member of a body refuses most."""


def without_python(answer: httpx.Response) -> None:
    """Check that a refusal speaks of JSON, in its sentence and at each place."""
    if answer.status_code < 400:
        return
    told = answer.json()
    texts = [told["detail"], told["title"], *(each["detail"] for each in told.get("errors", ()))]
    assert [text for text in texts if PYTHON.search(text.replace("'None'", "").replace("None.", ""))] == []


@pytest.mark.parametrize("handler", ROUTES, ids=lambda handler: handler.operation_id)
async def test_messages_have_no_words_of_python(client: httpx.AsyncClient, conversation: str, handler: Any) -> None:
    """Values of every wrong type, for every member and parameter of every call, are told in JSON's words."""
    declared = operation_of(handler)
    (path,), (method,) = handler.paths, handler.http_methods
    path = template_of(path)
    if method == "DELETE" or "text/event-stream" in declared.gives_types:  # a stream does not end
        return
    for wrong in WRONG:
        await client.post("/conversations", json={"id": conversation, "model": "gpt-4o"})
        await client.post(f"/conversations/{conversation}/messages", json={"messages": [USER]})
        where = re.sub(r"\{\w+\}", "1", path.replace("{conversation_id}", conversation))
        if isinstance(declared.takes, type):
            for field in msgspec.structs.fields(declared.takes):
                without_python(await client.request(method, where, json={field.encode_name: wrong}))
            without_python(await client.request(method, where, json=wrong))
        for field in msgspec.structs.fields(declared.query) if declared.query else ():
            given = wrong if isinstance(wrong, str) else json.dumps(wrong)
            without_python(await client.request(method, where, params={field.encode_name: given}))


async def test_an_entry_has_no_words_of_python(client: httpx.AsyncClient, conversation: str) -> None:
    """Values of every wrong type in an entry, its message, its documents and its calls are told in JSON's words."""
    path = f"/conversations/{conversation}/messages"
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    whole: dict[str, Any] = {
        "message": {"role": "assistant", "content": [{"type": "text", "text": "x"}], "tool_calls": [call]},
        "grounding": {"documents": [{"id": "a", "text": "t", "short": "s", "levels": ["t"]}]},
        "id": "m",
        "pinned": True,
        "metadata": {},
        "status": "completed",
        "image_sizes": [[1, 1]],
    }
    places: list[tuple[Any, ...]] = [(name,) for name in whole]
    places += [("message", name) for name in ("role", "content", "tool_calls", "name", "refusal")]
    places += [("message", "content", 0, "type"), ("message", "content", 0, "text"), ("message", "tool_calls", 0, "id")]
    places += [("message", "tool_calls", 0, "function", name) for name in ("name", "arguments")]
    places += [("grounding", "documents"), *(("grounding", "documents", 0, name) for name in ("id", "text", "short"))]
    for wrong in WRONG:
        for *steps, last in places:
            entry = copy.deepcopy(whole)
            inner: Any = entry
            for step in steps:
                inner = inner[step]
            inner[last] = wrong
            without_python(await client.post(path, json={"messages": [entry]}))


def test_pages_of_problems_have_no_words_of_python() -> None:
    """The titles, examples and pages of all problems speak of JSON."""
    for kind in problem_types():
        texts = [kind.title, kind.example, *meaning(kind)]
        assert [text for text in texts if PYTHON.search(text.replace("`", "").replace("None of", ""))] == [], kind
