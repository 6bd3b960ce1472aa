"""Each stored part is in the request, or named: no window is rendered from a poorer form than what is stored."""

import json
from typing import Any, Final

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from sash.windows.request import decode_request
from sash.windows.stateless import window_of_request

Object = dict[str, Any]
PIXEL: Final = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
MODELS: Final = {
    "openai": ("gpt-4o", "claude-sonnet-4-5", "gemini-2.5-flash", "deepseek-v4-pro"),
    "responses": ("gpt-5", "grok-4"),
    "anthropic": ("claude-sonnet-4-5", "kimi-k2.5"),
    "gemini": ("gemini-2.5-flash",),
    "interactions": ("gemini-2.5-flash",),
    "converse": ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "amazon.nova-pro-v1:0"),
    "ollama": ("qwen3:8b",),
    "cohere": ("command-a-03-2025",),
}


def text(kind: str, words: str, **more: Any) -> Object:
    return {"type": kind, "text": words, **more}


CITED: Final = {"type": "url_citation", "url": "https://x.test/cited", "title": "t", "start_index": 0, "end_index": 3}
SOURCE: Final = {
    "type": "web_search_result",
    "url": "https://x.test/zpage",
    "title": "A page",
    "encrypted_content": "E",
}
CITATION: Final = {
    "type": "web_search_result_location",
    "url": "https://x.test/cited",
    "title": "A page",
    "encrypted_index": "E",
    "cited_text": "c",
}
BASE64: Final = {"type": "base64", "media_type": "image/png", "data": PIXEL}
REPLIES: Final[dict[str, dict[str, list[Object]]]] = {
    "anthropic": {
        "thinking": [{"type": "thinking", "thinking": "zthought", "signature": "sig"}],
        "redacted": [{"type": "redacted_thinking", "data": "zthought"}],
        "search": [
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "zquery"}},
            {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [SOURCE]},
        ],
        "code": [
            {"type": "server_tool_use", "id": "srvtoolu_2", "name": "code_execution", "input": {"code": "zcode"}},
            {
                "type": "code_execution_tool_result",
                "tool_use_id": "srvtoolu_2",
                "content": {
                    "type": "code_execution_result",
                    "stdout": "zout",
                    "stderr": "",
                    "return_code": 0,
                    "content": [],
                },
            },
        ],
        "text": [text("text", "zwords")],
        "cited": [text("text", "zcited", citations=[CITATION])],
    },
    "responses": {
        "reasoning": [
            {"type": "reasoning", "id": "rs_1", "summary": [text("summary_text", "zthought")], "encrypted_content": "E"}
        ],
        "search": [
            {
                "type": "web_search_call",
                "id": "ws_1",
                "status": "completed",
                "action": {"type": "search", "query": "zquery"},
            }
        ],
        "code": [
            {
                "type": "code_interpreter_call",
                "id": "ci_1",
                "status": "completed",
                "container_id": "c",
                "code": "zcode",
                "outputs": [{"type": "logs", "logs": "zout"}],
            }
        ],
        "picture": [{"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": PIXEL}],
        "mcp": [
            {
                "type": "mcp_call",
                "id": "m_1",
                "server_label": "s",
                "name": "zname",
                "arguments": '{"a":"zargument"}',
                "output": "zoutput",
            }
        ],
        "files": [
            {
                "type": "file_search_call",
                "id": "fs_1",
                "status": "completed",
                "queries": ["zquestion"],
                "results": [{"file_id": "f", "filename": "zfile.txt", "text": "zfound", "score": 1}],
            }
        ],
        "text": [
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "completed",
                "content": [text("output_text", "zwords", annotations=[])],
            }
        ],
        "cited": [
            {
                "type": "message",
                "id": "msg_2",
                "role": "assistant",
                "status": "completed",
                "content": [text("output_text", "zcited", annotations=[CITED])],
            }
        ],
        "refusal": [
            {
                "type": "message",
                "id": "msg_3",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "refusal", "refusal": "zrefused"}],
            }
        ],
    },
    "gemini": {
        "thought": [{"text": "zthought", "thought": True}],
        "code": [
            {"executableCode": {"language": "PYTHON", "code": "zcode"}},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "zout"}},
        ],
        "picture": [{"inlineData": {"mimeType": "image/png", "data": PIXEL}}],
        "file": [
            {
                "fileData": {
                    "mimeType": "image/png",
                    "fileUri": "https://generativelanguage.googleapis.com/v1beta/files/zfile",
                }
            }
        ],
        "text": [{"text": "zwords"}],
    },
    "converse": {
        "reasoning": [{"reasoningContent": {"reasoningText": {"text": "zthought", "signature": "sig"}}}],
        "text": [{"text": "zwords"}],
        "cited": [
            {
                "citationsContent": {
                    "content": [{"text": "zcited"}],
                    "citations": [{"title": "t", "sourceContent": [{"text": "c"}], "location": {"documentChar": {}}}],
                }
            }
        ],
        "picture": [{"image": {"format": "png", "source": {"bytes": PIXEL}}}],
    },
    "interactions": {
        "thought": [{"type": "thought", "signature": "sig", "summary": [text("text", "zthought")]}],
        "search": [
            {"type": "google_search_call", "id": "g_1", "arguments": {"queries": ["zquery"]}},
            {
                "type": "google_search_result",
                "call_id": "g_1",
                "result": [{"url": "https://x.test/zpage", "title": "A page"}],
            },
        ],
        "picture": [{"type": "model_output", "content": [{"type": "image", "mime_type": "image/png", "data": PIXEL}]}],
        "text": [{"type": "model_output", "content": [text("text", "zwords")]}],
    },
    "openai": {
        "text": [text("text", "zwords")],
        "refusal": [{"type": "refusal", "refusal": "zrefused"}],
        "picture": [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}],
        "thought": [{"type": "thinking", "thinking": [text("text", "zthought")]}],
    },
}
ASKED: Final[dict[str, dict[str, list[Object]]]] = {
    "anthropic": {
        "picture": [{"type": "image", "source": BASE64}],
        "paper": [{"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "zpaper"}}],
        "link": [{"type": "document", "source": {"type": "url", "url": "https://x.test/zlink.pdf"}}],
        "stored": [{"type": "document", "source": {"type": "file", "file_id": "file_zstored"}}],
        "found": [
            {
                "type": "search_result",
                "source": "https://x.test/zsource",
                "title": "t",
                "content": [text("text", "zpart")],
            }
        ],
        "text": [text("text", "zasked")],
    },
    "responses": {
        "picture": [{"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}", "detail": "auto"}],
        "stored": [{"type": "input_file", "file_id": "file-zstored"}],
        "link": [{"type": "input_file", "file_url": "https://x.test/zlink.pdf"}],
        "text": [text("input_text", "zasked")],
    },
    "gemini": {
        "picture": [{"inlineData": {"mimeType": "image/png", "data": PIXEL}}],
        "sound": [{"inlineData": {"mimeType": "audio/wav", "data": "UklGRnpzb3VuZA=="}}],
        "film": [{"fileData": {"mimeType": "video/mp4", "fileUri": "https://www.youtube.com/watch?v=zfilm"}}],
        "text": [{"text": "zasked"}],
    },
    "converse": {
        "picture": [{"image": {"format": "png", "source": {"bytes": PIXEL}}}],
        "paper": [{"document": {"format": "txt", "name": "paper", "source": {"text": "zpaper"}}}],
        "film": [{"video": {"format": "mp4", "source": {"s3Location": {"uri": "s3://bucket/zfilm.mp4"}}}}],
        "text": [{"text": "zasked"}],
    },
    "interactions": {
        "picture": [{"type": "image", "mime_type": "image/png", "data": PIXEL}],
        "film": [{"type": "video", "mime_type": "video/mp4", "uri": "https://www.youtube.com/watch?v=zfilm"}],
        "text": [text("text", "zasked")],
    },
    "openai": {
        "picture": [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}],
        "sound": [{"type": "input_audio", "input_audio": {"data": "UklGRnpzb3VuZA==", "format": "wav"}}],
        "stored": [{"type": "file", "file": {"file_id": "file-zstored"}}],
        "link": [{"type": "file_url", "file_url": {"url": "https://x.test/zlink.pdf"}}],
        "text": [text("text", "zasked")],
    },
}
MARKS: Final = (PIXEL, "UklGRnpzb3VuZA==", "zquery", "zcode", "zout", "zpage", "zwords", "zcited", "zrefused", "zname")
MARKED: Final = (*MARKS, "zargument", "zoutput", "zquestion", "zfound", "zfile", "zpaper", "zlink", "zstored", "zpart")
ALL_MARKS: Final = (*MARKED, "zsource", "zasked", "zfilm", "x.test/cited")


def message(form: str, role: str, parts: list[Object]) -> list[Object]:
    """Return own messages of a form with these parts."""
    if form == "interactions":
        return [{"type": "user_input", "content": parts}] if role == "user" else parts
    if form == "responses":
        return [{"role": "user", "content": parts}] if role == "user" else parts
    if form == "gemini":
        return [{"role": "user" if role == "user" else "model", "parts": parts}]
    return [{"role": role, "content": parts}]


@st.composite
def histories(draw: st.DrawFn) -> tuple[str, list[Object]]:
    """Draw a question, a reply and a question of one form, each of any parts, and perhaps a plain question behind them."""
    form = draw(st.sampled_from([*REPLIES]))

    def parts(of: dict[str, list[Object]]) -> list[Object]:
        names = draw(st.lists(st.sampled_from([*of]), min_size=1, max_size=4, unique=True))
        return [part for name in names for part in of[name]]

    asked, said, more = parts(ASKED[form]), parts(REPLIES[form]), parts(ASKED[form])
    turns = [("user", asked), ("assistant", said), ("user", more)]
    return form, [each for role, given in turns for each in message(form, role, given)]


def window(form: str, came: str, model: str, messages: list[Object]) -> Object:
    body = {"model": model, "format": form, "messages": messages, "reasoning": "all", "uncarried": "drop"}
    wanted, sent = decode_request(msgspec.json.encode(body), came)
    made, _ = window_of_request(wanted, {}, sent)
    found: Object = msgspec.json.decode(made.body)
    return found


@given(drawn=histories(), to=st.sampled_from([(form, model) for form, models in MODELS.items() for model in models]))
@examples(3)
def test_each_stored_part_is_sent_or_named(drawn: tuple[str, list[Object]], to: tuple[str, str]) -> None:
    """What a part says is in the request, or the message that it stands in is told as mended, in every form and model.

    Reasoning has rules of its own. Members that other forms do not have, such as citations, are told as foreign, and media
    never are.
    """
    (came, messages), (form, model) = drawn, to
    made = window(form, came, model, messages)
    sent, told = json.dumps(made["request"]), made.get("mended", {}).get("reasons", {})
    stored = json.dumps(messages)
    lost = [mark[:12] for mark in ALL_MARKS if mark in stored and mark not in sent]
    assert not lost or told, (came, form, model, lost, messages)
    assert told.keys() != {"foreign_members"} or {*lost} <= {"x.test/cited"} or came == "openai"
    kept = sum(PIXEL in json.dumps(each) for each in messages)
    if form == came and not told:
        assert sent.count(PIXEL) >= kept
