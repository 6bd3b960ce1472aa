"""What servers of OpenAI's form refuse for other makers' models is changed on the way out, told and counted."""

import re
from typing import Any

import httpx
import pytest
from rigs.dialogue import append, assistant, calling, history, result, user, window
from test_changed_provider import counted
from validators import openai

CUT = '{"path": "a.txt", "text": "onc'


async def sent(client: httpx.AsyncClient, conversation: str, model: str, **query: Any) -> dict[str, Any]:
    """Return a window that servers of the model take, and whose total covers its request."""
    made = await window(client, conversation, model=model, **query)
    assert openai.refused(made["request"], model) == []
    assert await counted(client, made, "openai") <= made["tokens"]["total"]
    return made


def broken(arguments: str) -> dict[str, Any]:
    """A reply whose call has these arguments."""
    call = {"id": "call_1", "type": "function", "function": {"name": "write", "arguments": arguments}}
    return {"message": {"role": "assistant", "content": None, "tool_calls": [call]}}


@pytest.mark.parametrize("model", ["deepseek-chat", "mistral-large-latest", "qwen3.5-plus", "kimi-k2.5"])
async def test_a_developers_message_is_the_systems(client: httpx.AsyncClient, conversation: str, model: str) -> None:
    """DeepSeek, Mistral, Alibaba and Moonshot do not know the role; OpenAI gets it as it came."""
    brief = {"role": "developer", "content": "Be brief."}
    await append(client, conversation, {"message": brief}, user("q"))

    made = await sent(client, conversation, model)

    assert made["request"]["messages"][0] == {**brief, "role": "system"}
    assert made["mended"]["reasons"] == {"developer_role": 1}
    assert (await window(client, conversation, model="gpt-4o"))["request"]["messages"][0] == brief


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("", "{}"),
        ("[]", "{}"),
        (CUT, '{"INVALID_JSON":"{\\"path\\": \\"a.txt\\", \\"text\\": \\"onc"}'),
        ("[1]", '{"INVALID_JSON":"[1]"}'),
    ],
)
async def test_arguments_are_an_object(
    client: httpx.AsyncClient, conversation: str, arguments: str, expected: str
) -> None:
    """vLLM, SGLang and Alibaba read the arguments of earlier calls; OpenAI does not. A reply that was cut has no JSON."""
    await append(client, conversation, user("q"), broken(arguments), result("call_1"), user("r"))

    made = await sent(client, conversation, "deepseek-chat")

    assert made["request"]["messages"][1]["tool_calls"][0]["function"]["arguments"] == expected
    assert made["mended"]["reasons"] == {"broken_arguments": 1}
    same = await window(client, conversation, model="gpt-4o")
    assert same["request"]["messages"][1]["tool_calls"][0]["function"]["arguments"] == arguments


@pytest.mark.parametrize("model", ["deepseek-chat", "kimi-k2.5", "grok-4"])
async def test_an_empty_reply_is_left_out(client: httpx.AsyncClient, conversation: str, model: str) -> None:
    """A reply without a text and without calls, which OpenAI takes, is in no request to others; the log keeps it."""
    await append(client, conversation, user("q"), assistant(""), user("r"))

    made = await sent(client, conversation, model, explain="true")

    assert [each["content"] for each in made["request"]["messages"]] == ["q", "r"]
    assert made["mended"] == {"messages": 1, "reasons": {"empty_reply": 1}}
    assert made["explain"][1]["mended"] == ["empty_reply"]
    assert (await history(client, conversation))[1]["message"] == {"role": "assistant", "content": ""}


async def test_mistral_gets_ids_of_nine_characters(client: httpx.AsyncClient, conversation: str) -> None:
    """A call and its result have the same short id, also where a line stands for the result; Mistral's own ids stay."""
    own = calling("D681PevKs")
    await append(client, conversation, user("q"), calling("call_abc", "toolu_1"), result("call_abc"), user("stop"))
    await append(client, conversation, own, result("D681PevKs"), user("r"))

    made = await sent(client, conversation, "mistral-large-latest")

    messages = made["request"]["messages"]
    ids = [call["id"] for each in messages for call in each.get("tool_calls", ())]
    assert [each["tool_call_id"] for each in messages if each["role"] == "tool"] == ids
    assert all(re.fullmatch("[a-zA-Z0-9]{9}", each) for each in ids)
    assert ids[2] == "D681PevKs"
    assert made["mended"]["reasons"] == {"short_id": 2, "unanswered_call": 1}


@pytest.mark.parametrize(
    ("model", "expected"),
    [("mistral-large-latest", ["s", "plan", "q", "a", "r"]), ("qwen3.5-plus", ["s\n\nplan", "q", "a", "r"])],
)
async def test_system_messages_stand_at_the_beginning(
    client: httpx.AsyncClient, conversation: str, model: str, expected: list[str]
) -> None:
    """A later system message moves behind the first one, or joins it; DeepSeek takes it where it is."""
    await client.post("/conversations", json={"id": conversation, "system": "s"})
    plan = {"message": {"role": "system", "content": "plan"}}
    await append(client, conversation, user("q"), assistant("a"), plan, user("r"))

    made = await sent(client, conversation, model)
    other = await sent(client, conversation, "deepseek-chat")

    assert [each["content"] for each in made["request"]["messages"]] == expected
    assert made["mended"]["reasons"] == {"system_first": 1}
    assert [each["content"] for each in other["request"]["messages"]] == ["s", "q", "a", "plan", "r"]


async def test_names_of_functions_fit_where_they_are_checked(client: httpx.AsyncClient, conversation: str) -> None:
    """DeepSeek refuses a called function's name with a point; a participant's name with a space it takes."""
    call = {"id": "call_1", "type": "function", "function": {"name": "files.read", "arguments": "{}"}}
    await append(client, conversation, {"message": {"role": "user", "name": "Ann B", "content": "q"}})
    await append(client, conversation, {"message": {"role": "assistant", "tool_calls": [call]}}, result("call_1"))

    made = await sent(client, conversation, "deepseek-chat")

    assert made["request"]["messages"][1]["tool_calls"][0]["function"]["name"] == "files_read"
    assert made["request"]["messages"][0]["name"] == "Ann B"


async def test_half_of_a_pair_in_arguments_is_stored(client: httpx.AsyncClient, conversation: str) -> None:
    """Arguments that were cut inside an emoji are half of a surrogate pair as an escape: stored, sent and counted."""
    cut = '{"text": "\\ud83d"}'
    await append(client, conversation, user("q"), broken(cut), result("call_1"), user("r"))

    made = await window(client, conversation, model="gpt-4o")

    assert made["request"]["messages"][1]["tool_calls"][0]["function"]["arguments"] == cut
    assert await counted(client, made, "openai") == made["tokens"]["total"]
    other = await window(client, conversation, model="claude-sonnet-4-5", format="anthropic")
    assert other["request"]["messages"][1]["content"][0]["input"] == {"INVALID_JSON": cut}


async def test_few_shots_are_as_servers_take_them(client: httpx.AsyncClient, conversation: str) -> None:
    """The rules hold for few-shots, too."""
    shots = [
        {"role": "user", "content": "ping"},
        broken("")["message"],
        result("call_1")["message"],
        assistant("pong")["message"],
    ]
    await client.post("/conversations", json={"id": conversation, "few_shots": shots})
    await append(client, conversation, user("q"))

    made = await sent(client, conversation, "mistral-large-latest")

    assert made["request"]["messages"][1]["tool_calls"][0]["function"]["arguments"] == "{}"
    assert made["mended"]["reasons"] == {"broken_arguments": 1, "short_id": 1}


@pytest.mark.parametrize("model", ["kimi-k2.5", "qwen3.5-plus"])
@pytest.mark.parametrize("content", ["", [], [{"type": "text", "text": ""}]])
async def test_an_empty_question_has_words(
    client: httpx.AsyncClient, conversation: str, model: str, content: Any
) -> None:
    """Moonshot and Alibaba take no empty message of the user's; it costs what is sent in its place."""
    await append(client, conversation, user("q"), assistant("a"), {"message": {"role": "user", "content": content}})

    made = await sent(client, conversation, model, explain=True)

    assert made["request"]["messages"][-1] == {"role": "user", "content": "…"}
    assert made["mended"]["reasons"]["empty_question"] == 1
    assert "empty_question" in made["explain"][-1]["mended"]
    assert await counted(client, made, "openai") == made["tokens"]["total"]
    assert (await window(client, conversation, model="deepseek-chat"))["request"]["messages"][-1]["content"] != "…"


@pytest.mark.parametrize("model", ["kimi-k2.5", "glm-5.1", "claude-opus-5-5"])
@pytest.mark.parametrize(("role", "left"), [("user", ["…"]), ("assistant", []), ("system", [])])
async def test_a_message_of_blank_parts_says_nothing(
    client: httpx.AsyncClient, conversation: str, model: str, role: str, left: list[str]
) -> None:
    """Servers that take no blank parts take no message without its parts either: it is mended as one that came empty."""
    blank = {"role": role, "content": [{"type": "text", "text": " \n"}, {"type": "text", "text": ""}]}
    await append(client, conversation, user("q"), {"message": blank}, user("r"))

    made = await sent(client, conversation, model)

    assert [message["content"] for message in made["request"]["messages"]] == ["q", *left, "r"]
    assert made["mended"]["messages"] == 1
    assert await counted(client, made, "openai") == made["tokens"]["total"]


BRIEF = {"role": "system", "content": [{"type": "text", "text": "Be brief."}, {"type": "text", "text": " Be kind."}]}


@pytest.mark.parametrize("model", ["groq/llama-3.3-70b-versatile", "cerebras/llama-3.3-70b", "novita/qwen/qwen3-32b"])
@pytest.mark.parametrize("role", ["system", "developer"])
async def test_a_system_message_is_one_text(
    client: httpx.AsyncClient, conversation: str, model: str, role: str
) -> None:
    """Groq and Cerebras take no parts in a system message; Together gets them as they came."""
    await append(client, conversation, {"message": {**BRIEF, "role": role}}, user("q"))
    made = await sent(client, conversation, model)
    assert made["request"]["messages"][0]["content"] == "Be brief. Be kind."
    assert made["mended"]["reasons"]["one_text"] == 1
    theirs = await window(client, conversation, model="together_ai/meta-llama/Llama-3.3-70B-Instruct-Turbo")
    assert theirs["request"]["messages"][0]["content"] == BRIEF["content"]


@pytest.mark.parametrize("model", ["grok-4", "xai/grok-3", "openrouter/x-ai/grok-4"])
async def test_grok_gets_names_of_users_alone(client: httpx.AsyncClient, conversation: str, model: str) -> None:
    """Names of the system, of assistants and of results are left out; a user keeps the own one."""
    named = [
        {"role": "system", "content": "Be brief.", "name": "ops"},
        {"role": "user", "content": "q", "name": "Ann"},
        {**calling("call_1")["message"], "name": "bot"},
        {**result("call_1")["message"], "name": "f"},
    ]
    await append(client, conversation, *({"message": each} for each in named))
    made = await sent(client, conversation, model)
    assert [message.get("name") for message in made["request"]["messages"]] == [None, "Ann", None, None]
    assert made["mended"]["reasons"]["speaker"] == 3


@pytest.mark.parametrize("model", ["llama-3.3-70b", "hosted_vllm/meta-llama/Llama-3.1-8B-Instruct"])
async def test_llama_gets_one_call_at_a_time(client: httpx.AsyncClient, conversation: str, model: str) -> None:
    """Llama's template takes one call a message: each is sent with its result behind it, in the order of the calls."""
    await append(client, conversation, user("q"), calling("a", "b", "c", text="I look."))
    await append(client, conversation, result("b", "of b"), result("a", "of a"), result("c", "of c"), user("r"))
    made = await sent(client, conversation, model)
    said = made["request"]["messages"]
    calls = [call["id"] for message in said for call in message.get("tool_calls", ())]
    assert calls == ["a", "b", "c"] == [message["tool_call_id"] for message in said if message["role"] == "tool"]
    assert [message["role"] for message in said] == ["user", *["assistant", "tool"] * 3, "user"]
    assert [message["content"] for message in said if message["role"] == "assistant"] == ["I look.", None, None]
    assert made["mended"]["reasons"] == {"calls_apart": 1}


async def test_calls_of_gemini_fit_in_llamas_budget_one_at_a_time(client: httpx.AsyncClient, conversation: str) -> None:
    """Each signature is sent with its call, so that its estimate is rounded up by itself."""
    signed = calling("a", "b")
    for call in signed["message"]["tool_calls"]:
        call["extra_content"] = {"google": {"thought_signature": ""}}
    await append(client, conversation, user("q"), signed, result("a"), result("b"), user("r"))

    made = await sent(client, conversation, "llama-3.3-70b")

    assert made["tokens"]["reasoning"] > 0
    assert made["mended"]["reasons"] == {"calls_apart": 1}


async def test_calls_in_several_alphabets_fit_in_llamas_budget_one_at_a_time(
    client: httpx.AsyncClient, conversation: str
) -> None:
    """The estimate of each call is rounded up by itself, its name's twice."""
    called = calling("call_mcp.server:look", "call_поиск", "call_mcp.files/read")
    for number, call in enumerate(called["message"]["tool_calls"]):
        name = call["id"].removeprefix("call_")
        call["function"] = {"name": name, "arguments": f'{{"day":"zq{10 + number}z"}}'}
    called["message"]["content"] = "day " * 40 + "zq13z"
    await append(client, conversation, called, *(result(each["id"]) for each in called["message"]["tool_calls"]))
    made = await sent(client, conversation, "llama-3.3-70b")
    assert made["mended"]["reasons"] == {"calls_apart": 1}


@pytest.mark.parametrize("unanswered", ["note", "drop"])
async def test_llama_gets_a_call_that_waits_last(client: httpx.AsyncClient, conversation: str, unanswered: str) -> None:
    """Where one of several calls waits, it stands last, so that its result can be put behind it."""
    await append(client, conversation, user("q"), calling("a", "b"), result("b"))
    made = await sent(client, conversation, "llama-3.3-70b", unanswered=unanswered)
    assert [call["id"] for message in made["request"]["messages"] for call in message.get("tool_calls", ())] == [
        "b",
        "a",
    ]
    assert made["waiting_for"] == ["a"]


async def test_llama_gets_calls_that_wait_one_by_one(client: httpx.AsyncClient, conversation: str) -> None:
    """Where all of several calls wait, each is a message at the end, so that their results can be put behind them."""
    await append(client, conversation, user("q"), calling("a", "b"))
    made = await sent(client, conversation, "llama-3.3-70b")
    assert [len(message["tool_calls"]) for message in made["request"]["messages"][1:]] == [1, 1]
    assert made["waiting_for"] == ["a", "b"]


@pytest.mark.parametrize("model", ["groq/llama-3.3-70b-versatile", "llama4:16x17b", "gpt-4o"])
async def test_other_templates_get_calls_together(client: httpx.AsyncClient, conversation: str, model: str) -> None:
    """Hosts with a template of their own take several calls at once."""
    await append(client, conversation, user("q"), calling("a", "b"), result("a"), result("b"), user("r"))
    made = await sent(client, conversation, model)
    assert len(made["request"]["messages"][1]["tool_calls"]) == 2


GREETINGS = {
    "a greeting": [assistant("Hello! I am Ada."), user("Who is first?")],
    "a greeting alone": [assistant("Hello! I am Ada.")],
    "two greetings": [assistant("Hello!"), assistant("I am Ada."), user("Who is first?")],
    "behind a system text": [
        {"message": {"role": "system", "content": "Be brief."}},
        assistant("Hello!"),
        user("Who is first?"),
    ],
    "a call": [calling("call_1"), result("call_1"), user("Who is first?")],
    "an empty reply first": [assistant(""), assistant("Hello!"), user("Who is first?")],
}


@pytest.mark.parametrize("case", GREETINGS)
@pytest.mark.parametrize(
    "model", ["hosted_vllm/google/gemma-3-27b-it", "ollama/gemma3:4b", "sonar-pro", "deepinfra/Qwen/Qwen3-32B"]
)
async def test_a_chat_that_begins_with_the_assistant(
    client: httpx.AsyncClient, conversation: str, model: str, case: str
) -> None:
    """Who wants the user first gets a turn of the user's before a greeting, told and counted; OpenAI gets the greeting."""
    await append(client, conversation, *GREETINGS[case])

    made = await sent(client, conversation, model)

    said = [each for each in made["request"]["messages"] if each["role"] != "system"]
    assert said[0] == {"role": "user", "content": "…"}
    assert made["mended"]["reasons"]["user_first"] == 1
    same = (await window(client, conversation, model="gpt-4o"))["request"]["messages"]
    assert next(each for each in same if each["role"] != "system")["role"] == "assistant"


CALLED_ALONE = [
    {"role": "system", "content": "Be brief."},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "find", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "Hall 2."},
]
"""A history without a question, as an agent's that was started by a timer."""


@pytest.mark.parametrize("model", ["glm-5.1", "qwen3.5-27b"])
async def test_a_request_without_a_question_gets_one(client: httpx.AsyncClient, conversation: str, model: str) -> None:
    """Who wants some message of the user's gets a turn of the user's where there is none, told and counted, else nothing."""
    await append(client, conversation, *CALLED_ALONE)

    made = await sent(client, conversation, model)

    assert [each["role"] for each in made["request"]["messages"]] == ["system", "user", "assistant", "tool"]
    assert made["mended"]["reasons"]["user_first"] == 1
    await append(client, conversation, user("Where is it?"))
    made = await sent(client, conversation, model)
    assert [each["role"] for each in made["request"]["messages"]] == ["system", "assistant", "tool", "user"]
    assert "user_first" not in made.get("mended", {"reasons": {}})["reasons"]


async def test_a_blank_question_is_no_part_of_the_next_one(client: httpx.AsyncClient, conversation: str) -> None:
    """Two questions in a row are sent as one, in which a blank text is no part beside a picture."""
    picture = {"type": "image_url", "image_url": {"url": PIXEL}}
    await append(client, conversation, user("Hello"), user(" \n"), user([picture]))

    made = await sent(client, conversation, "deepinfra/moonshotai/Kimi-K2.5")

    assert made["request"]["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "Hello"}, picture]},
    ]


def reply(content: str | None, **members: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **members}


LEGACY = (
    reply(None, function_call={"name": "f", "arguments": "{}"}),
    {"role": "function", "name": "f", "content": "12:10"},
)


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ([reply("Hi"), reply(None, refusal="No.")], [reply("Hi\n\nNo.")]),
        ([reply(None, refusal="No."), reply("Hi")], [reply("No.\n\nHi")]),
        ([reply("  "), reply(" \n")], [reply("  ")]),
        ([reply("Hi"), *LEGACY], [reply("Hi"), *LEGACY]),
    ],
    ids=["refusal", "refusal first", "blank", "call before there were tools"],
)
async def test_neighbours_of_one_role_lose_nothing(
    client: httpx.AsyncClient, conversation: str, said: list[dict[str, Any]], left: list[dict[str, Any]]
) -> None:
    """Replies in a row are one with all that they say, and never an empty text; calls of functions stay apart, too."""
    await append(client, conversation, user("Hello"), *said, user("and?"))
    made = await sent(client, conversation, "hosted_vllm/google/gemma-3-27b-it")
    assert made["request"]["messages"][1:-1] == left


async def test_blank_system_messages_are_one_that_is_no_empty_text(
    client: httpx.AsyncClient, conversation: str
) -> None:
    """Where one system message is taken, one of those that are blank is sent."""
    blanks = [{"role": "system", "content": " \n"}, {"role": "system", "content": " "}]
    await append(client, conversation, user("Hello"), *blanks)
    made = await sent(client, conversation, "qwen3.5-plus")
    assert made["request"]["messages"] == [blanks[0], {"role": "user", "content": "Hello"}]


async def test_a_left_out_greeting_costs_no_turn(client: httpx.AsyncClient, conversation: str) -> None:
    """An empty greeting is left out: the request begins with the user as it is, and nothing is counted before it."""
    await append(client, conversation, assistant(""), user("Who is first?"))

    made = await sent(client, conversation, "google/gemma-3-27b-it")

    assert made["request"]["messages"] == [{"role": "user", "content": "Who is first?"}]
    assert made["mended"]["reasons"] == {"empty_reply": 1}
    assert made["tokens"]["total"] == await counted(client, made, "openai")


@pytest.mark.parametrize("first", ["system", "assistant"])
async def test_few_shots_that_begin_with_the_assistant(
    client: httpx.AsyncClient, conversation: str, first: str
) -> None:
    """Few-shots are the first messages, but where they are system texts alone; the turn before them is counted, too."""
    await append(client, conversation, assistant("Hello!"), user("Who is first?"))
    shots = {"few_shots": [{"role": first, "content": "I am Ada."}]}
    answer = await client.patch(f"/conversations/{conversation}", json=shots)
    assert answer.status_code == 200, answer.text

    made = await sent(client, conversation, "google/gemma-3-27b-it")

    assert next(each for each in made["request"]["messages"] if each["role"] != "system")["content"] == "…"


def thinking(**members: Any) -> list[dict[str, Any]]:
    """A tool turn of an earlier question, whose call has these members beside it."""
    called = calling("call_1")
    return [
        user("Who is first?"),
        {"message": {**called["message"], **members}},
        result("call_1"),
        assistant("Ada."),
        user("And then?"),
    ]


THOUGHTS = {
    "reasoning_content": {"reasoning_content": "I should look."},
    "reasoning": {"reasoning": "I should look."},
    "reasoning_details": {"reasoning_details": [{"type": "reasoning.text", "text": "I should look."}]},
    "none": {},
}


@pytest.mark.parametrize("asked", ["turn", "all", "none"])
@pytest.mark.parametrize("came", THOUGHTS)
@pytest.mark.parametrize("model", ["deepseek-v4-pro", "kimi-k2.5"])
async def test_claudes_form_of_others_has_thinking_before_calls(
    client: httpx.AsyncClient, conversation: str, model: str, came: str, asked: str
) -> None:
    """DeepSeek and Kimi want it at their addresses of Claude's form, too: a chat log's reasoning, or a blank, told."""
    await append(client, conversation, *thinking(**THOUGHTS[came]))

    made = await window(client, conversation, model=model, format="anthropic", reasoning=asked)

    block = made["request"]["messages"][1]["content"][0]
    assert block == {"type": "thinking", "thinking": "I should look." if THOUGHTS[came] else " ", "signature": ""}
    assert ("no_reasoning" in made.get("mended", {"reasons": {}})["reasons"]) == (came == "none")
    counted_tokens = await counted(client, made, "anthropic")
    assert counted_tokens <= made["tokens"]["total"]
    if came != "reasoning_details":  # of which more is counted than the text
        assert counted_tokens == made["tokens"]["total"]


@pytest.mark.parametrize("model", ["claude-opus-4-8", "glm-4.6"])
async def test_claudes_form_has_no_others_thinking(client: httpx.AsyncClient, conversation: str, model: str) -> None:
    """Claude refuses thinking that it has not signed, and GLM was not seen to miss it."""
    await append(client, conversation, *thinking(reasoning_content="I should look."))

    made = await window(client, conversation, model=model, format="anthropic", reasoning="all")

    assert [each["type"] for each in made["request"]["messages"][1]["content"]] == ["tool_use"]


async def test_a_call_of_claude_without_thinking_gets_a_blank(client: httpx.AsyncClient, conversation: str) -> None:
    """A call that came in Claude's form without thinking has a blank before it for Kimi; Claude gets it as it came."""
    blocks = [{"type": "text", "text": "Let me look."}, {"type": "tool_use", "id": "t1", "name": "look", "input": {}}]
    answered = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "Ada"}]}
    told = [{"role": "user", "content": "q"}, {"role": "assistant", "content": blocks}, answered]
    await append(client, conversation, *({"message": each} for each in told), format="anthropic")

    made = await window(client, conversation, model="kimi-k2.5", format="anthropic", explain="true")

    blank = {"type": "thinking", "thinking": " ", "signature": ""}
    assert made["request"]["messages"][1]["content"] == [blank, *blocks]
    assert made["explain"][1]["mended"] == ["no_reasoning"]
    assert await counted(client, made, "anthropic") == made["tokens"]["total"]
    same = await window(client, conversation, model="claude-sonnet-4-5", format="anthropic")
    assert same["request"]["messages"][1]["content"] == blocks


async def test_a_called_name_that_no_tool_declares_is_in_the_hosts_alphabet(
    client: httpx.AsyncClient, conversation: str
) -> None:
    """Groq's own alphabet holds for calls of history, too, whoever made the model; their results have the same name."""
    call = {"id": "call_1", "type": "function", "function": {"name": "files.read all", "arguments": "{}"}}
    called = {"message": {"role": "assistant", "content": None, "tool_calls": [call]}}
    await append(client, conversation, user("q"), called, result("call_1"), user("r"))

    made = await sent(client, conversation, "groq/qwen/qwen3-32b")

    assert made["request"]["messages"][1]["tool_calls"][0]["function"]["name"] == "files_read_all"


@pytest.mark.parametrize("model", ["openrouter/google/gemini-2.5-pro", "vertex_ai/gemini-2.5-pro"])
async def test_gemini_has_its_alphabet_in_chat_completions(
    client: httpx.AsyncClient, conversation: str, model: str
) -> None:
    """A declared name that Gemini does not take is another, told, also where a host passes chat completions on to it."""
    tool = {"type": "function", "function": {"name": "2fa/reset code", "parameters": {"type": "object"}}}
    await append(client, conversation, user("q"))
    answer = await client.patch(f"/conversations/{conversation}", json={"tools": [tool]})
    assert answer.status_code == 200, answer.text

    made = await sent(client, conversation, model)

    assert made["request"]["tools"][0]["function"]["name"] == "_2fa_reset_code"
    assert made["names"] == {"_2fa_reset_code": "2fa/reset code"}


PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPj/HwAEAQH/7yMK"
    "/gAAAABJRU5ErkJggg=="
)


@pytest.mark.parametrize("model", ["deepseek-chat", "deepseek-v4-pro", "sambanova/DeepSeek-V3.1"])
async def test_a_list_of_texts_is_one_text(client: httpx.AsyncClient, conversation: str, model: str) -> None:
    """DeepSeek takes no list of parts, whoever wrote it; a picture that it does not see is a line in the text."""
    said = [{"type": "text", "text": "One, "}, {"type": "text", "text": 'two: "content":[.'}]
    seen = [{"type": "text", "text": "Look: "}, {"type": "image_url", "image_url": {"url": PIXEL}}]
    messages = [
        {**BRIEF},
        {"role": "user", "content": said},
        calling("call_1")["message"],
        {**result("call_1")["message"], "content": said},
        {"role": "assistant", "content": said},
        {"role": "user", "content": seen},
    ]
    await append(client, conversation, *({"message": each} for each in messages))
    made = await sent(client, conversation, model)
    contents = [each.get("content") for each in made["request"]["messages"]]
    assert all(content is None or isinstance(content, str) for content in contents)
    assert contents[1] == contents[3] == contents[4] == 'One, two: "content":[.'
    assert contents[5].startswith("Look: \n[image, image/png")
    assert made["mended"]["reasons"]["one_text"] >= 4
    assert await counted(client, made, "openai") == made["tokens"]["total"]
    theirs = await window(client, conversation, model="kimi-k2.5")
    assert theirs["request"]["messages"][1]["content"] == said


@pytest.mark.parametrize("model", ["kimi-k2.5", "openrouter/moonshotai/kimi-k2.5", "grok-4"])
async def test_an_empty_system_message_is_left_out(client: httpx.AsyncClient, conversation: str, model: str) -> None:
    """Moonshot refuses a system message without a text; it says nothing, so the request is without it."""
    await append(client, conversation, {"role": "system", "content": ""}, user("q"), {"role": "system", "content": []})
    made = await sent(client, conversation, model)
    assert made["request"]["messages"] == [{"role": "user", "content": "q"}]
    assert made["mended"]["reasons"]["empty_question"] == 2
    assert await counted(client, made, "openai") == made["tokens"]["total"]
    theirs = await window(client, conversation, model="gpt-4o")
    assert [each["role"] for each in theirs["request"]["messages"]] == ["system", "user", "system"]


async def test_a_call_that_becomes_a_functions_has_reasoning(client: httpx.AsyncClient, conversation: str) -> None:
    """A computer's call, whose screenshot DeepSeek does not take, is sent as a function's, with a blank before it."""
    called = {"type": "computer_call", "id": "cu_1", "call_id": "c1", "action": {"type": "wait"}, "status": "completed"}
    screen = {"type": "computer_screenshot", "image_url": PIXEL}
    told = [
        {"role": "user", "content": "q"},
        called,
        {"type": "computer_call_output", "call_id": "c1", "output": screen},
    ]
    await append(client, conversation, *({"message": each} for each in told), format="responses")

    made = await window(client, conversation, model="deepseek-v4-pro", format="responses")

    _, reasoning, call, _ = made["request"]["input"]
    assert (reasoning["type"], call["type"]) == ("reasoning", "function_call")
    assert reasoning["content"] == [{"type": "reasoning_text", "text": " "}]
    assert made["mended"]["reasons"]["no_reasoning"] == 1
    assert await counted(client, made, "responses") <= made["tokens"]["total"]
