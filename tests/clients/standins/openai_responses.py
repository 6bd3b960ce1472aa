"""A stand-in for OpenAI's Responses API that refuses the requests that OpenAI's server refuses.

It refuses these requests, with OpenAI's error messages (developers.openai.com/api/docs/guides/reasoning,
…/conversation-state):

- an output without its call before it, a call without its output, two outputs of a call: with and without ``store``;
- encrypted reasoning that the model did not make, or that has another item's id; an item's id used twice;
- for models that bind reasoning, what they drop in truth: reasoning behind a changed instruction, tool or item, or whose
  predecessor was left out while older ones stayed (``prefix_mismatch`` of ``input_transformations``);
- reasoning without its encrypted content if nothing is stored (``store: false``);
- if replies are stored (``store: true``), an item of a reply without the reasoning before it, and reasoning without the
  item that followed it. Items without ids are not checked for this;
- content without parts, parts of another role, more than four cache breakpoints, a cache key over 64 characters.

With ``store: false`` the order of reasoning is not checked: users observed this.
"""

import json
from collections import Counter
from typing import Any

from clients.standins.serving import Object, Plan, refuse_if, refuse_too_long, seal, words

_PREFIXES = {"reasoning": "rs_", "message": "msg_", "function_call": "fc_"}
_PARTS = {"assistant": ("output_text", "refusal")}
_GIVEN = ("input_text", "input_image", "input_file")
_KEY_LENGTH = 64


class OpenAI:
    """A reasoning model behind the Responses API, which remembers the items of its replies by their ids.

    ``binds`` says whether it checks what is before each reasoning item.
    """

    def __init__(self, window_tokens: int, *, binds: bool = False) -> None:
        self.window_tokens = window_tokens
        self.binds = binds
        self.replies = 0
        self._plan = Plan()
        self._led_by: dict[str, str] = {}
        self._leads_to: dict[str, str] = {}

    def error(self, message: str) -> Object:
        return {"error": {"message": message, "type": "invalid_request_error", "param": "input", "code": None}}

    def reply(self, path: str, body: Object) -> Object:
        assert path == "/v1/responses"
        given = body["input"]
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given
        refuse_if(not items, "Invalid 'input': empty array.")
        refuse_too_long(body, self.window_tokens, "Your input exceeds the context window of this model.")
        refuse_if(len(body.get("prompt_cache_key", "")) > _KEY_LENGTH, "Invalid 'prompt_cache_key': string too long.")
        _check_contents(items)
        _check_ids(items)
        _check_calls(items)
        is_stored = body.get("store", True)
        _check_reasoning(items, is_stored=is_stored)
        if self.binds:
            _check_bound(body, items)
        if is_stored:
            self._check_neighbours(items)
        self.replies += 1
        output = self._output(items, _bound(body, items) if self.binds else [])
        self._remember(output)
        return {
            "id": f"resp_{self.replies}",
            "object": "response",
            "created_at": 1,
            "status": "completed",
            "model": body["model"],
            "output": output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": {
                "input_tokens": len(json.dumps(body)) // 4,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": 50,
                "output_tokens_details": {"reasoning_tokens": 30},
                "total_tokens": len(json.dumps(body)) // 4 + 50,
            },
        }

    def _output(self, items: list[Object], bound: list[str]) -> list[Object]:
        number = self.replies
        questions = [item["content"] for item in items if item.get("role") == "user"]
        wanted = self._plan.calls(json.dumps(questions[-1]))
        output: list[Object] = [_reasoning(f"rs_{number}", number, bound)]
        if not wanted or number % 3 == 0:
            said = {"type": "output_text", "text": words(60, number), "annotations": [], "logprobs": []}
            message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "status": "completed"}
            output.append({**message, "content": [said]})
        for index in range(wanted):
            call = {"id": f"fc_{number}_{index}", "type": "function_call", "status": "completed", "name": "find_talk"}
            output.append({**call, "call_id": f"call_{number}_{index}", "arguments": json.dumps({"topic": number})})
        return output

    def _remember(self, output: list[Object]) -> None:
        reasoning, *others = [item["id"] for item in output]
        self._leads_to[reasoning] = others[0]
        self._led_by |= dict.fromkeys(others, reasoning)

    def _check_neighbours(self, items: list[Object]) -> None:
        ids = [item.get("id", "") for item in items]
        for index, (item, identity) in enumerate(zip(items, ids, strict=True)):
            if (reasoning := self._led_by.get(identity)) and reasoning not in ids[:index]:
                told = f"Item '{identity}' of type '{_kind(item)}' was provided without its required 'reasoning' item"
                refuse_if(reasoning, f"{told}: '{reasoning}'.")
            if identity in self._leads_to and ids[index + 1 : index + 2] != [self._leads_to[identity]]:
                told = f"Item '{identity}' of type 'reasoning' was provided without its required following item."
                refuse_if(identity, told)


def _kind(item: Object) -> str:
    return str(item.get("type", "message"))


def _reasoning(identity: str, number: int, bound: list[str]) -> Object:
    summary = [{"type": "summary_text", "text": words(16, number)}]
    sealed = json.dumps([identity, number, *bound, seal(identity, number, *bound)])
    return {"id": identity, "type": "reasoning", "summary": summary, "encrypted_content": sealed}


def _check_contents(items: list[Object]) -> None:
    marks = 0
    for index, item in enumerate(items):
        if _kind(item) != "message":
            continue
        content: Any = item["content"]
        refuse_if(content == [], f"Invalid 'input[{index}].content': empty array.")
        for part in content if isinstance(content, list) else ():
            known = _PARTS.get(item["role"], _GIVEN)
            refuse_if(part["type"] not in known, f"Invalid value: '{part['type']}'. Supported values are: {known}.")
            marks += "prompt_cache_breakpoint" in part
    refuse_if(marks > 4, f"At most 4 cache breakpoints are supported; found {marks}.")


def _check_ids(items: list[Object]) -> None:
    ids = [item["id"] for item in items if item.get("id") is not None]
    refuse_if([each for each, count in Counter(ids).items() if count > 1], "Duplicate item found with id.")
    for index, item in enumerate(items):
        prefix = _PREFIXES.get(_kind(item), "")
        wrong = item.get("id") is not None and not str(item["id"]).startswith(prefix)
        refuse_if(
            wrong, f"Invalid 'input[{index}].id': '{item.get('id')}'. Expected an ID that begins with '{prefix}'."
        )


def _check_calls(items: list[Object]) -> None:
    opened: list[str] = []
    answered: list[str] = []
    for item in items:
        match _kind(item):
            case "function_call":
                refuse_if(item["call_id"] in opened, f"Duplicate call_id {item['call_id']}.")
                opened.append(item["call_id"])
            case "function_call_output":
                call = item["call_id"]
                refuse_if(call not in opened, f"No tool call found for function call output with call_id {call}.")
                refuse_if(call in answered, f"Duplicate function call output with call_id {call}.")
                answered.append(call)
    alone = [call for call in opened if call not in answered]
    refuse_if(alone, f"No tool output found for function call {', '.join(alone)}.")


def _check_reasoning(items: list[Object], *, is_stored: bool) -> None:
    for item in items:
        if _kind(item) != "reasoning":
            continue
        identity, sealed = item.get("id"), item.get("encrypted_content")
        if sealed is None:
            refuse_if(not is_stored, f"Item with id '{identity}' not found. Items are not persisted.")
            continue
        *sealed_in, mac = json.loads(sealed)
        wrong = mac != seal(*sealed_in) or identity not in (None, sealed_in[0])
        refuse_if(wrong, f"The encrypted content for item {identity} could not be verified.")


def _check_bound(body: Object, items: list[Object]) -> None:
    for index, item in enumerate(items):
        if _kind(item) == "reasoning":
            _, _, prefix, earlier, _ = json.loads(item["encrypted_content"])
            now, last = _bound(body, items[:index])
            refuse_if(prefix != now or last not in ("", earlier), f"Item '{item.get('id')}' would be dropped.")


def _bound(body: Object, before: list[Object]) -> list[str]:
    """Return a seal of all that is before reasoning, without reasoning and marks; and the last reasoning's, or nothing."""
    fixed = body.get("instructions"), body.get("tools") or []
    last = next((item["encrypted_content"] for item in reversed(before) if _kind(item) == "reasoning"), None)
    told = [_unmarked(item) for item in before if _kind(item) != "reasoning"]
    return [seal(*fixed, told), seal(last) if last is not None else ""]


def _unmarked(value: Any) -> Any:
    match value:
        case dict():
            return {name: _unmarked(each) for name, each in value.items() if name != "prompt_cache_breakpoint"}
        case list():
            return [_unmarked(each) for each in value]
        case _:
            return value
