"""Read a kept history as texts, calls and results. Every other form is written from this."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, groupby
from typing import Any, Final

import msgspec

from sash.core.chat.calls import arguments_object
from sash.core.chat.file_links import LINKS, as_file, link_of
from sash.core.providers.messages.hosted import media_line
from sash.core.providers.messages.members import is_usual_call, unknown_members
from sash.core.providers.messages.mends import AS_TEXT, FOREIGN_MEMBERS, LEFT_OUT, SYSTEM_NOTE, Mend, Mends
from sash.core.providers.messages.owed_reasoning import fills_reasoning
from sash.core.providers.messages.reasoning_members import plain_text, signature_of
from sash.core.providers.writing.media_types import MEDIA_TYPE, UNTAKEN, Takes, as_picture
from sash.core.providers.writing.native_messages import NativeMessages, Shape, native_messages
from sash.problems import FormatCannotCarry, Pointer

Block = dict[str, Any]

NOTHING_SAID: Final = "…"
"""The text of a user's turn without words."""
NOTE: Final = "System note: "
"""What stands before a system text that is sent in a turn of the user's."""
SYSTEM_ROLES: Final = ("system", "developer")

_NOT_TOLD: Final = frozenset({"audio", "cache_control", "index", "prompt_cache_breakpoint"})
"""Members that no reader misses: cache hints, of which each form has its own, and a spoken reply, which is sent as its
words."""
_OF_RESULTS: Final = frozenset({"text", "image_url", "file"})
"""Types of parts that results take in most forms."""
_SPEAKERS: Final = ("user", "assistant")
_TEXT_ALONE: Final = 2
"""Members of a message that is a text alone: role and content."""
_USUAL: Final = 3
"""Members of a message with calls, or of a result, that has the usual members alone: role, content, and calls or an id."""
_SMALL_FILE: Final = 16_384
_ID_LIMIT: Final = 64  # the smallest that a provider names


class Outgoing(msgspec.Struct, frozen=True):
    """One kept chat message; ``seq`` is 0 for the fixed parts: system text, few-shots, summary, note.

    ``before`` and ``after`` are documents around the text of a message that is sent as it came. Other messages have their
    documents in the content. ``begins``: the history begins with it, whatever its seq is, as with a compaction.
    """

    seq: int
    message: dict[str, Any]
    before: str = ""
    after: str = ""
    begins: bool = False


class RequestWriting:
    """Parts that a form cannot carry, gathered over the whole request, so that one answer names every place; and ``mends``,
    what is changed so that the provider accepts it. ``drops``: parts of messages are left out in place of an error.
    ``model`` is the name of the model that reads the request, and ``maker`` its maker's, where they are known. ``hinted``:
    hints for the prompt cache are added later. ``now`` is the time of the newest message in seconds since 1970, and
    ``came`` returns that of a message; 0 where it is not known."""

    def __init__(
        self,
        format_name: str,
        mends: Mends | None = None,
        *,
        model: str = "",
        maker: str = "",
        drops: bool = False,
        hinted: bool = False,
        now: int = 0,
        came: Callable[[int], int] = lambda _seq: 0,
    ) -> None:
        self.format_name = format_name
        self.errors: list[Pointer] = []
        self.mends = Mends() if mends is None else mends
        self.model = model
        self.maker = maker
        self.fills_reasoning = fills_reasoning(format_name, maker, model)
        """Whether each message with calls needs reasoning."""
        self.drops = drops
        self.hinted = hinted
        self.now = now
        self.came = came
        self.owners: dict[int, int] = {}
        """The seq of the message of each block that is sent, by the block's identity; not of plain texts."""

    def owned(self, blocks: list[Block], seq: int) -> list[Block]:
        """Return the blocks, and remember that they belong to message ``seq``."""
        owners = self.owners
        for block in blocks:
            owners[id(block)] = seq
        return blocks

    def own_rest(self, turns: Iterable[tuple[str, list[Block]] | NativeMessages]) -> None:
        """Remember that the other blocks of the turns are of texts alone, or of whole tool groups."""
        for turn in turns:
            for block in turn[1] if isinstance(turn, tuple) else ():
                self.owners.setdefault(id(block), 0)

    def tell_sent(self, messages: Sequence[Block], key: str) -> None:
        """Note what is sent of each message by the owners of blocks; of none, if a block behind the first has no owner."""
        owners, told = self.owners, list[tuple[int, Block]]()
        for place, message in enumerate(messages):
            blocks: dict[int | None, list[Block]] = {}
            if isinstance(message[key], list):
                for block in message[key]:
                    blocks.setdefault(owners.get(id(block)), []).append(block)
            else:
                blocks[owners.get(id(message))] = message[key]
            if None in blocks and (place or len(blocks) > 1):  # the first may be put before the assistant's
                return
            told += [(seq, {**message, key: own}) for seq, own in blocks.items() if seq]
        for seq, own in told:
            self.mends.send(seq, own)

    def add(self, place: str, detail: str) -> None:
        """Note that the format cannot carry the part at ``place``, and why."""
        kind, _, rest = place.partition("/")
        if self.drops and kind == "messages":
            self.mends.add(LEFT_OUT, int(rest.partition("/")[0]))
        else:
            self.errors.append(Pointer(f"#/{place}", detail))

    def add_only(self, place: str, kinds: Iterable[str], form: str) -> None:
        """Note parts of these kinds in the message at ``place``, which only their own format can carry."""
        for kind in kinds:
            self.add(place, f"holds a part of kind {kind!r}, which only the {form} format can carry")

    def check(self) -> None:
        """Raise FormatCannotCarry if anything was noted."""
        if self.errors:
            places = ", ".join(error.pointer for error in self.errors[:3]) + (", …" if len(self.errors) > 3 else "")
            way = "" if self.drops else " With uncarried=drop, parts of messages are left out."
            detail = f"The {self.format_name} format cannot carry {places}.{way}"
            raise FormatCannotCarry(detail, errors=self.errors)


class Part(msgspec.Struct, frozen=True):
    """One content part, and the pointer to its place; a refusal is a text part. ``is_line``: it tells a medium."""

    place: str
    body: dict[str, Any]
    is_line: bool = False

    @property
    def text(self) -> str | None:
        """The text of a text part; None for other parts."""
        body = self.body
        return body.get("text") if body.get("type") == "text" else None


class Call(msgspec.Struct, frozen=True):
    """A tool call; ``id`` fits and is unique in the request, ``order`` is its place among the request's calls, from 0."""

    place: str
    id: str
    name: str
    arguments: str
    custom: bool
    signature: str | None
    order: int
    as_it_came: bool = False
    given: str = ""
    """The id as it is stored."""

    @property
    def is_renamed(self) -> bool:
        """Whether the call is sent with another id."""
        return self.id != self.given

    def arguments_object(self) -> dict[str, Any]:
        """Return the arguments as an object, which Anthropic and Gemini require; never raises."""
        return arguments_object(self.arguments, custom=self.custom)


class Said(msgspec.Struct, frozen=True):
    """The parts of a system, developer, user or assistant message, and the calls of an assistant message."""

    role: str
    parts: list[Part]
    calls: list[Call]
    thinking: list[Block] = []
    """Thinking blocks as Claude made them, or of another model's reasoning for one that wants it back."""
    seq: int = 0

    @property
    def is_system(self) -> bool:
        """Whether this is a system or a developer message."""
        return self.role in SYSTEM_ROLES


class Result(msgspec.Struct, frozen=True):
    """A tool result with the call that it answers."""

    call: Call
    parts: list[Part]
    seq: int = 0


class PlainRun(msgspec.Struct, frozen=True):
    """Neighbouring messages, of the user or the assistant, of which each is a text without any other member.

    A form may ask for whole tool groups among them: calls of functions and all their results right behind them, each a
    text, with the usual members alone, and with ids and names that fit.
    """

    messages: list[dict[str, Any]]


HistoryStep = Said | Result | NativeMessages | PlainRun


def read_steps(
    messages: Sequence[Outgoing],
    shape: Shape,
    writing: RequestWriting,
    *,
    tidy: Callable[[str], str] = str,
    renames: Mend | None = None,
    groups: bool = False,
    takes: Takes | None = None,
) -> Iterator[HistoryStep]:
    """Yield the history in order, each result with its call. ``tidy`` makes an id fit a form's alphabet.

    Of the user's messages and of results, each medium that ``takes`` refuses is a line. Without it the form's mends look at
    what is made of all parts.

    A message that came in this form is sent as it came; a message that came in another form is sent in its chat form. A
    result has the id with which its call is sent. With ``renames``, the mend by which they are told, ids of calls that came
    in this form are made to fit too. ``groups``: runs may have whole tool groups.
    """
    calls, index = _Calls(writing, tidy, renames), 0
    while index < len(messages):
        if run := _run(messages, index, calls if groups else None):
            calls.close()
            yield PlainRun(run)
            index += len(run)
        else:
            if (step := _step_of(messages[index], calls, shape, takes, writing)) is not None:
                yield step
            index += 1


def in_order_of_calls(steps: Iterable[HistoryStep], mend: Mend, writing: RequestWriting) -> Iterator[HistoryStep]:
    """Yield the steps, neighbouring results in the order of their calls, for a form whose calls have no ids."""
    for _, run in groupby(steps, answers_call):
        given = list(run)
        ordered = sorted(given, key=_order)
        for was, now in zip(given, ordered, strict=True):
            if was is not now and not isinstance(now, PlainRun):
                writing.mends.add(mend, now.seq)
        yield from ordered


def _order(step: HistoryStep) -> int:
    """The place of the call that a step answers, among the request's calls; -1 for other steps."""
    return step.call.order if isinstance(step, Result) else step.order if isinstance(step, NativeMessages) else -1


def answers_call(step: HistoryStep) -> bool:
    """Whether a step is the result of a call."""
    return _order(step) >= 0


def _run(messages: Sequence[Outgoing], index: int, groups: "_Calls | None") -> list[Block]:
    """The run that begins at ``index``; it has tool groups, which are noted, if the calls are given."""
    run: list[Block] = []
    while index + len(run) < len(messages):
        message = messages[index + len(run)].message
        content = message.get("content")
        if len(message) == _TEXT_ALONE and type(content) is str and message.get("role") in _SPEAKERS:
            if not content or content.isspace():
                break
            run.append(message)
        elif groups is not None and (group := groups.group_at(messages, index + len(run))):
            run += group
        else:
            break
    return run


def _is_plain_result(message: Block) -> bool:
    return len(message) == _USUAL and "tool_call_id" in message and type(message.get("content")) is str


def _step_of(
    outgoing: Outgoing, calls: "_Calls", shape: Shape, takes: Takes | None, writing: RequestWriting
) -> Said | Result | NativeMessages | None:
    """The step of a message; None where it is refused."""
    message, seq = outgoing.message, outgoing.seq
    place, native = f"messages/{seq}", message.get("native")
    if native is not None and native["format"] == shape.name:
        return _as_it_came(outgoing, native, calls, shape, writing)
    if native is not None:
        _note_native(outgoing, place, writing)
    _note_unknown(message, seq, writing)
    answered, made = calls.follow(outgoing, as_it_came=False)
    calls.tell_renamed(made, answered, seq)
    role = message["role"]
    if role in ("tool", "function"):
        if answered is not None:
            return Result(answered, _taken(_parts(message, place), takes, seq, writing), seq)
        writing.add(place, "is a result without a call before it")
    elif role == "assistant":
        thinking = message.get("thinking_blocks") or []
        if not thinking and writing.fills_reasoning and (text := plain_text(message)):
            thinking = [{"type": "thinking", "thinking": text, "signature": ""}]
        return Said(role, _assistant_parts(message, place, writing), made, thinking, seq)
    elif role == "user":
        parts = _taken(_parts(message, place), takes, seq, writing)
        if any(map(_is_small_file, parts)):  # each form has another place for its name
            writing.mends.changed.add(seq)
        return Said(role, _named(message, parts), [], seq=seq)
    elif role in ("system", "developer"):
        return Said(role, _named(message, _parts(message, place)), [], seq=seq)
    else:
        writing.add(f"{place}/role", "is not a role of chat messages")
    return None


def _as_it_came(
    outgoing: Outgoing, native: Block, calls: "_Calls", shape: Shape, writing: RequestWriting
) -> NativeMessages:
    """The step of a message that came in this form."""
    if any(name not in shape.envelope for _, name, _ in native.get("beside", ())):
        writing.mends.add(FOREIGN_MEMBERS, outgoing.seq)
    answered, made = calls.follow(outgoing, as_it_came=True)
    is_renamed = calls.tell_renamed(made, answered, outgoing.seq)
    keeps_id = answered is None or (answered.as_it_came and not answered.is_renamed)
    answers = "" if answered is None or keeps_id else answered.id
    whole = native_messages(shape, outgoing.seq, outgoing.message, outgoing.before, outgoing.after, answers=answers)
    whole = msgspec.structs.replace(whole, begins=True) if outgoing.begins else whole
    whole = msgspec.structs.replace(whole, order=answered.order) if answered is not None else whole
    return msgspec.structs.replace(whole, ids=[call.id for call in made]) if is_renamed else whole


def _note_unknown(message: Block, seq: int, writing: RequestWriting) -> None:
    """Note members that are not sent."""
    if unknown := unknown_members(message):
        writing.mends.changed.add(seq)
        if any(each.name not in _NOT_TOLD for each in unknown):
            writing.mends.add(FOREIGN_MEMBERS, seq)
    if message["role"] == "assistant" and message.get("name"):  # the model would begin its own replies with it
        writing.mends.add_names((FOREIGN_MEMBERS.name,), seq)


def _is_small_file(part: Part) -> bool:
    """Whether a part is a sound, or a file of so few bytes that counting it again takes less than a millisecond: of none, if
    it is kept elsewhere."""
    match part.body:
        case {"type": "file", "file": dict(file)}:
            return len(file.get("file_data") or "") < _SMALL_FILE
    return part.body.get("type") == "input_audio"


def _note_native(outgoing: Outgoing, place: str, writing: RequestWriting) -> None:
    """Note a provider's own parts that are told in words, or have no words."""
    native = outgoing.message["native"]
    writing.add_only(place, native.get("only", ()), native["format"])
    if native.get("told"):
        writing.mends.add(AS_TEXT, outgoing.seq)


def in_place(
    steps: Sequence[HistoryStep], messages: Sequence[Outgoing], writing: RequestWriting, *, has_role: bool = False
) -> Sequence[HistoryStep]:
    """Return the steps, in which system texts behind the history's first message stay in their places, as the user's.

    The first message is that of the log: a compaction is sent before all, but a system text may stand before it.

    Moved up to the system text, each would change the first bytes of the request, and so cool the provider's whole prompt
    cache. ``has_role``: the form takes them as they are. Then their role is ``note``.
    """
    told = [step for step in steps if isinstance(step, Said) and step.seq and step.is_system]
    if not told:
        return steps
    history = sorted((each for each in messages if each.seq), key=lambda each: each.seq)
    begins = next(
        (place for place, each in enumerate(history) if each.message["role"] not in SYSTEM_ROLES), len(history)
    )
    leading = {each.seq for each in history[:begins]}
    later = {id(step) for step in told if step.seq not in leading}
    placed, notes = list[HistoryStep](), list[HistoryStep]()
    for step in steps:
        if id(step) in later:
            notes.append(_as_note(step, writing, has_role=has_role))
        elif answers_call(step):  # results stand right behind their calls
            placed.append(step)
        else:
            placed += [*notes, step]
            notes = []
    return placed + notes


def _as_note(step: HistoryStep, writing: RequestWriting, *, has_role: bool) -> HistoryStep:
    """A system text in its place; as it is if it has no word."""
    if not isinstance(step, Said):
        return step
    words = [part for part in step.parts if (part.text or "").strip()]
    if not words:
        return step
    if has_role:
        return msgspec.structs.replace(step, role="note", parts=words)
    writing.mends.add(SYSTEM_NOTE, step.seq)
    first = words[0]
    noted = Part(first.place, {"type": "text", "text": NOTE})  # a part of its own, so that the text's tokens stay
    told = Part(
        first.place, {**first.body, "text": "".join(part.text or "" for part in step.parts)}
    )  # as a system text
    return msgspec.structs.replace(step, role="user", parts=[noted, told])


def sent_of(step: HistoryStep, made: Iterable[Block], writing: RequestWriting) -> Iterator[Block]:
    """Yield the own messages that are made of a step, and note them."""
    if isinstance(step, PlainRun):
        yield from made
        return
    for own in made:
        writing.mends.send(step.seq, own)
        yield own


def asks(steps: Iterable[HistoryStep]) -> bool:
    """Return whether the history has a user's message that came in this form."""
    return any(isinstance(step, NativeMessages) and step.role == "user" for step in steps)


def is_of(message: dict[str, Any], form: str) -> bool:
    """Whether a chat message came in this form."""
    native = message.get("native")
    return native is not None and native["format"] == form


def words(parts: Iterable[Part], writing: RequestWriting, whose: str) -> str:
    """Return the text of the parts as one string; other parts are refused."""
    return "".join(part.text or "" for part in only_text(parts, writing, whose))


def only_text(parts: Iterable[Part], writing: RequestWriting, whose: str) -> Iterator[Part]:
    """Yield the text parts; the others are refused, because the content of ``whose`` messages takes only text."""
    for part in parts:
        if part.text is None:
            writing.add(part.place, f"{whose} content is text alone")
        else:
            yield part


def tell_sounds(result: Result, writing: RequestWriting) -> list[Part]:
    """Return a result's parts with a line in place of each part that this form's results have no place for."""
    told = [
        part if part.body.get("type") in _OF_RESULTS else Part(part.place, as_line(part.body)) for part in result.parts
    ]
    if told != result.parts:
        writing.mends.add(AS_TEXT, result.seq)
    return told


def _taken(parts: list[Part], takes: Takes | None, seq: int, writing: RequestWriting) -> list[Part]:
    """The parts with a line in place of each medium that the form does not take. Notes these mends, and those of types."""
    if all(part.text is not None for part in parts):
        return parts
    found = []
    for part in parts:
        mend = _mend_of(part.body, takes)
        if mend is not None:
            writing.mends.add(mend, seq)
        found.append(part if mend in (None, MEDIA_TYPE) else Part(part.place, as_line(part.body), is_line=True))
    return found


def _mend_of(body: Block, takes: Takes | None) -> Mend | None:
    """The mend of a medium that is not sent as it came. A link to a video or a sound is read by chat completions alone."""
    if link_of(body) is not None or (takes is not None and takes.lacks(body)):
        return AS_TEXT
    if takes is None:
        return None
    return UNTAKEN if takes.refuses(body) else MEDIA_TYPE if takes.retypes(body) else None


def as_line(body: Block) -> Block:
    """Return the text part that tells an image, a file or a sound."""
    return {"type": "text", "text": media_line(body)}


class _Calls:
    """The open calls. An id may be used again in a history, also in one message: its results answer the calls in order."""

    def __init__(self, writing: RequestWriting, tidy: Callable[[str], str], renames: Mend | None) -> None:
        self._refusals = writing
        self._tidy = tidy
        self.renames = renames
        self._open: dict[tuple[str, str], list[Call]] = {}
        self._ids: set[str] = set()
        self._made = 0
        """Calls so far. A form without ids may have the same id again."""

    def follow(self, outgoing: Outgoing, *, as_it_came: bool) -> tuple[Call | None, list[Call]]:
        """Open and close the calls of a message. Returns the call that it answers, and the calls that it makes."""
        message = outgoing.message
        role = message["role"]
        if role in ("tool", "function"):
            key = message.get("tool_call_id" if role == "tool" else "name")
            waiting = self._open.pop((role, str(key)), [])
            if len(waiting) > 1:
                self._open[role, str(key)] = waiting[1:]
            return next(iter(waiting), None), []
        if role in ("assistant", "user") and self._open:  # a system message may stand between a call and its result
            self.close()
        return None, self._opened(outgoing, as_it_came=as_it_came) if role == "assistant" else []

    def group_at(self, messages: Sequence[Outgoing], index: int) -> list[Block]:
        """The tool group that begins at ``index``, which is noted; empty if it may not stand in a run."""
        message = messages[index].message
        given = message.get("tool_calls")
        if not given or len(message) != _USUAL or message["role"] != "assistant":
            return []
        waiting = {call["id"] for call in given if is_usual_call(call) and self._fits(call)}
        answers = [outgoing.message for outgoing in messages[index + 1 : index + 1 + len(given)]]
        answered = {each["tool_call_id"] for each in answers if _is_plain_result(each)}
        is_text = message.get("content") is None or type(message["content"]) is str
        if not is_text or not len(given) == len(answers) == len(waiting) or answered != waiting:
            return []
        self._ids |= waiting
        return [message, *answers]

    def _fits(self, call: Block) -> bool:
        """Whether a usual call is sent with its id and its name as they are."""
        given, name = call["id"], call["function"]["name"]
        return (
            call["type"] == "function"
            and given not in self._ids
            and 0 < len(given) <= _ID_LIMIT
            and 0 < len(name) <= _ID_LIMIT
            and self._tidy(given) == given
            and self._tidy(name) == name
        )

    def _opened(self, outgoing: Outgoing, *, as_it_came: bool) -> list[Call]:
        message, seq = outgoing.message, outgoing.seq
        calls = [
            self._open_call("tool", f"messages/{seq}/tool_calls/{index}", call, seq, as_it_came=as_it_came)
            for index, call in enumerate(message.get("tool_calls") or ())
        ]
        if legacy := message.get("function_call"):
            call = {"id": f"function_{seq}", "function": legacy}
            calls.append(self._open_call("function", f"messages/{seq}/function_call", call, seq, as_it_came=as_it_came))
        return calls

    def _open_call(self, role: str, place: str, tool_call: Block, seq: int, *, as_it_came: bool) -> Call:
        custom = tool_call.get("type") == "custom"
        body = tool_call.get("custom" if custom else "function") or {}
        given, name = str(tool_call.get("id", "")), str(body.get("name", ""))
        sent, order = self._unique(given, seq, as_it_came=as_it_came), self._made
        self._made += 1
        arguments = str(body.get("input" if custom else "arguments") or "")
        signature = signature_of(tool_call) if "extra_content" in tool_call else None
        call = Call(place, sent, name, arguments, custom, signature, order, as_it_came, given)
        self._open.setdefault((role, given if role == "tool" else name), []).append(call)
        return call

    def tell_renamed(self, made: list[Call], answered: Call | None, seq: int) -> bool:
        """Note the mend of a message with another id; return whether a call that it makes has one."""
        is_renamed = bool(made) and any(call.is_renamed for call in made)
        if self.renames and (is_renamed or (answered is not None and answered.is_renamed)):
            self._refusals.mends.add(self.renames, seq)
        return is_renamed

    def close(self) -> None:
        """Close the open calls. Those that are sent in another form must have had their results."""
        for call in chain.from_iterable(self._open.values()):
            if not call.as_it_came:
                self._refusals.add(call.place, "has no result before the next message")
        self._open.clear()

    def _unique(self, given: str, seq: int, *, as_it_came: bool = False) -> str:
        """Return ``given`` if it fits and is new, else an id with the message's seq, which is the same in every window."""
        found, again = given, 0
        keeps = as_it_came and self.renames is None
        # The length of an id that its own provider gave is fit.
        while not keeps and (
            found in self._ids or (not as_it_came and not 0 < len(found) <= _ID_LIMIT) or self._tidy(found) != found
        ):
            tidy = self._tidy(given)[:40] or "call"
            found = f"{tidy}_{seq}_{again}" if again else f"{tidy}_{seq}"
            again += 1
        self._ids.add(found)
        return found


def _parts(message: dict[str, Any], place: str) -> list[Part]:
    content = message.get("content")
    if isinstance(content, str):
        return [Part(f"{place}/content", {"type": "text", "text": content})] if content else []
    parts = [Part(f"{place}/content/{i}", _usual(part)) for i, part in enumerate(content or ())]
    return [part for part in parts if part.text != ""]


def _assistant_parts(message: dict[str, Any], place: str, writing: RequestWriting) -> list[Part]:
    parts = _parts(message, place)
    if refusal := message.get("refusal"):
        parts.append(Part(f"{place}/refusal", {"type": "text", "text": refusal}))
    match message.get("audio"):
        case dict(audio) if not parts:
            if isinstance(transcript := audio.get("transcript"), str):  # replies have it; OpenAI does not take it back
                return [Part(f"{place}/audio", {"type": "text", "text": transcript})] if transcript else []
            writing.add(f"{place}/audio", "is a spoken reply of which only OpenAI has the words")
    return parts


def _usual(part: dict[str, Any]) -> dict[str, Any]:
    """Return a refusal as a text, a compatible server's link to a file as a file, and a file that is a picture as one."""
    kind = part.get("type")
    if kind == "refusal":
        return {"type": "text", "text": part.get("refusal", "")}
    part = as_file(part) if kind in LINKS else part
    return as_picture(part) if "file" in part else part


def _named(message: dict[str, Any], parts: list[Part]) -> list[Part]:
    """Return the parts after a new part with the speaker's name, so that the text's own bytes do not change."""
    name = message.get("name")
    if not name or not parts:
        return parts
    return [Part(parts[0].place, {"type": "text", "text": f"{name}: "}), *parts]
