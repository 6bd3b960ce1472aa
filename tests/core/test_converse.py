"""Bedrock's Converse: what is particular to its messages and requests."""

from typing import Any

import botocore.session
import msgspec
import pytest

from sash.core.chat.messages import BareEntry
from sash.core.counts.models.models import find_model
from sash.core.counts.requests.provider_requests import count_provider_request
from sash.core.providers import PROVIDERS
from sash.core.providers.bedrock.converse import BLOCKS
from sash.core.providers.form.cache_marks import Places
from sash.core.providers.messages.members import NO_NAMES
from sash.core.providers.reading.native import read_messages
from sash.core.providers.reading.native_entries import read_entries
from sash.core.providers.reading.recognition import foreign
from sash.problems import InvalidEntry
from sash.windows.request import decode_request
from sash.windows.stateless import window_of_request

CLAUDE = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
NOVA = "amazon.nova-pro-v1:0"
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
PDF = "JVBERi0xLjQK"
Object = dict[str, Any]


def user(*blocks: Object) -> Object:
    return {"role": "user", "content": list(blocks)}


def reply(*blocks: Object) -> Object:
    return {"role": "assistant", "content": list(blocks)}


def use(identity: str = "tooluse_1", name: str = "look") -> Object:
    return {"toolUse": {"toolUseId": identity, "name": name, "input": {"day": 1}}}


def found(*content: Object, identity: str = "tooluse_1", **more: Any) -> Object:
    return {"toolResult": {"toolUseId": identity, "content": list(content), **more}}


def document(name: str, **source: str) -> Object:
    return {"document": {"format": "pdf", "name": name, "source": source or {"bytes": PDF}}}


def window(*messages: Object, of: str = "converse", model: str = CLAUDE, form: str = "converse", **ways: Any) -> Object:
    body = {"model": model, "format": form, "messages": list(messages), **ways}
    wanted, sent = decode_request(msgspec.json.encode(body), of)
    made: Object = msgspec.json.decode(window_of_request(wanted, {}, sent)[0].body)
    return made


def test_every_block_of_the_service_model_is_known() -> None:
    """The list of blocks is that of botocore's service model."""
    model = botocore.session.get_session().get_service_model("bedrock-runtime")
    assert set(model.shape_for("ContentBlock").members) == set(BLOCKS)


def test_what_bedrock_takes_goes_out_as_it_came() -> None:
    """A conversation with reasoning, calls, results, documents and cache points is sent unchanged, and nothing is mended."""
    signed = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "EqoB"}}}
    given = [
        user({"text": "What is in it?"}, document("report"), {"cachePoint": {"type": "default"}}),
        reply(signed, {"text": "I look."}, use(), use("tooluse_2")),
        user(found({"text": "a talk"}), found({"json": {"n": 1}}, identity="tooluse_2", status="success")),
        reply({"citationsContent": {"content": [{"text": "A talk."}], "citations": [{"title": "report"}]}}),
        user({"text": "And then?"}),
    ]
    made = window(*given, tools=[TOOL], reasoning="all")
    assert made["request"]["messages"] == given
    assert "mended" not in made or not made["mended"]["messages"]


def test_turns_are_joined_and_begin_with_the_user() -> None:
    """Neighbours of one role become one message, results first; an assistant's first message stands behind `…`."""
    made = window(reply({"text": "Hello."}), reply(use()), user({"text": "wait"}, found({"text": "x"})), tools=[TOOL])
    assert made["request"]["messages"] == [
        user({"text": "…"}),
        reply({"text": "Hello."}, use()),
        user(found({"text": "x"}), {"text": "wait"}),
    ]
    assert made["mended"]["reasons"] == {"joined_turns": 1, "results_first": 1}


@pytest.mark.parametrize("choice", [None, "none"])
def test_a_tool_stands_in_beside_calls_alone(choice: str | None) -> None:
    """Without tools, or without a choice of one, a history with calls declares one tool, which is counted; others do not."""
    settings = {"tools": [TOOL], "tool_choice": choice} if choice else {}
    called = window(user({"text": "Look"}), reply(use()), user(found({"text": "x"})), **settings)
    plain = window(user({"text": "Look"}), **settings)
    (tool,) = called["request"]["toolConfig"]["tools"]
    assert tool["toolSpec"]["name"] == "no_tool"
    assert called["tokens"]["tools"] == count_provider_request("converse", called["request"], find_model(CLAUDE)).tools
    assert called["mended"]["reasons"] == {"undeclared_tools": 1}
    assert "toolConfig" not in plain["request"]
    assert plain["tokens"]["tools"] == 0


def test_documents_have_names_of_their_own() -> None:
    """Names are fitted and told apart, a sixth document becomes a line, and one alone gets a text beside it."""
    made = window(
        user({"text": "q"}, *(document(name) for name in ("a.b", "보고서", "a b"))),
        reply({"text": "ok"}),
        user(*(document(name) for name in ("a b", "c", "d"))),
    )
    blocks = [block for message in made["request"]["messages"] for block in message["content"]]
    names = [block["document"]["name"] for block in blocks if "document" in block]
    assert names == ["document", "a b 1", "a b 3", "c", "d"]
    assert [block["text"] for block in blocks if "text" in block] == [
        "q",
        "[file: a b.pdf, application/pdf, 1 kB]\n",
        "ok",
        "…",
    ]
    assert made["mended"]["reasons"] == {"document_alone": 1, "document_name": 2, "many_documents": 1}


def test_reasoning_is_sent_to_claude_alone() -> None:
    """Reasoning without a signature is left out, and all of it for Nova, which refuses its own."""
    signed = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "EqoB"}}}
    plain = {"reasoningContent": {"reasoningText": {"text": "hm"}}}
    given = (user({"text": "q"}), reply(signed, plain, {"text": "a"}), user({"text": "q"}))
    assert window(*given, reasoning="all")["request"]["messages"][1] == reply(signed, {"text": "a"})
    assert window(*given, reasoning="all", model=NOVA)["request"]["messages"][1] == reply({"text": "a"})


def test_claudes_thinking_goes_over_to_bedrock() -> None:
    """A chat message's signed thinking block is reasoning there, whose signature is the same."""
    block = {"type": "thinking", "thinking": "hm", "signature": "EqoB"}
    given = ({"role": "user", "content": "q"}, {"role": "assistant", "content": "a", "thinking_blocks": [block]})
    made = window(*given, {"role": "user", "content": "q"}, of="openai", reasoning="all")
    said = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "EqoB"}}}
    assert made["request"]["messages"][1] == reply(said, {"text": "a"})


def test_other_formats_get_words_and_pictures() -> None:
    """Calls, results, pictures, documents and texts of Converse's messages are sent in OpenAI's form."""
    image = {"image": {"format": "png", "source": {"bytes": "iVBORw0KGgo="}}}
    given = (user({"text": "q"}, image, document("report")), reply(use()), user(found({"json": {"n": 1}})))
    told = window(*given, model="gpt-4o", form="openai", tools=[TOOL])["request"]["messages"]
    assert [part["type"] for part in told[0]["content"]] == ["text", "image_url", "file"]
    assert told[0]["content"][2]["file"]["filename"] == "report.pdf"
    assert told[1]["tool_calls"][0]["function"] == {"name": "look", "arguments": '{"day":1}'}
    assert (told[2]["tool_call_id"], told[2]["content"]) == ("tooluse_1", '{"n":1}')


def test_links_are_told_in_a_line() -> None:
    """Bedrock reads no links, so a picture's address is a line of text."""
    part = {"type": "image_url", "image_url": {"url": "https://x.test/a.png"}}
    made = window({"role": "user", "content": [part]}, of="openai")
    assert made["request"]["messages"] == [user({"text": "[image: https://x.test/a.png]\n"})]
    assert made["mended"]["reasons"] == {"as_text": 1}


@pytest.mark.parametrize(("form", "model"), [("converse", CLAUDE), ("converse", NOVA), ("ollama", "qwen3-vl:8b")])
def test_a_link_costs_a_picture_whose_size_nobody_knows(form: str, model: str) -> None:
    """The line of a long link may cost more than its small picture, so the picture's size is no bound of it."""
    url = "https://images.example/" + "x7Qz9-" * 45
    parts = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": url, "detail": "low"}}]
    entry = {"message": {"role": "user", "content": parts}}
    sized = window({**entry, "image_sizes": [[10, 10]]}, of="openai", model=model, form=form)
    unsized = window(entry, of="openai", model=model, form=form)
    counted = count_provider_request(form, sized["request"], find_model(model))
    assert counted.tokens <= sized["tokens"]["total"] == unsized["tokens"]["total"]


def test_a_plain_chat_is_cut_the_same_with_explain() -> None:
    """A chat without files keeps free what the tool costs that stands in where messages call, also with ``explain``."""
    chat = [{"role": ("user", "assistant")[n % 2], "content": f"message {n} of some words"} for n in range(80)]
    for most in range(620, 900, 17):
        short = window(*chat, of="openai", max_tokens=most, reserve=0)
        whole = window(*chat, of="openai", max_tokens=most, reserve=0, explain=True)
        assert short["request"] == whole["request"]
        assert short["tokens"] == whole["tokens"]


def test_cache_points_stand_behind_stable_places() -> None:
    """With ``cache=auto`` points stand behind the system text and the messages, and none behind reasoning or for Llama."""
    given = {
        "messages": [user({"text": "q"}), reply({"text": "a"}), user({"text": "q"})],
        "system": [{"text": "Be brief."}],
    }
    point = {"cachePoint": {"type": "default"}}
    places = Places(before_question=True, newest=True)
    made = PROVIDERS["converse"].mark(given, "cache_control", places, "")
    assert made["system"] == [{"text": "Be brief."}, point]
    assert [message["content"][-1] for message in made["messages"]] == [{"text": "q"}, point, point]
    marked = user({"text": "q"}, point)
    assert window(marked, model="meta.llama3-1-8b-instruct-v1:0")["request"]["messages"] == [user({"text": "q"})]


def test_limits_are_bedrocks() -> None:
    """In this form a model of Claude has Bedrock's smaller limits; in its maker's form it has its own."""
    model = find_model(CLAUDE)
    assert (model.limits.tool_name, model.sent_as("converse").limits.tool_name) == (128, 64)
    assert (model.limits.bytes, model.sent_as("converse").limits.bytes) == (32_000_000, 20_000_000)
    assert model.sent_as("anthropic").limits == model.limits
    assert find_model(NOVA).limits.images == 20


def test_a_message_of_converse_is_recognised() -> None:
    """Sent in another format, a message of Converse is refused with the way in; a chat message is taken here as one."""
    problem = foreign(reply(use()), "/messages/0")
    assert problem is not None
    assert "This is a message of Bedrock's Converse" in problem.detail
    assert "?format=converse" in problem.detail
    (entry,) = read_entries("converse", [{"role": "user", "content": "hello"}]).entries
    assert entry == BareEntry(message={"role": "user", "content": "hello"})


def test_an_unknown_block_is_refused_with_the_known_ones() -> None:
    """A block of an invented kind is no fact of a conversation; a client's own member beside a block is kept."""
    with pytest.raises(InvalidEntry, match="An unknown block 'tooluse'; did you mean 'toolUse'"):
        read_entries("converse", [reply({"tooluse": {}})])
    (turn,) = read_messages("converse", [user({"text": "q", "ts": 1})], ["/x"], NO_NAMES)
    assert turn.message["native"]["messages"] == [user({"text": {"$": 0}})]
    assert turn.message["native"]["beside"] == [["0/content/0/", "ts", 1]]
