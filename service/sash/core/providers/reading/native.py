"""Read providers' own messages as chat messages, and write them back.

::

      Anthropic message   Responses items   Gemini content        what the client sends, ?format=
             │                  │                 │
             ▼                  ▼                 ▼             Provider.read
            Piece, Piece …      a chat message's worth each: text, calls, a result
             │
             ▼ pieces.chat_message
      {"role": …, "content": …, "tool_calls": …,   "native": {"format": …, "messages": […]}}
       what every provider can be sent              the provider's own message, always last
             │                                        │   what the chat form says, as a reference (sharing)
             │ measures.measure                       │   native_parts.measure_native_parts: reasoning, all else, apart
             ▼                                        ▼
      a window in another format:              a window in the same format:
      the body up to ``,"native"``             restore(): the provider's messages, equal as JSON

* One message can become several: an Anthropic user turn with two results and a question is ``tool``, ``tool``, ``user``.
  ``piece: [i, n]`` numbers them; neighbours in a window are sent as one message again. A compaction is a message of its own,
  and it and its neighbours in a reply are ``[i, i + 1]``.
* Several can become one: neighbouring items of a Responses reply, up to its calls. Words behind them are another message,
  because results stand before these.
* ``beside`` are members that are the client's own, each with its place. They are given back by reads, and never sent.
* ``told`` are the places of lines in the content that tell a hosted tool's part (``hosted``). Its own format sends the part.
* ``only`` names parts that have no words and cannot be sent to other providers. A window in another format refuses them, or
  leaves them out (``uncarried``). It leaves out reasoning, signatures and cache marks; what else the chat form does not say,
  such as citations, is left out and told (``form/lost_members.py``).
* The chat form never says more than the provider's message: ``check_native`` reads the kept message again.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from sash.core.chat.messages import own_member
from sash.core.chat.mistakes import problem_at
from sash.core.chat.open_calls import OpenCalls, is_made
from sash.core.chat.regular import UNNAMED, is_blank
from sash.core.providers import PROVIDERS
from sash.core.providers.destinations.tool_names import renamed
from sash.core.providers.form.requests_read import ChatRequest
from sash.core.providers.messages.members import EVERY_MEMBER, Names, has_foreign, object_at
from sash.core.providers.messages.pieces import Object, Piece, chat_message
from sash.core.providers.messages.references import reference_of
from sash.core.providers.messages.sharing import fill, restore, share
from sash.core.providers.openai.chat_mends import has_twins
from sash.core.providers.reading.recognition import foreign
from sash.core.providers.writing.shared_mends import CALL_ID
from sash.core.providers.writing.turns import Outgoing, RequestWriting, is_of
from sash.problems import InvalidEntry


class Turn(msgspec.Struct, frozen=True):
    """A chat message that was made of the provider's messages ``first`` to ``last``."""

    message: Object
    first: int
    last: int


def read_messages(
    form: str, messages: Sequence[Any], pointers: Sequence[str], send: Names = EVERY_MEMBER
) -> list[Turn]:
    """Return a provider's messages as chat messages, each with its ``native`` member. Raises InvalidEntry.

    ``pointers`` are the places of the messages in the client's request. Members that the provider does not know are kept
    apart, except those that are named in ``send``.
    """
    turns: list[Turn] = []
    reply = _Reply(form)
    for index, (message, pointer) in enumerate(zip(messages, pointers, strict=True)):
        pieces = _read(form, message, pointer, send)
        is_apart = any(piece.stands for piece in pieces)  # a compaction is a message of its own, as its neighbours are
        if pieces[0].role == "assistant" and not is_apart:
            turns += reply.add(pieces, index)
            continue
        # A reply may still grow, so its pieces do not tell how many they are.
        turns += reply.ended()
        turns += [
            Turn(chat_message(form, [piece], (place, place + 1 if is_apart else len(pieces))), index, index)
            for place, piece in enumerate(pieces)
        ]
    turns += reply.ended()
    if not _gives_ids(form):
        for turn in turns:
            if has_twins(turn.message.get("tool_calls") or ()):
                raise InvalidEntry.at(f"#{pointers[turn.first]}", "Two tool calls of one message have the same id")
    return turns


def _gives_ids(form: str) -> bool:
    """Whether own calls with one id are sent with ids of their own: elsewhere a message is sent as it came."""
    return CALL_ID in PROVIDERS[form].mends and not PROVIDERS[form].replies_are_items


class _Reply:
    """The chat message of the assistant's neighbouring messages, while it grows.

    Items of a reply are one chat message up to its calls: results stand behind the calls, before the words that follow, as
    they do where the items are appended one by one. Reasoning belongs to what is behind them. In other forms each message is
    one.
    """

    def __init__(self, form: str) -> None:
        self._form = form
        self._said: list[tuple[int, list[Piece]]] = []
        self._reasoning: list[tuple[int, list[Piece]]] = []
        self._calls = False

    def add(self, pieces: list[Piece], index: int) -> list[Turn]:
        """Add the pieces of the message at ``index``. Returns the chat messages that are complete before it."""
        is_item = PROVIDERS[self._form].replies_are_items
        calls, has_words = any(piece.calls for piece in pieces), any(piece.parts for piece in pieces)
        if is_item and not calls and not has_words:
            self._reasoning.append((index, pieces))
            return []
        made = [] if is_item and (calls or not self._calls) else self._made()
        self._said += [*self._reasoning, (index, pieces)]
        self._reasoning, self._calls = [], self._calls or calls
        return made

    def ended(self) -> list[Turn]:
        """Return the chat message that is complete now, if there is one."""
        self._said += self._reasoning
        self._reasoning = []
        return self._made()

    def _made(self) -> list[Turn]:
        said, self._said, self._calls = self._said, [], False
        pieces = [piece for _, each in said for piece in each]
        return [Turn(chat_message(self._form, pieces), said[0][0], said[-1][0])] if said else []


def read_again(message: Mapping[str, Any], own: Sequence[Object]) -> Object:
    """Return a stored chat message whose provider's messages were changed to these, in chat form as they are read now.

    Ids of calls stay as they were, also those that the provider's messages do not have.
    """
    native = message["native"]
    form, kept = native["format"], {name: native[name] for name in ("piece", "at", "beside") if name in native}
    found = chat_message(form, [piece for each in own for piece in PROVIDERS[form].read(each, "")])
    chat = {name: value for name, value in message.items() if name != "native"} | {"content": found["content"]}
    return chat | {"native": {**found["native"], **kept, "messages": share(own, chat)}}


def lacks_call(message: Object) -> bool:
    """Return whether a chat message is a result that does not say which call it answers, also in its provider's form."""
    return message.get("role") == "tool" and (not message.get("tool_call_id") or _answers_name(message) is not None)


def needs_earlier(message: Object) -> bool:
    """Return whether the ids of a chat message's calls or of its result follow from the messages before it."""
    role = message.get("role")
    return (role == "tool" and lacks_call(message)) or (role == "assistant" and makes_calls(message))


def makes_calls(message: Object) -> bool:
    """Return whether a chat message has calls that came in a provider's form without ids, which were made for them."""
    match message:
        case {"role": "assistant", "tool_calls": [*calls], "native": {"format": str(form)}} if form in PROVIDERS:
            return PROVIDERS[form].answers_name is not None and any(
                isinstance(call, dict) and is_made(call) for call in calls
            )
    return False


def with_own_ids(message: Object, opened: OpenCalls) -> Object:
    """Return a reply with other ids where an open call has one that was made for it: both would get one result."""
    calls: list[Object] = []
    for call in message["tool_calls"]:
        taken = {each["id"] for each in calls}
        calls.append({**call, "id": opened.free_id(call, taken)} if is_made(call) else call)
    return {**message, "tool_calls": calls} if calls != message["tool_calls"] else message


def _answers_name(message: Object) -> str | None:
    native = message.get("native")
    answers_name = PROVIDERS[native["format"]].answers_name if native is not None else None
    return answers_name(restore(message)[0]) if answers_name is not None else None


def with_open_call(message: Object, opened: OpenCalls) -> Object:
    """Return a provider's result without an id as that of the oldest open call of its name.

    Where none is open, the result is one more of the call that the id names that was made of its tool's name.
    """
    name = _answers_name(message)
    found = "" if name is None else opened.oldest(name)
    return answering(message, found, {UNNAMED: opened.name(found)}) if found else message


def answering(message: Object, identity: str, names: Mapping[str, str] = MappingProxyType({})) -> Object:
    """Return a result, in chat form, as that of the call with this id. ``names`` are other names of its tool."""
    chat = {name: value for name, value in message.items() if name != "native"} | {"tool_call_id": identity}
    if "native" not in message:
        return chat
    return chat | {"native": {**message["native"], "messages": share(renamed(restore(message), names), chat)}}


def _read(form: str, message: Any, pointer: str, send: Names) -> list[Piece]:
    if not isinstance(message, dict):
        raise problem_at("Expected an object", f"#{pointer}")
    if other := foreign(message, pointer, form):
        raise other
    provider = PROVIDERS[form]
    parts = provider.shape.parts
    own, beside = provider.own_members.apart(_with_names(provider.regular(message), parts), parts, send)
    pieces = provider.read(own, pointer)
    pieces[0].beside = beside
    return pieces


def _with_names(own: Mapping[str, Any], parts: str) -> Object:
    """A provider's message with a name for each called tool that came without one, which every provider refuses."""
    listed = (own, *(part for name in (parts, "tool_calls") if isinstance(own.get(name), list) for part in own[name]))
    held = (each for part in listed if isinstance(part, dict) for each in (part, *part.values()))
    names = (each.get(key) for each in held if isinstance(each, dict) for key in ("name", "tool_name"))
    blank = {name for name in names if isinstance(name, str) and is_blank(name)}
    return renamed(own, dict.fromkeys(blank, UNNAMED)) if blank else dict(own)


def own_messages(form: str, message: Object) -> list[Object]:
    """Return a chat message as the provider's messages: as they came, or as they are sent for this message alone.

    Raises FormatCannotCarry.
    """
    native = message.get("native")
    if is_of(message, form):
        own = restore(message)
        for place, name, value in message["native"].get("beside", ()):
            at, _, path = place.partition("/")
            object_at(own[int(at)], path)[name] = value
        return own
    provider, writing = PROVIDERS[form], RequestWriting(form)
    call = _call_of(message)
    chat = message if native is None else {name: value for name, value in message.items() if name != "native"}
    sent = [Outgoing(0, each) for each in (*call, chat)]
    written: list[Object] = provider.write(sent, [], None, writing)[provider.shape.messages]
    writing.check()
    if not provider.replies_are_items or call:
        return written[-1:]
    is_opened = provider.fills and message["role"] == "assistant"  # with a turn of the user's before it
    return written[1:] if is_opened else written


def _call_of(result: Object) -> list[Object]:
    """The call that a result answers, whose name and arguments are not known; nothing for another message."""
    call = {"name": "unknown", "arguments": "{}"}
    match result["role"]:
        case "tool":
            calls = [{"id": result["tool_call_id"], "type": "function", "function": call}]
            return [{"role": "assistant", "content": None, "tool_calls": calls}]
        case "function":
            return [{"role": "assistant", "content": None, "function_call": {**call, "name": result["name"]}}]
    return []


def read_compaction(given: Object | list[Object], pointer: str) -> tuple[Object, str]:
    """Return the chat message of a provider's compaction, and its text for other providers. Raises InvalidEntry.

    A compaction is a part of a message with the summary in ``content``, or an item, which only its maker can read: then its
    text is empty. An endpoint may return it as the last of a list of items.
    """
    items = given if isinstance(given, list) else [given]
    item = items[-1] if items else {}
    place = f"{pointer}/{len(items) - 1}" if isinstance(given, list) else pointer
    if not isinstance(item, dict) or item.get("type") != "compaction":
        raise InvalidEntry.at(f"#{place}", "This is no compaction item: its type is 'compaction'")
    in_words = "content" in item
    form = next(each.name for each in PROVIDERS.values() if each.compacts == ("in words" if in_words else "sealed"))
    if not in_words:
        places = [f"{pointer}/{index}" for index in range(len(items))] if isinstance(given, list) else [pointer]
        turns = read_messages(form, items, places)
        own = [each for turn in turns for each in restore(turn.message)]
        native = {"format": form, "messages": own}
        return turns[0].message if len(own) == 1 else {"role": "assistant", "content": None, "native": native}, ""
    if len(items) > 1:
        raise InvalidEntry.at(
            f"#{pointer}", "A compaction block with its summary stands alone: give the block, not a list"
        )
    (turn,) = read_messages(form, [{"role": "assistant", PROVIDERS[form].shape.parts: [item]}], [place])
    content = item["content"]
    return turn.message, content if isinstance(content, str) else ""


def compaction_items(message: Object) -> list[Object]:
    """Return the compaction item that became this chat message, alone or at the end of a list."""
    own = restore(message)
    return [own[0][PROVIDERS[message["native"]["format"]].shape.parts][0]] if own[0].get("role") == "assistant" else own


class Compaction(NamedTuple):
    """A provider's compaction that is a message: its form, and its words, which are empty if only its maker can read it."""

    form: str
    words: str


def compaction_of(message: Mapping[str, Any]) -> Compaction | None:
    """Return the compaction that a chat message is; None for another message."""
    native = message.get("native")
    if native is None or has_foreign(message) or message["role"] != "assistant" or len(native["messages"]) != 1:
        return None
    form, (own,) = native["format"], native["messages"]
    provider = PROVIDERS[form]
    parts = [own] if provider.replies_are_items else own.get(provider.shape.parts)
    if not isinstance(parts, list) or len(parts) != 1 or not isinstance(parts[0], dict):
        return None
    words = provider.compaction(parts[0])
    return None if words is None else Compaction(form, words)


def issuer_of(message: Mapping[str, Any]) -> str:
    """Return who alone can read what is sealed in a chat message's own messages; empty if anybody can."""
    sealed = (
        text
        for own in restore(message)
        for part in (own, *(each for each in own.get("content") or () if isinstance(each, dict)))
        if isinstance(text := part.get("encrypted_content"), str)
    )
    return next(filter(None, (reference_of(text).issuer for text in sealed)), "")


class _Native(msgspec.Struct, forbid_unknown_fields=True):
    format: str
    messages: list[Object]
    piece: tuple[int, int] = (0, 1)
    at: list[int] = []
    only: list[str] = []
    beside: list[tuple[str, str, Any]] = []
    told: list[int] = []


def check_native(message: Mapping[str, Any], pointer: str) -> None:
    """Raise InvalidEntry unless ``native`` is what Sash would keep beside this chat message."""
    refused = own_member(pointer)
    try:
        native = msgspec.convert(message["native"], _Native)
        filled = fill(native.messages, message)
        pieces = [piece for own in filled for piece in PROVIDERS[native.format].read(own, "")]
    except (msgspec.ValidationError, InvalidEntry, LookupError, TypeError, ValueError):
        raise refused from None
    place, count = native.piece
    if not pieces or not 0 <= place < count or len({piece.role for piece in pieces}) > 1:
        raise refused
    if len(pieces) > 1 and pieces[0].role != "assistant":
        raise refused
    pieces[0].at = native.at
    makes_ids = PROVIDERS[native.format].answers_name is not None
    if makes_ids and pieces[0].role == "tool":  # an id may count results of others
        pieces[0].answers = message.get("tool_call_id", "")
    if makes_ids and pieces[0].role == "assistant":
        _take_made_ids(pieces, message.get("tool_calls") or ())
    kept = {name: value for name, value in message["native"].items() if name != "beside"}
    stored = {**message, "native": kept}
    if chat_message(native.format, pieces, native.piece) == stored:
        return
    older = [piece.without_told() for piece in pieces]  # stored before hosted tools' parts were told
    if chat_message(native.format, older, native.piece) != stored:
        raise refused


def _take_made_ids(pieces: Sequence[Piece], given: Sequence[Any]) -> None:
    """Give calls the ids that they have in the chat form, where both were made of the tool's name."""
    calls = [call for piece in pieces for call in piece.calls]
    if len(calls) == len(given):
        for call, chat in zip(calls, given, strict=True):
            if is_made(call) and isinstance(chat, dict) and is_made({**call, "id": chat.get("id")}):
                call["id"] = chat["id"]


def read_request(form: str, request: Mapping[str, Any]) -> ChatRequest:
    """Return a provider's whole request in chat form. Raises InvalidEntry."""

    def chat(messages: Sequence[Any], pointer: str) -> list[Object]:
        pointers = [f"{pointer}/{index}" for index in range(len(messages))]
        return [turn.message for turn in read_messages(form, messages, pointers)]

    return PROVIDERS[form].read_request(request, chat)
