"""Messages in providers' own formats over HTTP: appended and sent unchanged."""

import json
from typing import Any

import httpx
import pytest
from recordings import NO_TRUTH, TRUTH
from rigs.dialogue import append, calling, history, problem, result, user, window

from sash.core.providers import PROVIDERS
from sash.core.providers.google.gemini_mends import in_camel_case
from sash.core.providers.reading.own_parts import parts_of

MESSAGES = {"responses": "input", "anthropic": "messages", "gemini": "contents"}
CLAUDE = [
    {"role": "user", "content": "Weather in Paris and Rome?"},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Two calls.", "signature": "c2ln"},
            {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Paris"}},
            {"type": "tool_use", "id": "t2", "name": "weather", "input": {"city": "Rome"}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "t2", "content": "rain", "is_error": False},
            {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "sun"}]},
            {"type": "text", "text": "And tomorrow?"},
        ],
    },
]
REPLY = [
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2Vh"},
    {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "weather", "arguments": "{}"},
    {"type": "function_call", "id": "fc_2", "call_id": "c2", "name": "weather", "arguments": "{}"},
]
OUTPUTS = [{"type": "function_call_output", "call_id": call, "output": "sun"} for call in ("c1", "c2")]
SEARCH = {
    "role": "assistant",
    "content": [
        {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "x"}},
        {"type": "text", "text": "Found."},
    ],
}


async def test_a_turn_comes_back(client: httpx.AsyncClient, conversation: str) -> None:
    """Anthropic's messages, appended one by one, give the same request again, including thinking blocks."""
    for message in CLAUDE:
        await append(client, conversation, message, format="anthropic")

    made = await window(client, conversation, model="claude-sonnet-4-5", format="anthropic", reasoning="all")

    assert made["request"]["messages"] == CLAUDE
    assert made["kept"]["messages"] == 5


async def test_one_message_is_several_entries(client: httpx.AsyncClient, conversation: str) -> None:
    """An entry that becomes several messages gives them ids derived from its own, and is stored once when sent twice."""
    await append(client, conversation, *CLAUDE[:2], format="anthropic")
    entry = {"id": "m-7", "message": CLAUDE[2], "metadata": {"k": 1}}

    first = await append(client, conversation, entry, format="anthropic")
    again = await append(client, conversation, entry, format="anthropic")

    assert [message["id"] for message in first["messages"]] == ["m-7", "m-7.1", "m-7.2"]
    assert (first["first_seq"], first["last_seq"]) == (3, 5)
    assert all(message["duplicate"] for message in again["messages"])
    assert len(await history(client, conversation)) == 5


async def test_other_content_under_an_id_is_a_conflict(client: httpx.AsyncClient, conversation: str) -> None:
    """Missing or different blocks under a known id are 409, and the error points to the client's entry."""
    await append(client, conversation, *CLAUDE[:2], format="anthropic")
    await append(client, conversation, {"id": "m-7", "message": CLAUDE[2]}, format="anthropic")
    blocks: Any = CLAUDE[2]["content"]
    other = {"type": "text", "text": "And on Sunday?"}
    for changed in (blocks[:2], [*blocks[:2], other], [*blocks[1:]]):
        entry = {"id": "m-7", "message": {"role": "user", "content": changed}}
        answer = await client.post(
            f"/conversations/{conversation}/messages?format=anthropic", json={"messages": [entry]}
        )
        assert problem(answer, 409, "entry-conflict")["errors"][0]["pointer"] == "#/messages/0/id"


@pytest.mark.parametrize("wrapped", ["bare", "each", "together"])
async def test_items_of_a_reply_join(client: httpx.AsyncClient, conversation: str, wrapped: str) -> None:
    """Items of one reply become one message with two calls, sent bare, each in an entry or all in one entry."""
    entries: list[Any] = [{"role": "user", "content": "Weather?"}]
    match wrapped:
        case "bare":
            entries += REPLY
        case "each":
            entries += [{"id": f"m-{index}", "message": item} for index, item in enumerate(REPLY)]
        case _:
            entries.append({"id": "m-0", "message": REPLY})

    body = await append(client, conversation, *entries, format="responses")
    await append(client, conversation, *OUTPUTS, format="responses")

    assert len(body["messages"]) == 2
    assert wrapped == "bare" or body["messages"][1]["id"] == "m-0"
    made = await window(client, conversation, model="gpt-5", format="responses")
    assert made["request"]["input"] == [entries[0], *REPLY, *OUTPUTS]


@pytest.mark.parametrize(("choice", "sent"), [("turn", [False, True]), ("all", [True, True]), ("none", [False, False])])
async def test_encrypted_reasoning_of_earlier_turns_is_free(
    client: httpx.AsyncClient, conversation: str, choice: str, sent: list[bool]
) -> None:
    """OpenAI bills encrypted reasoning until the next question. ``reasoning`` says which is sent, and the total agrees."""
    for turn in ("1", "2"):
        thought = {"type": "reasoning", "id": f"rs_{turn}", "summary": [], "encrypted_content": "gAAAAA" * 300}
        call = {"type": "function_call", "call_id": f"c{turn}", "name": "look", "arguments": "{}"}
        output = {"type": "function_call_output", "call_id": f"c{turn}", "output": "sun"}
        said = {"role": "assistant", "content": "It is sunny."}
        await append(client, conversation, user(f"Question {turn}"), thought, call, output, said, format="responses")

    made = await window(client, conversation, model="gpt-5", format="responses", reasoning=choice)

    items = made["request"]["input"]
    assert [any(item.get("id") == f"rs_{turn}" for item in items) for turn in ("1", "2")] == sent
    assert made["tokens"]["reasoning"] == (183 if sent[1] else 0)
    assert (made["dropped"]["reasoning_tokens"] > 0) == (sent != [True, True])
    request = {"model": "gpt-5", **made["request"]}
    assert (await client.post("/count?format=responses", json=request)).json()["tokens"] == made["tokens"]["total"]


@pytest.mark.parametrize("form", ["responses", "gemini"])
async def test_results_of_parallel_calls_come_one_by_one(
    client: httpx.AsyncClient, conversation: str, form: str
) -> None:
    """Results may be appended in separate requests, the last call's first; Gemini gets them as one content, as required."""
    question: Any = {"role": "user", "content": "Weather?"}
    calls, results = REPLY, OUTPUTS[::-1]
    if form == "gemini":
        names = {"name": "weather", "id": "c1"}, {"name": "weather", "id": "c2"}
        question = {"role": "user", "parts": [{"text": "Weather?"}]}
        calls = [{"role": "model", "parts": [{"functionCall": each} for each in names]}]
        results = [{"role": "user", "parts": [{"functionResponse": {**each, "response": {}}}]} for each in names[::-1]]
    await append(client, conversation, question, *calls, format=form)
    for each in results:
        await append(client, conversation, each, format=form)

    made = await window(client, conversation, model="gpt-5", format=form)

    if form == "gemini":
        results = [{"role": "user", "parts": [each["parts"][0] for each in results]}]
    assert made["request"][MESSAGES[form]] == [question, *calls, *results]


async def test_a_reply_comes_item_by_item(client: httpx.AsyncClient, conversation: str) -> None:
    """A reply in progress is replaced by one with one item more; its calls accept results once it is complete."""
    question = {"role": "user", "content": "Weather?"}
    await append(client, conversation, question, format="responses")
    for count, status in ((1, "in_progress"), (2, "in_progress"), (3, "completed")):
        entry = {"id": "r-1", "status": status, "message": REPLY[:count]}
        await append(client, conversation, entry, format="responses")
    await append(client, conversation, *OUTPUTS, format="responses")

    made = await window(client, conversation, model="gpt-5", format="responses")

    assert made["request"]["input"] == [question, *REPLY, *OUTPUTS]


async def test_calls_of_a_reply_that_come_apart_are_not_joined(client: httpx.AsyncClient, conversation: str) -> None:
    """If the calls of a reply arrive in two requests, the first call's late result is sent behind its call."""
    await append(client, conversation, {"role": "user", "content": "Weather?"}, *REPLY[:2], format="responses")
    await append(client, conversation, REPLY[2], format="responses")

    await append(client, conversation, *OUTPUTS, format="responses")

    made = await window(client, conversation, model="gpt-5", format="responses")
    calls = [item for item in made["request"]["input"] if "call_id" in item]
    first, second = (each["call_id"] for each in OUTPUTS)
    assert [item["call_id"] for item in calls] == [first, first, second, second]
    assert made["mended"]["reasons"]["late_result"] == 1


async def test_a_wrong_block_is_named(client: httpx.AsyncClient, conversation: str) -> None:
    """A block that its provider would refuse is 400; the error points to the block, and nothing is stored."""
    wrong = {"role": "user", "content": [{"type": "tool_result", "content": "sun"}]}
    answer = await client.post(
        f"/conversations/{conversation}/messages?format=anthropic", json={"messages": [CLAUDE[0], {"message": wrong}]}
    )

    body = problem(answer, 400, "invalid-entry")
    assert body["errors"][0]["pointer"].startswith("#/messages/1/message/content/0")
    assert await history(client, conversation) == []


async def test_an_orphan_is_named(client: httpx.AsyncClient, conversation: str) -> None:
    """A result without its call is 422; the error points to the client's entry, not to a message derived from it."""
    answer = await client.post(
        f"/conversations/{conversation}/messages?format=anthropic", json={"messages": [CLAUDE[0], CLAUDE[2]]}
    )

    assert problem(answer, 422, "orphan-tool-result")["errors"][0]["pointer"] == "#/messages/1"
    assert await history(client, conversation) == []


async def test_calls_with_one_id_are_named(client: httpx.AsyncClient) -> None:
    """Two calls with one id are 400; the error points to the client's entry, not to a member of its chat form."""
    call = {"functionCall": {"name": "look", "id": "a", "args": {}}}
    messages = [{"role": "user", "parts": [{"text": "Hi."}]}, {"role": "model", "parts": [call, call]}]

    answer = await client.post("/window?format=gemini", json={"model": "gemini-2.5-pro", "messages": messages})

    assert problem(answer, 400, "invalid-entry")["errors"][0]["pointer"] == "#/messages/1"


async def test_what_cannot_be_carried_is_named(client: httpx.AsyncClient, conversation: str) -> None:
    """A part without words is in its own format; in another one it is 422, or left out with ``uncarried=drop``."""
    upload = {
        "role": "user",
        "content": [{"type": "text", "text": "Sum it up."}, {"type": "container_upload", "file_id": "f"}],
    }
    await append(client, conversation, CLAUDE[0], upload, format="anthropic")

    own = await window(client, conversation, model="claude-sonnet-4-5", format="anthropic")
    assert own["request"]["messages"][1] == upload
    for form in ("openai", "responses", "gemini"):
        answer = await client.get(f"/conversations/{conversation}/window?model=gpt-4o&format={form}")
        body = problem(answer, 422, "format-cannot-carry")
        assert body["errors"][0]["pointer"] == "#/messages/2"
        assert "container_upload" in body["errors"][0]["detail"]
        assert "uncarried=drop" in body["detail"]
        left = await window(client, conversation, format=form, uncarried="drop", explain=True)
        assert "Sum it up." in json.dumps(left["request"])
        assert left["mended"] == {"messages": 1, "reasons": {"left_out_part": 1}}
        assert left["explain"][1]["mended"] == ["left_out_part"]


async def test_a_part_left_out_is_told_of_its_message(client: httpx.AsyncClient, conversation: str) -> None:
    """A part that is left out is told of the message that had it, also where a late result changes the order."""
    upload = {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "container_upload", "file_id": "f"}]}
    await append(client, conversation, user("Hi."), calling("a"))
    await append(client, conversation, upload, format="anthropic")
    await append(client, conversation, result("a"))

    left = await window(client, conversation, uncarried="drop", explain=True)

    assert {line["seq"]: line.get("mended") for line in left["explain"]} == {
        1: None, 2: None, 3: ["left_out_part"], 4: ["late_result"],
    }  # fmt: skip


@pytest.mark.parametrize("reply", [[{"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}], []])
async def test_a_reply_without_content(client: httpx.AsyncClient, conversation: str, reply: list[Any]) -> None:
    """A reply of thoughts alone, or of nothing, is left out where nothing is left of it; OpenAI gets an empty text."""
    again = {"role": "user", "content": "And now?"}
    await append(client, conversation, CLAUDE[0], {"role": "assistant", "content": reply}, again, format="anthropic")

    claude = await window(client, conversation, model="claude-opus-4-7", format="anthropic")
    chat = await window(client, conversation)

    assert claude["request"]["messages"] == [CLAUDE[0], again]
    assert chat["request"]["messages"][1] == {"role": "assistant", "content": ""}


SHELL = {"type": "shell_call", "call_id": "c1", "action": {"commands": ["ls"]}, "status": "completed"}
FILES = {"stdout": "a.txt\n" * 200, "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
SHELL_OUTPUT = {"type": "shell_call_output", "call_id": "c1", "output": [FILES]}
CLICK = {"type": "computer_call", "id": "cu_1", "call_id": "c1", "status": "completed", "action": {"type": "wait"}}
SCREEN = {"type": "computer_screenshot", "image_url": "data:image/png;base64,iVBORw0KGgo="}
CLICK_OUTPUT = {"type": "computer_call_output", "call_id": "c1", "output": SCREEN}


@pytest.mark.parametrize("change", ["cut", "call redacted", "result redacted"])
@pytest.mark.parametrize(("call", "output"), [(SHELL, SHELL_OUTPUT), (CLICK, CLICK_OUTPUT)], ids=["shell", "computer"])
async def test_a_changed_call_and_its_result_are_of_one_kind(
    client: httpx.AsyncClient, conversation: str, call: dict[str, Any], output: dict[str, Any], change: str
) -> None:
    """If a call or its result was changed, both are sent as a function's, because OpenAI takes only pairs of one kind."""
    await append(client, conversation, CLAUDE[0], call, output, {"role": "user", "content": "And?"}, format="responses")
    if change != "cut":
        seq = 2 if change == "call redacted" else 3
        assert (await client.delete(f"/conversations/{conversation}/messages/{seq}")).status_code == 204
    query = {"tool_results_kept": 0} if change == "cut" else {}

    made = await window(client, conversation, model="gpt-5", format="responses", **query)

    sent = made["request"]["input"][1:3]
    assert [item["type"] for item in sent] == ["function_call", "function_call_output"]
    assert [item["call_id"] for item in sent] == ["c1", "c1"]
    count = await client.post("/count?format=responses", json={"model": "gpt-5", **made["request"]})
    assert count.json()["tokens"] <= made["tokens"]["total"]


@pytest.mark.parametrize("form", ["responses", "anthropic", "gemini"])
async def test_chat_messages_without_content_are_taken_as_such(
    client: httpx.AsyncClient, conversation: str, form: str
) -> None:
    """Legacy calls, their results and refusals are chat messages in every format, and come back as they were sent."""
    said = [
        {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": "{}"}},
        {"role": "function", "name": "look", "content": "found"},
        {"role": "assistant", "content": None, "refusal": "No."},
    ]
    await append(client, conversation, *said, user("And now?"), format=form)
    made = await window(client, conversation)
    assert made["request"]["messages"][:3] == said


async def test_chat_and_native_in_one_conversation(client: httpx.AsyncClient, conversation: str) -> None:
    """A result in chat format answers a call in Anthropic's format, and chat windows hold no ``native`` member."""
    await append(client, conversation, *CLAUDE[:2], format="anthropic")
    await append(client, conversation, result("t1"), result("t2"), user("And tomorrow?"))

    claude = await window(client, conversation, model="claude-sonnet-4-5", format="anthropic")
    chat = await window(client, conversation)

    assert claude["request"]["messages"][:2] == CLAUDE[:2]
    assert [block["type"] for block in claude["request"]["messages"][2]["content"]] == ["tool_result"] * 2 + ["text"]
    assert [message["role"] for message in chat["request"]["messages"]] == ["user", "assistant", "tool", "tool", "user"]
    assert "native" not in json.dumps(chat["request"])
    assert claude["tokens"]["total"] > 0


async def test_documents_join_what_came(client: httpx.AsyncClient, conversation: str) -> None:
    """The documents of a question in Anthropic's format become a further block of its content."""
    blocks = [{"type": "text", "text": "What"}, {"type": "text", "text": " now?"}]
    entry = {"message": {"role": "user", "content": blocks}, "grounding": {"documents": [{"text": "A talk."}]}}
    await append(client, conversation, entry, format="anthropic")

    made = await window(client, conversation, model="claude-sonnet-4-5", format="anthropic")

    (message,) = made["request"]["messages"]
    assert message["content"][:2] == blocks
    assert "A talk." in message["content"][-1]["text"]


async def test_an_export_comes_back(client: httpx.AsyncClient, conversation: str) -> None:
    """An export with messages in a provider's format is imported unchanged; one with a forged ``native`` member is 400."""
    await append(client, conversation, *CLAUDE, SEARCH, format="anthropic")
    lines = (await client.get(f"/conversations/{conversation}/export")).text
    headers = {"content-type": "application/x-ndjson"}

    answer = await client.post(f"/conversations/import?id={conversation}-2", content=lines, headers=headers)
    assert answer.status_code == 201, answer.text

    made = await window(client, f"{conversation}-2", model="claude-sonnet-4-5", format="anthropic")
    assert made["request"]["messages"] == [*CLAUDE, SEARCH]
    forged = lines.replace('"Two calls."', "5")
    answer = await client.post(f"/conversations/import?id={conversation}-3", content=forged, headers=headers)
    assert answer.status_code == 400


async def test_a_redacted_message_keeps_nothing(client: httpx.AsyncClient, conversation: str) -> None:
    """Redacting messages also removes the content that only their provider's format has."""
    await append(client, conversation, *CLAUDE, format="anthropic")
    for seq in (2, 3, 5):
        assert (await client.delete(f"/conversations/{conversation}/messages/{seq}")).status_code in (200, 204)

    text = json.dumps(await history(client, conversation))
    assert not any(word in text for word in ("Two calls", "c2ln", "rain", "tomorrow"))
    made = await window(client, conversation, model="claude-sonnet-4-5", format="anthropic")
    assert [message["role"] for message in made["request"]["messages"]][:3] == ["user", "assistant", "user"]


@pytest.mark.parametrize("seq", [3, 4])
async def test_results_beside_a_redacted_one_stay_in_one_message(
    client: httpx.AsyncClient, conversation: str, seq: int
) -> None:
    """After one of several results is redacted, all still begin the one user message after their calls."""
    await append(client, conversation, *CLAUDE, format="anthropic")
    await client.delete(f"/conversations/{conversation}/messages/{seq}")

    made = await window(client, conversation, model="claude-sonnet-4-5", format="anthropic")

    _, _, answers, *later = made["request"]["messages"]
    assert [block.get("tool_use_id") for block in answers["content"]][:2] == ["t2", "t1"]
    assert "tool_result" not in str(later)


def exchange(form: str, call: str) -> list[dict[str, Any]]:
    """Return a question, a call with this id and its result, in a provider's form."""
    if form == "responses":
        made: dict[str, Any] = {"type": "function_call", "call_id": call, "name": "look", "arguments": "{}"}
        return [
            {"role": "user", "content": "Weather?"},
            made,
            {"type": "function_call_output", "call_id": call, "output": "sun"},
        ]
    if form == "anthropic":
        use = {"type": "tool_use", "id": call, "name": "look", "input": {}}
        found = {"type": "tool_result", "tool_use_id": call, "content": "sun"}
        return [
            {"role": "user", "content": "Weather?"},
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [found]},
        ]
    response = {"name": "look", "response": {"output": "sun"}} | ({"id": call} if call else {})
    return [
        {"role": "user", "parts": [{"text": "Weather?"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {}} | ({"id": call} if call else {})}]},
        {"role": "user", "parts": [{"functionResponse": response}]},
    ]


CALLS = ("functionCall", "functionResponse", "function_call", "function_response")


def sent_ids(request: dict[str, Any]) -> list[str]:
    """Return the ids of a request's calls and results, in order."""
    found = []
    key, messages = next((name, request[name]) for name in ("input", "messages", "contents") if name in request)
    provider = next(each for each in PROVIDERS.values() if each.shape.messages == key and not each.is_chat_form)
    for part in parts_of(provider, messages):
        body = next((part[name] for name in CALLS if name in part), part) if isinstance(part, dict) else {}
        found += [body[name] for name in ("call_id", "tool_use_id", "id") if name in body]
    return found


@pytest.mark.parametrize(
    ("form", "call"),
    [("responses", "call_1"), ("responses", "c" * 75), ("anthropic", "t:1"), ("gemini", "c" * 75), ("gemini", "")],
)
async def test_a_result_follows_the_new_id_of_its_redacted_call(
    client: httpx.AsyncClient, conversation: str, form: str, call: str
) -> None:
    """A redacted call that is sent with another id has its result under that id."""
    messages = [*exchange(form, call), *exchange(form, call)]
    await append(client, conversation, *messages, format=form)
    await client.delete(f"/conversations/{conversation}/messages/5")

    made = await window(client, conversation, model="claude-sonnet-4-5", format=form)

    before, after = sent_ids(made["request"])[:-2], sent_ids(made["request"])[-2:]
    if form == "responses" and len(call) > 64:
        assert before[0] == before[1]
        assert len(before[0]) <= 64
    else:
        first = "t_1_2" if form == "anthropic" else call  # Claude refuses other characters
        assert before == [first, first] * bool(call)
    assert after[0] == after[1]
    assert after[0] not in before


async def test_a_native_result_answers_a_chat_call(client: httpx.AsyncClient, conversation: str) -> None:
    """The id of a chat call that Anthropic refuses is changed in the call and in its native result."""
    call, question = "functions.look:0", {"message": {"role": "user", "content": "Weather?"}}
    await append(client, conversation, question, calling(call))
    await append(client, conversation, exchange("anthropic", call)[2], format="anthropic")

    made = await window(client, conversation, model="claude-sonnet-4-5", format="anthropic")

    assert sent_ids(made["request"]) == ["functions_look_0_2"] * 2


@pytest.mark.parametrize("redacted", [0, 2, 3])
async def test_a_call_and_its_result_are_of_one_kind(
    client: httpx.AsyncClient, conversation: str, redacted: int
) -> None:
    """OpenAI's own calls and results are sent as a function's if one of both was redacted or cut."""
    action = {"type": "exec", "command": ["ls"], "env": {}}
    call = {"type": "local_shell_call", "id": "lsh_1", "call_id": "c", "action": action, "status": "completed"}
    output = {"type": "local_shell_call_output", "id": "out_1", "call_id": "c", "output": "word " * 500}
    items = [{"role": "user", "content": "Go."}, call, output, {"role": "user", "content": "And now?"}]
    await append(client, conversation, *items, format="responses")
    whole = await window(client, conversation, format="responses")
    assert whole["request"]["input"] == items
    if redacted:
        await client.delete(f"/conversations/{conversation}/messages/{redacted}")
    query = {} if redacted else {"tool_result_max_tokens": 100}

    made = await window(client, conversation, format="responses", **query)

    sent = made["request"]["input"][1:3]
    assert [item["type"] for item in sent] == ["function_call", "function_call_output"]
    assert [item["call_id"] for item in sent] == ["c", "c"]


@pytest.mark.parametrize("wanted", [{"tool_result_max_tokens": 100}, {"max_tokens": 400}, {"tool_results_kept": 0}])
async def test_results_beside_a_cut_one_stay_in_one_message(client: httpx.AsyncClient, wanted: dict[str, Any]) -> None:
    """Where one of several results is cut, all are in the one user message after their calls."""
    results = [
        {"type": "tool_result", "tool_use_id": "t1", "content": "word " * 400},
        {"type": "tool_result", "tool_use_id": "t2", "content": "sun"},
    ]
    later = [{"role": "assistant", "content": "Fine."}, {"role": "user", "content": "And now?"}]
    messages = [*CLAUDE[:2], {"role": "user", "content": results}, *later]
    given = {"model": "claude-sonnet-4-5", "messages": messages, "reserve": 0, **wanted}

    made = (await client.post("/window?format=anthropic", json=given)).json()

    assert made["trimmed"]["messages"] >= 1
    sent = made["request"]["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "user", "assistant", "user"]
    assert [block["tool_use_id"] for block in sent[2]["content"]] == ["t1", "t2"]


async def test_bound_thoughts_are_left_out_behind_a_redacted_message(
    client: httpx.AsyncClient, conversation: str
) -> None:
    """After an earlier message is redacted, windows leave out thoughts if the model checks what precedes them."""
    await append(client, conversation, *CLAUDE, format="anthropic")
    asked = {"model": "claude-opus-5-5", "format": "anthropic", "reasoning": "all"}
    assert (await window(client, conversation, **asked))["tokens"]["reasoning"] > 0

    await client.delete(f"/conversations/{conversation}/messages/1")

    assert (await window(client, conversation, **asked))["tokens"]["reasoning"] == 0


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}, "use ?format=responses"),
        ({"message": {"text": "Hello"}}, "The field 'parts' is missing"),
    ],
)
async def test_what_is_no_content_of_gemini(
    client: httpx.AsyncClient, conversation: str, content: Any, says: str
) -> None:
    """An object with neither role nor parts is 400: it would become an empty message of the user."""
    path = f"/conversations/{conversation}/messages?format=gemini"
    answer = await client.post(path, json={"messages": [content]})

    assert says in problem(answer, 400, "invalid-entry")["detail"]


async def test_a_client_that_makes_up_a_native_member(client: httpx.AsyncClient, conversation: str) -> None:
    """A message with a client's own ``native`` member is 400, because Sash uses that name."""
    entry = {"message": {"role": "user", "content": "Hello", "native": {"a": 1}}}
    answer = await client.post(f"/conversations/{conversation}/messages", json={"messages": [entry]})

    assert problem(answer, 400, "invalid-entry")["errors"][0]["pointer"] == "#/messages/0/message/native"


async def test_a_window_of_a_body(client: httpx.AsyncClient) -> None:
    """POST /window reads the body's messages in the query's form, and answers in it unless the body names another."""
    body = {"model": "claude-sonnet-4-5", "messages": CLAUDE}

    same = (await client.post("/window?format=anthropic", json=body)).json()
    chat = (await client.post("/window?format=anthropic", json={**body, "format": "openai"})).json()

    assert same["request"]["messages"] == CLAUDE
    assert [message["role"] for message in chat["request"]["messages"]] == ["user", "assistant", "tool", "tool", "user"]
    assert same["tokens"]["total"] > chat["tokens"]["total"]


def recorded(name: str) -> list[Any]:
    return json.loads((TRUTH / f"{name}.json").read_text()) if TRUTH.is_dir() else []


@pytest.mark.skipif(not TRUTH.is_dir(), reason=NO_TRUTH)
@pytest.mark.parametrize(
    ("name", "form"), [("more_anthropic", "anthropic"), ("more_gemini", "gemini"), ("kani_responses", "responses")]
)
async def test_recorded_conversations(client: httpx.AsyncClient, name: str, form: str) -> None:
    """At least 95% of recorded conversations, appended turn by turn, give the request that was really sent."""
    equal, rows, unequal = 0, recorded(name), []
    for index, row in enumerate(rows):
        wanted = in_camel_case(row["request"][MESSAGES[form]]) if form == "gemini" else row["request"][MESSAGES[form]]
        made: Any = None
        for turn in turns_of(wanted):
            answer = await client.post(
                f"/conversations/recorded-{form}-{index}/messages?format={form}&model={row['model']}&max_tokens=10000000&reasoning=all",
                json={"messages": turn},
            )
            made = answer.json()
            if answer.status_code != 201:
                break
        if made.get("window") and made["window"]["request"][MESSAGES[form]] == without_parsed(wanted):
            equal += 1
        else:
            unequal.append((row["id"], made.get("detail") or made.get("window_error")))
    print(f"{form}: {equal} of {len(rows)} equal", unequal)
    assert equal >= 0.95 * len(rows)


def without_parsed(value: Any) -> Any:
    """Return the value without what OpenAI's SDK adds to replies and leaves out of requests."""
    if isinstance(value, list):
        return [without_parsed(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {name: without_parsed(each) for name, each in value.items() if name not in ("parsed", "parsed_arguments")}


def turns_of(messages: list[Any]) -> list[list[Any]]:
    """Return the messages in the groups in which a client appends them: the model's and the others, in turn."""
    turns: list[list[Any]] = []
    for message in messages:
        own = message.get("role") in ("assistant", "model") or message.get("type") in ("reasoning", "function_call")
        if turns and turns[-1][0] == own:
            turns[-1][1].append(message)
        else:
            turns.append([own, [message]])
    return [turn for _, turn in turns]
