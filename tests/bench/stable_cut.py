"""What a stable cut saves: ``python -m tests.bench.stable_cut [DIRECTORY]`` prints the table.

The conversations are those of the data set (``tests/recordings.py``) or of DIRECTORY/*.jsonl: one a line, in the append
format. A *turn* is what a chat asks for: one window at every user message, the newest message then, with its documents. A
conversation is *long* when its messages alone cost more than the budget, and only its turns from the first that leaves
something out are counted: before, every way is the same. *Reuse* is the part of a window's tokens that are, byte for
byte, the beginning of the request before: what a provider's prompt cache can serve. *Fill* is a window's tokens as a part
of the budget. *Cost* is what a turn's input costs, in budgets, when a cached token costs a tenth.
"""

import argparse
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from service.core.counting import message_tokens, reference_tokens
from service.core.documents import Documents, Source
from service.core.grounding import splice
from service.core.measures import measure
from service.core.messages import Entry, calls_of, parallel_flags
from service.core.models import Model, find_model
from service.core.parameters import WindowQuery
from service.core.records import Flags, Record, Records
from service.core.settings import ConversationSettings, FixedParts, fixed_parts
from service.core.units import USER
from service.core.view import History
from service.core.window import Window, build_window
from service.store.entries import prepare
from service.store.layout import decode_grounding
from service.store.messages import NewEntry
from tests.recordings import DATA, NO_DATA

CACHED_PRICE = 0.1

WAYS: dict[str, WindowQuery] = {
    "naive tail": WindowQuery(),
    "stable, step 0.1": WindowQuery(stable=True, stable_step=0.1),
    "stable, step 0.25": WindowQuery(stable=True, stable_step=0.25),
    "stable, step 0.5": WindowQuery(stable=True, stable_step=0.5),
}


class Conversation(msgspec.Struct):
    """A line of the data."""

    id: str
    entries: list[Entry]
    system: str | None = None
    tools: list[dict[str, Any]] | None = None


class Turn(msgspec.Struct, frozen=True):
    """One request: each of its parts as bytes with its tokens, in order, and whether history was left out."""

    parts: list[tuple[bytes, int]]
    cut: bool

    @property
    def tokens(self) -> int:
        return sum(tokens for _, tokens in self.parts)


class Figures(msgspec.Struct, frozen=True):
    """What a way of cutting comes to: means over ``turns``, and how often history began elsewhere than before."""

    turns: int
    reuse: float
    fill: float
    cost: float
    moves: int


def read(path: Path) -> Iterator[Conversation]:
    decoder = msgspec.json.Decoder(Conversation)
    return map(decoder.decode, path.read_bytes().splitlines())


def turns_of(conversation: Conversation, model: Model, budget: int, options: WindowQuery) -> list[Turn]:
    """The request of every user message, in order."""
    fixed = fixed_parts(ConversationSettings(system=conversation.system, tools=conversation.tools))
    messages = [entry.message for entry in conversation.entries]
    flags = parallel_flags([calls_of(m) for m in messages], [""] * len(messages))
    new = prepare(conversation.entries, fixed.template, now_ms=0)
    records = [
        msgspec.structs.replace(record, flags=record.flags | Flags.PARALLEL) if parallel else record
        for record, parallel in zip((entry.record for entry in new), flags, strict=True)
    ]
    column = 0 if model.encoding == "o200k_base" else 1
    turns, tokens = [], 0
    for length, record in enumerate(records, 1):
        tokens += reference_tokens(record.measure, parallel=record.parallel)[column]
        if record.measure.role != USER:
            continue
        window = build_window(
            History(1, Records.of(records[:length]), {}, length, column, tokens, 0, 0, question=length),
            model=model,
            budget=budget,
            fixed=fixed.fixed,
            options=options,
            documents=Documents(_sources(new[length - 1], record, length), fixed.template),
        )
        assert isinstance(window, Window)
        turns.append(_turn(fixed, window, model, records, new))
    return turns


def _sources(asked: NewEntry, record: Record, seq: int) -> dict[int, Source]:
    if not asked.grounding:
        return {}
    stored = decode_grounding(asked.grounding)
    return {seq: Source(stored, asked.body[stored.start : stored.end], record)}


def _turn(fixed: FixedParts, window: Window, model: Model, records: list[Record], new: list[NewEntry]) -> Turn:
    """The request in the order in which a provider caches it: definitions, fixed messages, then history."""
    tokens = window.tokens
    parts = [(fixed.tools, tokens["priming"] + tokens["tools"]), (b"".join(fixed.system), tokens["system"])]
    for seq in window.seqs:
        record, body = records[seq - 1], new[seq - 1].body
        cost = message_tokens(record.measure, model, parallel=record.parallel)
        if sent := window.grounding.get(seq):
            stored = decode_grounding(new[seq - 1].grounding)
            body = splice(body, stored.start, stored.end, sent.before, sent.after)
            cost += tokens["grounding"]
        parts.append((body, cost))
    turn = Turn(parts, cut=window.dropped["messages"] > 0)
    assert turn.tokens == tokens["total"]
    return turn


def figures(all_turns: Sequence[Sequence[Turn]], budget: int) -> Figures:
    """Means over the turns from the first of each conversation that leaves something out."""
    reuse, fill, cost, moves = [], [], [], 0
    for turns in all_turns:
        for before, after in pairwise(turns):
            if not after.cut:
                continue
            cached = _common_tokens(before, after)
            reuse.append(cached / after.tokens)
            fill.append(after.tokens / budget)
            cost.append((after.tokens - cached + CACHED_PRICE * cached) / budget)
            moves += before.parts[2][0] != after.parts[2][0]
    count = max(1, len(reuse))
    return Figures(count, sum(reuse) / count, sum(fill) / count, sum(cost) / count, moves)


def _common_tokens(before: Turn, after: Turn) -> int:
    """Tokens of the messages at the beginning of ``after`` that are the beginning of ``before`` too."""
    tokens = 0
    for (old, _), (new, cost) in zip(before.parts, after.parts, strict=False):
        if old != new:
            break
        tokens += cost
    return tokens


def longer_than(conversation: Conversation, model: Model, budget: int) -> bool:
    return sum(message_tokens(measure(entry.message), model) for entry in conversation.entries) > budget


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what a stable cut saves.")
    parser.add_argument("directory", nargs="?", type=Path, default=DATA)
    parser.add_argument("--budget", type=int, default=8000)
    parser.add_argument("--model", default="gpt-4o-mini")
    wanted = parser.parse_args()
    model = find_model(wanted.model)
    files = {path.stem: list(read(path)) for path in sorted(wanted.directory.glob("sgd_*.jsonl"))}
    if not files:
        parser.exit(1, f"{NO_DATA}\n")
    table = Table(title=f"{wanted.model}, {wanted.budget:,} tokens, conversations longer than that")
    for column in ("conversations", "way", "turns", "reuse", "fill", "cost a turn", "cut moves"):
        table.add_column(column, justify="left" if column in ("conversations", "way") else "right")
    for name, options in WAYS.items():
        turns: dict[str, list[list[Turn]]] = {}
        for stem, conversations in files.items():
            long = [c for c in conversations if longer_than(c, model, wanted.budget)]
            turns[f"{stem} ({len(long)})"] = [turns_of(c, model, wanted.budget, options) for c in long]
        together = list(chain.from_iterable(turns.values()))
        for group, found in (*turns.items(), (f"all ({len(together)})", together)):
            row = figures(found, wanted.budget)
            shares = (f"{row.reuse:.1%}", f"{row.fill:.1%}", f"{row.cost:.3f}")
            table.add_row(group, name, f"{row.turns:,}", *shares, f"{row.moves:,}")
        table.add_section()
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
