"""Uses the generated client: creates a conversation, appends, reads a window and a page, and erases the conversation."""

import json
import os

from sash_client.api.conversations import create_conversation, delete_conversation
from sash_client.api.messages import append_messages, list_messages
from sash_client.api.windows import get_window
from sash_client.models import (
    AppendedMessages,
    AppendMessages,
    AssistantMessage,
    Conversation,
    CreateConversation,
    Document,
    Entry,
    FunctionCall,
    FunctionToolCall,
    Grounding,
    MessagePage,
    Problem,
    ProviderMessage,
    ToolMessage,
    UserMessage,
    Window,
)

from sash_client import AuthenticatedClient

sash = AuthenticatedClient(base_url=os.environ["SASH_URL"], token=os.environ["SASH_API_KEY"])
identity = f"py-{os.getpid()}"

body = CreateConversation(id=identity, model="gpt-4o-mini", system="You help visitors of a conference.")
created = create_conversation.sync(client=sash, body=body)
assert isinstance(created, Conversation)

question = UserMessage(role="user", content="Is there a talk about Gradle?")
documents = Grounding(documents=[Document(text="Faster builds. Room 2, 14:00.", id="s-12")])
call = FunctionToolCall(
    id="call-1", type_="function", function=FunctionCall(name="find_talks", arguments='{"topic": "gradle"}')
)
asks = AssistantMessage(role="assistant", content=None, tool_calls=[call])
result = ToolMessage(role="tool", tool_call_id="call-1", content="Faster builds, 14:00")
entries = AppendMessages(
    messages=[
        Entry(id="m-1", message=question, grounding=documents),
        Entry(id="m-2", message=asks),
        Entry(id="m-3", message=result),
    ]
)
appended = append_messages.sync(identity, client=sash, body=entries)
assert isinstance(appended, AppendedMessages)

window = get_window.sync(identity, client=sash, explain=True)
assert isinstance(window, Window)
roles = [
    f"tool {message['tool_call_id']}" if message["role"] == "tool" else message["role"]
    for message in window.request["messages"]
]

# A turn of Claude's with a tool, in Claude's own form.
claudes = f"{identity}-claude"
use = {"type": "tool_use", "id": "toolu_1", "name": "find_talks", "input": {"topic": "gradle"}}
used = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "Faster builds, 14:00"}
turn = AppendMessages(
    messages=[
        ProviderMessage(role="user", content="Is there a talk about Gradle?"),
        ProviderMessage(role="assistant", content=[use]),
        ProviderMessage(role="user", content=[used]),
    ]
)
appended_turn = append_messages.sync(claudes, client=sash, body=turn, format_="anthropic")
assert isinstance(appended_turn, AppendedMessages)
claude = get_window.sync(claudes, client=sash, format_="anthropic", model="claude-sonnet-4-5")
assert isinstance(claude, Window)

refused = get_window.sync_detailed(identity, client=sash, model="gtp-4o-mini")
problem = refused.parsed
assert isinstance(problem, Problem)
assert problem.near

page = list_messages.sync(identity, client=sash, order="desc", limit=2)
assert isinstance(page, MessagePage)
erased = delete_conversation.sync_detailed(identity, client=sash)

print(
    json.dumps(
        {
            "created": created.version,
            "appended": [message.seq for message in appended.messages],
            "total": window.tokens.total,
            "roles": roles,
            "claude": [message["role"] for message in claude.request["messages"]],
            "status": int(refused.status_code),
            "near": "gpt-4o-mini" in problem.near,
            "page": [message.seq for message in page.messages],
            "more": page.next_cursor is not None,
            "erased": int(erased.status_code),
        }
    )
)
