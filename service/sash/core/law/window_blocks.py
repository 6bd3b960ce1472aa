"""A window as the blocks that a provider's prompt cache compares: definitions, system text, lines, then messages.

Marks stand where hints put them. Tokens that a request costs beside its messages count with the blocks before them.
"""

from collections.abc import Iterator

from sash.core.law.expected import TURNS, CachedWindow, sent_as
from sash.core.law.prompt_cache import Block
from sash.core.providers import PROVIDERS
from sash.core.providers.cache_marks import CacheKind


def blocks_of_window(kind: CacheKind, cached: CachedWindow) -> list[Block]:
    """The blocks of a window, in the order of caching."""
    window, tokens = cached.window, cached.window.tokens
    ends = set(cached.ends(kind)) if kind != "implicit" else set()
    said = list(_messages(kind, cached, ends))
    rest = tokens["total"] - sum(block.tokens for block in said)
    lines = (window.summary and window.summary.text, window.note)
    # In one text with the lines, where the provider has system texts apart from its messages.
    beside = (*lines, *cached.systems) if PROVIDERS[cached.model.format].fills else ()
    definitions = min(rest, tokens["priming"] + tokens["tools"])
    system = min(rest - definitions, tokens["system"])
    is_marked = kind == "cache_control" and cached.places is not None
    leading = [
        Block("definitions", definitions, marked=is_marked and tokens["tools"] > 0),
        Block(("system", beside), system, marked=0 in ends and system > 0, turn=system > 0),
    ]
    if rest > definitions + system or any(lines):
        leading.append(Block(("lines", lines), rest - definitions - system))
    return leading + said


def _messages(kind: CacheKind, cached: CachedWindow, ends: set[int]) -> Iterator[Block]:
    """The blocks of the messages. ``ends`` are the numbers of those behind which a mark is."""
    window, alone = cached.window, cached.places is not None and cached.places.alone
    recalled = window.recalled if window.recalled and window.recalled.block else None
    place = recalled.place(window.seqs) if recalled else -1
    for number, (seq, role) in enumerate(zip(window.seqs, cached.roles, strict=True), 1):
        if recalled and number == place + 1:
            yield Block(("recalled", recalled.block), recalled.tokens)
        identity = (window.name(seq), str(sent_as(window, seq)), tuple(window.lines.get(seq, ())))
        if kind == "cache_control":  # a mark finds entries of at most 20 blocks before it
            yield from (Block((identity, part), 0) for part in range(1, cached.blocks(seq)))
        yield Block(identity, cached.cost(seq), marked=number in ends, turn=role in TURNS and not alone)
