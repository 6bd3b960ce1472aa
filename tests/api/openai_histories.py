"""Histories as they really are, for OpenAI's forms: steps of one or several messages, each in one provider's form.

Each call has its result directly behind it. The messages are odd in every way that a provider answers 400 to.
"""

import itertools
from typing import Any

from hypothesis import strategies as st

Step = tuple[str, list[dict[str, Any]]]
"""A format, and the messages that are appended in it."""

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPj/HwAEAQH/7yMK/gAAAABJRU5ErkJggg=="
PNG = f"data:image/png;base64,{PIXEL}"
PDF = "JVBERi0xLjQK"
TEXTS = ("", "ok", "Which talks are on?", "오늘 강연은? 🙂", " \n", '{"a": 1}', "0" * 40, "word " * 60)
texts = st.sampled_from(TEXTS)
names = st.sampled_from(["bob", "Jane Doe", "a/b", "<x>", "n" * 80, "user", "Zoë", ""])
functions = st.sampled_from(["look", "mcp.server:look", "look up", "f" * 90, "a-b_C"])
ids = st.sampled_from(["call_{}", "functions.look:{}", "tooluse_" + "a" * 50 + "{}", "x" * 200 + "{}"])


def chat(*messages: dict[str, Any]) -> Step:
    return "openai", list(messages)


def _said(role: str, content: Any, **more: Any) -> Step:
    return chat({"role": role, "content": content, **more})


def _spoken(text: str, words: Any) -> Step:
    audio = {"id": "audio_1", "expires_at": 1, "data": "AAAA", "transcript": text}
    return chat({"role": "assistant", "content": words, "audio": audio})


def _group(pattern: str, name: str, count: int, text: str, content: Any) -> Step:
    made = [pattern.format(place) for place in range(count)]
    calls = [{"id": each, "type": "function", "function": {"name": name, "arguments": "{}"}} for each in made]
    results = [{"role": "tool", "tool_call_id": each, "content": text} for each in made]
    return chat({"role": "assistant", "content": content, "tool_calls": calls}, *results)


def _legacy(name: str, text: str) -> Step:
    call = {"role": "assistant", "content": None, "function_call": {"name": name, "arguments": "{}"}}
    return chat(call, {"role": "function", "name": name, "content": text})


def _parts(texts: list[str]) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text} for text in texts]


_image = {"type": "image_url", "image_url": {"url": PNG}}
chats = st.one_of(
    st.builds(_said, st.sampled_from(["user", "assistant"]), texts),
    st.builds(_said, st.sampled_from(["user", "system", "developer", "assistant"]), texts, name=names),
    st.builds(_said, st.just("assistant"), st.sampled_from([None, []])),
    st.builds(_said, st.just("assistant"), st.none(), refusal=texts),
    st.builds(_said, st.just("assistant"), st.sampled_from([None, "ok"]), tool_calls=st.none()),
    st.just(chat({"role": "assistant"})),
    st.builds(_said, st.sampled_from(["user", "assistant"]), st.lists(texts, min_size=1, max_size=3).map(_parts)),
    st.just(_said("user", [{"type": "text", "text": "See."}, _image])),
    st.builds(_spoken, texts, st.sampled_from([None, "", "ok"])),
    st.builds(_group, ids, functions, st.integers(1, 3), texts, st.sampled_from([None, "", "one moment", []])),
    st.builds(_legacy, functions, texts),
)

# ---- Responses

_counter = itertools.count(1)
_thought = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]}
_sealed = {
    "type": "reasoning",
    "summary": [],
    "encrypted_content": "gAAAAA" + "b" * 300,
    "content": None,
    "status": None,
}
_hosted = st.sampled_from(
    [
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "x"}},
        {"type": "web_search_call", "action": {"type": "search", "query": "x"}},
        {"type": "file_search_call", "id": "fs_1", "status": "completed", "queries": ["a", "b"], "results": None},
        {
            "type": "code_interpreter_call",
            "id": "ci_1",
            "status": "completed",
            "container_id": "c",
            "code": "print(1)",
            "outputs": [{"type": "logs", "logs": "1\n"}],
        },
        {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": PIXEL},
        {"type": "mcp_call", "id": "mcp_1", "server_label": "s", "name": "n", "arguments": "{}", "output": "found"},
        {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "s", "tools": [{"name": "n", "input_schema": {}}]},
    ]
)


def _message_item(text: str, kind: str, more: dict[str, Any]) -> dict[str, Any]:
    part = {"type": kind, "refusal" if kind == "refusal" else "text": text}
    return {"type": "message", "role": "assistant", "content": [part], **more}


_messages = (
    st.builds(
        _message_item,
        texts,
        st.sampled_from(["output_text", "refusal"]),
        st.sampled_from(
            [
                {},
                {"id": "msg_1", "status": "completed"},
                {"id": "msg_" + "x" * 400, "status": "completed"},
                {"id": "msg_1", "status": "in_progress"},
                {"id": None, "status": None},
                {"phase": "commentary"},
            ]
        ),
    )
    | st.builds(lambda text: {"role": "assistant", "content": text}, texts)
    | st.just({"role": "assistant", "content": []})
)


def _called(pattern: str, name: str, output: Any, before: list[dict[str, Any]], more: dict[str, Any]) -> list[Any]:
    identity = pattern.format("r")
    call = {"type": "function_call", "call_id": identity, "name": name, "arguments": "{}", **more}
    return [*before, call, {"type": "function_call_output", "call_id": identity, "output": output}]


_outputs = st.one_of(
    texts,
    st.just([{"type": "input_text", "text": "here"}, {"type": "input_image", "image_url": PNG}]),
    st.just([{"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}]),
)
_calls = st.builds(
    _called,
    ids,
    functions,
    _outputs,
    st.sampled_from([[], [_thought], [_sealed]]),
    st.sampled_from(
        [{}, {"id": "fc_1", "status": "completed"}, {"id": "fc_" + "y" * 90}, {"id": None, "status": None}]
    ),
)
_screen = {"type": "computer_screenshot", "image_url": PNG}
_computer = st.sampled_from(
    [
        [
            {"type": "computer_call", "call_id": "cc", "action": {"type": "wait"}, **more},
            {"type": "computer_call_output", "call_id": "cc", "output": _screen},
        ]
        for more in ({}, {"id": "cu_1", "status": "completed", "pending_safety_checks": []})
    ]
)
_input = st.sampled_from(
    [
        {"role": "user", "content": "And?"},
        {"role": "user", "content": []},
        {"role": "user", "content": [{"type": "input_text", "text": "x"}, {"type": "input_image", "image_url": PNG}]},
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Brief."}]},
    ]
).map(lambda item: [item])
responses = st.one_of(
    _input,
    _calls,
    _computer,
    st.lists(_hosted | _messages | st.sampled_from([_thought, _sealed]), min_size=1, max_size=4),
).map(lambda items: ("responses", items))

# ---- Anthropic and Gemini


def _used(identity: str, name: str, content: Any) -> list[dict[str, Any]]:
    use = {"type": "tool_use", "id": identity, "name": name, "input": {}}
    result = {"type": "tool_result", "tool_use_id": identity, "content": content}
    return [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]


_shot = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
_paper = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PDF}}
_found = {"type": "web_search_result", "url": "https://x.test", "title": "X", "encrypted_content": "c2Vh"}
_claudes = [
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [_found]},
]
anthropic = st.one_of(
    st.builds(
        _used,
        st.sampled_from(["toolu_1", "t" * 60, "t" * 100]),
        st.sampled_from(["look", "f" * 100]),
        st.sampled_from(["sun", [_shot], [{"type": "text", "text": '{"a": 1}'}, _shot], [_paper], []]),
    ),
    st.just([{"role": "assistant", "content": [*_claudes, {"type": "text", "text": "Found."}]}]),
    st.just([{"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}]}]),
    st.just([{"role": "user", "content": [{"type": "text", "text": "See."}, _shot]}]),
).map(lambda messages: ("anthropic", messages))


def _g_called(name: str, parts: list[Any]) -> list[dict[str, Any]]:
    call = {"functionCall": {"name": name, "args": {}, "id": "g_1"}, "thoughtSignature": "c2ln"}
    response = {"name": name, "id": "g_1", "response": {"output": "sun"}, **({"parts": parts} if parts else {})}
    return [{"role": "model", "parts": [call]}, {"role": "user", "parts": [{"functionResponse": response}]}]


_inline = {"inlineData": {"mimeType": "image/png", "data": PIXEL}}
gemini = st.one_of(
    st.builds(_g_called, st.sampled_from(["look", "a.b:c"]), st.sampled_from([[], [_inline]])),
    st.just(
        [
            {
                "role": "model",
                "parts": [
                    {"executableCode": {"language": "PYTHON", "code": "print(1)"}},
                    {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n"}},
                    {"text": "One."},
                ],
            }
        ]
    ),
    st.just([{"role": "model", "parts": [{"text": "Here: "}, _inline]}]),
    st.just([{"role": "user", "parts": [{"text": "See."}, _inline]}]),
).map(lambda contents: ("gemini", contents))

steps = st.lists(st.one_of(chats, chats, responses, responses, anthropic, gemini), min_size=1, max_size=7)
