"""Make chat messages of an assistant's texts and tool calls, which come in the order in which a program shows them."""

import json
from collections import Counter
from typing import Any

Object = dict[str, Any]


class AssistantTurn:
    """The chat messages of one reply. A text that comes after calls begins a new message, and the calls' results stand
    before it."""

    def __init__(self) -> None:
        self.messages: list[Object] = []
        self._texts: list[str] = []
        self._calls: list[Object] = []
        self._results: list[Object] = []

    def say(self, text: Any) -> None:
        """Add a text; one of white space alone is nothing."""
        if not isinstance(text, str) or not text.strip():
            return
        if self._calls:
            self.end()
        self._texts.append(text)

    def call(self, identity: str, name: str, arguments: Any, result: Any = None) -> None:
        """Add a call, and its result unless that is None. Values other than texts become JSON."""
        function = {"name": name, "arguments": as_text(arguments) if arguments not in (None, "") else "{}"}
        self._calls.append({"id": identity, "type": "function", "function": function})
        if result is not None:
            self._results.append({"role": "tool", "tool_call_id": identity, "content": as_text(result)})

    def end(self) -> list[Object]:
        """End the message, and return all messages so far."""
        if self._texts or self._calls:
            message: Object = {"role": "assistant", "content": "\n".join(self._texts) or None}
            if self._calls:
                message["tool_calls"] = self._calls
            self.messages += [message, *self._results]
        self._texts, self._calls, self._results = [], [], []
        return self.messages


def as_text(value: Any) -> str:
    """Return a text as it is, and another value as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def user_content(texts: list[str], others: list[Object]) -> Any:
    """Return the content of a user's message; None if there is nothing in it."""
    parts = [{"type": "text", "text": text} for text in texts if text.strip()] + others
    if len(parts) == 1 and parts[0]["type"] == "text":
        return parts[0]["text"]
    return parts or None


def file_part(url: Any, media_type: Any, name: Any, left_out: Counter[str]) -> list[Object]:
    """Return the part of a picture or a file; none if its bytes are not here, which ``left_out`` then counts."""
    kind = str(media_type or "")
    if isinstance(url, str) and kind.startswith("image") and url.startswith(("data:", "http://", "https://")):
        return [{"type": "image_url", "image_url": {"url": url}}]
    if isinstance(url, str) and url.startswith("data:"):
        return [{"type": "file", "file": {"file_data": url, "filename": name if isinstance(name, str) else "file"}}]
    left_out["files without their bytes"] += 1
    return []
