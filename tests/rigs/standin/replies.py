"""What the stand-in says, as each provider writes a whole reply."""

import base64
import json
from collections.abc import Callable
from typing import Any, NamedTuple

Object = dict[str, Any]

ANSWER = "At 12:10, in Robertson 2."
TOPIC = '{"topic": "gradle"}'


class Said(NamedTuple):
    """A reply: its text, its calls as names and arguments, and its reasoning, with or without a signature."""

    text: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    thought: str = ""
    is_signed: bool = True


def talk(form: str, body: Object) -> Said:
    """Return a call of ``find_talk`` to a question about gradle, and where the talk is to all others."""
    last = body[{"responses": "input", "interactions": "input", "gemini": "contents"}.get(form, "messages")][-1]
    said = json.dumps(last)
    asks = last.get("role") == "user" and "gradle" in said
    is_result = any(name in said for name in ("functionResponse", "tool_result", "toolResult"))
    if form != "anthropic" and body.get("tools") and asks and not is_result:
        return Said(calls=(("find_talk", TOPIC),))
    return Said(ANSWER)


def reply(form: str, said: Said, *, model: str, number: int, tokens: int) -> Object:
    """Return the body of the reply with this number to a request of ``tokens``."""
    return _REPLIES[form](said, model, number, tokens)


def counted(form: str, tokens: int) -> Object:
    """Return the body of a counting endpoint's answer."""
    if form == "gemini":
        return {"totalTokens": tokens, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": tokens}]}
    if form == "converse":
        return {"inputTokens": tokens}
    return {"input_tokens": tokens} | ({"object": "response.input_tokens"} if form == "responses" else {})


def _ids(said: Said, number: int, prefix: str) -> list[str]:
    return [f"{prefix}_{number}_{place}" if place else f"{prefix}_{number}" for place in range(len(said.calls))]


def _sealed(said: Said, number: int) -> str:
    return base64.b64encode(f"seal {number} {said.thought}".encode()).decode()


def _completion(said: Said, model: str, number: int, tokens: int) -> Object:
    message: Object = {"role": "assistant", "content": said.text, "refusal": None, "annotations": []}
    if said.calls:
        named = zip(_ids(said, number, "call"), said.calls, strict=True)
        calls = [
            {"id": identity, "type": "function", "function": {"name": name, "arguments": given}}
            for identity, (name, given) in named
        ]
        message |= {"content": said.text or None, "tool_calls": calls}
    reason = "tool_calls" if said.calls else "stop"
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": reason, "logprobs": None}],
        "usage": {"prompt_tokens": tokens, "completion_tokens": 1, "total_tokens": tokens + 1},
    }


def _response(said: Said, model: str, number: int, tokens: int) -> Object:
    reasoning: Object = {"id": f"rs_{number}", "type": "reasoning", "summary": []}
    if said.thought:
        reasoning["summary"] = [{"type": "summary_text", "text": said.thought}]
        reasoning |= {"encrypted_content": _sealed(said, number)} if said.is_signed else {}
    output = [reasoning]
    if said.text:
        parts = [{"type": "output_text", "text": said.text, "annotations": []}]
        message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "status": "completed"}
        output.append({**message, "content": parts})
    named = zip(_ids(said, number, "fc"), _ids(said, number, "call"), said.calls, strict=True)
    for identity, call, (name, given) in named:
        item = {"id": identity, "type": "function_call", "status": "completed", "call_id": call}
        output.append({**item, "name": name, "arguments": given})
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": model,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 1,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": tokens + 1,
        },
    }


def _message(said: Said, model: str, number: int, tokens: int) -> Object:
    content: list[Object] = []
    if said.thought:
        signature = _sealed(said, number) if said.is_signed else ""
        content.append({"type": "thinking", "thinking": said.thought, "signature": signature})
    if said.text:
        content.append({"type": "text", "text": said.text})
    for identity, (name, given) in zip(_ids(said, number, "toolu"), said.calls, strict=True):
        content.append({"type": "tool_use", "id": identity, "name": name, "input": json.loads(given)})
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": "tool_use" if said.calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": tokens, "output_tokens": 1},
    }


def _content(said: Said, model: str, number: int, tokens: int) -> Object:
    parts: list[Object] = [{"text": said.thought, "thought": True}] if said.thought else []
    parts += [{"text": said.text}] if said.text else []
    first_call = len(parts)
    for identity, (name, given) in zip(_ids(said, number, "call"), said.calls, strict=True):
        parts.append({"functionCall": {"id": identity, "name": name, "args": json.loads(given)}})
    if said.is_signed and (said.thought or said.calls):  # Gemini 3 wants the signature of a call back
        parts[min(first_call, len(parts) - 1)]["thoughtSignature"] = _sealed(said, number)
    return {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {
            "promptTokenCount": tokens,
            "candidatesTokenCount": 1,
            "totalTokenCount": tokens + 1,
        },
        "modelVersion": model,
        "responseId": f"resp_{number}",
    }


def _interaction(said: Said, model: str, number: int, tokens: int) -> Object:
    outputs: list[Object] = [{"type": "text", "text": said.text}] if said.text else []
    for identity, (name, given) in zip(_ids(said, number, "call"), said.calls, strict=True):
        outputs.append({"type": "function_call", "id": identity, "name": name, "arguments": json.loads(given)})
    usage = {"total_input_tokens": tokens, "total_output_tokens": 1, "total_tokens": tokens + 1}
    return {"id": f"int_{number}", "model": model, "status": "completed", "outputs": outputs, "usage": usage}


def _converse(said: Said, model: str, number: int, tokens: int) -> Object:
    del model
    content: list[Object] = [{"text": said.text}] if said.text else []
    for identity, (name, given) in zip(_ids(said, number, "tooluse"), said.calls, strict=True):
        content.append({"toolUse": {"toolUseId": identity, "name": name, "input": json.loads(given)}})
    return {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": "tool_use" if said.calls else "end_turn",
        "usage": {"inputTokens": tokens, "outputTokens": 1, "totalTokens": tokens + 1},
        "metrics": {"latencyMs": 1},
    }


def _local(said: Said, model: str, number: int, tokens: int) -> Object:
    del number
    calls = [{"function": {"name": name, "arguments": json.loads(given)}} for name, given in said.calls]
    message = {"role": "assistant", "content": said.text, **({"tool_calls": calls} if calls else {})}
    ended = {"done": True, "done_reason": "stop", "prompt_eval_count": tokens, "eval_count": 1}
    return {"model": model, "created_at": "2026-01-01T00:00:00Z", "message": message, **ended}


def _plan_and_content(said: Said, model: str, number: int, tokens: int) -> Object:
    del model
    message: Object = {"role": "assistant"}
    content: list[Object] = [{"type": "thinking", "thinking": said.thought}] if said.thought else []
    if said.calls:
        named = zip(_ids(said, number, "call"), said.calls, strict=True)
        message |= {"tool_plan": said.text} if said.text else {}
        message["tool_calls"] = [
            {"id": identity, "type": "function", "function": {"name": name, "arguments": given}}
            for identity, (name, given) in named
        ]
    elif said.text:
        content.append({"type": "text", "text": said.text})
    words = {"input_tokens": 1, "output_tokens": 1}
    return {
        "id": f"reply-{number}",
        "finish_reason": "TOOL_CALL" if said.calls else "COMPLETE",
        "message": message | ({"content": content} if content else {}),
        "usage": {"billed_units": words, "tokens": {"input_tokens": tokens, "output_tokens": 1}},
    }


_REPLIES: dict[str, Callable[[Said, str, int, int], Object]] = {
    "openai": _completion,
    "responses": _response,
    "anthropic": _message,
    "gemini": _content,
    "interactions": _interaction,
    "converse": _converse,
    "ollama": _local,
    "cohere": _plan_and_content,
}
