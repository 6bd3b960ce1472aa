"""Windows that are made again, from their receipts.

::

    EarlierStates.read      the state that the receipt names: settings and summary of that day, the log up to there
    Windows.make            the same flow as for a window of now
    its receipt             is the same if the bytes are; otherwise gone.py says why
"""

from collections.abc import Mapping
from contextlib import suppress

import msgspec

from sash.core.counts.models.models import Model
from sash.core.counts.requests.calibration import Correction
from sash.core.law.fixed_parts.conversation_settings import decoded_settings
from sash.core.law.records.parameters import WindowQuery
from sash.problems import Problem, ReceiptGone, Unprocessable, edited_too_fast
from sash.store.data.earlier import EarlierStates, Past
from sash.store.data.layout import Target
from sash.store.data.replies import Tail
from sash.store.data.script_calls import HistoryEdited
from sash.store.data.usage import corrected_by
from sash.windows.answer import Made
from sash.windows.asked import limits_of, plan_of
from sash.windows.first_read import reach_of_query
from sash.windows.gone import amended, changed, differs, erased, lost
from sash.windows.lost_media import lost_seqs
from sash.windows.model_rules import ModelRules
from sash.windows.receipts import Receipt, told_of
from sash.windows.stored import Windows
from sash.windows.tail import Room, no_limit

_ATTEMPTS = 8


class ServedWindows:
    """Makes windows again that were served before. ``models`` are the deployment's own, by name."""

    def __init__(
        self, windows: Windows, earlier: EarlierStates, rules: ModelRules, models: Mapping[str, Model]
    ) -> None:
        self._windows = windows
        self._earlier = earlier
        self._rules = rules
        self._models = models

    async def again(
        self, target: Target, receipt: Receipt, query: WindowQuery, room: Room = no_limit, *, explain: bool = False
    ) -> Made:
        """The window of a receipt, whose parameters are ``query``: the same bytes as before; with ``explain`` more.

        Raises ReceiptGone, ConversationDamaged, StoreUnavailable.
        """
        model = None if query.model is None else await self._rules.model(query.model, receipt.rules)
        for _ in range(_ATTEMPTS):
            with suppress(HistoryEdited):
                reach = reach_of_query(query, self._models if model is None else {**self._models, model.id: model})
                past = await self._earlier.read(target, receipt.then, reach, life=receipt.life)
                if past is None:
                    raise erased()
                try:
                    made = None if past.tail is None else await self._made(target, receipt, query, past.tail, room)
                except (HistoryEdited, Problem):
                    raise
                except Exception:
                    known = changed(receipt, past) or amended(receipt, past)
                    if known is None and await self._earlier.stood(target, receipt.then) is not False:
                        raise
                    made = None  # the receipt's figures contradict the log
                if made is None or made.receipt != receipt.text.encode():
                    raise await self._gone(target, receipt, past, made, recalls=query.recall_max_tokens > 0)
                if past.tail is None or query.explain or not explain:
                    return made
                explained = await self._made(target, receipt, query, past.tail, room, explain=True)
                return explained or made
        raise edited_too_fast()

    async def _gone(
        self, target: Target, receipt: Receipt, past: Past, made: Made | None, *, recalls: bool
    ) -> ReceiptGone:
        """Why there is no such window any more. Raises HistoryEdited."""
        problem = changed(receipt, past)
        if problem is not None:
            return problem
        seqs = [] if made is None else lost_seqs(made.window, made.history)
        if seqs:
            return lost(seqs[0])
        stood = await self._earlier.stood(target, receipt.then)
        return (amended(receipt, past) if stood is not False else None) or differs(stood=stood, recalls=recalls)

    async def _made(
        self,
        target: Target,
        receipt: Receipt,
        query: WindowQuery,
        tail: Tail,
        room: Room,
        *,
        explain: bool = False,
    ) -> Made | None:
        """The window of an earlier state, with the model's figures of that day; None where it is refused.

        With ``explain`` it tells each message, and has the receipt of the window without that.

        Raises HistoryEdited, ConversationDamaged, StoreUnavailable.
        """
        settings, parts = decoded_settings[tail.state.settings, self._windows.send]
        name = query.model or settings.model
        model = None if name is None else await self._rules.model(name, receipt.rules)
        if name is None or model is None:
            return None
        if receipt.correction is not None:
            model = corrected_by(model, Correction(receipt.correction, receipt.constant))
        try:
            wanted = msgspec.structs.replace(query, explain=True) if explain else query
            limits = limits_of(query, settings, {**self._models, name: model})
            plan = plan_of(wanted, parts, limits, told_of(query, limits.model))
            own = (lambda _body, _total: receipt.text.encode()) if explain else None
            return await self._windows.make(target, plan, settings, tail, room, rules=receipt.rules, receipt=own)
        except Unprocessable:
            return None
