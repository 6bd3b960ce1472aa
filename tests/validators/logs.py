"""Conversations as logs really are: chat messages and several providers' own, with empties, odd ids and half signatures.

Each call has its results directly behind it, or stands at the very end.
"""

import base64
from typing import Any

from hypothesis import strategies as st

from sash.core.chat.messages import Entry
from sash.core.providers.given import read_entries

Object = dict[str, Any]
Group = tuple[str, list[Object]]
"""Neighbouring messages of one form."""

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPj/HwAEAQH/7yMK/gAAAABJRU5ErkJggg=="
SEAL = base64.b64encode(b"\x12" + bytes(range(200))).decode()
TEXTS = st.sampled_from(["", " \n", "yes, please", "Which talks are on? ", " 오늘 강연은? 🙂", "day " * 40])
IDS = st.sampled_from(["call_1", "toolu_1", "functions.look:0", "é|x", "x" * 90])
NAMES = st.sampled_from(["look", "look", "find talks!", "mcp.files/read", "поиск", "n" * 140])
MARKS = st.sampled_from(
    [{}, {}, {"cache_control": {"type": "ephemeral"}}, {"cache_control": {"type": "ephemeral", "ttl": "1h"}}]
)
SIGNATURES = st.sampled_from(["", "EqoBCkYIARgC", SEAL])


def _maybe(draw: st.DrawFn, value: Any) -> list[Any]:
    return [value] if draw(st.booleans()) else []


# ---- chat messages


def _chat_user(draw: st.DrawFn) -> list[Group]:
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    parts = [{"type": "text", "text": draw(TEXTS), **draw(MARKS)}, *_maybe(draw, image)]
    name = draw(st.sampled_from([{}, {}, {"name": "alice"}]))
    return [("openai", [{"role": "user", "content": draw(st.sampled_from([draw(TEXTS), parts])), **name}])]


def _chat_system(draw: st.DrawFn) -> list[Group]:
    return [("openai", [{"role": draw(st.sampled_from(["system", "developer"])), "content": draw(TEXTS)}])]


def _chat_assistant(draw: st.DrawFn) -> list[Group]:
    thoughts = [
        {"type": "thinking", "thinking": "hm", "signature": draw(SIGNATURES)},
        {"type": "redacted_thinking", "data": "x"},
    ]
    more = draw(st.sampled_from([{}, {"thinking_blocks": thoughts[: draw(st.integers(1, 2))]}, {"refusal": "No."}]))
    return [("openai", [{"role": "assistant", "content": draw(st.none() | TEXTS), **more}])]


def _chat_calls(draw: st.DrawFn) -> list[Group]:
    ids = draw(st.lists(IDS, min_size=1, max_size=3, unique=True))
    calls = []
    for identity in ids:
        call = {"id": identity, "type": "function", "function": {"name": draw(NAMES), "arguments": '{"day": 1}'}}
        signed = {"extra_content": {"google": {"thought_signature": draw(SIGNATURES)}}}
        calls.append(call | draw(st.sampled_from([{}, signed])))
    said: list[Object] = [{"role": "assistant", "content": draw(st.none() | TEXTS), "tool_calls": calls}]
    said += [{"role": "tool", "tool_call_id": each, "content": draw(TEXTS)} for each in draw(st.permutations(ids))]
    return [("openai", said)]


# ---- Anthropic's own


def _claude_text(draw: st.DrawFn) -> Object:
    return {"type": "text", "text": draw(TEXTS), **draw(MARKS)}


def _claude_thought(draw: st.DrawFn) -> Object:
    thought = {"type": "thinking", "thinking": draw(TEXTS), "signature": draw(SIGNATURES)}
    return draw(st.sampled_from([thought, {"type": "redacted_thinking", "data": draw(SIGNATURES)}]))


def _claude_user(draw: st.DrawFn) -> list[Group]:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}, **draw(MARKS)}
    blocks = [_claude_text(draw) for _ in range(draw(st.integers(0, 2)))] + _maybe(draw, image)
    return [("anthropic", [{"role": "user", "content": draw(st.sampled_from([draw(TEXTS), blocks]))}])]


def _claude_assistant(draw: st.DrawFn) -> list[Group]:
    kinds = draw(st.lists(st.sampled_from([_claude_text, _claude_thought]), max_size=4))
    content = draw(st.sampled_from([draw(TEXTS), [kind(draw) for kind in kinds]]))
    return [("anthropic", [{"role": "assistant", "content": content}])]


def _claude_system(draw: st.DrawFn) -> list[Group]:
    content = draw(st.sampled_from([draw(TEXTS), [_claude_text(draw), _claude_text(draw)]]))
    return [("anthropic", [{"role": "system", "content": content}])]


def _claude_hosted(draw: st.DrawFn) -> list[Group]:
    call = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "talks"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    blocks = [*_maybe(draw, call), *_maybe(draw, found), *_maybe(draw, _claude_text(draw))]
    return [("anthropic", [{"role": "assistant", "content": blocks}])]


def _claude_result(draw: st.DrawFn, identity: str) -> Object:
    content = draw(st.sampled_from([None, "", " ", "sun", [], [_claude_text(draw), _claude_text(draw)]]))
    failed = draw(st.sampled_from([{}, {"is_error": True}]))
    return {"type": "tool_result", "tool_use_id": identity, "content": content, **failed, **draw(MARKS)}


def _claude_calls(draw: st.DrawFn) -> list[Group]:
    ids = draw(st.lists(IDS, min_size=1, max_size=3, unique=True))
    uses = [{"type": "tool_use", "id": each, "name": draw(NAMES), "input": {"day": 1}, **draw(MARKS)} for each in ids]
    content = [*_maybe(draw, _claude_thought(draw)), *_maybe(draw, _claude_text(draw)), *uses]
    results = [_claude_result(draw, each) for each in ids]
    said: list[Object] = [{"role": "assistant", "content": content}]
    if draw(st.booleans()):
        answers = [{"role": "tool", "tool_call_id": each, "content": draw(TEXTS)} for each in ids]
        return [("anthropic", said), ("openai", answers)]
    if len(ids) > 1 and draw(st.booleans()):
        apart = [{"role": "user", "content": [each]} for each in results]
        return [("anthropic", [*said, *apart])]
    around = [*_maybe(draw, _claude_text(draw)), *results, *_maybe(draw, _claude_text(draw))]
    return [("anthropic", [*said, {"role": "user", "content": around}])]


# ---- Gemini's own


def _in(snake: bool, value: Any) -> Any:  # noqa: FBT001 - as the SDKs write it: snake case or camel case
    names = {
        "functionCall": "function_call",
        "functionResponse": "function_response",
        "inlineData": "inline_data",
        "mimeType": "mime_type",
        "thoughtSignature": "thought_signature",
    }
    if isinstance(value, dict):
        return {names.get(name, name) if snake else name: _in(snake, each) for name, each in value.items()}
    return [_in(snake, each) for each in value] if isinstance(value, list) else value


def _gemini_user(draw: st.DrawFn) -> list[Group]:
    parts = [{"text": draw(TEXTS)} for _ in range(draw(st.integers(0, 2)))]
    parts += _maybe(draw, {"inlineData": {"mimeType": "image/png", "data": PIXEL}})
    return [("gemini", [_in(draw(st.booleans()), {"role": "user", "parts": parts})])]


def _signed(draw: st.DrawFn) -> Object:
    return draw(st.sampled_from([{}, {"thoughtSignature": SEAL}]))


def _gemini_words(draw: st.DrawFn) -> list[Object]:
    thought = {"text": draw(st.sampled_from(["", "hm, let me see"])), "thought": True}
    return [
        *_maybe(draw, thought),
        *_maybe(draw, {"text": draw(TEXTS), **_signed(draw)}),
        *_maybe(draw, {"text": "", **_signed(draw)}),
    ]


def _gemini_model(draw: st.DrawFn) -> list[Group]:
    return [("gemini", [_in(draw(st.booleans()), {"role": "model", "parts": _gemini_words(draw)})])]


def _gemini_system(draw: st.DrawFn) -> list[Group]:
    return [("gemini", [{"role": "system", "parts": [{"text": draw(TEXTS)}, {"text": draw(TEXTS)}]}])]


def _gemini_calls(draw: st.DrawFn) -> list[Group]:
    count, has_ids = draw(st.integers(1, 3)), draw(st.booleans())
    named = [{"name": draw(NAMES), **({"id": f"fc-{number}"} if has_ids else {})} for number in range(count)]
    calls = [{"functionCall": {**each, "args": {"mime_type": 1}}, **_signed(draw)} for each in named]
    results = [{"functionResponse": {**each, "response": {"output": draw(TEXTS)}}} for each in named]
    snake = draw(st.booleans())
    said = [{"role": "model", "parts": [*_gemini_words(draw), *calls]}, {"role": "user", "parts": results}]
    if has_ids and len(results) > 1 and draw(st.booleans()):
        said[1:] = [{"role": "user", "parts": [each]} for each in results]
    return [("gemini", [_in(snake, each) for each in said])]


# ---- OpenAI's items


def _items(draw: st.DrawFn) -> list[Group]:
    identity = draw(IDS)
    call = {"type": "function_call", "call_id": identity, "name": "look", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": identity, "output": draw(TEXTS)}
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAAA" + "x" * 40}
    words = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": draw(TEXTS), "annotations": []}],
    }
    asked = {"role": "user", "content": draw(TEXTS)}
    return [("responses", draw(st.sampled_from([[asked], [words], [reasoning, call, output], [call, output, words]])))]


_TURNS = (
    *(_chat_user, _chat_user, _chat_assistant, _chat_calls, _chat_system, _items),
    *(_claude_system, _gemini_system),
    *(_claude_user, _claude_user, _claude_assistant, _claude_assistant, _claude_calls, _claude_calls),
    *(_gemini_user, _gemini_user, _gemini_model, _gemini_model, _gemini_calls, _gemini_calls),
)


@st.composite
def groups(draw: st.DrawFn, form: str) -> list[Group]:
    """Draw a conversation that a window in this form can carry; calls at its very end may lack their results."""
    turns = (*_TURNS, _claude_hosted, _claude_hosted) if form == "anthropic" else _TURNS
    found = [group for turn in draw(st.lists(st.sampled_from(turns), min_size=1, max_size=8)) for group in turn(draw)]
    if draw(st.sampled_from([False] * 5 + [True])):
        (name, (call, *_)), *_ = draw(st.sampled_from([_chat_calls, _claude_calls, _gemini_calls]))(draw)
        found.append((name, [call]))
    return found


def entries_of(conversation: list[Group]) -> list[Entry]:
    """Return the entries as appends store them. Raises InvalidEntry, BadRequest."""
    found: list[Entry] = []
    for form, messages in conversation:
        found += (
            [Entry(message=each) for each in messages] if form == "openai" else read_entries(form, messages).entries
        )
    return found
