"""Providers' own messages become chat messages, and are sent again as they came."""

import cProfile
import json
import pstats
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from provider_types import anthropic_messages, contents, items
from recordings import NO_TRUTH, TRUTH
from validators import anthropic, gemini, responses

from sash.core.chat.messages import validate_message
from sash.core.counts.costs.counting import count_request
from sash.core.counts.measures.measures import measure
from sash.core.counts.models.models import find_model
from sash.core.providers import PROVIDERS, render_request
from sash.core.providers.google.gemini_mends import camel, in_camel_case
from sash.core.providers.messages.mends import Mends
from sash.core.providers.reading.native import check_native, read_messages, read_request, restore
from sash.core.providers.reading.own_parts import parts_of, without_reasoning
from sash.core.providers.reading.recognition import foreign
from sash.core.providers.writing.turns import Outgoing
from sash.problems import InvalidEntry

MESSAGES = {"responses": "input", "anthropic": "messages", "gemini": "contents"}
MODELS = {"responses": "gpt-5", "anthropic": "claude-sonnet-4-5", "gemini": "gemini-2.5-flash"}
JUDGES = {"anthropic": anthropic.refused, "gemini": gemini.refused, "responses": responses.refused}
SOURCES = [("more_anthropic", "anthropic"), ("more_gemini", "gemini"), ("kani_responses", "responses")]
CALL_ITEM = {"type": "function_call", "name": "look", "arguments": '{"day": 1}'}
pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")


def read(form: str, messages: list[Any]) -> list[dict[str, Any]]:
    return [turn.message for turn in read_messages(form, messages, [f"/{i}" for i in range(len(messages))])]


def sent(form: str, chat: list[dict[str, Any]], mends: Mends | None = None) -> Any:
    """Return the provider's messages in a request of these chat messages."""
    outgoing = [Outgoing(seq, message) for seq, message in enumerate(chat, 1)]
    return render_request(form, outgoing, mends=mends)[MESSAGES[form]]


def chat_form(message: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in message.items() if name != "native"}


def texts_alone(message: dict[str, Any]) -> dict[str, Any]:
    """Return the chat form without a result's pictures and files, which only a native message has."""
    chat = chat_form(message)
    if chat["role"] == "tool" and isinstance(chat["content"], list):
        chat["content"] = [part for part in chat["content"] if part["type"] == "text"] or ""
    return chat


def comes_back(form: str, messages: list[dict[str, Any]]) -> None:
    try:
        chat = read(form, messages)
    except InvalidEntry as refused:
        assume(not refused)
    for message in chat:
        check_native(message, "")
        assert list(message)[-1] == "native"
        ids = [call["id"] for call in message.get("tool_calls", ())]
        if len(set(ids)) == len(ids) <= 128:
            validate_message(texts_alone(message), "", foreign)
        assert measure(message).extra.beside.size == len(msgspec.json.encode(message["native"])) + 10
    mends = Mends()
    made = sent(form, chat, mends)
    if form == "gemini" and made and messages[0].get("role") == "model" and made[0].get("role") == "user":
        made = made[1:]  # a call may not be the first: a turn of the user's is before it
    if {"hosted_state"} in mends.told.values():  # refused for its state, which no type shows
        return
    if mends.told:  # then the provider refuses what came
        place = MESSAGES[form]
        assert JUDGES[form]({place: in_camel_case(messages)}, "")
    elif form == "gemini":
        assert said_in(made) == said_in(in_camel_case(messages))
    if not mends.told and (form != "gemini" or not any(map(refused_by_gemini, messages, messages[1:]))):
        assert made == (in_camel_case(messages) if form == "gemini" else messages)


def said_in(contents: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    """Return every part of Gemini's contents, with its role."""
    return [(content.get("role"), part) for content in contents for part in parts_of(PROVIDERS["gemini"], [content])]


def refused_by_gemini(before: dict[str, Any], content: dict[str, Any]) -> bool:
    """Return whether both contents have results, or the second has calls after the model's; such contents are joined."""
    first, second = (
        {camel(name) for part in parts_of(PROVIDERS["gemini"], [each]) for name in part} for each in (before, content)
    )
    return "functionResponse" in first & second or (before["role"] == "model" and "functionCall" in second)


@given(items())
def test_every_kind_of_item_comes_back(messages: list[dict[str, Any]]) -> None:
    """Each kind of item that OpenAI's types declare is sent in a window as it came."""
    comes_back("responses", messages)


@given(anthropic_messages())
def test_every_kind_of_block_comes_back(messages: list[dict[str, Any]]) -> None:
    """Each kind of block that Anthropic's types declare is sent in a window as it came."""
    comes_back("anthropic", messages)


@given(contents())
def test_every_kind_of_part_comes_back(messages: list[dict[str, Any]]) -> None:
    """Each kind of part that Google's types declare is sent as it came; contents that Gemini refuses are joined."""
    comes_back("gemini", messages)


@pytest.mark.skipif(not TRUTH.is_dir(), reason=NO_TRUTH)
@pytest.mark.parametrize(("name", "form"), SOURCES)
def test_recorded_requests_are_read(name: str, form: str) -> None:
    """Every recorded request becomes a chat request from which the recorded messages can be restored."""
    rows = json.loads((TRUTH / f"{name}.json").read_text())
    for row in rows:
        request = read_request(form, row["request"])
        kept = [message for message in request.messages if "native" in message]
        wanted = _since_compaction(row["request"][MESSAGES[form]])
        for message in request.messages:
            validate_message(texts_alone(message), "", foreign)
        assert [own for run in _wholes(kept) for own in run] == wanted, row["id"]


def _since_compaction(wanted: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages from the newest compaction block of Anthropic's on, which takes no notice of those before."""
    for index, message in reversed([*enumerate(wanted)]):
        if "compaction" in [block.get("type") for block in blocks_of(message)]:
            return wanted[index:]
    return wanted


def blocks_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the content blocks of one of a provider's messages."""
    content = message.get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _wholes(kept: list[dict[str, Any]]) -> list[Any]:
    """Return the provider's messages of chat messages, without a window's checks of calls."""
    wholes: list[list[Any]] = []
    for message in kept:
        own = restore(message)
        if message["native"].get("piece", [0])[0]:
            key = "parts" if "parts" in own[0] else "content"
            wholes[-1][-1] = {**wholes[-1][-1], key: wholes[-1][-1][key] + own[0][key]}
        else:
            wholes.append(own)
    return wholes


CLAUDE = [
    {"role": "user", "content": "Weather in Paris and Rome?"},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Two calls.", "signature": "c2ln"},
            {"type": "text", "text": "Let me look.", "citations": None},
            {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Paris"}},
            {"type": "tool_use", "id": "t2", "name": "weather", "input": {"city": "Rome"}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "t2", "content": "rain", "is_error": False},
            {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "sun"}]},
            {"type": "text", "text": "And tomorrow?", "cache_control": {"type": "ephemeral"}},
        ],
    },
]
ITEMS = [
    {"role": "user", "content": "Weather in Paris?"},
    {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "Look."}],
        "encrypted_content": "c2Vh",
    },
    {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "weather", "arguments": '{"city": "Paris"}'},
    {"type": "function_call_output", "call_id": "c1", "output": "sun"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Sun.", "annotations": []}]},
]
GEMINI = [
    {"role": "user", "parts": [{"text": "Weather in Paris and Rome?"}]},
    {
        "role": "model",
        "parts": [
            {"text": "Hm.", "thought": True},
            {"functionCall": {"name": "weather", "args": {"city": "Paris"}}, "thoughtSignature": "c2ln"},
            {"functionCall": {"name": "weather", "args": {"city": "Rome"}}},
        ],
    },
    {
        "role": "user",
        "parts": [
            {"functionResponse": {"name": "weather", "response": {"output": "sun"}}},
            {"functionResponse": {"name": "weather", "response": {"sky": "rain"}}},
        ],
    },
]
HISTORIES = {"responses": ITEMS, "anthropic": CLAUDE, "gemini": GEMINI}


def test_an_anthropic_turn_becomes_results_and_a_question() -> None:
    """A user turn becomes a tool message for each result and a user message for its text, and is sent as one turn again."""
    chat = read("anthropic", CLAUDE)
    assert [message["role"] for message in chat] == ["user", "assistant", "tool", "tool", "user"]
    assert chat_form(chat[3]) == {"role": "tool", "tool_call_id": "t1", "content": "sun"}
    assert chat[4]["content"] == "And tomorrow?"
    assert sent("anthropic", chat) == CLAUDE


def test_words_before_a_result_follow_it() -> None:
    """Results come first in chat messages, and in the turn that is sent, because Claude refuses text before them."""
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "sun"}
    words = [{"type": "text", "text": text} for text in ("before", "between", "after")]
    turn = {"role": "user", "content": [words[0], result, words[1], {**result, "tool_use_id": "t2"}, words[2]]}
    chat = read("anthropic", [turn])
    assert [message["role"] for message in chat] == ["tool", "tool", "user"]
    ordered = [result, {**result, "tool_use_id": "t2"}, *words]
    assert sent("anthropic", chat) == [{"role": "user", "content": ordered}]
    assert [{"role": "user", "content": words}] == sent("anthropic", chat[2:])


def test_text_in_an_earlier_message_follows_the_results() -> None:
    """Neighbouring turns of the user count as one: with text before a result they are sent as one, results first."""
    uses = [{"type": "tool_use", "id": each, "name": "look", "input": {}} for each in ("t1", "t2")]
    results = [{"type": "tool_result", "tool_use_id": each, "content": "sun"} for each in ("t1", "t2")]
    words, mends = {"type": "text", "text": "words"}, Mends()
    messages = [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": uses},
        {"role": "user", "content": [results[0], words]},
        {"role": "user", "content": [results[1]]},
    ]
    made = sent("anthropic", read("anthropic", messages), mends)
    assert made == [*messages[:2], {"role": "user", "content": [*results, words]}]
    assert mends.reasons() == {"results_first": 1}
    assert sent("anthropic", read("anthropic", messages[:2]), mends) == messages[:2]


def test_items_of_one_reply_are_one_message() -> None:
    """Consecutive items of the assistant, such as reasoning and a call, become one assistant message."""
    chat = read("responses", ITEMS)
    assert [message["role"] for message in chat] == ["user", "assistant", "tool", "assistant"]
    assert chat[1]["tool_calls"][0]["function"]["name"] == "weather"


def test_gemini_calls_never_follow_the_models_words() -> None:
    """A call whose question was left out joins the model's text before it, because Gemini refuses a separate turn."""
    question, answer = {"role": "user", "parts": [{"text": "a?"}]}, {"role": "model", "parts": [{"text": "a"}]}
    call = {"role": "model", "parts": [{"functionCall": {"id": "c", "name": "f", "args": {}}}]}
    result = {"role": "user", "parts": [{"functionResponse": {"id": "c", "name": "f", "response": {}}}]}
    chat = [*read("gemini", [question, answer]), *read("gemini", [call, result])]
    joined = {"role": "model", "parts": [*answer["parts"], *call["parts"]]}
    assert sent("gemini", chat) == [question, joined, result]


def test_calls_without_ids_find_their_results() -> None:
    """Gemini's calls and results without ids are paired by name and order."""
    chat = read("gemini", GEMINI)
    assert [call["id"] for call in chat[1]["tool_calls"]] == [message["tool_call_id"] for message in chat[2:]]
    assert [message["content"] for message in chat[2:]] == ["sun", '{"sky":"rain"}']


@pytest.mark.parametrize("form", MESSAGES)
@pytest.mark.parametrize("other", MESSAGES)
def test_text_calls_and_results_survive_in_another_form(form: str, other: str) -> None:
    """A history in one provider's format can be sent in each other format, with its text, calls and results."""
    chat = read(form, HISTORIES[form])
    text = json.dumps(sent(other, chat))
    for words in ("Paris", "weather", "sun"):
        assert words in text
    for earlier, later in pairwise(["Weather in Paris", "sun"]):
        assert text.index(earlier) < text.index(later)


@pytest.mark.parametrize("form", MESSAGES)
def test_what_only_the_provider_knows_is_counted_in_its_form(form: str) -> None:
    """Thoughts and signatures cost tokens in the provider's format, and nothing in the chat format."""
    chat = read(form, HISTORIES[form])
    model = find_model(MODELS[form])
    own = count_request(msgspec.structs.replace(model, format=form), messages=chat).tokens
    bare = count_request(model, messages=[chat_form(message) for message in chat]).tokens
    assert own > bare
    assert bare == count_request(model, messages=chat).tokens


def test_an_empty_object_beside_an_empty_call_costs_nothing() -> None:
    """Empty objects, such as unknown metadata, are no repetition of a call's empty arguments."""
    call = {"function_call": {"name": "look"}}
    model = msgspec.structs.replace(find_model(MODELS["gemini"]), format="gemini")
    alone, beside = (
        count_request(model, messages=read("gemini", [{"role": "model", "parts": parts}]))
        for parts in ([call], [{"audio_metadata": {}}, {"audio_metadata": {}}, call])
    )
    assert beside.tokens == alone.tokens


@pytest.mark.slow
@pytest.mark.parametrize("item", [{"role": "assistant", "content": "a"}, CALL_ITEM], ids=["messages", "calls"])
def test_reading_a_reply_takes_time_in_proportion_to_its_items(item: dict[str, Any]) -> None:
    """A reply of eight times as many items takes at most ten times as many calls of functions to read."""
    calls = []
    for count in (200, 1600):
        items = [{"role": "user", "content": "q"}, *({**item, "call_id": f"c{i}"} for i in range(count))]
        profile = cProfile.Profile()
        profile.runcall(read, "responses", items)
        calls.append(pstats.Stats(profile).total_calls)
    assert calls[1] <= 10 * calls[0]


def _thinks(message: dict[str, Any]) -> bool:
    """Whether a message's measure has thoughts."""
    beside = measure(message).extra.beside
    return bool(beside.native_reasoning[0] or beside.reasoning_sealed)


@pytest.mark.parametrize("form", MESSAGES)
def test_thoughts_can_be_left_out(form: str) -> None:
    """A message without its thoughts keeps its calls, and its measure has no tokens of thoughts."""
    chat = read(form, HISTORIES[form])
    assert any(_thinks(message) for message in chat)
    for message in chat:
        message["native"] = without_reasoning(message)["native"]
        assert not _thinks(message)
    text = json.dumps(sent(form, chat))
    assert "weather" in text
    assert not any(word in text for word in ("thinking", "reasoning", "rs_1", "fc_1", "thought", "c2ln"))


@given(st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.dictionaries(st.text(), inner)))
def test_a_native_member_that_is_not_ours_is_refused(value: Any) -> None:
    """A ``native`` member that Sash did not make is refused."""
    with pytest.raises(InvalidEntry):
        check_native({"role": "user", "content": "Hello", "native": value}, "")


@pytest.mark.parametrize("form", MESSAGES)
def test_a_changed_message_is_refused(form: str) -> None:
    """A chat message that does not match its ``native`` member is refused."""
    for message in read(form, HISTORIES[form]):
        with pytest.raises(InvalidEntry):
            check_native({**message, "role": "system"}, "")
        with pytest.raises(InvalidEntry):
            check_native({**message, "native": {**message["native"], "only": ["search"]}}, "")
