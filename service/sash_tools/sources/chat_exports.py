"""Read chats of Open WebUI and LibreChat: trees of messages, of which the newest branch is the conversation.

Open WebUI (0.3 to 0.6)::

    [{"id", "title", "chat": {"history": {"messages": {id: {"parentId", "childrenIds", "role", "content"}}, "currentId"}}}]

LibreChat (0.7, 0.8), with messages in a list or in one another's ``children``::

    {"conversationId", "title", "messages": [{"messageId", "parentMessageId", "isCreatedByUser", "text", "content"}]}
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from sash_client.ids import safe_id
from sash_tools.sources.assistant_turns import AssistantTurn, Object, file_part, user_content
from sash_tools.sources.conversation import SourceConversation

Node = Mapping[str, Any]


def from_open_webui(record: Node, identity: str) -> SourceConversation:
    """Return a chat, or a file's one message, as a conversation."""
    held = record.get("chat")
    chat = held if isinstance(held, dict) else record
    history = chat.get("history") or {}
    nodes, leaf = history.get("messages") or {}, history.get("currentId")
    branch = _branch(nodes, leaf, "parentId") if leaf in nodes else chat.get("messages") or list(nodes.values())
    if not branch and "role" in record:
        branch = [record]
    left_out: Counter[str] = Counter()
    messages = [(node, message) for node in branch for message in _webui_messages(node, left_out)]
    system = chat.get("system") or (chat.get("params") or {}).get("system")
    named = record.get("id") if chat is not record or history else None
    return _conversation(named or identity, chat.get("title"), system, messages, left_out)


def _webui_messages(node: Node, left_out: Counter[str]) -> list[Object]:
    if node["role"] == "assistant":
        turn = AssistantTurn()
        turn.say(node["content"])
        return turn.end() or _nothing(left_out)
    if node["role"] != "user":
        return [{"role": node["role"], "content": node["content"]}] if node["content"] else _nothing(left_out)
    files = [
        part
        for file in node.get("files") or ()
        for part in file_part(file.get("url"), file.get("type"), file.get("name"), left_out)
    ]
    content = user_content([node["content"]], files)
    return [{"role": "user", "content": content}] if content else _nothing(left_out)


def from_librechat(record: Node, identity: str) -> SourceConversation:
    """Return the conversation of an export."""
    given = record.get("messages") or record.get("messagesTree") or ()
    nodes = list(_flat(given)) or [record]
    by_id = {node["messageId"]: node for node in nodes}
    left_out: Counter[str] = Counter()
    branch = _branch(by_id, nodes[-1]["messageId"], "parentMessageId")
    messages = [(node, message) for node in branch for message in _librechat_messages(node, left_out)]
    system = (record.get("options") or {}).get("promptPrefix")
    return _conversation(record.get("conversationId") or identity, record.get("title"), system, messages, left_out)


def _flat(nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes of trees, parents first, without recursion."""
    found, waiting = [], list(reversed(nodes))
    while waiting:
        node = waiting.pop()
        found.append(node)
        waiting += reversed(node.get("children") or ())
    return found


def _librechat_messages(node: Node, left_out: Counter[str]) -> list[Object]:
    if node.get("isCreatedByUser", node.get("sender") == "User"):
        left_out["files without their bytes"] += len(node.get("files") or ())
        text = node.get("text") or "".join(_text(part) for part in node.get("content") or ())
        return [{"role": "user", "content": text}] if text.strip() else _nothing(left_out)
    if node.get("error"):
        left_out["errors"] += 1
        return []
    turn = AssistantTurn()
    for part in node.get("content") or [{"type": "text", "text": node.get("text") or ""}]:
        called = part.get("tool_call")
        if part["type"] == "tool_call" and isinstance(called, dict) and called.get("name"):
            output = called.get("output")
            turn.call(called["id"], called["name"], called.get("args"), output if output is not None else "")
        elif part["type"] == "text":
            turn.say(_text(part))
        else:
            left_out[str(part["type"])] += 1
    return turn.end() or _nothing(left_out)


def _text(part: Node) -> str:
    text = part.get("text")
    return str(text.get("value", "")) if isinstance(text, dict) else str(text or "")


def _nothing(left_out: Counter[str]) -> list[Object]:
    left_out["empty messages"] += 1
    return []


def _branch(nodes: Mapping[str, Node], leaf: Any, parent: str) -> list[Node]:
    """Return the nodes from the first to ``leaf``."""
    found: list[Node] = []
    seen: set[str] = set()
    while leaf in nodes and leaf not in seen:
        seen.add(leaf)
        found.append(nodes[leaf])
        leaf = str(nodes[leaf].get(parent))
    return found[::-1]


def _conversation(
    identity: str, title: Any, system: Any, messages: Sequence[tuple[Node, Object]], left_out: Counter[str]
) -> SourceConversation:
    settings: Object = {"metadata": {"title": title}} if isinstance(title, str) and title else {}
    if isinstance(system, str) and system:
        settings["system"] = system
    entries: list[Object] = []
    counts: Counter[str] = Counter()
    for place, (node, message) in enumerate(messages, 1):
        named = safe_id(str(node.get("id") or node.get("messageId") or f"import-{place}"))
        counts[named] += 1
        entries.append({"id": named if counts[named] == 1 else f"{named}.{counts[named]}", "message": message})
    return SourceConversation(id=safe_id(identity), settings=settings, entries=entries, left_out=dict(+left_out))
