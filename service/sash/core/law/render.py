"""A window's ``request`` as bytes: stored bodies spliced into the arguments of a provider's SDK."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec

from sash.core.counts.beside import Beside
from sash.core.law.apart import Pieces
from sash.core.law.conversation_settings import FixedParts
from sash.core.law.grounding import Grounded, splice
from sash.core.law.notes import note_message, summary_message
from sash.core.law.records import StoredGrounding
from sash.core.law.runs import runs
from sash.core.law.window import Window
from sash.core.providers import CHAT, render_request
from sash.core.providers.chat_mends import CALLED, EMPTY_CONTENT, sent_as_chat
from sash.core.providers.mends import AS_TEXT, Mends
from sash.core.providers.pieces import Object
from sash.core.providers.turns import Outgoing, Refusals, is_of

_NULL = b'{"role":"assistant","content":null}'
"""A reply of which another provider gets nothing, such as thoughts alone. OpenAI refuses null without calls."""
_EMPTY = b'{"role":"assistant","content":""}'


class Marked(msgspec.Struct, frozen=True):
    """What is known of a window's messages that chat completions do not get as they are stored.

    ``beside`` are the native parts of messages in other formats, and ``odd`` what is refused (``chat_mends.oddities``), by
    seq. ``is_openais``: the window is for a model of OpenAI, ``is_strict``: of Mistral. ``hears``: it takes
    the id of a spoken reply. ``drops`` is as in ``Refusals``.
    """

    beside: Mapping[int, Beside] = MappingProxyType({})
    odd: Mapping[int, int] = MappingProxyType({})
    is_openais: bool = False
    is_strict: bool = False
    hears: bool = True
    drops: bool = False


_NOTHING: Final = Marked()


Body = bytes | Pieces
"""A message's JSON; in pieces where pictures or files have been put into their places."""


class Bodies(msgspec.Struct, frozen=True):
    """Bodies of a tail of messages, and of single messages before the tail."""

    first_seq: int
    tail: Sequence[Body]
    outside: Mapping[int, Body]
    edited: Mapping[int, bytes] = {}
    """Bodies of messages that are not sent as they were stored."""
    spans: Mapping[int, tuple[int, int]] = {}
    """Where the content's value stands in some of these, if it is not where it was."""

    def have(self, seqs: Sequence[int]) -> bool:
        """Whether the bodies of all ``seqs``, which are ascending, were read."""
        if not seqs or seqs[0] >= self.first_seq:
            return True
        return all(seq in self.outside for seq in seqs[: bisect_left(seqs, self.first_seq)])

    def body(self, seq: int) -> bytes:
        """One message's JSON as it is sent, before documents are added."""
        if seq in self.edited:
            return self.edited[seq]
        found = self.tail[seq - self.first_seq] if seq >= self.first_seq else self.outside[seq]
        return found if isinstance(found, bytes) else b"".join(found)

    def run(self, first: int, last: int) -> Sequence[Body]:
        """Bodies of messages ``first`` to ``last`` of the tail, as stored."""
        return self.tail[first - self.first_seq : last - self.first_seq + 1]


def chat_messages(
    parts: FixedParts,
    window: Window,
    bodies: Bodies,
    grounding: Mapping[int, StoredGrounding],
    marked: Marked = _NOTHING,
    mends: Mends | None = None,
) -> list[Body]:
    """The window's messages for chat completions, as JSON. Only messages that are ``marked`` as odd are decoded.

    ``mends`` gathers the changes. Raises FormatCannotCarry.
    """
    lines = _lines(window) if window.summary is not None or window.note else ()
    kept = sent_bodies(window, bodies, grounding)
    few_shots: Sequence[Body] = parts.few_shots
    mends = Mends() if mends is None else mends
    if marked is not _NOTHING:
        changes = Mends()
        kept = _chat_forms(window, kept, marked, bodies.edited, changes) if marked.beside else kept
        kept = _as_taken(window.seqs, kept, marked, changes) if marked.odd else kept
        for seq, told in changes.told.items():
            mends.add_names(told, window.name(seq))
    if parts.odd_shots:
        odd = dict(enumerate(parts.odd_shots))
        shots = msgspec.structs.replace(marked, odd={place: bits for place, bits in odd.items() if bits})
        found = Mends()
        few_shots = _as_taken(range(len(few_shots)), few_shots, shots, found)
        mends.add_names(found.reasons(), 0)
    seqs: Sequence[int] = window.seqs
    if window.recalled is not None and window.recalled.block:
        place = window.recalled.place(seqs)
        seqs = [*seqs[:place], 0, *seqs[place:]]
        kept.insert(place, window.recalled.block)
    if window.lines:
        _, kept = _with_lines(window, seqs, kept)
        kept = _fitted(window, kept, marked) if marked.is_openais and marked.odd else kept
    return [*parts.system, *few_shots, *lines, *kept] or [b""]


def chat_request(parts: FixedParts, messages: list[Body], *, before: bytes = b"", after: bytes = b"") -> bytes:
    """``before``, the ``request`` of these messages for chat completions, and ``after``. All bytes are copied once."""
    tools = b',"tools":' + parts.tools if parts.tools else b""
    choice = b',"tool_choice":' + parts.tool_choice if parts.tools and parts.tool_choice else b""
    head, end = before + b'{"messages":[', b"".join((b"]", tools, choice, b"}", after))
    first = messages[0]
    messages[0] = head + first if isinstance(first, bytes) else (head, *first)
    last = messages[-1]
    messages[-1] = last + end if isinstance(last, bytes) else (*last, end)
    try:
        return b",".join(messages)  # type: ignore[arg-type] # as nearly always
    except TypeError:
        return _joined(messages)


def _joined(bodies: Sequence[Body]) -> bytes:
    """The bodies, of which some may be in pieces, with commas between them."""
    pieces = [piece for body in bodies for piece in (b",", *((body,) if isinstance(body, bytes) else body))]
    return b"".join(pieces[1:])


def _whole(body: Body) -> bytes:
    return body if isinstance(body, bytes) else b"".join(body)


def _as_taken(seqs: Sequence[int], bodies: Sequence[Body], marked: Marked, mends: Mends) -> list[Body]:
    """Bodies of which the odd ones are changed so that the provider accepts them."""
    forms = list(bodies)
    for index, seq in enumerate(seqs):
        if odd := marked.odd.get(seq):
            message, changes = sent_as_chat(
                msgspec.json.decode(_whole(forms[index])),
                odd,
                is_openais=marked.is_openais,
                is_strict=marked.is_strict,
                hears=marked.hears,
            )
            if changes:
                forms[index] = msgspec.json.encode(message)
                mends.add_names((mend.name for mend in changes), seq)
    return forms


def _chat_forms(
    window: Window, bodies: Sequence[Body], marked: Marked, edited: Mapping[int, bytes], mends: Mends
) -> list[Body]:
    """Bodies without native parts; ``edited`` bodies have none. Raises FormatCannotCarry if content would be lost."""
    refusals = Refusals(CHAT, mends, drops=marked.drops)
    forms = list(bodies)
    for index, seq in enumerate(window.seqs):
        if found := marked.beside.get(seq):
            if found.told:
                mends.add(AS_TEXT, seq)
            if seq not in edited:
                forms[index] = _whole(forms[index])[: -found.size - 1] + b"}"
            if forms[index] == _NULL:
                forms[index] = _EMPTY
                mends.add(EMPTY_CONTENT, seq)
            if found.only:
                refusals.add_only(f"messages/{window.name(seq)}", found.only, found.format)
    refusals.check()
    return forms


def other_request(
    form: str,
    parts: FixedParts,
    window: Window,
    bodies: Bodies,
    grounding: Mapping[int, StoredGrounding],
    mends: Mends,
    *,
    model: str = "",
    drops: bool = False,
    hinted: bool = False,
) -> Object:
    """``request`` in another provider's format, to be encoded; ``mends`` gathers its mends. Raises FormatCannotCarry.

    ``drops`` and ``model`` are as in ``Refusals``.
    """
    fixed: Sequence[Body] = (*parts.few_shots, *_lines(window))
    seqs, kept = [0] * len(fixed) + list(window.seqs), [*fixed, *sent_bodies(window, bodies, grounding)]
    if window.recalled is not None and window.recalled.block:
        place = len(fixed) + window.recalled.place(window.seqs)
        seqs.insert(place, 0)
        kept.insert(place, window.recalled.block)
    if window.lines:
        seqs, kept = _with_lines(window, seqs, kept)
    outgoing = [Outgoing(0, message) for message in _decoded(parts.system)]
    told = [*map(Outgoing, seqs, _decoded(kept))]
    if window.grounding:
        told = [_with_documents_beside(each, form, window, bodies) for each in told]
    if window.names:
        told = [msgspec.structs.replace(each, seq=window.name(each.seq)) for each in told]
    if window.summary is not None and window.summary.compaction is not None:
        outgoing.append(Outgoing(window.summary.seq, window.summary.compaction, begins=True))
    outgoing += told
    tools: Any = parts.fixed.tools
    choice = parts.fixed.tool_choice
    return render_request(
        form, outgoing, tools=tools, tool_choice=choice, mends=mends, model=model, drops=drops, hinted=hinted
    )


def _with_lines(window: Window, seqs: Sequence[int], bodies: Sequence[Body]) -> tuple[list[int], list[Body]]:
    """The messages with the lines behind them, which have their seqs."""
    told = [(seq, each) for seq, body in zip(seqs, bodies, strict=True) for each in (body, *window.lines.get(seq, ()))]
    return [seq for seq, _ in told], [body for _, body in told]


def _fitted(window: Window, bodies: Sequence[Body], marked: Marked) -> list[Body]:
    """Bodies of which the lines have the ids and names of their calls as these are sent."""
    lines = {line for behind in window.lines.values() for line in behind}
    fits = msgspec.structs.replace(marked, odd={0: CALLED})
    return [
        _as_taken((0,), (each,), fits, Mends())[0] if isinstance(each, bytes) and each in lines else each
        for each in bodies
    ]


def _decoded(bodies: Sequence[Body]) -> list[Object]:
    messages: list[Object] = msgspec.json.decode(b"[" + b",".join(map(_whole, bodies)) + b"]")
    return messages


def _with_documents_beside(outgoing: Outgoing, form: str, window: Window, bodies: Bodies) -> Outgoing:
    """A message that is sent as it came, with its documents beside it in place of those in its content."""
    chosen = window.grounding.get(outgoing.seq)
    if chosen is None or not is_of(outgoing.message, form):
        return outgoing
    return Outgoing(outgoing.seq, msgspec.json.decode(bodies.body(outgoing.seq)), chosen.before, chosen.after)


def _lines(window: Window) -> tuple[bytes, ...]:
    lines = []
    if window.summary is not None and window.summary.compaction is None:
        lines.append(msgspec.json.encode(summary_message(window.summary.text)))
    if window.note:
        lines.append(msgspec.json.encode(note_message(window.note)))
    return tuple(lines)


def sent_bodies(window: Window, bodies: Bodies, grounding: Mapping[int, StoredGrounding]) -> list[Body]:
    """The kept messages in order. Runs of consecutive messages in the tail are copied as slices."""
    pieces: list[Body] = []
    seqs = window.seqs
    if seqs and not window.grounding and seqs[0] >= bodies.first_seq and seqs[-1] - seqs[0] == len(seqs) - 1:
        start = seqs[0] - bodies.first_seq
        pieces += bodies.tail[start : start + len(seqs)]
        for seq in bodies.edited.keys() & set(seqs) if bodies.edited else ():
            pieces[seq - seqs[0]] = bodies.edited[seq]
        return pieces
    start = 0
    for index in (*_apart(window, bodies), len(seqs)):
        for first, last in runs(seqs, start, index):
            pieces += bodies.run(first, last)
        if index < len(seqs):
            seq = seqs[index]
            pieces.append(_with_documents(bodies, seq, window.grounding.get(seq), grounding.get(seq)))
        start = index + 1
    return pieces


def _apart(window: Window, bodies: Bodies) -> list[int]:
    """Places in the window of messages that are not part of a run: before the tail, edited, or with documents."""
    seqs = window.seqs
    before = bisect_left(seqs, bodies.first_seq)
    apart = sorted(bisect_left(seqs, seq) for seq in window.grounding.keys() | bodies.edited.keys())
    return [*range(before), *(index for index in apart if index >= before)]


def _with_documents(bodies: Bodies, seq: int, chosen: Grounded | None, stored: StoredGrounding | None) -> bytes:
    body = bodies.body(seq)
    if chosen is None or stored is None:
        return body
    start, end = bodies.spans.get(seq, (stored.start, stored.end))
    return splice(body, start, end, chosen.before, chosen.after)
