"""What a provider's prompt cache is expected to serve of a window, and to store.

The request before is taken for the window that ended where the newest reply began, sent within the cache's lifetime. What
both begin with is read, as far as the provider's rules (``core/caching.py``) keep an entry there.
"""

import math

import msgspec

from service.core.caching import LOOKBACK_BLOCKS, Caching
from service.core.costs import record_cost, reference_costs
from service.core.counting import reasoning_tokens
from service.core.hints import Places
from service.core.models import Model
from service.core.units import ASSISTANT, TOOL, USER
from service.core.view import History
from service.core.window import Window


class Expected(msgspec.Struct, frozen=True):
    """Input tokens that the provider is expected to read from its prompt cache, and to write to it at a price."""

    expected_read_tokens: int
    expected_write_tokens: int


def before_reply(history: History) -> History | None:
    """The history that the newest reply answered; None where no reply is known, or it is all that is."""
    records = history.records
    end = records.roles.rfind(ASSISTANT)
    if end <= 0:
        return None
    question = records.roles.rfind(USER, 0, end)
    gone = sum(reference_costs(records[end:], history.column))
    return msgspec.structs.replace(
        history,
        records=records[:end],
        length=history.first_seq + end - 1,
        tokens=history.tokens - gone,
        question=history.first_seq + question if question >= 0 else min(history.question, history.first_seq - 1),
    )


def places_of(window: Window, question: int, *, stable: bool) -> Places:
    """Where the window's beginning stays as it is in the next one; ``question`` is the newest user message's seq."""
    cut = window.dropped["messages"] or any(edit.limit is not None for edit in window.edits.values())
    steady = bool(window.seqs) and (stable or not cut)
    recalled = window.recalled is not None and bool(window.recalled.block)
    return Places(
        before_question=steady and question in window.seqs[1:],
        newest=steady and not recalled and window.seqs[-1] not in window.grounding,
        recalled=recalled,
    )


def expect(
    rules: Caching,
    model: Model,
    history: History,
    before: tuple[Window, Places] | None,
    now: tuple[Window, Places],
    *,
    differs_at: int = 0,
) -> Expected:
    """What is read and written when ``now`` is sent after ``before``, with the hints at their places.

    ``differs_at`` is the seq of a message that had documents or recalled messages before it, and has none now; 0 for none.
    """
    window, places = now
    costs = _Costs(window, history, model)
    common = _common(before[0], window, differs_at) if before else -1
    stored = _ends(rules, history, *before) if before else []
    found = max((end for end in stored if end <= common), default=0)
    ends = _ends(rules, history, window, places)
    if rules.kind == "cache_control" and not any(costs.blocks(found, end) < LOOKBACK_BLOCKS for end in ends):
        found = 0
    read = 0
    if before:
        read = costs.up_to(common) if rules.kind == "implicit" and common > 0 else costs.up_to(found)
    read = read // rules.step_tokens * rules.step_tokens if read >= rules.minimum_tokens else 0
    last = costs.up_to(max(ends, default=0))
    written = 0 if rules.kind == "implicit" or last < rules.minimum_tokens else max(0, last - read)
    return Expected(read, written)


class _Costs:
    """Tokens and blocks of the beginning of a window, which is so many of its messages long."""

    def __init__(self, window: Window, history: History, model: Model) -> None:
        self._window = window
        self._history = history
        self._model = model

    def up_to(self, count: int) -> int:
        """Tokens of definitions and system text, and of the first ``count`` messages with all that stands before them."""
        tokens, seqs = self._window.tokens, self._window.seqs
        fixed = tokens["priming"] + tokens["system"] + tokens["tools"]
        block = self._window.recalled
        after = block.tokens if block and block.block and count <= block.place(seqs) else 0
        return fixed if count <= 0 else max(fixed, tokens["total"] - after - sum(map(self._cost, seqs[count:])))

    def blocks(self, start: int, end: int) -> int:
        """Blocks of messages ``start`` to ``end``: one for what each says, and one for each call."""
        return sum(1 + self._history.record(seq).calls for seq in self._window.seqs[start:end])

    def _cost(self, seq: int) -> int:
        record, edit = self._history.record(seq), self._window.edits.get(seq)
        grounded = self._window.grounding.get(seq)
        reasoning = 0 if edit and edit.without_reasoning else reasoning_tokens(record.measure, self._model)
        documents = math.ceil(grounded.tokens * self._model.margin) if grounded else 0
        return record_cost(record, self._model) + reasoning + documents


def _common(before: Window, now: Window, differs_at: int) -> int:
    """How many messages both begin with, as they are sent; -1 where what stands before them differs."""
    if before.summary != now.summary or before.note != now.note:
        return -1
    count = 0
    for old, new in zip(before.seqs, now.seqs, strict=False):
        if old != new or old == differs_at or _sent(before, old) != _sent(now, new):
            break
        count += 1
    return count


def _sent(window: Window, seq: int) -> tuple[object, object]:
    grounded = window.grounding.get(seq)
    return (grounded and (grounded.before, grounded.after)), window.edits.get(seq)


def _ends(rules: Caching, history: History, window: Window, places: Places) -> list[int]:
    """Where entries of a window end, as counts of its messages; 0 is the end of the system text."""
    roles = [history.record(seq).measure.role for seq in window.seqs]
    question = max((index for index, role in enumerate(roles) if role == USER), default=0)
    ends = [0]
    if rules.kind == "breakpoints":
        said = [index + 1 for index, role in enumerate(roles) if role in (USER, TOOL)]
        ends += said[-1:]
        ends += [end for end in said if end <= question][-1:] if places.before_question else []
    else:
        ends += [question] if places.before_question else []
        ends += [len(roles)] if places.newest else []
    return ends
