"""One conversation, told in requests and answers; a test sends the requests and compares the answers."""

from typing import Any, Final

Json = dict[str, Any]

CREATE: Final[Json] = {
    "id": "c-1",
    "owner": "user-42",
    "model": "gpt-4o-mini",
    "system": "You help visitors of a conference.",
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "find_talks",
                "description": "Talks about a topic.",
                "parameters": {"type": "object", "properties": {"topic": {"type": "string"}}},
            },
        }
    ],
    "metadata": {"channel": "web"},
}
CHANGE: Final[Json] = {"reserve": 2048, "metadata": {"channel": None, "room": "2"}}
_CALL: Final[Json] = {
    "id": "call-1",
    "type": "function",
    "function": {"name": "find_talks", "arguments": '{"topic": "gradle"}'},
}
_QUESTION: Final[Json] = {"role": "user", "content": "Is there a talk about Gradle?"}
_ASKS: Final[Json] = {"role": "assistant", "content": None, "tool_calls": [_CALL]}
_RESULT: Final[Json] = {"role": "tool", "tool_call_id": "call-1", "content": "Faster builds, 14:00"}
_DOCUMENTS: Final[Json] = {"documents": [{"id": "s-12", "text": "Faster builds. Room 2, 14:00."}]}
APPEND: Final[Json] = {
    "messages": [
        {"id": "m-1", "message": _QUESTION, "grounding": _DOCUMENTS},
        {"id": "m-2", "message": _ASKS},
        {"id": "m-3", "message": _RESULT},
    ]
}
BUILD: Final[Json] = {
    "model": "gpt-4o-mini",
    "system": "You help visitors of a conference.",
    "messages": [{"message": _QUESTION}],
}
COUNT: Final[Json] = {"model": "gpt-4o-mini", "messages": [_QUESTION], "text": "Is there a talk about Gradle?"}
CREATED: Final[Json] = {}
CONVERSATION: Final[Json] = {}
CHANGED: Final[Json] = {}
APPENDED: Final[Json] = {}
DUPLICATE: Final[Json] = {}
PAGE: Final[Json] = {}
MESSAGE: Final[Json] = {}
WINDOW: Final[Json] = {}
BUILT: Final[Json] = {}
COUNTED: Final[Json] = {}
MODEL: Final[Json] = {}
