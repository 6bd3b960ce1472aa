"""A window as the blocks that a provider's prompt cache compares: definitions, system text, lines, then messages.

Marks stand where hints put them. Tokens that a request costs beside its messages count with the blocks before them.
"""

from collections.abc import Iterator

from sash.core.counts.families import TOOL, USER
from sash.core.counts.models import Model
from sash.core.law.expected import WindowCosts, ends_of, sent_as, systems_of
from sash.core.law.prompt_cache import Block
from sash.core.law.view import History
from sash.core.law.window import Window
from sash.core.providers import PROVIDERS
from sash.core.providers.cache_marks import CacheKind, Places

_TURNS = (USER, TOOL)


def blocks_of_window(
    kind: CacheKind, model: Model, history: History, window: Window, hinted: Places | None
) -> list[Block]:
    """The blocks of a window, in the order of caching. ``hinted`` are the places of hints; None without hints."""
    ends = set(ends_of(kind, model, history, window, hinted)) if hinted and kind != "implicit" else set()
    alone = hinted is not None and hinted.alone
    said = list(_messages(kind, model, history, window, ends, alone=alone))
    tokens, rest = window.tokens, window.tokens["total"] - sum(block.tokens for block in said)
    lines = (window.summary and window.summary.text, window.note)
    # In one text with the lines, where the provider has system texts apart from its messages.
    beside = (*lines, *systems_of(window, history)) if PROVIDERS[model.format].fills else ()
    definitions = min(rest, tokens["priming"] + tokens["tools"])
    system = min(rest - definitions, tokens["system"])
    is_marked = kind == "cache_control" and hinted is not None
    leading = [
        Block("definitions", definitions, marked=is_marked and tokens["tools"] > 0),
        Block(("system", beside), system, marked=0 in ends and system > 0, turn=system > 0),
    ]
    if rest > definitions + system or any(lines):
        leading.append(Block(("lines", lines), rest - definitions - system))
    return leading + said


def _messages(
    kind: CacheKind,
    model: Model,
    history: History,
    window: Window,
    ends: set[int],
    *,
    alone: bool,
) -> Iterator[Block]:
    """The blocks of the messages. ``ends`` are the numbers of those behind which a mark is; ``alone``: no turn ends."""
    costs = WindowCosts(window, history, model)
    recalled = window.recalled if window.recalled and window.recalled.block else None
    place = recalled.place(window.seqs) if recalled else -1
    for number, seq in enumerate(window.seqs, 1):
        if recalled and number == place + 1:
            yield Block(("recalled", recalled.block), recalled.tokens)
        identity = (window.name(seq), str(sent_as(window, seq)), tuple(window.lines.get(seq, ())))
        turn = history.role(seq) in _TURNS and not alone
        if kind == "cache_control":  # a mark finds entries of at most 20 blocks before it
            yield from (Block((identity, part), 0) for part in range(1, costs.blocks(seq)))
        yield Block(identity, costs.cost(seq), marked=number in ends, turn=turn)
