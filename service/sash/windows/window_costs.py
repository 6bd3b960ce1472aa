"""The tokens of a chosen window's messages, one by one, as they are sent."""

from collections.abc import Mapping
from functools import cached_property

import msgspec

from sash.core.counts.costs.counting import reasoning_tokens
from sash.core.counts.models.models import Model
from sash.core.law.history.view import History
from sash.core.law.records.costs import message_costs, record_cost
from sash.core.law.selection.window import Window


class WindowCosts(msgspec.Struct, frozen=True, dict=True):
    """A window, and the history and model that it was chosen for."""

    window: Window
    history: History
    model: Model

    @cached_property
    def row_of(self) -> Mapping[int, int]:
        """The row of each message, by its seq."""
        return dict(zip(self.window.seqs, self.window.rows, strict=True))

    @cached_property
    def _thinks(self) -> bool:
        records = self.history.records
        return bool(records.details and records.thinks)

    def up_to(self, count: int) -> int:
        """Tokens of the window's beginning, up to and including its first ``count`` messages."""
        tokens, seqs, recalled = self.window.tokens, self.window.seqs, self.window.recalled
        fixed = tokens.priming + tokens.system + tokens.tools
        after = recalled.tokens if recalled and recalled.block and count <= recalled.place else 0
        return fixed if count <= 0 else max(fixed, tokens.total - after - sum(map(self.cost, seqs[count:])))

    def cost(self, seq: int) -> int:
        """The tokens of a message as it is sent, with its documents."""
        history, model, row = self.history, self.model, self.row_of[seq]
        edit, grounded = self.window.edits.get(row), self.window.grounding.get(seq)
        lined = self.window.lined.get(row)
        cost: int = record_cost(lined, model) if lined else message_costs(history.records, model).item(row)
        cost += history.lines_tokens(row, model) - (edit.saved if edit else 0)
        if self._thinks and not (edit and edit.without_reasoning):
            cost += reasoning_tokens(history.records[row].measure, model)
        return cost + (grounded.cost if grounded else 0)
