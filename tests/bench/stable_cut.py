"""What a stable cut saves: ``python -m tests.bench.stable_cut [DIRECTORY]`` prints both tables.

The conversations are those of the data set (``tests/recordings.py``) or of DIRECTORY/sgd_*.jsonl: one a line, in the append
format. A *turn* is one window, requested when a user message with its documents is the newest message. A conversation is
*long* when its messages alone cost more than the budget; only its turns that leave history out are counted, because the
others are the same in every way of cutting. *Reuse* is the part of a window's tokens that are, byte for byte, the beginning
of the request before. *Fill* is a window's tokens as a part of the budget. *Cost* is the cost of a turn's input, in budgets
of uncached tokens: a simulator of the provider's rules (``replays/prompt_cache.py``) tells what is read and written, at
genai-prices' prices, with the hints of ``cache=auto`` and a pause between turns.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import msgspec

from sash.core.chat.messages import Entry
from sash.core.chat.tool_groups import Place, calls_of
from sash.core.chat.tool_groups import places_of as places_among
from sash.core.counts.costs.counting import message_tokens, reference_tokens
from sash.core.counts.measures.measures import measure
from sash.core.counts.models.families import USER
from sash.core.counts.models.models import Model, find_model
from sash.core.law.build import build_window
from sash.core.law.documents.document_costs import Source
from sash.core.law.documents.documents import Documents
from sash.core.law.fixed_parts.conversation_settings import ConversationSettings, fixed_parts
from sash.core.law.fixed_parts.plan import Plan, WindowSpec
from sash.core.law.history.view import History
from sash.core.law.records.costs import message_costs
from sash.core.law.records.parameters import WindowQuery
from sash.core.law.records.records import Records
from sash.core.law.selection.caching import caching_of
from sash.core.law.selection.window import Window
from sash.core.measured_entries import in_place
from sash.core.providers.form.cache_marks import CacheKind, Caching
from sash.core.stored.record import Record
from sash.core.stored.stored_grounding import decode_grounding
from sash.store.data.entries import NewEntry, prepare
from sash.windows.cache_hints import places_of
from sash_tools.replays.prompt_cache import Block, PromptCache
from sash_tools.replays.window_blocks import CachedWindow, blocks_of_window
from tests.recordings import DATA, NO_DATA

MODELS = (
    "gpt-4o-mini",
    "gpt-5.2",
    "gpt-5.6-sol",
    "gpt-6.1-sol",
    "claude-haiku-4-5",
    "claude-sonnet-5",
    "claude-opus-5-5",
    "gemini-2.5-flash",
    "gemini-3.8-flash",
    "gemini-4-argon",
    "deepseek-v4-flash",
    "grok-4.7",
    "mistral-large-4",
)
"""Models that cover each vendor and each of its cache rules."""
KINDS: tuple[CacheKind, ...] = ("implicit", "breakpoints", "cache_control")
WAYS: dict[str, WindowQuery] = {
    "sliding": WindowQuery(),
    "step 0.1": WindowQuery(stable=True, stable_step=0.1),
    "step 0.25": WindowQuery(stable=True, stable_step=0.25),
    "step 0.5": WindowQuery(stable=True, stable_step=0.5),
}


class Conversation(msgspec.Struct):
    """A line of the data."""

    id: str
    entries: list[Entry] = []
    messages: list[Entry] = []
    system: str | None = None
    tools: list[dict[str, Any]] | None = None


class Turn(msgspec.Struct, frozen=True):
    """One request: its blocks in the order of caching, with the marks of hints, by the kind of cache."""

    blocks: Mapping[CacheKind, list[Block]]
    tokens: int
    cut: bool
    """Whether history was left out."""
    first: int
    """The seq of the first message."""


class Figures(msgspec.Struct, frozen=True):
    """Results of a way of cutting: means over ``turns``, and how often the window's first message of history changed."""

    turns: int
    reuse: float
    fill: float
    moves: int


def read(path: Path) -> Iterator[Conversation]:
    decoder = msgspec.json.Decoder(Conversation)
    return map(decoder.decode, path.read_bytes().splitlines())


def turns_of(conversation: Conversation, model: Model, budget: int, options: WindowQuery) -> list[Turn]:
    """Return the request at every user message, in order."""
    fixed = fixed_parts(ConversationSettings(system=conversation.system, tools=conversation.tools))
    messages = [entry.message for entry in conversation.entries]
    new = prepare(conversation.entries, fixed.template, now_ms=0)
    placed = zip((entry.record for entry in new), places_among(map(calls_of, messages)), strict=True)
    records = [in_place(record, place or Place()) for record, place in placed]
    column = 0 if model.encoding == "o200k_base" else 1
    whole = Records.of(records)
    message_costs(whole, model)  # kept for all turns
    turns, tokens, grounded = [], 0, 0
    for length, record in enumerate(records, 1):
        tokens += reference_tokens(record.measure, parallel=record.parallel)[column]
        grounded += record.grounding is not None
        if record.measure.role != USER:
            continue
        history = History(1, whole[:length], length, column, tokens, grounded, 0, range(1, length + 1), length - 1)
        documents = Documents(_sources(new[length - 1], record, length), fixed.template)
        spec = WindowSpec(plan=Plan(options, fixed, model, 0, budget), documents=documents)
        window = build_window(history, spec)
        assert isinstance(window, Window)
        hinted = places_of(window, length, stable=bool(options.stable))
        cached = CachedWindow(window, history, model, hinted)
        blocks = {kind: blocks_of_window(kind, cached) for kind in KINDS}
        dropped, first = window.dropped.messages, window.seqs[0] if window.seqs else 0
        turns.append(Turn(blocks, window.tokens.total, dropped > 0, first))
    return turns


def _sources(asked: NewEntry, record: Record, seq: int) -> dict[int, Source]:
    if not asked.grounding:
        return {}
    stored = decode_grounding(asked.grounding)
    return {seq: Source(stored, asked.body[stored.start : stored.end])}


def figures(all_turns: Sequence[Sequence[Turn]], budget: int) -> Figures:
    """Return means over the turns that leave history out, except a conversation's first turn."""
    reuse, fill, moves = [], [], 0
    for turns in all_turns:
        for before, after in pairwise(turns):
            if not after.cut:
                continue
            reuse.append(_common_tokens(before, after) / after.tokens)
            fill.append(after.tokens / budget)
            moves += before.first != after.first
    count = max(1, len(reuse))
    return Figures(count, sum(reuse) / count, sum(fill) / count, moves)


def _common_tokens(before: Turn, after: Turn) -> int:
    """Return the tokens of the parts at the beginning of ``after`` that are also the beginning of ``before``."""
    tokens = 0
    for old, new in zip(before.blocks["implicit"], after.blocks["implicit"], strict=False):
        if old.identity != new.identity:
            break
        tokens += new.tokens
    return tokens


def cost_of_a_turn(all_turns: Sequence[Sequence[Turn]], rules: Caching, budget: int, pause_seconds: float) -> float:
    """Return the mean cost of the turns that leave history out, in budgets of uncached tokens."""
    costs = []
    for turns in all_turns:
        cache = PromptCache(rules)
        for number, turn in enumerate(turns):
            billed = cache.send(turn.blocks[rules.kind], number * pause_seconds)
            if turn.cut:
                cost = billed.read * rules.read_price + billed.written * rules.write_price + billed.uncached
                costs.append(cost / budget)
    return sum(costs) / max(1, len(costs))


def longer_than(conversation: Conversation, model: Model, budget: int) -> bool:
    return sum(message_tokens(measure(entry.message), model) for entry in conversation.entries) > budget


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what a stable cut saves.")
    parser.add_argument("directory", nargs="?", type=Path, default=DATA)
    parser.add_argument("--budget", type=int, default=8000)
    parser.add_argument("--model", default="gpt-4o-mini", help="The model that counts.")
    parser.add_argument("--pause", type=float, default=60, help="Seconds between turns.")
    wanted = parser.parse_args()
    model = find_model(wanted.model)
    files = {path.stem: list(read(path)) for path in sorted(wanted.directory.glob("sgd_*.jsonl"))}
    if not files:
        parser.exit(1, f"{NO_DATA}\n")
    long = {stem: [c for c in found if longer_than(c, model, wanted.budget)] for stem, found in files.items()}
    turns = {
        way: {stem: [turns_of(c, model, wanted.budget, options) for c in found] for stem, found in long.items()}
        for way, options in WAYS.items()
    }
    print_reuse(turns, wanted.budget)
    print_costs(turns, wanted.budget, wanted.pause)


def print_reuse(turns: Mapping[str, Mapping[str, list[list[Turn]]]], budget: int) -> None:
    """Print the table of reuse, as Markdown."""
    print("| conversations | way | turns | reuse | fill | cut moves |\n| --- | --- | ---: | ---: | ---: | ---: |")
    for way, groups in turns.items():
        together = list(chain.from_iterable(groups.values()))
        for group, found in (*groups.items(), ("all", together)):
            row = figures(found, budget)
            print(
                f"| {group} ({len(found)}) | {way} | {row.turns:,} | {row.reuse:.1%} | {row.fill:.1%} | {row.moves:,} |"
            )


def print_costs(turns: Mapping[str, Mapping[str, list[list[Turn]]]], budget: int, pause_seconds: float) -> None:
    """Print the cost of a turn under each model's prices, minimum length and lifetime; the cheapest is bold."""
    print(
        f"\n| model | read | write | from | {' | '.join(turns)} |\n| --- | ---: | ---: | ---: |{' ---: |' * len(turns)}"
    )
    for name in MODELS:
        rules = caching_of(find_model(name))
        assert rules is not None
        costs = [
            cost_of_a_turn(list(chain(*groups.values())), rules, budget, pause_seconds) for groups in turns.values()
        ]
        cells = [f"**{cost:.3f}**" if cost == min(costs) else f"{cost:.3f}" for cost in costs]
        prices = f"{rules.read_price:.3g} | {rules.write_price:.3g} | {rules.minimum_tokens:,}"
        print(f"| {name} | {prices} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
