"""The UIMessages of the AI SDK, 6 and 7: ``{"id", "role", "metadata", "parts": [{"type": "text", …}, …]}``.

A turn is one message, in which ``step-start`` begins each of the assistant's. Sources, ``data-`` parts, thoughts and files
of a reply, and members that only a frontend knows, are no part of a model's message. They are kept in the entry's metadata,
under ``sash``, with their places::

    {"parts": [[place, part], …], "with": [[place, members], …], "calls": {id: members}, "plain": true, "id": …, "more": {…}}

``place`` is among the parts that the message itself gives; ``plain`` is a message without ``step-start``.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from sash.core.chat.messages import ENVELOPE, Entry, wrapped
from sash.core.chat.mistakes import converted
from sash.core.law.history.lines import NO_RESULT
from sash.core.providers.messages.pieces import content_of
from sash.core.providers.reading.native import compaction_of
from sash.core.providers.reading.native_entries import derived_id
from sash.core.screens.media_parts import as_content, file_part
from sash.core.screens.screen_entries import chat_entry, entry_id
from sash.core.screens.screen_form import (
    KEPT,
    Object,
    ScreenForm,
    ShownEntry,
    ShownUnit,
    calls_of,
    results_of,
    text_of,
    texts_of,
    thought_of,
    waiting_of,
)
from sash.problems import Unprocessable

_ROLES: Final = ("user", "assistant", "system")
_STREAMING: Final = "streaming"
_OF_CALL: Final = frozenset({"type", "toolCallId", "state", "input", "output", "errorText", "rawInput"})
_ANSWERED: Final = ("output-available", "output-error", "output-denied")
_ASKED: Final = ("approval-requested", "approval-responded")
_OURS: Final = "data-sash"


# ---- what a screen is shown


def show(unit: ShownUnit, address: str) -> Sequence[Object]:
    """The UIMessage of a unit; none for a reply without anything to show, unless it is being written."""
    first = unit.entries[0]
    if unit.is_users:
        parts, role = _with_kept(_users_parts(first, address), first.kept), "user"
    else:
        parts, role = _turns_parts(unit, address), "assistant"
        is_begun = unit.is_newest and unit.entries[-1].status == "in_progress"
        if all(part["type"] == "step-start" for part in parts):
            if not is_begun:
                return ()
            parts = []
    metadata: Any = unit.metadata()
    shown: Object = {"id": first.kept.get("id", first.id), "role": role, "metadata": metadata, "parts": parts}
    return [{**first.kept.get("more", {}), **shown}]


def _users_parts(told: ShownEntry, address: str) -> list[Object]:
    content = told.message.get("content")
    parts: list[Object] = []
    for part in content if isinstance(content, list) and not told.is_redacted else ():
        parts += [{"type": "text", "text": part["text"]}] if part["type"] == "text" else [file_part(part, address)]
    if not parts:
        parts = [{"type": "text", "text": text_of(told)}]
    return parts + [_source(document, index) for index, document in enumerate(told.documents)]


def _source(document: tuple[str | None, str], index: int) -> Object:
    identity, title = document
    name = identity or str(index)
    if name.startswith(("https://", "http://")):
        return {"type": "source-url", "sourceId": name, "url": name, "title": title}
    return {"type": "source-document", "sourceId": name, "mediaType": "text/plain", "title": title}


def _turns_parts(unit: ShownUnit, address: str) -> list[Object]:
    results, waiting = results_of(unit), waiting_of(unit)
    parts: list[Object] = []
    for told in unit.entries:
        if told.role != "assistant":
            continue
        if not told.kept.get("plain"):
            parts.append({"type": "step-start"})
        thought, own = thought_of(told), _replys_parts(told, address)
        if thought:
            parts.append({"type": "reasoning", "text": thought, "state": "done"})
        calls = [_call(told, call, results.get(call[0]), is_waiting=told is waiting) for call in calls_of(told)]
        parts += _with_kept([*own, *calls], told.kept)
    return parts


def _replys_parts(told: ShownEntry, address: str) -> list[Object]:
    """The texts and files of a reply, without its calls."""
    if compaction_of(told.message) is not None:
        return [{"type": _OURS, "data": {"kind": "compaction"}}]
    state = _STREAMING if told.status in ("in_progress", "interrupted") else "done"
    parts: list[Object] = [{"type": "text", "text": text, "state": state} for text in texts_of(told)]
    content = told.message.get("content")
    media = content if isinstance(content, list) and not told.is_redacted else ()
    return parts + [file_part(part, address) for part in media if part["type"] not in ("text", "refusal")]


def _call(told: ShownEntry, call: tuple[str, str, str], result: ShownEntry | None, *, is_waiting: bool) -> Object:
    identity, name, arguments = call
    kept: Object = told.kept.get("calls", {}).get(identity, {})
    part: Object = {"type": f"tool-{name}", "toolCallId": identity, "state": "input-available"}
    given = _json(arguments)
    part["input"] = arguments if given is msgspec.UNSET else given
    if result is not None:
        part["state"] = kept.get("state") if kept.get("state") in _ANSWERED else "output-available"
        text = text_of(result)
        output = _json(text) if text[:1] in "{[0123456789-tfn" and text else msgspec.UNSET
        if part["state"] == "output-error":
            part["errorText"] = text
        elif part["state"] == "output-available":
            part["output"] = text if output is msgspec.UNSET else output
    elif kept.get("state") in (*_ASKED, "output-denied"):
        part["state"] = kept["state"]
    elif not is_waiting or told.status == "interrupted":
        part |= {"state": "output-error", "errorText": NO_RESULT}
    part |= {member: value for member, value in kept.items() if member != "state"}
    if result is not None and isinstance(asked := part.get("approval"), dict):
        part["approval"] = {"approved": True, **asked}  # it was, as there is a result, and the SDK wants to read it
    return part


def _json(text: str) -> Any:
    """The JSON value of a text; UNSET if it is none."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return msgspec.UNSET


def _with_kept(own: list[Object], kept: Mapping[str, Any]) -> list[Object]:
    """The parts of a message with what is kept of the screen's."""
    own = [*own]
    for place, members in kept.get("with", ()):
        if place < len(own):
            own[place] = own[place] | members
    parts: list[Object] = []
    others = [*kept.get("parts", ())]
    for place in range(len(own) + 1):
        parts += [part for at, part in others if at == place or (place == len(own) and at > place)]
        parts += own[place : place + 1]
    return parts


# ---- what a screen sends


class _UIMessage(msgspec.Struct, frozen=True):
    """What must be true of a UIMessage; other members are kept."""

    role: str
    parts: list[Object]


def read(value: Object, pointer: str) -> Sequence[Entry]:
    """Read a UIMessage, alone, with an entry's members beside its own, or in an entry; or a chat message."""
    if not is_ui(value.get("message", value)):
        return [chat_entry(value, pointer)]
    if "message" in value:
        given, within, pointer = value, value["message"], f"{pointer}/message"
    else:
        given = wrapped(value, ENVELOPE)
        within = given["message"]
    metadata = given.get("metadata", within.get("metadata") if isinstance(within, dict) else None)
    named = given.get("id", within.get("id") if isinstance(within, dict) else None)
    facts = {name: each for name, each in given.items() if name not in ("id", "metadata", "message")}
    envelope = converted({**facts, "message": {}}, Entry, pointer)
    message = converted(within, _UIMessage, pointer)
    if message.role not in _ROLES:
        what = f"The role {str(message.role)[:40]!r} is none of a UIMessage"
        raise Unprocessable.at(f"#{pointer}/role", f"{what}: expected one of {', '.join(_ROLES)}")
    for place, part in enumerate(message.parts):
        _check(part, f"{pointer}/parts/{place}")
    kept: Object = {}
    more = {name: each for name, each in within.items() if name not in ("id", "role", "parts", "metadata")}
    if more:
        kept["more"] = more
    identity = entry_id(named)
    if identity != named and identity is not None:
        kept["id"] = named
    if envelope.grounding is not None and message.role != "user":
        raise Unprocessable.at(f"#{pointer}/grounding", "Documents belong to a user's message")
    steps = _steps(message.parts) if message.role == "assistant" else [_user_step(message.role, message.parts)]
    return _entries(steps, envelope, identity, metadata, kept)


def is_ui(message: Any) -> bool:
    """Whether a message is a UIMessage, and no chat message."""
    parts = message.get("parts") if isinstance(message, dict) else None
    return isinstance(parts, list) and all(isinstance(part, dict) for part in parts)


def _check(part: Object, pointer: str) -> None:
    """Check the members of a part that are read."""
    kind = part.get("type")
    if not isinstance(kind, str):
        raise Unprocessable.at(f"#{pointer}/type", "The part has no type: a part of a UIMessage has one")
    needed: tuple[str, ...] = ()
    if kind in ("text", "reasoning"):
        needed = ("text",)
    elif kind == "file":
        needed = ("url", "mediaType")
    elif _name(part) is not None:
        needed = ("toolCallId", "state")
    for name in needed:
        if not isinstance(part.get(name), str):
            what = f"The field {name!r} is missing, or is no text"
            raise Unprocessable.at(f"#{pointer}/{name}", f"{what}: a part {kind[:40]!r} has it")
    if kind == "dynamic-tool" and not isinstance(part.get("toolName"), str):
        raise Unprocessable.at(f"#{pointer}/toolName", "The field 'toolName' is missing: it names the tool")


def _name(part: Object) -> str | None:
    """The name of the tool that a part calls; None for another part."""
    kind: str = part["type"]
    if kind == "dynamic-tool":
        return part.get("toolName")
    return kind.removeprefix("tool-") if kind.startswith("tool-") else None


class _Step(msgspec.Struct):
    """One message of a model, with the results of its calls, and what is kept of the screen's."""

    message: Object
    results: list[Object] = []
    kept: Object = {}
    is_unfinished: bool = False
    count: int = 0
    """The number of parts that the message itself gives."""

    def keep(self, part: Object) -> None:
        """Keep a part that is none of the message."""
        if part["type"] != _OURS:
            self.kept.setdefault("parts", []).append([self.count, part])

    def add(self, part: Object) -> None:
        """Note a part that the message gives, with members that it does not give."""
        given = file_part(as_content(part), "") if part["type"] == "file" else {"type": "text"}
        is_of_message = ("url",) if part["type"] == "file" else ("text", "state")
        more = {name: each for name, each in part.items() if name not in is_of_message and given.get(name) != each}
        if more:
            self.kept.setdefault("with", []).append([self.count, more])
        self.count += 1


def _user_step(role: str, parts: Sequence[Object]) -> _Step:
    step, content = _Step({"role": role, "content": ""}), []
    for part in parts:
        if part["type"] == "text" or (part["type"] == "file" and role == "user"):
            step.add(part)
            content.append(part if part["type"] == "text" else as_content(part))
        else:
            step.keep(part)
    texts = [{"type": "text", "text": each["text"]} if each["type"] == "text" else each for each in content]
    if role == "system":
        step.message["content"] = "".join(each["text"] for each in texts)
    else:
        step.message["content"] = content_of(texts, "")
    return step


def _steps(parts: Sequence[Object]) -> list[_Step]:
    """The messages of a turn. Words behind a call begin another one, as its result stands between."""
    steps: list[_Step] = []
    groups: list[tuple[bool, list[Object]]] = [(False, [])]
    for part in parts:
        is_start = part["type"] == "step-start"
        if is_start or (part["type"] == "text" and any(_name(each) for each in groups[-1][1])):
            groups.append((is_start, []))
        if not is_start:
            groups[-1][1].append(part)
    for has_start, group in groups:
        if group or has_start:
            steps.append(_reply_step(group, has_start=has_start))
    said = [step for step in steps if step.count]
    if not said:
        return steps[:1] or [_reply_step([], has_start=False)]
    for place, step in enumerate(steps):  # what stands in no message goes with the next one, or the last
        if step.count or "parts" not in step.kept:
            continue
        after = next((each for each in steps[place + 1 :] if each.count), None)
        other = after or said[-1]
        at = 0 if after else other.count
        before = [[at, part] for _, part in step.kept["parts"]]
        standing = other.kept.get("parts", [])
        other.kept["parts"] = before + standing if after else standing + before
    return said


def _reply_step(parts: Sequence[Object], *, has_start: bool) -> _Step:
    step, texts, calls = _Step({"role": "assistant", "content": None}), [], []
    if not has_start:
        step.kept["plain"] = True
    for part in parts:
        if part.get("state") == _STREAMING:
            step.is_unfinished = True
        name = _name(part)
        if name is not None and not part.get("providerExecuted"):
            if part["state"] != "input-streaming":
                calls.append(_read_call(step, part, name))
        elif part["type"] == "text" and (part["text"] or step.is_unfinished):
            if part["text"]:
                step.add(part)
                texts.append({"type": "text", "text": part["text"]})
        else:
            step.keep(part)
    step.message["content"] = content_of(texts, None if calls else "")
    if calls:
        step.message["tool_calls"] = calls
    step.count += len(calls)
    return step


def _read_call(step: _Step, part: Object, name: str) -> Object:
    """The call of a part; its result, and what is kept of the part, go to the step."""
    identity, state = part["toolCallId"], part["state"]
    kept = {member: each for member, each in part.items() if member not in _OF_CALL}
    if part["type"] != f"tool-{name}":
        kept["type"] = part["type"]
    text = part.get("errorText") if state == "output-error" else None
    if state in (*_ASKED, "output-denied") or (state == "output-error" and text != NO_RESULT):
        kept["state"] = state
    if kept:
        step.kept.setdefault("calls", {})[identity] = kept
    if state == "output-available":
        text = _text(part.get("output"))
    if text is not None and text != NO_RESULT:
        step.results.append({"role": "tool", "tool_call_id": identity, "content": str(text)})
    given = part.get("input", part.get("rawInput"))
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": _text(given, empty="{}")}}


def _text(value: Any, empty: str = "") -> str:
    if isinstance(value, str):
        return value
    return empty if value is None else msgspec.json.encode(value).decode()


def _entries(
    steps: Sequence[_Step], envelope: Entry, identity: str | None, metadata: Any, kept: Object
) -> Sequence[Entry]:
    """The entries of a message: its id is the first one's, and its metadata are the last one's."""
    found: list[Entry] = []
    for step in steps:
        step.kept |= kept if not found else {}
        for message in (step.message, *step.results):
            number = len(found)
            is_reply = message["role"] == "assistant"
            entry = msgspec.structs.replace(
                envelope,
                message=message,
                id=identity if identity is None else derived_id(identity, number),
                metadata={KEPT: step.kept} if message is step.message and step.kept else None,
                status="interrupted" if is_reply and step.is_unfinished else None,
                continues=envelope.continues and number == 0,
                grounding=envelope.grounding if message["role"] == "user" else None,
                receipt=envelope.receipt if is_reply or message["role"] == "user" else None,
            )
            found.append(entry)
    last = found[-1]
    own = {name: each for name, each in metadata.items() if name != KEPT} if isinstance(metadata, dict) else {}
    if own:
        last.metadata = {**own, **(last.metadata or {})}
    replies = [entry for entry in found if entry.message["role"] in ("assistant", "user")]
    if envelope.status is not None and replies:
        replies[-1].status = envelope.status
    return found


UI: Final = ScreenForm(name="ui", show=show, read=read)
