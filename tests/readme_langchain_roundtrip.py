"""Run by test_readme in the adapters' environment: messages of LangChain, there and back."""

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    message_to_dict,
)

from service.clients.answers import SashError
from service.clients.langchain import SashChatMessageHistory

history = SashChatMessageHistory("user:1 round trip", url="http://127.0.0.1:8000")
calls = [
    {"name": "find_table", "args": {"seats": 2}, "id": "call_1", "type": "tool_call"},
    {"name": "find_taxi", "args": {}, "id": "call_2", "type": "tool_call"},
]
image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
messages = [
    SystemMessage("You book tables."),
    HumanMessage([{"type": "text", "text": "Two seats?"}, image], name="ann", id="q 1"),
    AIMessage(
        "",
        tool_calls=calls,
        id="run-1",
        usage_metadata={"input_tokens": 3, "output_tokens": 1, "total_tokens": 4},
        response_metadata={"model_name": "gpt-4o-mini", "logprobs": None},
    ),
    ToolMessage("Osteria, seven", tool_call_id="call_1", artifact={"table": 7}, name="find_table"),
    ToolMessage("none", tool_call_id="call_2", status="error"),
    AIMessage([{"type": "thinking", "thinking": "hm", "signature": "x"}, {"type": "text", "text": "At seven."}]),
    ChatMessage("short, please", role="developer"),
    HumanMessage("<|endoftext|> grüße 🍝"),
]
assert history.messages == []
history.add_messages(messages)
written = [message_to_dict(message) for message in messages]
assert [message_to_dict(message) for message in history.messages] == written, history.messages
print("whole")

history.add_messages([messages[1], HumanMessage("<|endoftext|> grüße 🍝")])
assert len(history.messages) == len(messages) + 1
print("once")

history.clear()
assert history.messages == []
history.add_messages([messages[1], AIMessageChunk("in pieces", id="run-2")])
assert [type(message).__name__ for message in history.messages] == ["HumanMessage", "AIMessage"]
window = SashChatMessageHistory("user:1 round trip", url="http://127.0.0.1:8000", model="gpt-4o-mini", limit=1)
assert [message.type for message in window.messages][-1] == "ai"
print("clear")

try:
    history.add_messages([ToolMessage("lost", tool_call_id="call_9")])
except SashError as error:
    print("refused" if 400 <= error.status < 500 else error)
history.close()
window.close()
