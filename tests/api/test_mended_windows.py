"""What a provider refuses is stored as it came, and left out, renamed or moved in windows, which say so."""

import json
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from rigs.dialogue import append, assistant, calling, history, user, window
from validators import anthropic, converse, gemini, interactions
from validators.conversations import conversations
from validators.judges import JUDGES
from validators.logs import PIXEL
from validators.test_histories import refusals

from sash.core.providers.messages.sharing import restore

CLAUDE, GEMINI = "claude-sonnet-4-5", "gemini-3-pro-preview"
ASKED = {"role": "user", "content": "q"}
MARK = {"cache_control": {"type": "ephemeral"}}
USE = {"type": "tool_use", "id": "toolu_1", "name": "t", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "r"}


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def reply(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def said(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def picture(media_type: str) -> dict[str, Any]:
    """A picture, which is a PNG, with the type that is told."""
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": PIXEL}}


OPEN_SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
PAPER = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "words"}}
CITED = {
    "type": "char_location",
    "cited_text": "w",
    "document_index": 0,
    "document_title": "t",
    "start_char_index": 0,
    "end_char_index": 1,
}
FOUND_PAGE = {
    "type": "web_search_result_location",
    "cited_text": "w",
    "encrypted_index": "c2Vh",
    "url": "https://x.test/a",
    "title": "t",
}


def tools_found(*names: str) -> list[dict[str, Any]]:
    """Claude's search for tools, and what it found."""
    found = [{"type": "tool_reference", "tool_name": name} for name in names]
    kinds = "tool_search_tool_regex", "tool_search_tool_result", "tool_search_tool_search_result"
    return [
        {"type": "server_tool_use", "id": "srvtoolu_2", "name": kinds[0], "input": {"pattern": "g"}},
        {"type": kinds[1], "tool_use_id": "srvtoolu_2", "content": {"type": kinds[2], "tool_references": found}},
    ]


CASES: dict[str, tuple[list[Any], str, list[Any]]] = {
    "an empty text beside a call": (
        [ASKED, reply(text(""), USE), said(RESULT)], "blank_text", [ASKED, reply(USE), said(RESULT)],
    ),
    "an empty text in a result": (
        [ASKED, reply(USE), said({**RESULT, "content": [text(" "), text("r")]})],
        "blank_text",
        [ASKED, reply(USE), said({**RESULT, "content": [text("r")]})],
    ),
    "a user's turn of white space": ([said(text(" \n"))], "blank_text", [said(text("…"))]),
    "a reply of white space": ([ASKED, reply(text(" ")), ASKED], "blank_text", [ASKED, ASKED]),
    "text before a result": (
        [ASKED, reply(USE), said(text("also y"), RESULT)],
        "results_first",
        [ASKED, reply(USE), said(RESULT, text("also y"))],
    ),
    "an id used twice": (
        [ASKED, reply(USE), said(RESULT), reply(USE), said(RESULT)],
        "call_id",
        [
            *(ASKED, reply(USE), said(RESULT)),
            *(reply({**USE, "id": "toolu_1_4"}), said({**RESULT, "tool_use_id": "toolu_1_4"})),
        ],
    ),
    "an id of other characters": (
        [ASKED, reply({**USE, "id": "a.b:1"}), said({**RESULT, "tool_use_id": "a.b:1"})],
        "call_id",
        [ASKED, reply({**USE, "id": "a_b_1_2"}), said({**RESULT, "tool_use_id": "a_b_1_2"})],
    ),
    "a name of other characters": (
        [ASKED, reply({**USE, "name": "find talks!"}), said(RESULT)],
        "call_name",
        [ASKED, reply({**USE, "name": "find_talks_"}), said(RESULT)],
    ),
    "thinking without a signature": (
        [ASKED, reply({"type": "thinking", "thinking": "hm"}, text("a")), ASKED],
        "unsigned_thinking",
        [ASKED, reply(text("a")), ASKED],
    ),
    "a reply that is thinking alone": ([ASKED, reply(THOUGHT)], "last_thinking", [ASKED]),
    "white space at the end": ([ASKED, reply(text("a \n"))], "last_white_space", [ASKED, reply(text("a"))]),
    "a failed call without words": (
        [ASKED, reply(USE), said({**RESULT, "content": "", "is_error": True})],
        "failed_without_words",
        [ASKED, reply(USE), said({**RESULT, "content": ""})],
    ),
    "a failed call with a picture": (
        [ASKED, reply(USE), said({**RESULT, "content": [text("r"), picture("image/png")], "is_error": True})],
        "failed_with_media",
        [ASKED, reply(USE), said({**RESULT, "content": [text("r"), picture("image/png")]})],
    ),
    "a result whose failure is null": (
        [ASKED, reply(USE), said({**RESULT, "is_error": None})], "null_member", [ASKED, reply(USE), said(RESULT)],
    ),
    "a document with a long title and an empty context": (
        [said({**PAPER, "title": "t" * 501, "context": ""})], "title", [said({**PAPER, "title": "t" * 500})],
    ),
    "a document with an empty title in a result": (
        [ASKED, reply(USE), said({**RESULT, "content": [{**PAPER, "title": ""}]})],
        "title",
        [ASKED, reply(USE), said({**RESULT, "content": [PAPER]})],
    ),
    "a citation with an empty title": (
        [ASKED, reply(text("a", citations=[{**CITED, "document_title": ""}])), ASKED],
        "title",
        [ASKED, reply(text("a", citations=[{**CITED, "document_title": None}])), ASKED],
    ),
    "a citation of a page with a long title": (
        [ASKED, reply(text("a", citations=[{**FOUND_PAGE, "title": "t" * 300}])), ASKED],
        "title",
        [ASKED, reply(text("a", citations=[{**FOUND_PAGE, "title": "t" * 255}])), ASKED],
    ),
    "a mark inside a document": (
        [said({**PAPER, "source": {"type": "content", "content": [text("a"), text("b", **MARK)]}})],
        "nested_mark",
        [said({**PAPER, "source": {"type": "content", "content": [text("a"), text("b")]}, **MARK})],
    ),
    "documents of which one is cited": (
        [said({**PAPER, "citations": {"enabled": True}}), reply(text("a")), said(PAPER)],
        "some_citations",
        [said(PAPER), reply(text("a")), said(PAPER)],
    ),
    "a reference to a tool that is not declared": (
        [ASKED, reply(USE), said({**RESULT, "content": [{"type": "tool_reference", "tool_name": "gone"}]})],
        "tool_reference",
        [ASKED, reply(USE), said({**RESULT, "content": [text("gone")]})],
    ),
    "a search for tools that are not declared": (
        [ASKED, reply(*tools_found("gone"), text("a")), ASKED],
        "tool_reference",
        [ASKED, reply(*tools_found(), text("a")), ASKED],
    ),
    "a search that was interrupted": (
        [ASKED, reply(text("a"), OPEN_SEARCH), ASKED, reply(text("b")), ASKED],
        "hosted_pair",
        [ASKED, reply(text("a")), ASKED, reply(text("b")), ASKED],
    ),
    "a picture of another type than it says": (
        [said(picture("image/jpeg")), reply(text("a"))],
        "media_type",
        [said(picture("image/png")), reply(text("a"))],
    ),
    "a call of a search that was read in part": (
        [ASKED, reply({**OPEN_SEARCH, "input": ""}, FOUND, text("a")), ASKED],
        "broken_arguments",
        [ASKED, reply({**OPEN_SEARCH, "input": {}}, FOUND, text("a")), ASKED],
    ),
    "a mark of an hour behind one of five minutes": (
        [said(text("q", **MARK)), reply(text("a")), said(text("r", cache_control={"type": "ephemeral", "ttl": "1h"}))],
        "cache_marks",
        [said(text("q")), reply(text("a")), said(text("r", cache_control={"type": "ephemeral", "ttl": "1h"}))],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("messages", "name", "expected"), CASES.values(), ids=CASES)
async def test_what_claude_refuses_is_mended(
    client: httpx.AsyncClient, conversation: str, messages: list[Any], name: str, expected: list[Any]
) -> None:
    """The window is what Claude takes and names the mend, and its total covers the request."""
    await append(client, conversation, *messages, format="anthropic")

    made = await window(client, conversation, model=CLAUDE, format="anthropic", reasoning="all", explain=True)

    assert made["request"]["messages"] == expected
    assert anthropic.refused(made["request"], CLAUDE) == []
    assert name in made["mended"]["reasons"]
    assert any(name in line.get("mended", []) for line in made["explain"])
    assert await counted(client, made) <= made["tokens"]["total"]


async def counted(client: httpx.AsyncClient, made: Any) -> int:
    sent = {"model": made["model"], **made["request"]}
    answer = await client.post("/count", params={"format": made["format"]}, json=sent)
    tokens: int = answer.json()["tokens"]
    return tokens


async def test_what_claude_takes_is_sent_as_it_came(client: httpx.AsyncClient, conversation: str) -> None:
    """A history without anything to mend has no word of mends."""
    messages = [ASKED, reply(THOUGHT, text("a "), USE), said(RESULT, text("go on", **MARK)), reply(text("b"))]
    await append(client, conversation, *messages, format="anthropic")

    made = await window(client, conversation, model=CLAUDE, format="anthropic", reasoning="all")

    assert made["request"]["messages"] == messages
    assert "mended" not in made


@pytest.mark.parametrize(
    "signature",
    ["cfa12f9d651953943c7a33278051b61f586e2eae016258ad6b824836778406bd", "8a5e1f0c-9d1b-4c1e-8f3e-2b7d8c9e0f1a"],
)
async def test_thinking_that_another_maker_signed_is_not_sent_to_claude(
    client: httpx.AsyncClient, conversation: str, signature: str
) -> None:
    """Others write a digest or an identifier as the signature; Claude answers 400 to it, and they want it back."""
    messages = [ASKED, reply({"type": "thinking", "thinking": "hm", "signature": signature}, USE), said(RESULT)]
    await append(client, conversation, *messages, format="anthropic")

    made = await window(client, conversation, model=CLAUDE, format="anthropic")

    assert made["request"]["messages"] == [ASKED, reply(USE), said(RESULT)]
    assert made["mended"]["reasons"] == {"unsigned_thinking": 1}
    bedrock = await window(client, conversation, model="us.anthropic.claude-opus-4-8-v1:0", format="converse")
    assert "reasoningContent" not in str(bedrock["request"])
    own = await window(client, conversation, model="minimax-m2.5", format="anthropic")
    assert own["request"]["messages"] == messages


async def test_other_models_get_their_unsigned_thinking_back(client: httpx.AsyncClient, conversation: str) -> None:
    """DeepSeek, GLM and Kimi take Anthropic's form, sign no thinking, and refuse a tool loop without it."""
    messages = [ASKED, reply({"type": "thinking", "thinking": "hm", "signature": ""}, USE), said(RESULT)]
    await append(client, conversation, *messages, format="anthropic")

    made = await window(client, conversation, model="deepseek-chat", format="anthropic")

    assert made["request"]["messages"] == messages
    assert "mended" not in made


@pytest.mark.parametrize("cache", ["none", "auto"])
async def test_the_newest_four_marks_stay(client: httpx.AsyncClient, conversation: str, cache: str) -> None:
    """Of six marks of the client's own the newest stay, four or as many as leave room for Sash's own."""
    for number in range(6):
        await append(client, conversation, said(text(f"q{number}", **MARK)), reply(text("a")), format="anthropic")
    await append(client, conversation, said(text("last")), format="anthropic")

    made = await window(client, conversation, model=CLAUDE, format="anthropic", cache=cache)

    marked = [
        block["text"] for each in made["request"]["messages"] for block in each["content"] if "cache_control" in block
    ]
    assert marked == {"none": ["q2", "q3", "q4", "q5"], "auto": ["q4", "q5", "a", "last"]}[cache]
    assert made["mended"] == {
        "messages": 2 if cache == "none" else 4,
        "reasons": {"cache_marks": 2 if cache == "none" else 4},
    }


GEMINI_ASKED = {"role": "user", "parts": [{"text": "ls"}]}
FOUND = {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"output": "a"}}}]}


def model(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "model", "parts": list(parts)}


CALL: dict[str, Any] = {"functionCall": {"name": "f", "args": {}}}
SIGNED: dict[str, Any] = {**CALL, "thoughtSignature": "c2ln"}


async def test_an_empty_part_is_left_out_of_gemini(client: httpx.AsyncClient, conversation: str) -> None:
    """Empty texts go, a content of nothing else with them; an empty text with a signature is no empty part."""
    sealed = {"text": "", "thoughtSignature": "c2ln"}
    messages = [
        GEMINI_ASKED,
        model({"text": "a"}, {"text": ""}),
        GEMINI_ASKED,
        model({"text": ""}),
        model(sealed),
        {"role": "user", "parts": [{"text": ""}]},
    ]
    await append(client, conversation, *messages, format="gemini")

    made = await window(client, conversation, model=GEMINI, format="gemini", reasoning="all")

    assert made["request"]["contents"] == [
        GEMINI_ASKED, model({"text": "a"}), GEMINI_ASKED, model(sealed), {"role": "user", "parts": [{"text": "…"}]},
    ]  # fmt: skip
    assert made["mended"] == {"messages": 3, "reasons": {"empty_part": 3}}
    assert gemini.refused(made["request"], GEMINI) == []


async def test_signatures_of_the_current_turn_stay(client: httpx.AsyncClient, conversation: str) -> None:
    """Without reasoning, calls of earlier turns lose their signatures, and those of the current turn keep them."""
    thought = {"text": "hm", "thought": True}
    turn = [GEMINI_ASKED, model(thought, SIGNED), FOUND]
    await append(client, conversation, *turn, model(thought, {"text": "done"}), *turn, format="gemini")

    made = await window(client, conversation, model=GEMINI, format="gemini", reasoning="none")

    contents = made["request"]["contents"]
    assert contents[1] == model(CALL)
    assert contents[5] == model(SIGNED)
    assert "mended" not in made
    assert await counted(client, made) <= made["tokens"]["total"]


@pytest.mark.parametrize("form", ["openai", "gemini"])
async def test_signatures_in_chat_messages_stay_for_the_current_turn(
    client: httpx.AsyncClient, conversation: str, form: str
) -> None:
    """A signature that came through Google's OpenAI endpoint stays on calls of the current turn alone."""
    for turn in ("old", "new"):
        call = {"id": turn, "type": "function", "function": {"name": "f", "arguments": "{}"}}
        signed = {**call, "extra_content": {"google": {"thought_signature": f"{turn}Seal"}}}
        called = {"role": "assistant", "content": None, "tool_calls": [signed], "reasoning_content": "hm"}
        done = [{"role": "assistant", "content": "done"}] if turn == "old" else []
        found = {"role": "tool", "tool_call_id": turn, "content": "r"}
        await append(client, conversation, ASKED, called, found, *done)

    made = await window(client, conversation, model=GEMINI, format=form, reasoning="none")

    sent = json.dumps(made["request"])
    assert "newSeal" in sent
    assert "oldSeal" not in sent
    assert "hm" not in sent


async def test_calls_of_another_provider_get_googles_own_signature(
    client: httpx.AsyncClient, conversation: str
) -> None:
    """Gemini 3 takes calls of the current turn that another model made; Gemini 2.5 needs no signature."""
    await append(client, conversation, ASKED, reply(USE, {**USE, "id": "toolu_2"}), format="anthropic")
    await append(client, conversation, said(RESULT, {**RESULT, "tool_use_id": "toolu_2"}), format="anthropic")

    made = await window(client, conversation, model=GEMINI, format="gemini")
    older = await window(client, conversation, model="gemini-2.5-flash", format="gemini")

    first, second = made["request"]["contents"][1]["parts"]
    assert first["thoughtSignature"] == "skip_thought_signature_validator"
    assert "thoughtSignature" not in second
    assert made["mended"] == {"messages": 1, "reasons": {"missing_signature": 1}}
    assert "mended" not in older
    assert await counted(client, made) <= made["tokens"]["total"]


async def test_contents_in_snake_case_are_sent_in_camel_case(client: httpx.AsyncClient, conversation: str) -> None:
    """The SDK for JavaScript reads camel case only; what is the user's own, and the log, stay as they came."""
    call = {"function_call": {"name": "f", "args": {"mime_type": "theirs"}}, "thought_signature": "c2ln"}
    found = {"role": "user", "parts": [{"function_response": {"name": "f", "response": {"file_uri": "theirs"}}}]}
    messages = [GEMINI_ASKED, model(call), found]
    await append(client, conversation, *messages, format="gemini")

    made = await window(client, conversation, model=GEMINI, format="gemini")

    assert made["request"]["contents"] == [
        GEMINI_ASKED,
        model({"functionCall": {"name": "f", "args": {"mime_type": "theirs"}}, "thoughtSignature": "c2ln"}),
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"file_uri": "theirs"}}}]},
    ]
    kept = await history(client, conversation)
    assert [own for each in kept for own in restore(each["message"])] == messages


@examples(0.4)
@given(data=st.data())
@pytest.mark.parametrize("form", JUDGES)
async def test_windows_of_appended_logs_are_accepted(client: httpx.AsyncClient, form: str, data: st.DataObject) -> None:
    """A log appended in pieces, each in its form, gives windows that the provider takes, and that cost what they say."""
    model_name = {
        "openai": "gpt-4o-mini",
        "responses": "gpt-5",
        "anthropic": CLAUDE,
        "gemini": GEMINI,
        "interactions": GEMINI,
        "converse": CLAUDE,
        "ollama": "qwen3:8b",
    }[form]
    conversation = (await client.post("/conversations", json={})).json()["id"]
    try:
        for number, (came, messages) in enumerate(data.draw(conversations())):
            answer = await client.post(
                f"/conversations/{conversation}/messages", params={"format": came}, json={"messages": messages}
            )
            assert answer.status_code == 201, (number, answer.text)
        query = {"model": model_name, "format": form, "reasoning": data.draw(st.sampled_from(["turn", "none", "all"]))}
        query["uncarried"] = "drop"
        made = (await client.get(f"/conversations/{conversation}/window", params=query)).json()
        assert refusals(form, model_name, made["request"]) == []
        assert await counted(client, made) <= made["tokens"]["total"]
    finally:
        await client.delete(f"/conversations/{conversation}")


async def test_a_line_for_a_call_of_gemini_stands_at_its_calls_place(
    client: httpx.AsyncClient, conversation: str
) -> None:
    """Results without ids are paired by order: the second of three calls was stopped, the third was not."""
    calls = [{"functionCall": {"name": name, "args": {}}} for name in ("look", "look", "find")]
    found = [{"functionResponse": {"name": name, "response": {"output": name}}} for name in ("look", "find")]
    turns = [
        {"role": "user", "parts": [{"text": "q"}]},
        {"role": "model", "parts": calls},
        {"role": "user", "parts": found},
        {"role": "user", "parts": [{"text": "go on"}]},
    ]
    await append(client, conversation, *turns, format="gemini")
    made = await window(client, conversation, model="gemini-2.5-flash", format="gemini")
    answers = [part["functionResponse"] for part in made["request"]["contents"][2]["parts"]]
    assert [answer["name"] for answer in answers] == ["look", "look", "find"]
    assert (answers[0]["response"], answers[2]["response"]) == ({"output": "look"}, {"output": "find"})
    assert gemini.refused(made["request"], "gemini-2.5-flash") == []
    assert made["mended"]["reasons"]["result_order"] == 1


async def test_results_of_gemini_in_another_order_are_sorted(client: httpx.AsyncClient, conversation: str) -> None:
    """Parallel tools end in any order, and Gemini reads their results in that of the calls."""
    turns = [
        {"role": "user", "parts": [{"text": "q"}]},
        {"role": "model", "parts": [{"functionCall": {"name": name, "args": {}}} for name in "ab"]},
        {"role": "user", "parts": [{"functionResponse": {"name": name, "response": {}}} for name in "ba"]},
    ]
    await append(client, conversation, *turns, format="gemini")
    made = await window(client, conversation, model="gemini-2.5-flash", format="gemini")
    assert [part["functionResponse"]["name"] for part in made["request"]["contents"][2]["parts"]] == ["a", "b"]


async def test_a_result_of_gemini_goes_by_its_calls_id_and_name(client: httpx.AsyncClient, conversation: str) -> None:
    """A result under another name than its call's is sent under the call's, which costs what a request with it costs."""
    calls = [{"functionCall": {"id": name, "name": name, "args": {}}} for name in ("look", "find")]
    found = [
        {"functionResponse": {"id": name, "name": "the tool that was asked", "response": {}}}
        for name in ("find", "look")
    ]
    turns = [
        {"role": "user", "parts": [{"text": "q"}]},
        {"role": "model", "parts": calls},
        {"role": "user", "parts": found},
    ]
    await append(client, conversation, *turns, format="gemini")
    made = await window(client, conversation, model="gemini-2.5-flash", format="gemini")
    answers = [part["functionResponse"] for part in made["request"]["contents"][2]["parts"]]
    assert [(answer["id"], answer["name"]) for answer in answers] == [("find", "find"), ("look", "look")]
    assert gemini.refused(made["request"], "gemini-2.5-flash") == []
    assert made["mended"]["reasons"]["result_name"] == 2
    assert await counted(client, made) == made["tokens"]["total"]
    kept = await history(client, conversation)
    assert [own["parts"][0] for each in kept[2:] for own in restore(each["message"])] == found


async def test_steps_of_one_id_get_ids_of_their_own(client: httpx.AsyncClient, conversation: str) -> None:
    """Steps are appended as they come: each call of a request has another id, which its result has too."""
    for question, ids in (("q", ("c", "d")), ("And now?", ("c", "d")), ("And then?", ("c", "c"))):
        await append(client, conversation, {"type": "user_input", "content": [text(question)]}, format="interactions")
        for identity in ids:
            call = {"type": "function_call", "id": identity, "name": f"look_{identity}", "arguments": {}}
            await append(client, conversation, call, format="interactions")
        for identity in dict.fromkeys(ids):
            found = {"type": "function_result", "call_id": identity, "name": f"look_{identity}", "result": question}
            await append(client, conversation, found, format="interactions")
    made = await window(client, conversation, model="gemini-2.5-flash", format="interactions")
    steps = made["request"]["input"]
    calls = {step["id"]: step["name"] for step in steps if step["type"] == "function_call"}
    results = [(step["call_id"], step["name"]) for step in steps if step["type"] == "function_result"]
    assert len(calls) == 6
    assert sorted(calls.items()) == sorted(results)
    assert interactions.refused(made["request"], "gemini-2.5-flash") == []
    assert "call_id" in made["mended"]["reasons"]


@pytest.mark.parametrize(("limit", "told"), [(2, None), (30, {"messages": 1, "reasons": {"unanswered_call": 1}})])
async def test_a_call_is_told_where_the_window_reaches_back_to_it(
    client: httpx.AsyncClient, conversation: str, limit: int, told: dict[str, Any] | None
) -> None:
    """A call that the limit leaves out is no mend, though the question before it is sent: stored and in a body alike."""
    entries = [user("q"), calling("a"), *(assistant(f"Part {n}") for n in range(4))]
    query = {"model": "gpt-4o", "limit": limit, "unanswered": "drop"}
    await append(client, conversation, *entries)
    stored = (await client.get(f"/conversations/{conversation}/window", params=query)).json()
    given = (await client.post("/window", json={**query, "messages": entries})).json()
    assert (stored.get("mended"), given.get("mended")) == (told, told)
    assert stored["request"] == given["request"]


@pytest.mark.parametrize("role", [{}, {"role": "function"}, {"role": "tool"}])
async def test_a_content_of_another_role_is_the_users(
    client: httpx.AsyncClient, conversation: str, role: dict[str, str]
) -> None:
    """Older programs give results the role ``function``, or none; Gemini knows ``user`` and ``model``."""
    asked, called = {"role": "user", "parts": [{"text": "q"}]}, {"functionCall": {"name": "f", "args": {}}}
    answer = {**role, "parts": [{"functionResponse": {"name": "f", "response": {"a": 1}}}]}
    await append(client, conversation, asked, {"role": "model", "parts": [called]}, answer, format="gemini")

    made = await window(client, conversation, model="gemini-2.5-flash", format="gemini")

    assert [each["role"] for each in made["request"]["contents"]] == ["user", "model", "user"]
    assert made["mended"]["reasons"] == {"content_role": 1}


@pytest.mark.parametrize("found", [[1, {"a": "b"}], "three", 3, None])
async def test_json_of_a_result_is_an_object(client: httpx.AsyncClient, conversation: str, found: Any) -> None:
    """Bedrock takes objects as ``json``; a list, a word or a number is sent as its text."""
    called = {"role": "assistant", "content": [{"toolUse": {"toolUseId": "c1", "name": "f", "input": {}}}]}
    content = [{"json": found}, {"json": {"n": 1}}]
    answer = {"role": "user", "content": [{"toolResult": {"toolUseId": "c1", "content": content}}]}
    await append(client, conversation, {"role": "user", "content": [{"text": "q"}]}, called, answer, format="converse")

    made = await window(client, conversation, model="us.anthropic.claude-sonnet-4-5-20250929-v1:0", format="converse")

    sent = made["request"]["messages"][-1]["content"][0]["toolResult"]["content"]
    assert sent == [{"text": json.dumps(found, separators=(",", ":"))}, {"json": {"n": 1}}]
    assert made["mended"]["reasons"]["result_json"] == 1
    assert await counted(client, made) <= made["tokens"]["total"]


async def test_a_failed_result_with_a_picture_has_no_mark_for_claude_at_bedrock(
    client: httpx.AsyncClient, conversation: str
) -> None:
    """Claude takes texts alone in a result that is marked as an error; another model gets the mark."""
    called = {"role": "assistant", "content": [{"toolUse": {"toolUseId": "c1", "name": "f", "input": {}}}]}
    shot = {"image": {"format": "png", "source": {"bytes": PIXEL}}}
    result = {"toolUseId": "c1", "content": [{"text": "failed"}, shot]}
    answer = {"role": "user", "content": [{"toolResult": {**result, "status": "error"}}]}
    await append(client, conversation, {"role": "user", "content": [{"text": "q"}]}, called, answer, format="converse")

    made = await window(client, conversation, model="us.anthropic.claude-sonnet-4-5-20250929-v1:0", format="converse")
    novas = await window(client, conversation, model="amazon.nova-pro-v1:0", format="converse")

    assert made["request"]["messages"][-1]["content"] == [{"toolResult": result}]
    assert made["mended"]["reasons"]["failed_with_media"] == 1
    assert await counted(client, made) <= made["tokens"]["total"]
    assert novas["request"]["messages"][-1] == answer


LLAMA = "us.meta.llama4-maverick-17b-instruct-v1:0"
CHAT_CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
TURNS_OF_A_CALL = {
    "chat": (
        "openai",
        [
            {"role": "assistant", "content": "I look.", "tool_calls": [CHAT_CALL]},
            {"role": "tool", "tool_call_id": "c1", "content": "1"},
            {"role": "user", "content": "go on"},
        ],
    ),
    "own": (
        "converse",
        [
            {
                "role": "assistant",
                "content": [{"text": "I look."}, {"toolUse": {"toolUseId": "c1", "name": "f", "input": {}}}],
            },
            {
                "role": "user",
                "content": [{"toolResult": {"toolUseId": "c1", "content": [{"text": "1"}]}}, {"text": "go on"}],
            },
        ],
    ),
}


@pytest.mark.parametrize("came", TURNS_OF_A_CALL)
async def test_llama_at_bedrock_gets_words_and_calls_in_turns_of_their_own(
    client: httpx.AsyncClient, conversation: str, came: str
) -> None:
    """Words beside a call and beside a result are sent before and behind it; to other models as they came."""
    form, messages = TURNS_OF_A_CALL[came]
    await append(client, conversation, ASKED)
    await append(client, conversation, *messages, format=form)

    made = await window(client, conversation, model=LLAMA, format="converse")
    novas = await window(client, conversation, model="amazon.nova-pro-v1:0", format="converse")

    sent = made["request"]["messages"]
    assert [(each["role"], [*map(next, map(iter, each["content"]))]) for each in sent] == [
        *(("user", ["text"]), ("assistant", ["text"]), ("user", ["text"]), ("assistant", ["toolUse"])),
        *(("user", ["toolResult"]), ("assistant", ["text"]), ("user", ["text"])),
    ]
    assert [each["content"][0].get("text") for each in sent] == ["q", "I look.", "…", None, None, "…", "go on"]
    assert made["mended"]["reasons"]["words_apart"] == 2
    assert converse.refused(made["request"], LLAMA) == []
    assert await counted(client, made) <= made["tokens"]["total"]
    assert len(novas["request"]["messages"]) == 3


DRAWN = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
REPLIES_WITH_PICTURES: dict[str, dict[str, Any]] = {
    "a part of the content": {"content": [text("here"), DRAWN]},
    "beside a text": {"content": "here", "images": [{"index": 0, **DRAWN}]},
    "beside no text": {"content": "", "images": [DRAWN, DRAWN]},
    "beside a null": {"content": None, "images": [DRAWN]},
}


@pytest.mark.parametrize("form", ["openai", "responses", "anthropic", "gemini", "converse"])
@pytest.mark.parametrize("drawn", REPLIES_WITH_PICTURES)
async def test_a_picture_in_a_reply_is_told_in_its_place(
    client: httpx.AsyncClient, conversation: str, drawn: str, form: str
) -> None:
    """No form takes a picture in a reply: a line says that there was one, and the log has the picture."""
    made = {"role": "assistant", **REPLIES_WITH_PICTURES[drawn]}
    await append(client, conversation, user("draw"), made, user("make it blue"))
    for model in ("gpt-4o", CLAUDE, GEMINI):
        found = await window(client, conversation, model=model, format=form)
        assert json.dumps(found["request"]).count("[image: image/png, ") == (2 if drawn == "beside no text" else 1)
        assert PIXEL not in json.dumps(found["request"])
        assert found["mended"]["reasons"]["foreign_members"] == 1
        assert await counted(client, found) <= found["tokens"]["total"]
    kept = (await history(client, conversation))[1]["message"]
    assert kept == (made if "images" in made else {**made, "content": [text("here")], "images": [DRAWN]})


async def test_a_picture_in_a_few_shot_reply_is_told(client: httpx.AsyncClient, conversation: str) -> None:
    """A conversation's examples are sent as its messages are."""
    shots = [ASKED, {"role": "assistant", "content": "here", "images": [DRAWN]}]
    await client.post("/conversations", json={"id": conversation, "few_shots": shots})
    await append(client, conversation, user("make it blue"))
    found = await window(client, conversation, model="gpt-4o")
    assert found["request"]["messages"][1]["content"].startswith("here\n[image: image/png")
    assert await counted(client, found) <= found["tokens"]["total"]


ODD_PICTURES = {
    "another type": {"data": PIXEL, "type": "image/bmp"},
    "a type that is no picture's": {"data": PIXEL, "type": "application/octet-stream"},
    "a page's address": {"url": "https://x.test/a.pdf", "type": "application/pdf"},
}


def odd_picture(form: str, data: str = "", url: str = "", **held: str) -> dict[str, Any]:
    """A user's message with one picture alone, in a provider's form."""
    media_type = held["type"]
    if form == "anthropic":
        bytes_of = {"type": "base64", "media_type": media_type, "data": data}
        return said({"type": "image", "source": {"type": "url", "url": url} if url else bytes_of})
    if form == "gemini":
        file, blob = {"fileData": {"fileUri": url, "mimeType": media_type}}, {"data": data, "mimeType": media_type}
        return {"role": "user", "parts": [file if url else {"inlineData": blob}]}
    if form == "responses":
        return (
            {"role": "user", "content": [{"type": "input_file", "file_url": url}]}
            if url
            else {
                "role": "user",
                "content": [{"type": "input_image", "image_url": f"data:{media_type};base64,{data}"}],
            }
        )
    place = {"uri": url} if url else {"data": data}
    return {
        "type": "user_input",
        "content": [{"type": "document" if url else "image", "mime_type": media_type, **place}],
    }


@pytest.mark.parametrize("odd", ODD_PICTURES)
@pytest.mark.parametrize("form", ["anthropic", "gemini", "responses", "interactions"])
@pytest.mark.parametrize("kept", [0, 5])
async def test_a_line_in_place_of_a_message_s_only_picture_is_a_text(
    client: httpx.AsyncClient, conversation: str, form: str, odd: str, kept: int
) -> None:
    """Where the picture would be changed for chat completions, too, the line that is sent instead is left as it is."""
    await append(client, conversation, odd_picture(form, **ODD_PICTURES[odd]), format=form)
    await append(client, conversation, ASKED)
    for model in ("gpt-4o", "kimi-k2.5"):
        made = await window(client, conversation, model=model, images_kept=kept, uncarried="drop")
        contents = [message["content"] for message in made["request"]["messages"]]
        assert all(isinstance(part, dict) for content in contents if isinstance(content, list) for part in content)
        assert await counted(client, made) <= made["tokens"]["total"]


@pytest.mark.parametrize("model", ["hosted_vllm/mistralai/Devstral-Small-2-24B-Instruct-2512", "google/gemma-3-27b-it"])
async def test_a_reply_stands_between_a_result_and_a_question(
    client: httpx.AsyncClient, conversation: str, model: str
) -> None:
    """The user stopped the reply behind the result. Templates pass over calls and results, and see two questions."""
    called = {"id": "123456789", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    looking = {"role": "assistant", "content": None, "tool_calls": [called]}
    result = {"role": "tool", "tool_call_id": "123456789", "content": "7"}
    await append(client, conversation, user("a"), looking, result, user("stop"), assistant("b"), user("c"))

    made = await window(client, conversation, model=model)

    told = [message["content"] for message in made["request"]["messages"]]
    assert told == ["a", None, "7", "…", "stop", "b", "c"]
    assert made["mended"]["reasons"] == {"alternating": 1}
    assert await counted(client, made) == made["tokens"]["total"]


async def test_user_and_assistant_alternate_for_gemma(client: httpx.AsyncClient, conversation: str) -> None:
    """Neighbours of one role are one message for a template that wants turns; for others they stay as they are."""
    stopped = {"message": {"role": "assistant", "content": ""}, "status": "interrupted"}
    parts = {"role": "user", "content": [{"type": "text", "text": "c"}]}
    await append(client, conversation, user("a"), stopped, user("b"), parts, assistant("d"), user("e"))

    made = await window(client, conversation, model="google/gemma-3-27b-it")

    told = [(message["role"], message["content"]) for message in made["request"]["messages"]]
    joined = [{"type": "text", "text": "a\n\nb"}, {"type": "text", "text": "c"}]
    assert told == [("user", joined), ("assistant", "d"), ("user", "e")]
    assert made["mended"]["reasons"] == {"alternating": 1}
    assert await counted(client, made) <= made["tokens"]["total"]
    others = (await window(client, conversation, model="llama-3.3-70b-instruct"))["request"]["messages"]
    assert [message["role"] for message in others] == ["user", "user", "user", "assistant", "user"]


CODE = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "code_execution", "input": {"code": "r = await t()"}}
CALLED = {**USE, "caller": {"type": "code_execution_20250825", "tool_id": "srvtoolu_1"}}
RAN = {"type": "code_execution_tool_result", "tool_use_id": "srvtoolu_1", "content": {"type": "code_execution_result"}}
LATER, EARLIER = "2100-01-01T00:00:00Z", "2024-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("ends", "more", "is_given"),
    [(LATER, [], True), (EARLIER, [], False), (LATER, [ASKED], False), (LATER, [reply(RAN, text("7")), ASKED], False)],
)
async def test_claudes_container_is_given_back_while_its_code_waits(
    client: httpx.AsyncClient, conversation: str, ends: str, more: list[Any], *, is_given: bool
) -> None:
    """The reply's container is the request's, until it ends or another message follows; then no call is of its code."""
    waiting = {**reply(CODE, CALLED), "container": {"id": "container_1", "expires_at": ends}}
    body = {"messages": [ASKED, waiting, said(RESULT), *more]}
    answer = await client.post(f"/conversations/{conversation}/messages", params={"format": "anthropic"}, json=body)
    assert answer.status_code == 201, answer.text
    made = await window(client, conversation, model=CLAUDE, format="anthropic")
    request = made["request"]

    assert request.get("container") == ("container_1" if is_given else None)
    assert all(message.keys() == {"role", "content"} for message in request["messages"])
    is_sent = is_given or len(more) > 1
    assert ("caller" in json.dumps(request)) is is_sent
    assert ("r = await t()" in json.dumps(request)) is is_sent


async def test_a_reply_is_read_as_it_came_with_its_container(client: httpx.AsyncClient, conversation: str) -> None:
    """What the reply said beside its content is in the log."""
    container = {"id": "container_1", "expires_at": LATER}
    body = {"messages": [ASKED, {**reply(text("a")), "container": container}]}
    path = f"/conversations/{conversation}/messages"
    await client.post(path, params={"format": "anthropic"}, json=body)
    read = (await client.get(path, params={"format": "anthropic"})).json()

    assert json.dumps(container) in json.dumps(read)
    assert "container" not in (await window(client, conversation, model=CLAUDE, format="anthropic"))["request"]
