"""Find the format of a file, and read its conversations.

Accepted formats, as one JSON value or as one value on each line:

- chat messages, ``{"role": …}``, and entries, ``{"message": {…}}``: one conversation, named after the file;
- conversations, ``{"id": …, "system": …, "entries": […]}`` or with ``messages``, such as a POST /window body;
- the lines of ``GET …/export``: a conversation's settings, then its entries, and perhaps the next conversation's settings;
- LangChain's messages, Agents SDK items, and an object of Redis keys with their lists;
- sessions of agent-memory-server, as its API returns them, and lists of OpenAI's conversations and threads;
- records of the programs that ``programs_read`` reads: UIMessages, logs of coding agents, exports of chats, ShareGPT;
- lines of a fine-tuning file, ``{"messages": […]}``: a conversation each.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from sash.commands.source_error import SourceError
from sash_tools.sources import agents_sdk, langchain_dumps, memory_server, openai_lists
from sash_tools.sources.conversation import SourceConversation, format_hint, from_entries, from_steps
from sash_tools.sources.programs_read import program_of, read_records
from sash_tools.sources.training_lines import FINE_TUNING
from sash_tools.sources.values import decoded, values_in

Order = Literal["auto", "oldest", "newest"]
_KEY = re.compile(r"message_store:(.+)|agents:session:(.+):messages", re.DOTALL)
"""Keys of LangChain and of the Agents SDK; the group is the session's name."""


def conversations_in(data: bytes, name: str, *, order: Order = "auto") -> list[SourceConversation]:
    """Return the conversations in ``data``; ``name`` is the file's, for ids and errors.

    ``order`` says which message of a LangChain list comes first. ``auto`` means the oldest, or the newest where the list
    holds texts, as in Redis. Raises SourceError.
    """
    stem = Path(name).stem or "conversation"
    values, lines = values_in(data, name)
    if lines or _is_exported(values[0]):
        return _from_lines(values, stem, name, order)
    value = values[0]
    if isinstance(value, list):
        return _from_list(value, stem, name, order)
    if isinstance(value, dict):
        return _from_object(value, stem, name, order)
    raise SourceError(f"{name}: holds {type(value).__name__}, not messages or conversations")


def from_redis(key: str, identity: str, texts: Sequence[bytes], *, order: Order = "auto") -> SourceConversation:
    """Return the conversation in a list of JSON texts from Redis. Raises SourceError."""
    return _only(_from_texts(texts, identity, key, order), key)


def from_sqlite(path: Path) -> list[SourceConversation]:
    """Return the sessions of an Agents SDK file. Raises SourceError."""
    conversations = []
    for session, rows in agents_sdk.read_sqlite(path).items():
        values = [(row, decoded(data, f"{path}: row {row}")) for row, data in rows]
        conversations.append(from_steps(session, *agents_sdk.to_steps(values, str(path))))
    return conversations


# ---- values to conversations


def _from_object(value: dict[str, Any], stem: str, name: str, order: Order) -> list[SourceConversation]:
    if program := program_of([value]):
        return read_records(program, [value], stem, name)
    if listed := openai_lists.listed_in(value):
        return openai_lists.read_list(value, listed, stem, name, order)
    if _is_conversation(value):
        return [_conversation(value, stem, name, order)]
    if langchain_dumps.is_langchain(value) or "role" in value or "message" in value:
        return _from_list([value], stem, name, order)
    if value and all(_is_of_redis(key, held) for key, held in value.items()):
        return [
            each for key, held in value.items() for each in _from_list(held, _session(key), f"{name}: {key}", order)
        ]
    expected = "expected a list of chat messages, or an object with 'messages' or 'entries'"
    raise SourceError(f"{name}: an object without messages: {expected}{format_hint(value)}")


def _is_of_redis(key: str, held: Any) -> bool:
    """Return whether these are a key of Redis and its list: the key has a known form, or the list holds texts."""
    return isinstance(held, list) and bool(
        _KEY.fullmatch(key) or (held and all(isinstance(text, str) for text in held))
    )


def _session(key: str) -> str:
    found = _KEY.fullmatch(key)
    return (found[1] or found[2]) if found else key


def _only(conversations: list[SourceConversation], where: str) -> SourceConversation:
    if len(conversations) != 1:
        raise SourceError(f"{where}: holds {len(conversations)} conversations where one was expected")
    return conversations[0]


def _is_exported(value: Any) -> bool:
    """Return whether this is the first line of an export."""
    return isinstance(value, dict) and {"version", "created_at"} <= value.keys() and "message" not in value


def _is_conversation(value: Any) -> bool:
    return isinstance(value, dict) and any(isinstance(value.get(field), list) for field in ("entries", "messages"))


def _conversation(value: Mapping[str, Any], stem: str, name: str, order: Order) -> SourceConversation:
    if memory_server.is_session(value):
        return memory_server.to_conversation(value, name)
    field = "entries" if isinstance(value.get("entries"), list) else "messages"
    settings = _settings(value, field)
    names = (value.get("id"), value.get("sessionId") if langchain_dumps.is_session(value) else None)
    identity = next((name for name in names if isinstance(name, str) and name), stem)
    conversation = _only(_from_list(value[field], identity, name, order), name)
    conversation.settings = settings | conversation.settings
    return conversation


def _settings(value: Mapping[str, Any], field: str) -> dict[str, Any]:
    """Return the members beside the list of messages, except those of another program, which are no settings."""
    if program_of(value[field]) or any(map(langchain_dumps.is_langchain, value[field])):
        return {"system": value["system"]} if isinstance(value.get("system"), str) else {}
    settings = {key: held for key, held in value.items() if key not in {"id", field} and held is not None}
    if settings.keys() & FINE_TUNING:
        functions = [{"type": "function", "function": each} for each in settings.get("functions") or ()]
        settings = {key: held for key, held in settings.items() if key not in FINE_TUNING}
        settings |= {"tools": functions} if functions else {}
    return settings


def _from_list(values: list[Any], identity: str, name: str, order: Order) -> list[SourceConversation]:
    if not values:
        return [from_entries(identity, {}, (), name)]
    values = langchain_dumps.without_rows(values)
    if all(map(openai_lists.is_thread_message, values)):
        return openai_lists.read_values(values, identity, name, order)
    if program := program_of(values):
        return read_records(program, values, identity, name)
    return _from_values(values, identity, name, order)


def _from_values(values: list[Any], identity: str, name: str, order: Order) -> list[SourceConversation]:
    if all(isinstance(value, str) for value in values):
        return _from_texts([value.encode() for value in values], identity, name, order)
    if all(map(_is_conversation, values)):
        return [_conversation(value, f"{identity}-{place}", name, order) for place, value in enumerate(values, 1)]
    if all(map(langchain_dumps.is_langchain, values)):
        return _from_langchain(values, identity, name, reverse=order == "newest")
    if any(map(agents_sdk.is_item, values)):
        return [from_steps(identity, *agents_sdk.to_steps(list(enumerate(values, 1)), name))]
    return [from_entries(identity, {}, values, name)]


def _from_texts(texts: Sequence[bytes], identity: str, name: str, order: Order) -> list[SourceConversation]:
    """Read a list from Redis. LangChain pushes on the left, so its newest message comes first."""
    values = [decoded(text, f"{name}: element {place}") for place, text in enumerate(texts, 1)]
    if values and all(map(langchain_dumps.is_langchain, values)):
        return _from_langchain(values, identity, name, reverse=order != "oldest")
    if any(isinstance(value, str) for value in values):
        raise SourceError(f"{name}: contains JSON texts inside JSON texts")
    return _from_list(values, identity, name, order)


def _from_langchain(values: list[Any], identity: str, name: str, *, reverse: bool) -> list[SourceConversation]:
    """Return one conversation, or, for langchain-redis, one for each ``session_id``, ordered by ``timestamp``."""
    sessions: dict[str, list[Any]] = {}
    for value in reversed(values) if reverse else values:
        sessions.setdefault(str(value.get("session_id") or identity), []).append(value)
    for held in sessions.values():
        if all(isinstance(value.get("timestamp"), int | float) for value in held):
            held.sort(key=lambda value: value["timestamp"])
    return [from_steps(session, *langchain_dumps.to_steps(held, name)) for session, held in sessions.items()]


def _from_lines(values: list[Any], stem: str, name: str, order: Order) -> list[SourceConversation]:
    values = langchain_dumps.without_rows(values)
    if program := program_of(values):
        return read_records(program, values, stem, name)
    if (
        all(map(openai_lists.is_thread_message, values))
        or all(map(langchain_dumps.is_langchain, values))
        or any(map(agents_sdk.is_item, values))
    ):
        return _from_list(values, stem, name, order)
    conversations: list[SourceConversation] = []
    for number, (settings, entries, branches) in enumerate(_runs(values, name), 1):
        if _is_conversation(settings):
            conversations.append(_conversation(settings, f"{stem}-{number}", name, order))
        else:
            identity = settings.get("id") or (stem if number == 1 else f"{stem}-{number}")
            rest = {key: value for key, value in settings.items() if key != "id" and value is not None}
            conversations.append(from_entries(str(identity), rest, entries, name))
            if _is_exported(settings):
                conversations[-1].exported = [settings, *entries, *branches]
    return conversations


class _Run(NamedTuple):
    """Settings, the entries after them, and an export's lines of branches after those."""

    settings: dict[str, Any]
    entries: list[Any]
    branches: list[Any]


def _runs(values: list[Any], name: str) -> list[_Run]:
    """Return the conversations of lines; entries before all settings are one."""
    runs: list[_Run] = []
    for number, value in enumerate(values, 1):
        if not isinstance(value, dict):
            raise SourceError(f"{name}: line {number} is not an object")
        is_entry = "role" in value or "message" in value
        is_branch = bool(runs) and _is_exported(runs[-1].settings) and value.keys() == {"branch"}
        if is_branch or (is_entry and runs and runs[-1].branches):
            runs[-1].branches.append(value)
        elif is_entry:
            if not runs or _is_conversation(runs[-1].settings):
                runs.append(_Run({}, [], []))
            runs[-1].entries.append(value)
        else:
            runs.append(_Run(value, [], []))
    return runs
