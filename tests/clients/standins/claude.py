"""A stand-in for Anthropic's Messages API that refuses the requests that Anthropic's server refuses.

It refuses these requests; the sources in parentheses are pages of platform.claude.com/docs/en/build-with-claude/:

- a changed thinking block; for models that bind thinking, also a thinking block after a changed system text, tool or
  message, and one whose predecessor was left out while older ones stayed (preserved-thinking/prefix-checks);
- with ``thinking: enabled``, a tool loop whose last reply does not begin with thinking (extended-thinking; ``adaptive``
  allows this: adaptive-thinking, "validation changes");
- a tool call without its result in the next message, a result without its call, a result after text (tool-use);
- a call id that is used twice or does not match ``[a-zA-Z0-9_-]+``, text without a visible character, a first or last
  message by the assistant (errors that users report);
- more than four ``cache_control``, or one on a thinking block or on an empty text (prompt-caching).

Adjacent messages of one role count as one turn (api/messages), so they are not refused.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from clients.standins.serving import Object, Plan, refuse_if, refuse_too_long, seal, words

_ID = re.compile(r"[a-zA-Z0-9_-]+")
_REASONING = ("thinking", "redacted_thinking")


class _Said(NamedTuple):
    """A content block and the role of its message; ``at`` is the block's path in error messages."""

    role: str
    block: Object
    at: str


class Claude:
    """A model with extended thinking; ``binds`` says whether it checks the content before each thinking block."""

    def __init__(self, window_tokens: int, *, binds: bool) -> None:
        self.window_tokens = window_tokens
        self.binds = binds
        self.replies = 0
        self._plan = Plan()

    def error(self, message: str) -> Object:
        return {"type": "error", "error": {"type": "invalid_request_error", "message": message}, "request_id": "req_1"}

    def reply(self, path: str, body: Object) -> Object:
        assert path.startswith("/v1/messages")
        said = list(_said(body["messages"]))
        refuse_too_long(body, self.window_tokens, "prompt is too long")
        _check_turns(said)
        _check_calls(_turns(said))
        _check_marks(body, said)
        self._check_thoughts(body, said)
        self.replies += 1
        return {
            "id": f"msg_{self.replies}",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": self._content(body, said),
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": len(json.dumps(body)) // 4, "output_tokens": 50},
        }

    def _content(self, body: Object, said: list[_Said]) -> list[Object]:
        number = self.replies
        content: list[Object] = []
        for each in range(1 + (number % 7 == 0)):  # every seventh reply has two thinking blocks, the second redacted
            before = [*said, *(_Said("assistant", block, "") for block in content)]
            content.append(
                self._thought(f"Thought {number}.{each}: {words(20, number)}", body, before, hidden=each == 1)
            )
        wanted = self._plan.calls(said[_newest_question(said)].block["text"])
        if not wanted or number % 3 == 0:
            content.append({"type": "text", "text": words(60, number)})
        for index in range(wanted):
            use = {"type": "tool_use", "id": f"toolu_{number}_{index}", "name": "find_talk"}
            content.append({**use, "input": {"topic": f"topic {number}", "deep": {"list": [1, None, "é"]}}})
        return content

    def _thought(self, text: str, body: Object, before: Sequence[_Said], *, hidden: bool) -> Object:
        bound = [_prefix(body, before), _last_reasoning(before)] if self.binds else []
        if hidden:
            return {"type": "redacted_thinking", "data": json.dumps([text, *bound, seal(text, *bound)])}
        return {"type": "thinking", "thinking": text, "signature": json.dumps([*bound, seal(text, *bound)])}

    def _check_thoughts(self, body: Object, said: list[_Said]) -> None:
        for index, each in enumerate(said):
            if each.block["type"] not in _REASONING:
                continue
            block, before = each.block, said[:index]
            sealed = block["data"] if _is(each, "redacted_thinking") else block["signature"]
            *bound, mac = json.loads(sealed)
            text = bound.pop(0) if _is(each, "redacted_thinking") else block["thinking"]
            refuse_if(seal(text, *bound) != mac, f"{each.at}: Invalid `signature` in `thinking` block")
            if self.binds:
                prefix, earlier = bound
                moved = _last_reasoning(before) not in ("", earlier)
                changed = prefix != _prefix(body, before)
                refuse_if(moved or changed, f"{each.at}: the thinking block was created in a different conversation")
        if (body.get("thinking") or {}).get("type") == "enabled":
            _check_loop_begins_with_thinking(said)


def _said(messages: list[Object]) -> Iterator[_Said]:
    refuse_if(not messages, "messages: at least one message is required")
    for index, message in enumerate(messages):
        refuse_if(message["role"] not in ("user", "assistant"), f"messages.{index}.role: Input should be 'user'")
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        refuse_if(not blocks, f"messages.{index}: all messages must have non-empty content")
        for place, block in enumerate(blocks):
            yield _Said(message["role"], block, f"messages.{index}.content.{place}")


def _turns(said: Sequence[_Said]) -> list[list[_Said]]:
    turns: list[list[_Said]] = []
    for each in said:
        if turns and turns[-1][0].role == each.role:
            turns[-1].append(each)
        else:
            turns.append([each])
    return turns


def _is(each: _Said, *kinds: str) -> bool:
    return each.block["type"] in kinds


def _check_turns(said: list[_Said]) -> None:
    refuse_if(said[0].role != "user", "messages: first message must use the user role")
    refuse_if(said[-1].role != "user", "This model does not support assistant message prefill.")
    for each in said:
        refuse_if(_is(each, "text") and not each.block["text"].strip(), f"{each.at}: text must contain non-whitespace")


def _check_calls(turns: list[list[_Said]]) -> None:
    ids = [each.block["id"] for turn in turns for each in turn if _is(each, "tool_use")]
    refuse_if([each for each, count in Counter(ids).items() if count > 1], "`tool_use` ids must be unique")
    refuse_if([each for each in ids if not _ID.fullmatch(each)], "tool_use.id: String should match pattern")
    before: list[_Said] = []
    for turn in turns:
        asked = [each.block["id"] for each in before if _is(each, "tool_use")]
        answered = [each.block["tool_use_id"] for each in turn if _is(each, "tool_result")]
        alone = sorted(set(asked) - set(answered))
        refuse_if(alone, f"{turn[0].at}: `tool_use` ids without `tool_result` blocks immediately after: {alone}")
        unexpected = sorted(set(answered) - set(asked))
        refuse_if(unexpected, f"{turn[0].at}: unexpected `tool_use_id` in `tool_result` blocks: {unexpected}")
        refuse_if(len(answered) != len(set(answered)), f"{turn[0].at}: each tool_use must have a single result")
        is_first = all(_is(each, "tool_result") for each in turn[: len(answered)])
        refuse_if(not is_first, f"{turn[0].at}: `tool_result` blocks come first")
        before = turn


def _check_marks(body: Object, said: list[_Said]) -> None:
    system = body.get("system") or []
    blocks = [*(body.get("tools") or ()), *([] if isinstance(system, str) else system), *(each.block for each in said)]
    marked = [block for block in blocks if block.get("cache_control")]
    refuse_if(len(marked) > 4, f"A maximum of 4 blocks with cache_control may be provided. Found {len(marked)}.")
    for block in marked:
        refuse_if(block.get("type") in _REASONING, "thinking blocks cannot have cache_control")
        refuse_if(
            block.get("type") == "text" and not block["text"], "cache_control cannot be set for empty text blocks"
        )


def _newest_question(said: Sequence[_Said]) -> int:
    """Return the index of the newest text block of the user."""
    return max(index for index, each in enumerate(said) if each.role == "user" and _is(each, "text"))


def _check_loop_begins_with_thinking(said: list[_Said]) -> None:
    """Refuse a tool loop whose last reply does not begin with thinking; a loop begins after the user's newest text."""
    replies = [turn for turn in _turns(said[_newest_question(said) :]) if turn[0].role == "assistant"]
    if replies and not _is(replies[-1][0], *_REASONING):
        refuse_if(True, f"{replies[-1][0].at}: Expected `thinking` or `redacted_thinking`")  # noqa: FBT003


def _last_reasoning(said: Sequence[_Said]) -> str:
    """Return the seal of the last thinking block; an empty string if there is none."""
    for each in reversed(said):
        if _is(each, *_REASONING):
            return seal(each.block.get("signature") or each.block.get("data"))
    return ""


def _prefix(body: Object, said: Sequence[_Said]) -> str:
    """Return a seal of all content before a thinking block, without thinking blocks and without ``cache_control``."""
    system = body.get("system") or []
    system = [{"type": "text", "text": system}] if isinstance(system, str) else system
    told = [(each.role, _unmarked(each.block)) for each in said if not _is(each, *_REASONING)]
    return seal(_unmarked(system), _unmarked(body.get("tools") or []), told)


def _unmarked(value: Any) -> Any:
    match value:
        case dict():
            return {name: _unmarked(each) for name, each in value.items() if name != "cache_control"}
        case list():
            return [_unmarked(each) for each in value]
        case _:
            return value
