"""Read the records of programs that are recognised by name, or say how they come into Sash."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from sash.commands.source_error import SourceError
from sash.core.chat import programs
from sash.core.chat.programs import Program, recognise
from sash_tools.sources import agent_logs, chat_exports, training_lines, ui_messages
from sash_tools.sources.conversation import SourceConversation, Step, from_steps, refuse_several

Records = Sequence[Mapping[str, Any]]


def program_of(values: Sequence[Any]) -> Program | None:
    """Return the program that wrote most of the values that are recognised; None if none is, or if it is LangChain.

    LangChain's messages have an order, which only ``detect`` knows.
    """
    found = Counter(program for value in values if (program := recognise(value)) is not None)
    most = found.most_common(1)
    return most[0][0] if most and most[0][0] != programs.LANGCHAIN else None


def read_records(program: Program, values: Sequence[Any], identity: str, name: str) -> list[SourceConversation]:
    """Return the conversations of a program's records that hold messages. Raises SourceError."""
    if program not in _READERS:
        raise SourceError(f"{name}: this is {program.called}, which is not read; {program.way_in}")
    records = [value for value in values if isinstance(value, dict)]
    try:
        read = _READERS[program](records, identity, name)
    except (AttributeError, KeyError, TypeError, ValueError, IndexError):
        raise SourceError(f"{name}: {program.called} was expected, and something has another form") from None
    found = [each for each in read if each.entries]
    if not found:
        left_out = sum((Counter(each.left_out) for each in read), Counter[str]())
        kinds = ", ".join(f"{times} {kind}" for kind, times in left_out.items()) or "nothing is in it"
        raise SourceError(f"{name}: holds no message that can be imported: {kinds}")
    return found


def _ui_messages(records: Records, identity: str, name: str) -> list[SourceConversation]:
    refuse_several(records, name)
    left_out: Counter[str] = Counter()
    messages = ui_messages.to_messages(records, left_out)
    return [from_steps(identity, [Step(place, message) for place, message in enumerate(messages, 1)], left_out)]


def _sharegpt(records: Records, identity: str, name: str) -> list[SourceConversation]:
    if not any("conversations" in record for record in records):
        return [training_lines.from_turns(records, identity, name)]
    many = len(records) > 1
    return [
        training_lines.from_sharegpt(record, f"{identity}-{place}" if many else identity, f"{name}: record {place}")
        for place, record in enumerate(records, 1)
    ]


def _open_webui(records: Records, identity: str, name: str) -> list[SourceConversation]:
    if all("role" in record for record in records):  # messages of one chat
        refuse_several(records, name)
        return [chat_exports.from_open_webui({"messages": records}, identity)]
    return [
        chat_exports.from_open_webui(record, f"{identity}-{place}" if len(records) > 1 else identity)
        for place, record in enumerate(records, 1)
    ]


def _librechat(records: Records, identity: str, name: str) -> list[SourceConversation]:
    if all("messageId" in record for record in records):
        refuse_several(records, name)
        return [chat_exports.from_librechat({"messages": records}, identity)]
    return [
        chat_exports.from_librechat(record, f"{identity}-{place}" if len(records) > 1 else identity)
        for place, record in enumerate(records, 1)
    ]


def _codex(records: Records, identity: str, name: str) -> list[SourceConversation]:
    return [agent_logs.from_codex(records, identity, name)]


def _claude_code(records: Records, identity: str, name: str) -> list[SourceConversation]:
    return [agent_logs.from_claude_code(records, identity, name)]


_READERS: Final[dict[Program, Callable[[Records, str, str], list[SourceConversation]]]] = {
    programs.AI_SDK: _ui_messages,
    programs.CODEX: _codex,
    programs.CLAUDE_CODE: _claude_code,
    programs.OPEN_WEBUI: _open_webui,
    programs.LIBRECHAT: _librechat,
    programs.SHAREGPT: _sharegpt,
}
