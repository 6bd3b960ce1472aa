"""A window's ``request`` as bytes: stored bodies spliced into the arguments of a provider's SDK."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from types import MappingProxyType
from typing import Final

import msgspec

from sash.core.counts.measures.native_parts import NativeParts
from sash.core.law.documents.grounding import splice
from sash.core.law.fixed_parts.fixed import FixedParts
from sash.core.law.history.notes import note_message, summary_message
from sash.core.law.selection.window import Window
from sash.core.providers import CHAT
from sash.core.providers.messages.mends import AS_TEXT, Mends
from sash.core.providers.messages.owed_reasoning import NO_REASONING
from sash.core.providers.messages.pieces import Object
from sash.core.providers.messages.reasoning_members import PLAIN
from sash.core.providers.openai.chat_mends import CALLED, EMPTY_CONTENT, IDS, sent_as_chat
from sash.core.providers.openai.server_mends import (
    IDENTITY,
    LISTS,
    WORDLESS,
    has_list,
    in_alternation,
    mended_for_servers,
    whole_body,
    with_system_first,
    with_user_first,
)
from sash.core.providers.openai.single_calls import with_calls_apart, with_words_apart
from sash.core.providers.openai.twin_calls import with_own_ids
from sash.core.providers.writing.turns import Outgoing, RequestWriting, is_of
from sash.core.stored.split_media import Pieces
from sash.core.stored.stored_grounding import StoredGrounding

_NULL = b'{"role":"assistant","content":null}'
"""A reply that had reasoning alone, once its native parts are cut off. OpenAI refuses null without calls."""
_EMPTY = b'{"role":"assistant","content":""}'
_OF_SERVERS: Final = (with_system_first, in_alternation, with_user_first, with_calls_apart, with_words_apart)
"""What servers of chat completions want of messages together."""


class Marked(msgspec.Struct, frozen=True):
    """What is known of a window's messages that chat completions do not get as they are stored.

    ``mends`` gathers their changes. ``beside`` are the native parts of messages in other formats, and ``odd`` what is
    refused (``chat_mends.oddities``, and ``server_mends``), by seq. ``maker`` and ``model`` name the model that reads the
    window, and ``refused`` is what its server refuses in single messages. ``drops``: as in ``RequestWriting``.
    """

    mends: Mends
    beside: Mapping[int, NativeParts] = MappingProxyType({})
    odd: Mapping[int, int] = MappingProxyType({})
    maker: str = ""
    model: str = ""
    refused: int = 0
    drops: bool = False


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
        return self.outside.keys() >= {*seqs[: bisect_left(seqs, self.first_seq)]}

    def body(self, seq: int) -> bytes:
        """One message's JSON as it is sent, before documents are added."""
        if seq in self.edited:
            return self.edited[seq]
        body = self.tail[seq - self.first_seq] if seq >= self.first_seq else self.outside[seq]
        return body if isinstance(body, bytes) else b"".join(body)

    def of(self, seqs: Iterable[int]) -> list[Body]:
        """Bodies of these messages, as stored."""
        first, tail, outside = self.first_seq, self.tail, self.outside
        return [tail[seq - first] if seq >= first else outside[seq] for seq in seqs]


def chat_messages(
    parts: FixedParts,
    window: Window,
    bodies: Bodies,
    grounding: Mapping[int, StoredGrounding],
    marked: Marked | None = None,
) -> list[Body]:
    """The window's messages for chat completions, as JSON. Only messages that are ``marked`` as odd are decoded.

    Raises FormatCannotCarry.
    """
    few_shots: Sequence[Body] = parts.sent_few_shots
    lines: Mapping[int, Sequence[Body]] = window.lines
    kept = sent_bodies(window, bodies, grounding)
    if marked is not None:
        if refused := marked.refused & LISTS:  # which no number of a message tells
            lists = [seq for seq, body in zip(window.seqs, kept, strict=True) if has_list(body)]
            odd = {seq: marked.odd.get(seq, 0) | refused for seq in lists}
            marked = msgspec.structs.replace(marked, odd={**marked.odd, **odd})
        few_shots, kept, lines = _as_marked(parts, window, bodies, kept, marked)
    if lines or window.recalled is not None:
        _, kept = _with_others(window, kept, lines)
    said = _lines(window) if window.summary is not None or window.note else ()
    sent = [*parts.sent_system, *few_shots, *said, *kept]
    if marked is not None:
        sent = [body for body in sent if body]
        if any(map(IDS.__and__, (*marked.odd.values(), *parts.odd_shots))):
            sent = with_own_ids(sent, marked.mends, are_short=bool(marked.refused & IDENTITY))
        for changed in _OF_SERVERS if marked.refused else ():
            sent = changed(sent, marked.maker, marked.model, marked.mends)
    return sent or [b""]


def _as_marked(
    parts: FixedParts, window: Window, bodies: Bodies, kept: list[Body], marked: Marked
) -> tuple[Sequence[Body], list[Body], Mapping[int, Sequence[Body]]]:
    """The few-shots, the messages and the lines behind these, as the provider takes each."""
    writing = RequestWriting(CHAT, marked.mends, drops=marked.drops)
    lines: Mapping[int, Sequence[Body]] = window.lines
    for index, seq in enumerate(window.seqs if marked.beside or marked.odd else ()):
        if found := marked.beside.get(seq):
            kept[index] = _without_native(kept[index], seq, found, writing, is_edited=seq in bodies.edited)
        kept[index] = _as_taken(kept[index], marked.odd.get(seq, 0), marked, seq)
    writing.check()
    if lines and marked.odd:  # they have the ids and names of their calls as these are sent
        called, aside = CALLED | IDENTITY & marked.refused, msgspec.structs.replace(marked, mends=Mends())
        lines = {seq: [_as_taken(each, called, aside, 0) for each in lines[seq]] for seq in lines}
    shots = zip(parts.sent_few_shots, parts.odd_shots or repeat(0), strict=False)
    return [_as_taken(body, odd | marked.refused, marked, 0) for body, odd in shots], kept, lines


def chat_request(parts: FixedParts, messages: list[Body], before: bytes = b"") -> bytes:
    """``before``, and the ``request`` of these messages for chat completions."""
    head, first = before + b'{"messages":[', messages[0]
    messages[0] = head + first if isinstance(first, bytes) else (head, *first)
    last = messages[-1]
    messages[-1] = last + parts.chat_end if isinstance(last, bytes) else (*last, parts.chat_end)
    return _listed(messages)


def _listed(bodies: Sequence[Body]) -> bytes:
    """The bodies with commas between them. All bytes are copied once."""
    try:
        return b",".join(bodies)  # type: ignore[arg-type] # as nearly always
    except TypeError:  # some are in pieces
        pieces = [piece for body in bodies for piece in (b",", *((body,) if isinstance(body, bytes) else body))]
        return b"".join(pieces[1:])


def _without_native(body: Body, seq: int, found: NativeParts, writing: RequestWriting, *, is_edited: bool) -> Body:
    """A body without its native parts, which an edited one has not."""
    if found.told:
        writing.mends.add(AS_TEXT, seq)
    if not is_edited:
        body = whole_body(body)[: -found.size - 1] + b"}"
    if body == _NULL:
        body = _EMPTY
        writing.mends.add(EMPTY_CONTENT, seq)
    writing.add_only(f"messages/{seq}", found.only, found.format)
    return body


def _as_taken(body: Body, odd: int, marked: Marked, seq: int) -> Body:
    """A body that is changed so that the provider accepts it, empty if it is left out. ``odd`` is what is refused in it."""
    if not odd:
        return body
    body, mends = whole_body(body), marked.mends
    message, changes = sent_as_chat(msgspec.json.decode(body), odd, marked.maker, marked.model)
    left, more = mended_for_servers(message, odd | marked.refused & WORDLESS)  # its words may have been blanks
    if not (changes or more):
        return body
    mends.add_names((mend.name for mend in (*changes, *more)), seq)
    told = left
    if left is not None and NO_REASONING in more:  # each call without reasoning is priced with its blank
        told = {name: left[name] for name in left if name not in PLAIN}
    if not seq:
        mends.joins.append(([msgspec.json.decode(body)], told))
    if left is None or told is None:
        mends.sent[seq] = []
        mends.changed.add(seq)
        return b""
    if any(not mend.is_free for mend in (*changes, *more)):
        mends.changed.add(seq)
        mends.send(seq, told)
    return msgspec.json.encode(left)


def other_messages(
    form: str, parts: FixedParts, window: Window, bodies: Bodies, grounding: Mapping[int, StoredGrounding]
) -> list[Outgoing]:
    """The window's messages for another provider's format."""
    said = _lines(window) if window.summary is not None or window.note else ()
    fixed: Sequence[Body] = (*parts.sent_few_shots, *said)
    seqs, kept = _with_others(window, sent_bodies(window, bodies, grounding), window.lines)
    outgoing = [Outgoing(0, message) for message in _decoded(parts.sent_system)]
    told = [*map(Outgoing, [0] * len(fixed) + seqs, _decoded([*fixed, *kept]))]
    if window.grounding:
        told = [_with_documents_beside(each, form, window, bodies) for each in told]
    if window.summary is not None and window.summary.compaction is not None:
        outgoing.append(Outgoing(window.summary.seq, window.summary.compaction, begins=True))
    return outgoing + told


def _with_others(
    window: Window, bodies: list[Body], lines: Mapping[int, Sequence[Body]]
) -> tuple[list[int], list[Body]]:
    """The seqs and bodies of the window's messages, with the recalled ones as a block, whose seq is 0, and with the lines
    behind their calls, whose seqs they have."""
    seqs = list(window.seqs)
    if window.recalled is not None and window.recalled.block:
        seqs.insert(window.recalled.place, 0)
        bodies.insert(window.recalled.place, window.recalled.block)
    if lines:
        told = [(seq, each) for seq, body in zip(seqs, bodies, strict=True) for each in (body, *lines.get(seq, ()))]
        seqs, bodies = [seq for seq, _ in told], [body for _, body in told]
    return seqs, bodies


def _decoded(bodies: Sequence[Body]) -> list[Object]:
    messages: list[Object] = msgspec.json.decode(b"[" + _listed(bodies) + b"]")
    return messages


def _with_documents_beside(outgoing: Outgoing, form: str, window: Window, bodies: Bodies) -> Outgoing:
    """A message that is sent as it came, with its documents beside it in place of those in its content."""
    chosen = window.grounding.get(outgoing.seq)
    if chosen is None or not is_of(outgoing.message, form):
        return outgoing
    return Outgoing(outgoing.seq, msgspec.json.decode(bodies.body(outgoing.seq)), chosen.before, chosen.after)


def _lines(window: Window) -> tuple[bytes, ...]:
    summary = window.summary
    lines = [summary_message(summary.text)] if summary is not None and summary.compaction is None else []
    lines += [note_message(window.note)] if window.note else []
    return tuple(map(msgspec.json.encode, lines))


def sent_bodies(window: Window, bodies: Bodies, grounding: Mapping[int, StoredGrounding]) -> list[Body]:
    """The kept messages in order, with their documents."""
    seqs, first_seq = window.seqs, bodies.first_seq
    start, end = (seqs[0] - first_seq, seqs[-1] - first_seq + 1) if seqs else (0, 0)
    is_run = start >= 0 and end - start == len(seqs) and not window.is_moved  # as nearly always
    kept = [*bodies.tail[start:end]] if is_run else bodies.of(seqs)
    if not (bodies.edited or window.grounding):
        return kept
    for seq in bodies.edited.keys() | window.grounding.keys():
        place = seqs.index(seq) if window.is_moved else bisect_left(seqs, seq)
        if place < len(seqs) and seqs[place] == seq:
            kept[place] = body = bodies.edited.get(seq) or bodies.body(seq)
            if chosen := window.grounding.get(seq):
                start, end = bodies.spans.get(seq) or (grounding[seq].start, grounding[seq].end)
                kept[place] = splice(body, start, end, chosen.before, chosen.after)
    return kept
