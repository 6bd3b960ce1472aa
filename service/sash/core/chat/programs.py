"""Recognise other programs' records by name, before anything in them is taken for a message or an item of tomorrow.

A record is recognised by members that no provider's message has. The answer names the program and says what to do:
``sash import`` reads the files of some programs.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from sash.problems import InvalidEntry, Pointer

_IMPORT: Final = "`sash import FILE` reads them"


class Program(NamedTuple):
    """Another program: its name, what its records are called, and how to bring their messages in (``way_in``)."""

    name: str
    called: str
    way_in: str

    def refused(self, pointer: str) -> InvalidEntry:
        """Return the problem of a record of this program at ``pointer``."""
        detail = f"This is {self.called}, and not a message; {self.way_in}"
        return InvalidEntry(f"{detail}: see #{pointer}.", errors=[Pointer(f"#{pointer}", detail)])


LANGCHAIN: Final = Program(
    "langchain",
    "a dump of LangChain's messages",
    f"{_IMPORT}, and `convert_to_openai_messages` of langchain-core makes chat messages of them",
)
AI_SDK: Final = Program(
    "ai-sdk",
    "a UIMessage or a ModelMessage of the AI SDK",
    f"send UIMessages, as `useChat` holds them, with ?format=ui: {_IMPORT}, too",
)
PYDANTIC_AI: Final = Program(
    "pydantic-ai",
    "a message of Pydantic AI",
    'write each message as {"role": "user", "content": "…"}, or let `SashHistory` of sash_client.pydantic_ai do it',
)
CODEX: Final = Program("codex", "a line of Codex's log", f"{_IMPORT}; a `payload` of type response_item is an item")
CLAUDE_CODE: Final = Program(
    "claude-code", "a line of Claude Code's log", f"{_IMPORT}; its `message` goes in with ?format=anthropic"
)
OPEN_WEBUI: Final = Program("open-webui", "a record of Open WebUI", f"{_IMPORT}; send role and content alone")
LIBRECHAT: Final = Program("librechat", "a record of LibreChat", f"{_IMPORT}; send role and content alone")
SHAREGPT: Final = Program("sharegpt", "a record in ShareGPT's form", f"{_IMPORT}; send role and content alone")
CHATGPT: Final = Program(
    "chatgpt",
    "a record of ChatGPT's export",
    'write each message as {"role": "user", "content": "…"}: its author\'s role, and its parts joined',
)
CLAUDE_AI: Final = Program(
    "claude-ai",
    "a record of claude.ai's export",
    'write each message as {"role": "user", "content": "…"}: human is user, and its text is the content',
)
MASTRA: Final = Program(
    "mastra",
    "a message of Mastra's memory",
    'write each message as {"id": …, "role": …, "parts": […]} with the parts of its content, which `sash import` reads',
)
LLAMA_INDEX: Final = Program(
    "llama-index",
    "a record of LlamaIndex's chat store",
    'write each message as {"role": "user", "content": "…"} with the text of its blocks, or let `SashMemory` of '
    "sash_client.llama_index do it",
)
ADK: Final = Program(
    "adk",
    "a record of the ADK's sessions",
    "write the `content` of each event into a list, which `sash import --format=gemini` reads, or let `SashSessionService` "
    "of sash_client.adk do it",
)
LANGGRAPH: Final = Program(
    "langgraph",
    "a state of LangGraph's",
    '`sash import FILE` reads its messages: write the newest state\'s alone, {"messages": […]}',
)
N8N: Final = Program(
    "n8n",
    "an execution or a workflow of n8n's",
    f'the rows of its chat memory hold the messages, {{"session_id": …, "message": …}}: {_IMPORT}',
)
CHAT_COMPLETION: Final = Program(
    "chat-completion", "a whole chat completion", "append its message: `choices[0].message`"
)
CHUNK: Final = Program("chunk", "a piece of a stream", "append the message that its pieces make, when it is whole")
RESPONSE: Final = Program("response", "a whole response", "append its items: all of `output`, with ?format=responses")
GENERATED: Final = Program(
    "generated", "a whole answer of generateContent", "append its message: `candidates[0].content`, with ?format=gemini"
)
INTERACTION: Final = Program(
    "interaction", "a whole interaction", "append its steps: all of `steps`, with ?format=interactions"
)
CONVERSED: Final = Program(
    "conversed", "a whole answer of Converse", "append its message: `output.message`, with ?format=converse"
)
OLLAMA_CHAT: Final = Program(
    "ollama-chat", "a whole answer of Ollama", "append its message: `message`, with ?format=ollama"
)
COHERE_CHAT: Final = Program(
    "cohere-chat", "a whole answer of Cohere", "append its message: `message`, with ?format=cohere"
)

_LANGCHAIN_KINDS: Final = frozenset({"human", "ai", "system", "tool", "function", "chat", "developer", "remove"})
_LANGCHAIN_ENDS: Final = ("Message", "MessageChunk")
_CODEX_LINES: Final = frozenset(
    {"session_meta", "response_item", "event_msg", "turn_context", "compacted", "session_state", "world_state"}
)
_SESSIONS: Final = frozenset({"sessionId", "session_id"})
_CLAUDE_CODE_LINES: Final = frozenset(
    {"user", "assistant", "system", "summary", "progress", "attachment", "result", "queue-operation"}
)
_SPEAKERS: Final = frozenset({"human", "gpt", "user", "assistant", "system", "tool", "observation", "function_call"})
_UI_PARTS: Final = ("tool-", "data-", "source-")
_MODEL_KINDS: Final = ("tool-call", "tool-result")
_UI_KINDS: Final = frozenset({"text", "reasoning", "file", "step-start", "source", "dynamic-tool"})


def recognise(record: Any) -> Program | None:
    """Return the program that wrote a record; None for a provider's message, and for an unknown program's."""
    if not isinstance(record, dict):
        return None
    return next((program for program, is_of in _RECORDS if is_of(record)), None) or whole_reply(record)


def _is_langchain(record: Mapping[str, Any]) -> bool:
    if "lc" in record and record.get("type") in ("constructor", "not_implemented", "secret"):
        return True
    kind = record.get("type")
    if "role" in record or not isinstance(kind, str):
        return False
    named = kind.lower() in _LANGCHAIN_KINDS or kind.endswith(_LANGCHAIN_ENDS)
    return named and ("content" in record or isinstance(record.get("data"), dict))


def _is_pydantic_ai(record: Mapping[str, Any]) -> bool:
    parts = record.get("parts")
    return isinstance(parts, list) and any(isinstance(part, dict) and "part_kind" in part for part in parts)


def _is_model_message(record: Mapping[str, Any]) -> bool:
    content = record.get("content")
    return isinstance(content, list) and any(
        isinstance(part, dict) and part.get("type") in _MODEL_KINDS and "toolCallId" in part for part in content
    )


def _is_ui_message(record: Mapping[str, Any]) -> bool:
    if _is_model_message(record):
        return True
    parts = record.get("parts")
    if "role" not in record or not isinstance(parts, list) or record.get("content") or "author" in record:
        return False
    return any(isinstance(part, dict) and _is_ui_part(part.get("type")) for part in parts)


def _is_ui_part(kind: Any) -> bool:
    return isinstance(kind, str) and (kind in _UI_KINDS or kind.startswith(_UI_PARTS) or kind == "tool-invocation")


def _is_codex_line(record: Mapping[str, Any]) -> bool:
    kind = record.get("type")
    if not isinstance(kind, str) or "role" in record:
        return False
    if isinstance(record.get("payload"), dict):
        return kind in _CODEX_LINES or "timestamp" in record
    return kind in ("thread.started", "turn.started", "turn.completed", "turn.failed") or (
        kind.startswith("item.") and isinstance(record.get("item"), dict)
    )


def _is_claude_code_line(record: Mapping[str, Any]) -> bool:
    kind = record.get("type")
    if not isinstance(kind, str) or "role" in record:
        return False
    if kind == "file-history-snapshot" or (kind == "summary" and "leafUuid" in record):
        return True
    is_marked = not _SESSIONS.isdisjoint(record) or "uuid" in record or "parentUuid" in record
    return is_marked and (kind in _CLAUDE_CODE_LINES or "message" in record)


def _is_open_webui(record: Mapping[str, Any]) -> bool:
    chat = record.get("chat")
    if isinstance(chat, dict):
        return "history" in chat or "messages" in chat
    return "childrenIds" in record or (
        isinstance(history := record.get("history"), dict) and isinstance(history.get("messages"), dict)
    )


def _is_librechat(record: Mapping[str, Any]) -> bool:
    if "role" in record:
        return False
    if "isCreatedByUser" in record or {"messageId", "parentMessageId"} <= record.keys():
        return True
    return "conversationId" in record and not record.keys().isdisjoint({"messages", "messagesTree"})


def _is_chatgpt(record: Mapping[str, Any]) -> bool:
    if isinstance(record.get("mapping"), dict):
        return True
    inner = record.get("message") if {"parent", "children"} <= record.keys() else record
    return isinstance(inner, dict) and isinstance(inner.get("author"), dict) and "content" in inner


def _is_claude_ai(record: Mapping[str, Any]) -> bool:
    if isinstance(record.get("chat_messages"), list):
        return True
    return "role" not in record and record.get("sender") in ("human", "assistant") and "uuid" in record


def _is_sharegpt(record: Mapping[str, Any]) -> bool:
    if isinstance(record.get("conversations"), list):
        return True
    if "role" in record or not isinstance(record.get("from"), str):
        return False
    return "value" in record or (record["from"] in _SPEAKERS and "content" in record)


def _is_mastra(record: Mapping[str, Any]) -> bool:
    content = record.get("content")
    if isinstance(content, str) and "role" in record:  # as its stores keep it
        return content.startswith('{"') and '"format":' in content and '"parts":' in content
    return "role" in record and isinstance(content, dict) and {"format", "parts"} <= content.keys()


def _is_llama_index(record: Mapping[str, Any]) -> bool:
    if "class_name" in record and any(isinstance(record.get(name), dict) for name in ("store", "chat_store")):
        return True
    blocks = record.get("blocks")
    return (
        "content" not in record
        and isinstance(blocks, list)
        and any(isinstance(block, dict) and "block_type" in block for block in blocks)
    )


def _is_adk(record: Mapping[str, Any]) -> bool:
    if isinstance(record.get("events"), list):
        return not record.keys().isdisjoint({"appName", "app_name"}) or any(map(_is_adk_event, record["events"]))
    if isinstance(record.get("eval_cases"), list):
        return True
    return _is_adk_event(record)


def _is_adk_event(record: Any) -> bool:
    if not isinstance(record, dict):
        return False
    if "role" in record or not isinstance(record.get("author"), str):
        return False
    return not record.keys().isdisjoint({"invocationId", "invocation_id"})


def _is_langgraph(record: Mapping[str, Any]) -> bool:
    held = record.get("checkpoint")
    holder = held if isinstance(held, dict) and "channel_values" in held else record
    values = holder.get("values", holder.get("channel_values"))
    return isinstance(values, dict) and isinstance(values.get("messages"), list)


def _is_n8n(record: Mapping[str, Any]) -> bool:
    data = record.get("data")
    return (isinstance(data, dict) and isinstance(data.get("resultData"), dict)) or (
        isinstance(record.get("nodes"), list) and isinstance(record.get("connections"), dict)
    )


def whole_reply(record: Any) -> Program | None:  # noqa: PLR0911 - one line a form
    """Return what kind of a provider's whole reply this is, whose message stands inside; None for another value."""
    if not isinstance(record, dict) or "role" in record or "content" in record:
        return None
    match record:
        case {"choices": [{"message": dict()}, *_]}:
            return CHAT_COMPLETION
        case {"choices": [{"delta": dict()}, *_]}:
            return CHUNK
        case {"candidates": [{"content": dict()}, *_]}:
            return GENERATED
        case {"object": "response", "output": list()}:
            return RESPONSE
        case {"status": str(), "steps": list()} | {"object": "interaction", "steps": list()}:
            return INTERACTION
        case {"output": {"message": dict()}}:
            return CONVERSED
        case {"model": str(), "message": {"role": str()}, "done": bool()}:
            return OLLAMA_CHAT
        case {"finish_reason": str(), "message": {"role": str()}}:
            return COHERE_CHAT
    return None


_RECORDS: Final = (
    (CODEX, _is_codex_line),
    (CLAUDE_CODE, _is_claude_code_line),
    (LANGCHAIN, _is_langchain),
    (PYDANTIC_AI, _is_pydantic_ai),
    (MASTRA, _is_mastra),
    (LLAMA_INDEX, _is_llama_index),
    (ADK, _is_adk),
    (LANGGRAPH, _is_langgraph),
    (N8N, _is_n8n),
    (AI_SDK, _is_ui_message),
    (OPEN_WEBUI, _is_open_webui),
    (CHATGPT, _is_chatgpt),
    (CLAUDE_AI, _is_claude_ai),
    (LIBRECHAT, _is_librechat),
    (SHAREGPT, _is_sharegpt),
)
