"""What a screen has that follows AG-UI's events, as AG-UI's client for JavaScript applies and verifies them."""

import copy
from typing import Any

Object = dict[str, Any]


class Screen:
    """The messages of a screen, of which events say what is new."""

    def __init__(self, messages: list[Object] | None = None) -> None:
        self.messages = copy.deepcopy(messages or [])
        self._open: set[str] = set()
        self._is_running = False

    def take(self, events: list[Object]) -> "Screen":
        """Take events in their order, each of which must be allowed there."""
        for event in copy.deepcopy(events):
            kind = event["type"]
            assert self._is_running or kind == "RUN_STARTED", event
            getattr(self, f"_{kind.lower()}")(event)
        return self

    def _run_started(self, _: Object) -> None:
        assert not self._is_running
        self._is_running = True

    def _run_finished(self, _: Object) -> None:
        assert not self._open
        self._is_running = False

    def _custom(self, _: Object) -> None:
        pass

    def _messages_snapshot(self, event: Object) -> None:
        self.messages = event["messages"]

    def _message(self, event: Object, **new: Any) -> Object:
        found = next((each for each in self.messages if each["id"] == event["messageId"]), None)
        if found is None:
            found = {"id": event["messageId"], **new}
            self.messages.append(found)
        if "metadata" in event:
            found["metadata"] = {**found.get("metadata", {}), **event["metadata"]}
        return found

    def _begin(self, event: Object) -> None:
        assert event["messageId"] not in self._open, event
        self._open.add(event["messageId"])

    def _text_message_start(self, event: Object) -> None:
        self._begin(event)
        self._message(event, role=event["role"], content="")

    def _text_message_content(self, event: Object) -> None:
        assert event["messageId"] in self._open, event
        assert event["delta"]
        self._message(event)["content"] += event["delta"]

    def _text_message_end(self, event: Object) -> None:
        self._open.remove(event["messageId"])
        self._message(event)

    def _reasoning_start(self, event: Object) -> None:
        pass

    _reasoning_end = _reasoning_start
    _reasoning_message_start = _text_message_start
    _reasoning_message_content = _text_message_content
    _reasoning_message_end = _text_message_end

    def _activity_snapshot(self, event: Object) -> None:
        self._message(event, role="activity", activityType=event["activityType"], content=event["content"])

    def _tool_call_start(self, event: Object) -> None:
        self._begin({"messageId": event["toolCallId"]})
        function = {"name": event["toolCallName"], "arguments": ""}
        parent = self._message({"messageId": event["parentMessageId"]}, role="assistant")
        parent.setdefault("toolCalls", []).append({"id": event["toolCallId"], "type": "function", "function": function})

    def _call(self, event: Object) -> Object:
        calls = [call for each in self.messages for call in each.get("toolCalls", ())]
        function: Object = next(call for call in calls if call["id"] == event["toolCallId"])["function"]
        return function

    def _tool_call_args(self, event: Object) -> None:
        assert event["toolCallId"] in self._open
        self._call(event)["arguments"] += event["delta"]

    def _tool_call_end(self, event: Object) -> None:
        self._open.remove(event["toolCallId"])

    def _tool_call_result(self, event: Object) -> None:
        message = {"id": event["messageId"], "role": "tool", "toolCallId": event["toolCallId"]}
        message["content"] = event["content"]
        if "metadata" in event:
            message["metadata"] = event["metadata"]
        callers = [
            place
            for place, each in enumerate(self.messages)
            if any(call["id"] == event["toolCallId"] for call in each.get("toolCalls", ()))
        ]
        at = callers[0] + 1 if callers else len(self.messages)
        while callers and at < len(self.messages) and self.messages[at]["role"] == "tool":
            at += 1
        self.messages.insert(at, message)
