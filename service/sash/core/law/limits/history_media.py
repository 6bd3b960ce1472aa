"""A history with what its messages enclose, the bytes of a request of them, and the room that limits leave beside them."""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

import msgspec
import numpy as np

from sash.core.counts.measures.media_facts import IMAGE, Medium
from sash.core.counts.models.families import USER
from sash.core.law.fixed_parts.plan import ASIDE_MESSAGES, Plan
from sash.core.law.history.enclosing import Enclosed, enclosures, is_sent, text_bytes
from sash.core.law.history.view import History, View
from sash.core.law.limits.media_room import LOST, Left, Load, Room, newest_first, refused
from sash.core.law.limits.unreadable import why_unreadable
from sash.core.law.records.parameters import WindowQuery
from sash.core.law.records.reasons import Reason
from sash.core.law.records.units import unit_at
from sash.core.law.selection.sending import begins_turn
from sash.core.law.selection.stable import Cut
from sash.core.law.selection.window import Stop
from sash.problems import WindowDoesNotFit

_DOCUMENTS_SHARE: Final = 1 / 32
"""The share of the bytes that a stable window keeps free for the documents of any question."""
_TOKEN_BYTES: Final = 16
"""Bytes of a token of recalled text, which is hardly ever longer."""


def told_bytes(history: History, query: WindowQuery) -> int:
    """The bytes of a window's summary, and the most bytes of its recalled messages."""
    summary = history.summary
    told = len(msgspec.json.encode((summary.text, summary.compaction))) if summary is not None else 0
    return told + _TOKEN_BYTES * query.recall_max_tokens


class HistoryMedia:
    """The media of the messages that can be in a window, in the order of the messages, and the required rows.

    ``refused`` are those that the provider takes in no request, or that are lost, and ``found`` the others. ``texts`` are
    the bytes of each message with lines in place of its media, ``messages_beside`` the most messages beside those that may
    give way: fixed ones, lines, required and recalled ones. ``fixed`` is what the parts before the messages have, and
    ``held`` that with the media of required messages. Raises WindowDoesNotFit if the required parts are over a limit.
    """

    def __init__(self, view: View, plan: Plan) -> None:
        history, units, model = view.history, view.units, plan.model
        self.history, self.units, self.plan, self.limits = history, units, plan, model.limits
        self.most_bytes = float("inf") if self.limits.bytes is None else self.limits.bytes
        # Recalled messages are shortened like others.
        required = {unit: why for unit, why in view.required.items() if why is not Reason.RECALLED}
        self.required = {row: why for unit, why in required.items() for row in units.members([unit])}
        lines = sum(map(len, history.order.missing["line"].values())) if history.order else 0
        self.messages_beside = plan.fixed_messages + lines + len(self.required.keys() | {*history.recalled})
        self.texts = text_bytes(history.records, model)
        thinks_from = {"all": -1, "turn": begins_turn(history)}.get(plan.query.reasoning, len(history.records) - 1) + 1
        # A message that is not required is in no window if it is an unanswered call, or a reply in progress.
        found = [
            each
            for each in enclosures(history, model.format)
            if (not each.medium.in_reasoning or each.row >= thinks_from)
            and (each.row in self.required or unit_at(units, each.row) not in units.broken)
        ]
        self.refused: Left = {each.key: name for each in found if (name := self._why_line(each))}
        self.found = [each for each in found if each.key not in self.refused]
        few_shots = ((each.role, each.extra.media) for each in plan.parts.few_shots if each.extra is not None)
        shots = [each for role, media in few_shots for each in media if is_sent(each, role, model.format)]
        size = plan.fixed_bytes + told_bytes(history, plan.query)  # with that of the few-shots
        self.fixed = Load().and_of(shots, self.limits)._replace(bytes=size)
        must = [each for each in self.found if each.row in self.required]
        self.held, self.required_bytes = self.loaded(must), self.text(self.required)
        self._check(shots, must)

    def _why_line(self, each: Enclosed) -> str | None:
        """The reason why a medium is a line in every window; None if it may be whole."""
        if each.number in self.history.lost.get(self.history.seqs[each.row], ()):
            return LOST
        mend = why_unreadable(each.medium, self.plan.model, self.history.now)
        return mend.name if mend else next(iter(refused(each.medium, self.limits)), None)

    def _check(self, shots: Sequence[Medium], must: Sequence[Enclosed]) -> None:
        for medium in shots:
            for name, size in refused(medium, self.limits).items():
                raise WindowDoesNotFit.over(name, getattr(self.limits, name), {"few_shots": size})
        most = self.limits.messages
        needed = self.messages_beside - (0 if self.history.recalled else ASIDE_MESSAGES)  # recall gives way at once
        if most is not None and needed > most:
            raise WindowDoesNotFit.over("messages", most, {"messages": needed})
        load = self.held._replace(bytes=self.held.bytes + self.required_bytes)
        limit = Room(self.limits, self.most_bytes).over(load, load)
        if limit is None:
            return
        parts = {"few_shots": [*shots]}
        for each in must:
            parts.setdefault(self.required[each.row].part, []).append(each.medium)
        kind = "images" if limit == "many_images" else limit
        numbers = {name: getattr(Load().and_of(media, self.limits), kind) for name, media in parts.items()}
        if kind == "bytes":
            numbers["text"] = load.bytes - sum(numbers.values())
        raise WindowDoesNotFit.over(kind, getattr(self.limits, limit), numbers)

    def text(self, rows: Iterable[int]) -> int:
        """Bytes of these messages with lines in place of their media."""
        return int(self.texts[[*rows]].sum())

    def loaded(self, found: Iterable[Enclosed]) -> Load:
        """What the fixed parts and these media have."""
        return self.fixed.and_of((each.medium for each in found), self.limits)

    # ---- what must be, and what may be

    def in_steps(self, cut: Cut) -> tuple[Left, int]:
        """What is a line of a stable window since its cut, so that the request's beginning stays; and the newest row whose
        message changed that, -1 for none.

        The messages since the cut are gone through, each as if it were the newest. Once the media that are whole are over a
        limit, so many become lines that the newest take up ``1 - stable_step`` of it, and the next ones have room. Where the
        cut moved, ``images_kept`` is applied, and holds until it moves again.
        """
        limits, records = self.limits, self.history.records
        since = min(cut.row if cut.since is None else max(cut.row, cut.since), len(records) - 1)
        steady = {row for row, why in self.required.items() if not why.moves or row < cut.row}
        found = [each for each in self.found if each.row >= cut.row and each.row not in steady]
        older = [each for each in found if each.row <= since]
        left = self.beyond_kept(older, self._required_at(since)) if cut.since is not None else {}
        load = held = self.loaded(each for each in self.found if each.row in steady)
        whole: list[Enclosed] = []
        coming = [each for each in reversed(found) if each.key not in left]
        behind = self.texts.copy()
        behind[: max(0, cut.row, records.front)] = 0
        texts = self.text(row for row in steady if row < cut.row) + np.cumsum(behind)
        most, share, changed = self.most_bytes * (1 - _DOCUMENTS_SHARE), 1 - self.plan.query.stable_step, -1
        for row in range(max(0, since), len(records)):
            while coming and coming[-1].row <= row:
                whole.append(coming.pop())
                load = load.and_of((whole[-1].medium,), limits)
            if Room(limits, most - texts[row]).over(load, load) is None:
                continue
            exempt = self._required_at(row)
            kept = held.and_of((each.medium for each in whole if each.row in exempt), limits)
            narrow = Room(limits, most * share - texts[row], share)
            left |= newest_first([each for each in whole if each.row not in exempt], kept, narrow)
            whole = [each for each in whole if each.key not in left]
            load = held.and_of((each.medium for each in whole), limits)
            changed = row
        return self.refused | left, changed

    def _required_at(self, row: int) -> AbstractSet[int]:
        """The messages that were required while this one was the newest, beside those that always are."""
        records = self.history.records
        if row < records.front:
            return frozenset()
        asked = records.sent_roles.rfind(USER, records.front, row + 1)
        groups = {unit_at(self.units, each) for each in (row, asked) if each >= 0}
        return frozenset(self.units.members(sorted(groups)))

    def beyond_kept(self, found: Sequence[Enclosed], exempt: AbstractSet[int]) -> Left:
        """The pictures before the newest ``images_kept``, except those of ``exempt`` messages."""
        pictures = [each for each in found if each.medium.kind == IMAGE]
        kept = self.plan.query.images_kept
        old = [] if kept is None else pictures[: max(0, len(pictures) - kept)]
        return {each.key: "images_kept" for each in old if each.row not in exempt}

    def firsts(self, documents: int) -> list[tuple[Stop, int]]:
        """The first rows from which the messages are not too many, and from which all texts fit, if not all do.

        Lines count in place of missing results, and of all media that need not be whole. ``documents`` are the bytes of
        those that are sent.
        """
        count, oldest, most = len(self.texts), self.history.oldest_bound, self.limits.messages
        row = oldest if most is None else count - max(0, most - self.messages_beside)
        room = self.most_bytes - self.held.bytes - self.required_bytes - documents
        ordinary = self.texts.copy()
        ordinary[[*self.required]] = 0
        ordinary = ordinary[self.history.records.front :]
        taken = int(np.searchsorted(np.cumsum(ordinary[::-1]), room, side="right"))
        found: list[tuple[Stop, int]] = [("limit", row)] if row > oldest else []
        return found if taken == len(ordinary) else [*found, ("bytes", count - taken)]
