"""The window as bytes: stored bodies spliced into the request that a provider's SDK takes."""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

import msgspec

from service.core.formats import Outgoing, render_request
from service.core.grounding import Grounded, splice
from service.core.notes import note_message, summary_message
from service.core.records import Record, StoredGrounding
from service.core.settings import FixedParts
from service.core.window import Window


class Bodies(msgspec.Struct, frozen=True):
    """Bodies of a tail as they were read, joined with commas, and those of messages before it."""

    first_seq: int
    offsets: list[int]
    """Where each body begins, and one more: where the next would."""
    joined: bytes
    outside: Mapping[int, bytes]

    def body(self, seq: int) -> bytes:
        """One message's JSON."""
        if seq < self.first_seq:
            return self.outside[seq]
        index = seq - self.first_seq
        return self.joined[self.offsets[index] : self.offsets[index + 1] - 1]

    def run(self, first: int, last: int) -> bytes:
        """Messages ``first`` to ``last`` of the tail, joined: one slice."""
        return self.joined[self.offsets[first - self.first_seq] : self.offsets[last - self.first_seq + 1] - 1]


def join_bodies(first_seq: int, records: Sequence[Record], joined: bytes, outside: Mapping[int, bytes]) -> Bodies:
    """The bodies of ``records``, whose sizes tell where each begins."""
    offsets = [0, *accumulate(record.size + 1 for record in records)]
    return Bodies(first_seq, offsets, joined, outside)


def render_openai(parts: FixedParts, window: Window, bodies: Bodies, grounding: Mapping[int, StoredGrounding]) -> bytes:
    """``request`` for chat completions, from bytes: nothing is decoded."""
    messages = (*parts.system, *parts.few_shots, *_lines(window), *_kept(window, bodies, grounding))
    request = b'{"messages":[' + b",".join(messages) + b"]"
    if parts.tools:
        request += b',"tools":' + parts.tools
        if parts.tool_choice:
            request += b',"tool_choice":' + parts.tool_choice
    return request + b"}"


def render_other(
    form: str, parts: FixedParts, window: Window, bodies: Bodies, grounding: Mapping[int, StoredGrounding]
) -> bytes:
    """``request`` in another provider's form. Raises FormatCannotCarry."""
    fixed = [*parts.system, *parts.few_shots, *_lines(window)]
    outgoing = [Outgoing(seq=0, message=msgspec.json.decode(body)) for body in fixed]
    for seq in window.seqs:
        body = _with_documents(bodies.body(seq), window.grounding.get(seq), grounding.get(seq))
        outgoing.append(Outgoing(seq=seq, message=msgspec.json.decode(body)))
    tools: Any = parts.fixed.tools
    return msgspec.json.encode(render_request(form, outgoing, tools=tools, tool_choice=parts.fixed.tool_choice))


def _lines(window: Window) -> tuple[bytes, ...]:
    lines = []
    if window.summary is not None:
        lines.append(msgspec.json.encode(summary_message(window.summary.text)))
    if window.note:
        lines.append(msgspec.json.encode(note_message(window.note)))
    return tuple(lines)


def _kept(window: Window, bodies: Bodies, grounding: Mapping[int, StoredGrounding]) -> list[bytes]:
    """Kept messages in order; neighbours of the tail leave as one slice."""
    pieces: list[bytes] = []
    run: list[int] = []  # first and last seq of the slice that grows

    def end_run() -> None:
        if run:
            pieces.append(bodies.run(run[0], run[1]))
            run.clear()

    for seq in window.seqs:
        if seq < bodies.first_seq or seq in window.grounding:
            end_run()
            pieces.append(_with_documents(bodies.body(seq), window.grounding.get(seq), grounding.get(seq)))
        elif run and run[1] == seq - 1:
            run[1] = seq
        else:
            end_run()
            run[:] = (seq, seq)
    end_run()
    return pieces


def _with_documents(body: bytes, chosen: Grounded | None, stored: StoredGrounding | None) -> bytes:
    if chosen is None or stored is None:
        return body
    return splice(body, stored.start, stored.end, chosen.before, chosen.after)
