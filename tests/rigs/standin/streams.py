"""A whole reply as the server-sent events in which each provider streams it. Texts and arguments come in halves."""

import json
from collections.abc import Callable, Iterator
from typing import Any

Object = dict[str, Any]


def events(form: str, answer: Object, body: Object) -> Iterator[str]:
    """Yield the events of a reply to a request with this body, as they go over the wire."""
    yield from _STREAMS[form](answer, body)


def _halves(text: str) -> list[str]:
    middle = (len(text) + 1) // 2
    return [half for half in (text[:middle], text[middle:]) if half]


def _data(value: Object) -> str:
    return f"data: {json.dumps(value)}\n\n"


def _typed(value: Object) -> str:
    return f"event: {value['type']}\n{_data(value)}"


def _chunks(answer: Object, body: Object) -> Iterator[str]:
    """Chat completions. ``stream_options.include_usage`` asks for the usage in a last chunk without choices."""
    wants_usage = bool((body.get("stream_options") or {}).get("include_usage"))
    beside = {name: answer[name] for name in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    beside |= {"usage": None} if wants_usage else {}
    (choice,) = answer["choices"]
    message = choice["message"]
    deltas: list[Object] = [{"role": "assistant", "content": "", "refusal": None}]
    deltas += [{"content": half} for half in _halves(message["content"] or "")]
    for index, call in enumerate(message.get("tool_calls") or ()):
        function = {"name": call["function"]["name"], "arguments": ""}
        deltas.append({"tool_calls": [{"index": index, "id": call["id"], "type": "function", "function": function}]})
        for half in _halves(call["function"]["arguments"]):
            deltas.append({"tool_calls": [{"index": index, "function": {"arguments": half}}]})
    for delta in deltas:
        yield _data({**beside, "choices": [{"index": 0, "delta": delta, "finish_reason": None, "logprobs": None}]})
    ended = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"], "logprobs": None}
    yield _data({**beside, "choices": [ended]})
    if wants_usage:
        yield _data({**beside, "choices": [], "usage": answer["usage"]})
    yield "data: [DONE]\n\n"


def _response_events(answer: Object, _: Object) -> Iterator[str]:
    """Responses. Each event has its number."""
    begun = {**answer, "status": "in_progress", "output": [], "usage": None}
    found: list[Object] = [{"type": f"response.{name}", "response": begun} for name in ("created", "in_progress")]
    for index, item in enumerate(answer["output"]):
        found += _item_events(item, index)
    found.append({"type": "response.completed", "response": answer})
    for number, event in enumerate(found):
        yield _typed({**event, "sequence_number": number})


def _item_events(item: Object, index: int) -> Iterator[Object]:
    place = {"output_index": index, "item_id": item["id"]}
    empty: Object = {"message": {"content": []}, "function_call": {"arguments": ""}}.get(item["type"], {})
    started = {"status": "in_progress"} if "status" in item else {}
    yield {"type": "response.output_item.added", "output_index": index, "item": {**item, **empty, **started}}
    for number, part in enumerate(item.get("content") or ()):
        at = {**place, "content_index": number}
        yield {"type": "response.content_part.added", **at, "part": {**part, "text": ""}}
        for half in _halves(part["text"]):
            yield {"type": "response.output_text.delta", **at, "delta": half, "logprobs": []}
        yield {"type": "response.output_text.done", **at, "text": part["text"], "logprobs": []}
        yield {"type": "response.content_part.done", **at, "part": part}
    if item["type"] == "function_call":
        for half in _halves(item["arguments"]):
            yield {"type": "response.function_call_arguments.delta", **place, "delta": half}
        done = {"type": "response.function_call_arguments.done", **place}
        yield {**done, "name": item["name"], "arguments": item["arguments"]}
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _message_events(answer: Object, _: Object) -> Iterator[str]:
    """Anthropic's Messages."""
    yield _typed({"type": "message_start", "message": {**answer, "content": [], "stop_reason": None}})
    for index, block in enumerate(answer["content"]):
        empty, deltas = _block_deltas(block)
        yield _typed({"type": "content_block_start", "index": index, "content_block": empty})
        for delta in deltas:
            yield _typed({"type": "content_block_delta", "index": index, "delta": delta})
        yield _typed({"type": "content_block_stop", "index": index})
    stopped = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
    yield _typed({"type": "message_delta", "delta": stopped, "usage": answer["usage"]})
    yield _typed({"type": "message_stop"})


def _block_deltas(block: Object) -> tuple[Object, list[Object]]:
    """Return a block as it begins, and what is added to it."""
    match block["type"]:
        case "text":
            return {**block, "text": ""}, [{"type": "text_delta", "text": half} for half in _halves(block["text"])]
        case "thinking":
            deltas: list[Object] = [{"type": "thinking_delta", "thinking": half} for half in _halves(block["thinking"])]
            if block["signature"]:
                deltas.append({"type": "signature_delta", "signature": block["signature"]})
            return {**block, "thinking": "", "signature": ""}, deltas
        case _:
            halves = _halves(json.dumps(block["input"]))
            return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": half} for half in halves]


def _content_chunks(answer: Object, _: Object) -> Iterator[str]:
    """Gemini: each part in a reply of its own; the last one has the reason of the end and the usage."""
    (candidate,) = answer["candidates"]
    parts = candidate["content"]["parts"]
    rest = {name: value for name, value in answer.items() if name not in ("candidates", "usageMetadata")}
    for part in parts[:-1]:
        content = {**candidate["content"], "parts": [part]}
        yield _data({**rest, "candidates": [{"content": content, "index": 0}]})
    content = {**candidate["content"], "parts": parts[-1:]}
    yield _data({**answer, "candidates": [{**candidate, "content": content}]})


_STREAMS: dict[str, Callable[[Object, Object], Iterator[str]]] = {
    "openai": _chunks,
    "responses": _response_events,
    "anthropic": _message_events,
    "gemini": _content_chunks,
}
