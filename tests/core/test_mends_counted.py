"""Counted as sent: each mend has a smallest history here, whose windows cost what ``POST /count`` of them says."""

from functools import cache
from typing import Any, Final

import msgspec
import pytest

from sash.core.counts.models.models import find_model
from sash.core.counts.requests.provider_requests import count_provider_request
from sash.core.providers import PROVIDERS
from sash.core.providers.messages.mends import OF_ALL
from sash.windows.request import decode_request
from sash.windows.stateless import window_of_request

Object = dict[str, Any]
PIXEL: Final = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
MODELS: Final = {
    "openai": (
        "gpt-4o",
        "grok-4",
        "deepseek-chat",
        "mistral-large-latest",
        "kimi-k2.5",
        "glm-5.1",
        "gemma-3-27b-it",
        "groq/qwen/qwen3-32b",
        "llama-3.3-70b",
        "hosted_vllm/deepseek-ai/DeepSeek-V4-Pro",
        "vertex_ai/gemini-3.6-flash",
    ),
    "responses": ("gpt-5", "grok-4", "deepseek-v4-pro"),
    "anthropic": ("claude-sonnet-4-5", "claude-opus-4-8", "deepseek-v4-pro", "minimax-m2.5"),
    "gemini": ("gemini-2.5-flash", "gemini-3-pro-preview"),
    "interactions": ("gemini-2.5-flash", "gemini-3-pro-preview"),
    "converse": (
        "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "amazon.nova-pro-v1:0",
        "meta.llama3-1-70b-instruct-v1:0",
    ),
    "ollama": ("qwen3:8b", "qwen2.5vl:7b"),
    "cohere": ("command-a-03-2025",),
}
ROUNDED: Final = 2
"""Tokens a message by which an estimate may be rounded up."""


def user(content: Any = "q") -> Object:
    return {"role": "user", "content": content}


def reply(content: Any = "a", **more: Any) -> Object:
    return {"role": "assistant", "content": content, **more}


def text(words: str, **more: Any) -> Object:
    return {"type": "text", "text": words, **more}


def call(identity: str = "c1", arguments: Any = "{}", name: str = "look") -> Object:
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def result(identity: str = "c1", content: Any = "7") -> Object:
    return {"role": "tool", "tool_call_id": identity, "content": content}


def use(**more: Any) -> Object:
    return {"type": "tool_use", "id": "c1", "name": "look", "input": {}, **more}


def answer(content: Any = "7", **more: Any) -> Object:
    return {"type": "tool_result", "tool_use_id": "c1", "content": content, **more}


def claudes(*blocks: Object, after: Object | None = None) -> tuple[str, list[Object]]:
    return "anthropic", [user(), reply([*blocks]), user() if after is None else after]


def chat(*messages: Object) -> tuple[str, list[Object]]:
    return "openai", [*messages]


def items(*given: Object) -> tuple[str, list[Object]]:
    return "responses", [user(), *given, user()]


def contents(*parts: Object, role: str = "model", after: tuple[Object, ...] = ()) -> tuple[str, list[Object]]:
    asked = {"role": "user", "parts": [{"text": "q"}]}
    return "gemini", [asked, {"role": role, "parts": [*parts]}, *after, asked]


def converses(
    *blocks: Object, asked: tuple[Object, ...] = ({"text": "q"},), after: Object | None = None
) -> tuple[str, list[Object]]:
    behind = {"role": "user", "content": [after or {"text": "q"}]}
    return "converse", [user([*asked]), reply([*blocks]), behind]


def steps(*given: Object) -> tuple[str, list[Object]]:
    asked = {"type": "user_input", "content": [text("q")]}
    return "interactions", [asked, *given, asked]


THOUGHT: Final = "I look at it once more, and then again. " * 5


def thinking(words: str = THOUGHT, signature: str = "c2ln") -> Object:
    return {"type": "thinking", "thinking": words, "signature": signature}


def picture(kind: str = "image/png") -> Object:
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": PIXEL}}


def url_picture(kind: str = "image/png", **more: Any) -> Object:
    return {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{PIXEL}", **more}}


def document(name: str = "paper") -> Object:
    return {"document": {"format": "txt", "name": name, "source": {"bytes": "d29yZHM="}}}


SEARCH: Final = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}}
PAPER: Final = {
    "type": "document",
    "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjQKJSVFT0Y="},
}
LARGE: Final = {
    "type": "file",
    "file": {"filename": "paper.pdf", "file_data": f"data:application/pdf;base64,JVBERi{'eHh4' * 6_000}"},
}
"""A file that is not counted once more as it is sent."""
MARK: Final = {"cache_control": {"type": "ephemeral"}}
CUT: Final = chat(user(), reply(None, tool_calls=[call(arguments='{"a')]), result(), user())
SIGNED: Final = chat(user(), reply(None, tool_calls=[call()]), result(), user())
CALLED: Final = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
OUTPUT: Final = {"type": "function_call_output", "call_id": "c1", "output": "7"}
LONG: Final = "c" * 100
HISTORIES: Final[dict[str, tuple[str, list[Object]]]] = {
    "a greeting": chat(reply("Hello!"), user()),
    "a file without a name": claudes(text("a"), after=user([text("q"), PAPER])),
    "a large file": chat(user([text("q"), LARGE])),
    "calls of one id": chat(user(), reply(None, tool_calls=[call(), call()]), result(), result(), reply(), user()),
    "a question behind a result": chat(user(), reply(None, tool_calls=[call()]), result(), user(), reply(), user()),
    "a call first": chat(reply(None, tool_calls=[call()]), result(), user()),
    "reasoning before a call": chat(
        user(), reply(None, reasoning_content="I look.", tool_calls=[call()]), result(), reply(), user()
    ),
    "an input that is a number": (
        "cohere",
        [user(), {"role": "assistant", "tool_plan": "I look.", "tool_calls": [call(arguments=3)]}, result(), user()],
    ),
    "neighbours": chat(user(), user(), reply(), reply(), user()),
    "empty reply": chat(user(), reply(""), user(), reply(None), user()),
    "calls of a reply": chat(user(), reply("I look.", tool_calls=[call(), call("c2")]), result(), result("c2"), user()),
    "a text in parts": chat({"role": "system", "content": [text("Be brief. "), text("Be kind.")]}, user()),
    "thoughts elsewhere": chat(user(), reply(None, tool_calls=[call()], reasoning="hm"), result(), user()),
    "named speakers": chat({"role": "system", "content": "Be.", "name": "ops"}, user(), reply(name="bot"), user()),
    "an empty system text": chat({"role": "system", "content": ""}, user()),
    "blank lines behind a text": chat(
        {"role": "system", "content": "Be kind."},
        {"role": "system", "content": "Öl über Straße the the Größe window,\n\n\n\n"},
        user(),
    ),
    "system note": chat(user(), reply(), {"role": "system", "content": "It is dark."}, user()),
    "system in a form": (
        "converse",
        [user([{"text": "q"}]), {"role": "system", "content": [{"text": "Dark."}]}, user([{"text": "q"}])],
    ),
    "system content": contents({"text": "Dark."}, role="system"),
    "cut arguments": CUT,
    "cut input": claudes(use(input='{"a'), after=user([answer()])),
    "cut args": contents(
        {"functionCall": {"name": "look", "args": '{"a'}},
        after=({"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {"a": 1}}}]},),
    ),
    "a result of another name": contents(
        {"functionCall": {"id": "c1", "name": "look", "args": {}}},
        after=(
            {"role": "user", "parts": [{"functionResponse": {"id": "c1", "name": "find it", "response": {"a": 1}}}]},
        ),
    ),
    "cut use": converses(
        {"toolUse": {"toolUseId": "c1", "name": "look", "input": '{"a'}},
        after={"toolResult": {"toolUseId": "c1", "content": [{"text": "7"}]}},
    ),
    "cut step": steps(
        {"type": "function_call", "id": "c1", "name": "look", "arguments": '{"a'},
        {"type": "function_result", "call_id": "c1", "result": "7"},
    ),
    "a long id": chat(user(), reply(None, tool_calls=[call(LONG)]), result(LONG), user()),
    "a strange id": chat(user(), reply(None, tool_calls=[call("c:1/ä")]), result("c:1/ä"), user()),
    "a strange name": claudes(use(name="my tool/ä"), after=user([answer()])),
    "a strange chat name": chat(user(), reply(None, tool_calls=[call(name="my tool/ä")]), result(), user()),
    "a strange use": converses(
        {"toolUse": {"toolUseId": "c:1", "name": "my tool", "input": {}}},
        after={"toolResult": {"toolUseId": "c:1", "content": [{"text": "7"}]}},
    ),
    "a name": chat({**user(), "name": "Alice B."}, reply(), {**user(), "name": "alice"}),
    "a name before German": chat({**user("Wir gehen über die Brücke."), "name": "alice"}, reply(), user()),
    "an empty member": chat(user(), reply("a", refusal="", annotations=[], reasoning_content=""), user()),
    "null members": chat(user(), reply("a", audio=None, function_call=None), user()),
    "host members": chat(
        user(),
        reply(
            "a",
            reasoning_content="hm",
            annotations=[
                {"type": "url_citation", "url_citation": {"url": "u", "title": "t", "start_index": 0, "end_index": 1}}
            ],
        ),
        user(),
    ),
    "reasoning and a call": chat(user(), reply(None, reasoning_content="hm", tool_calls=[call()]), result(), user()),
    "prefix": chat(user(), reply("a", prefix=True, partial=True), user()),
    "an empty question": chat(user(""), reply(), user(" ")),
    "a wrong type of picture": chat(user([text("q"), url_picture("image/jpeg")])),
    "a type that is not taken": chat(user([text("q"), url_picture("image/tiff")])),
    "a PDF without a data URL": (
        "responses",
        [
            user(
                [
                    {"type": "input_text", "text": "q"},
                    {"type": "input_file", "filename": "a.pdf", "file_data": "JVBERi0xLjQKJSVFT0Y="},
                ]
            )
        ],
    ),
    "a file of a wrong type": chat(
        user(
            [
                text("q"),
                {"type": "file", "file": {"filename": "a.md", "file_data": "data:text/markdown;base64,d29yZHM="}},
            ]
        )
    ),
    "an archive": chat(
        user(
            [
                text("q"),
                {"type": "file", "file": {"filename": "a.zip", "file_data": "data:application/zip;base64,UEsDBA=="}},
            ]
        )
    ),
    "a sound": chat(user([text("q"), {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}])),
    "a spoken reply": chat(
        user(), reply(None, audio={"id": "audio_1", "data": "UklGRg==", "expires_at": 1, "transcript": "words"}), user()
    ),
    "a Claude picture of a wrong type": ("anthropic", [user([picture("image/jpeg"), text("q")])]),
    "Gemini's picture": contents({"inlineData": {"mimeType": "image/png", "data": PIXEL}}, {"text": "a"}),
    "a blank part": chat({"role": "user", "content": [text(" "), text("a")]}, reply(), user()),
    "a blank text": claudes(text(" "), text("a")),
    "blank use": claudes(text(""), use(), after=user([answer()])),
    "five marks": ("anthropic", [user([text("q", **MARK) for _ in range(5)])]),
    "a nested mark": claudes(use(), after=user([answer([text("7", **MARK)])])),
    "a failed picture": claudes(use(), after=user([answer([text("7"), picture()], is_error=True)])),
    "a failed silence": claudes(use(), after=user([answer([], is_error=True)])),
    "only thinking": ("anthropic", [user(), reply([text("a"), thinking()])]),
    "white space at the end": ("anthropic", [user(), reply([text("a ")])]),
    "unsigned": claudes(thinking(signature=""), text("a")),
    "a null member": claudes(
        text("a"), after=user([{"type": "image", "source": picture()["source"], "cache_control": None}, text("q")])
    ),
    "text before a result": claudes(use(), after=user([text("q"), answer()])),
    "a title": (
        "anthropic",
        [
            user(
                [
                    {
                        "type": "document",
                        "source": {"type": "text", "media_type": "text/plain", "data": "words"},
                        "title": "t" * 600,
                    },
                    text("q"),
                ]
            )
        ],
    ),
    "a reference": claudes(use(), after=user([answer([{"type": "tool_reference", "tool_name": "gone"}])])),
    "a paused search": claudes(text("a"), SEARCH),
    "some citations": (
        "anthropic",
        [
            user(
                [
                    {
                        "type": "document",
                        "source": {"type": "text", "media_type": "text/plain", "data": "words"},
                        "citations": {"enabled": True},
                    }
                ]
            ),
            reply(),
            user(
                [
                    {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "words"}},
                    text("q"),
                ]
            ),
        ],
    ),
    "a file elsewhere": (
        "anthropic",
        [user([{"type": "document", "source": {"type": "file", "file_id": "file_01a"}}, text("q")])],
    ),
    "an address": chat(user([text("q"), {"type": "file_url", "file_url": {"url": "https://x.test/a.pdf"}}])),
    "null content": items(
        {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed", "content": None}
    ),
    "an open search": items(
        {"type": "web_search_call", "id": "ws_1", "status": "in_progress", "action": {"type": "search", "query": "q"}}
    ),
    "a search without id": items(
        {"type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "q"}}
    ),
    "a bad id": items(
        {
            "type": "message",
            "role": "assistant",
            "id": "x" * 80,
            "status": "completed",
            "content": [{"type": "output_text", "text": "a", "annotations": []}],
        }
    ),
    "an item twice": items(
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "E"},
        CALLED | {"id": "fc_1"},
        OUTPUT,
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "E"},
    ),
    "lone reasoning": items({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "E"}),
    "another output": items(CALLED, {**OUTPUT, "type": "custom_tool_call_output"}),
    "an item's shape": items(CALLED | {"arguments": {}}, OUTPUT | {"output": None}),
    "an empty part": contents({"text": ""}, {"text": "a"}),
    "an empty step": steps(
        {"type": "model_output", "content": [text("")]}, {"type": "model_output", "content": [text("a")]}
    ),
    "unsigned calls": (
        "gemini",
        [
            {"role": "user", "parts": [{"text": "q"}]},
            {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {}}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {"a": 1}}}]},
        ],
    ),
    "unsigned chat calls": chat(user(), reply(None, tool_calls=[call()]), result()),
    "a foreign signature": contents({"text": "a", "thoughtSignature": "?"}),
    "an unsigned thought": steps(
        {"type": "thought", "signature": "", "summary": [text("hm")]}, {"type": "model_output", "content": [text("a")]}
    ),
    "results turned": chat(
        user(), reply(None, tool_calls=[call("c1"), call("c2")]), result("c2", "2"), result("c1", "1"), user()
    ),
    "Gemini's results turned": (
        "gemini",
        [
            {"role": "user", "parts": [{"text": "q"}]},
            {"role": "model", "parts": [{"functionCall": {"id": i, "name": "look", "args": {}}} for i in ("c1", "c2")]},
            {
                "role": "user",
                "parts": [{"functionResponse": {"id": i, "name": "look", "response": {"a": i}}} for i in ("c2", "c1")],
            },
        ],
    ),
    "a data URL": ("ollama", [{"role": "user", "content": "q", "images": [f"data:image/png;base64,{PIXEL}"]}]),
    "six points": (
        "converse",
        [user([x for _ in range(6) for x in ({"text": "q"}, {"cachePoint": {"type": "default"}})])],
    ),
    "a lone document": ("converse", [user([document()])]),
    "a strange document": ("converse", [user([{"text": "q"}, document("a.b/c")])]),
    "six documents": ("converse", [user([{"text": "q"}, *(document(f"paper {n}") for n in range(6))])]),
    "last reasoning": (
        "converse",
        [
            user([{"text": "q"}]),
            reply([{"text": "a"}, {"reasoningContent": {"reasoningText": {"text": THOUGHT, "signature": "s"}}}]),
        ],
    ),
    "unsigned reasoning": converses({"reasoningContent": {"reasoningText": {"text": THOUGHT}}}, {"text": "a"}),
    "a reply's picture": converses({"image": {"format": "png", "source": {"bytes": PIXEL}}}, {"text": "a"}),
    "JSON of a result": converses(
        {"toolUse": {"toolUseId": "c1", "name": "look", "input": {}}},
        after={"toolResult": {"toolUseId": "c1", "content": [{"json": [1]}]}},
    ),
    "a failed use": converses(
        {"toolUse": {"toolUseId": "c1", "name": "look", "input": {}}},
        after={
            "toolResult": {
                "toolUseId": "c1",
                "status": "error",
                "content": [{"image": {"format": "png", "source": {"bytes": PIXEL}}}],
            }
        },
    ),
    "a silent use": converses(
        {"toolUse": {"toolUseId": "c1", "name": "look", "input": {}}},
        after={"toolResult": {"toolUseId": "c1", "status": "error", "content": []}},
    ),
    "blank blocks": converses({"text": " "}, {"text": "a"}),
    "text before a use's result": (
        "converse",
        [
            user([{"text": "q"}]),
            reply([{"toolUse": {"toolUseId": "c1", "name": "look", "input": {}}}]),
            user([{"text": "q"}, {"toolResult": {"toolUseId": "c1", "content": [{"text": "7"}]}}]),
        ],
    ),
    "words and a use": converses(
        {"text": "a"},
        {"toolUse": {"toolUseId": "c1", "name": "look", "input": {}}},
        after={"toolResult": {"toolUseId": "c1", "content": [{"text": "7"}]}},
    ),
    "a half reply": chat(user(), reply("half of a")),
    "an unanswered call": chat(user(), reply(None, tool_calls=[call("c1"), call("c2")]), result(), user()),
    "reasoning": chat(user(), reply(reasoning_content="hm"), user()),
    "a picture in a reply": chat(user(), reply([text("a"), url_picture()]), user()),
    "signed": SIGNED,
    "a legacy call": chat(
        user(),
        {"role": "assistant", "content": "a", "function_call": {"name": "look", "arguments": "{}"}},
        {"role": "function", "name": "look", "content": "7"},
        user(),
    ),
}
UNREACHED: Final = frozenset(
    {
        "anthropic nested_mark",
        "anthropic null_member",
        "anthropic system_role",
        "anthropic unsigned_thinking",
        "cohere media_type",
        "ended_reference",
        "gemini content_role",
        "gemini result_order",
        "gemini untaken_medium",
        "interactions unsigned_thought",
        "interactions untaken_medium",
        "late_result",
        "lost_medium",
        "ollama broken_arguments",
        "ollama untaken_medium",
        "openai developer_role",
        "openai empty_member",
        "responses call_id",
        "responses item_twice",
        "responses lone_reasoning",
        "tool_names",
        "tool_schema",
    }
)
"""Mends without a row: those of a log, of a store, of settings, and those that other mends come before."""


@cache
def made_of(name: str, form: str, model: str) -> Object:
    """Return a window of a history, which both tests read."""
    came, messages = HISTORIES[name]
    body = {"model": model, "format": form, "messages": messages, "uncarried": "drop"}
    wanted, sent = decode_request(msgspec.json.encode(body), came)
    made, _ = window_of_request(wanted, {}, sent)
    found: Object = msgspec.json.decode(made.body)
    return found


@pytest.mark.parametrize("form", MODELS)
@pytest.mark.parametrize("name", HISTORIES)
def test_a_mended_window_costs_what_its_request_costs(name: str, form: str) -> None:
    """The total of a window is the count of its request, but for what an estimate is rounded up."""
    for model in MODELS[form]:
        made = made_of(name, form, model)
        counted = count_provider_request(form, made["request"], find_model(model))
        more = made["tokens"]["total"] - counted.tokens
        slack = 0 if counted.exact else ROUNDED * len(HISTORIES[name][1])
        assert 0 <= more <= slack, (model, more, made.get("mended"), made["request"])


def test_the_table_has_each_mend() -> None:
    """Each mend of each provider's record, and each of all, is in a window of the table, or among those that cannot be."""
    wanted = {(form, mend.name) for form in MODELS for mend in PROVIDERS[form].mends} | {
        ("", mend.name) for mend in OF_ALL
    }
    seen: set[tuple[str, str]] = set()
    for name in HISTORIES:
        for form, models in MODELS.items():
            for model in models:
                told = made_of(name, form, model).get("mended", {}).get("reasons", {})
                seen |= {(form, each) for each in told} | {("", each) for each in told}
    assert {f"{form} {name}".strip() for form, name in wanted - seen} == UNREACHED
