"""An oracle for windows: the rules in the simplest way, on the whole history, with each try counted as a request.

Of the code under test, it uses only ``count_request``, the texts of notes and summaries, and the choice of one message's
documents for a given room. These have tests of their own.
"""

import copy
import json
from dataclasses import dataclass
from typing import Any

from histories import Ask, Talk, groups

from sash.core.counts.costs.counting import count_request
from sash.core.law.documents.grounding import Grounded
from sash.core.law.history.notes import note_message, summary_message

Message = dict[str, Any]


@dataclass(frozen=True)
class Expected:
    """The expected window."""

    seqs: list[int]
    stop: str
    summary: bool
    note: int
    duplicates: int
    grounding: dict[int, Grounded]
    request: dict[str, Any]
    total: int


class Oracle:
    """The expected window of one conversation for one set of parameters."""

    def __init__(self, talk: Talk, ask: Ask) -> None:
        self.talk, self.ask = talk, ask
        self.documents = talk.documents(dedupe=ask.options.dedupe != "none", **ask.limits)
        self.grounding: dict[int, Grounded] = {}
        self.messages = talk.messages
        self.groups = groups(self.messages)
        self.must = {seq for group in self.groups if self._must(group) for seq in group}

    def _must(self, group: list[int]) -> bool:
        first = self.messages[group[0] - 1]
        pinned = any(self.talk.entries[seq - 1].pinned for seq in group)
        return (
            first["role"] in ("system", "developer")
            or (pinned and self.sendable(group))
            or self.talk.question in group
            or group == self.groups[-1]
        )

    def sendable(self, group: list[int]) -> bool:
        """Return whether every call of the group has its result, or may still get it."""
        calls = self.messages[group[0] - 1].get("tool_calls") or ()
        return len(group) == 1 + len(calls) or not calls or group == self.groups[-1]

    def request(self, seqs: set[int], *, summary: bool, note: int) -> dict[str, Any]:
        """Return the request that sends these messages."""
        fixed = self.talk.settings
        messages: list[Message] = [{"role": "system", "content": fixed.system}] if fixed.system is not None else []
        messages += fixed.few_shots or []
        if summary and self.talk.summary:
            messages.append(summary_message(self.talk.summary[0]))
        if note:
            messages.append(note_message(note))
        for seq in sorted(seqs):
            message = copy.deepcopy(self.messages[seq - 1])
            if seq in self.grounding:
                message["content"] = _around(message["content"], self.grounding[seq])
            messages.append(message)
            if seq == self._goes_on():
                messages.append({"role": "user", "content": "Please continue."})
        request: dict[str, Any] = {"messages": messages}
        if fixed.tools:
            request["tools"] = fixed.tools
            if fixed.tool_choice is not None:
                request["tool_choice"] = fixed.tool_choice
        return request

    def _goes_on(self) -> int:
        """Return the seq of a reply at the end for a Claude that takes none there; 0 without one."""
        said = [seq for seq, each in enumerate(self.messages, 1) if each["role"] not in ("system", "developer")]
        last = self.messages[said[-1] - 1] if said else {"role": ""}
        ends = self.ask.name == "claude-opus-4-8" and last["role"] == "assistant" and not last.get("tool_calls")
        return said[-1] if ends else 0

    def total(self, seqs: set[int], **lines: Any) -> int:
        return count_request(self.ask.model, **self.request(seqs, **lines)).tokens

    def charge(self, seqs: set[int], **lines: Any) -> int:
        """Return the total, with definitions charged for the more expensive of the messages that may lead the request."""
        total = self.total(seqs, **lines)
        request = self.request(seqs, **lines)
        lead = request["messages"][0]["role"] if request["messages"] else ""
        fixed = self.request(set(), **lines)["messages"]
        if "tools" not in request or fixed or lead not in ("system", "developer") or min(seqs) == 1:
            return total
        free = {**request, "messages": [{"role": "user", "content": ""}]}
        bound = {**request, "messages": [{"role": "system", "content": ""}]}
        if not self.ask.model.rules.joins_leading_system:
            return total
        return total + max(
            0, count_request(self.ask.model, **free).tools - count_request(self.ask.model, **bound).tools
        )

    def expected(self) -> Expected | None:
        """Return the window, or None if the required messages do not fit."""
        options = self.ask.options
        summary = options.summary == "always" and self.talk.summary is not None
        if self.charge(self.must, summary=summary, note=0) > self.ask.budget:
            return None
        noted = False
        while True:
            seqs, stop, duplicates = self._walk(summary=summary, noted=noted)
            through = self.talk.summary[1] if self.talk.summary else 0
            lacks = stop != "complete" and any(seq not in seqs for seq in range(1, through + 1))
            if options.summary == "auto" and not summary and lacks and self._fits(self.must, summary=True, note=0):
                summary = True
            elif options.note and not noted and len(seqs) < len(self.messages):
                noted = True
            else:
                break
        left_out = len(self.messages) - len(seqs)
        note = left_out if noted and left_out and self._fits(self.must, summary=summary, note=self._longest()) else 0
        request = self.request(seqs, summary=summary, note=note)
        total = self.total(seqs, summary=summary, note=note)
        return Expected(sorted(seqs), stop, summary, note, duplicates, self.grounding, request, total)

    def _fits(self, seqs: set[int], *, summary: bool, note: int) -> bool:
        """Return whether these messages fit without documents."""
        grounding, self.grounding = self.grounding, {}
        fits = self.charge(seqs, summary=summary, note=note) <= self.ask.budget
        self.grounding = grounding
        return fits

    def _add_documents(self, seq: int, kept: set[int], **lines: Any) -> bool:
        """Add the documents of message ``seq`` that fit beside ``kept``; return whether the budget holds."""
        bare = self.charge(kept, **lines)
        seen = {each for sent in self.grounding.values() for each in sent.documents}
        spent = sum(sent.cost for sent in self.grounding.values())
        room = max(0, self.ask.budget - bare)
        chosen = self.documents.choose(seq, self.talk.stored[0][seq - 1], self.ask.model, room, seen, spent=spent)
        if chosen is not None:
            self.grounding[seq] = chosen
        return self.charge(kept, **lines) <= max(bare, self.ask.budget)

    def _longest(self) -> int:
        return int("9" * len(str(len(self.messages))))

    def _walk(self, *, summary: bool, noted: bool) -> tuple[set[int], str, int]:  # noqa: C901 - the law, in one piece
        options, budget = self.ask.options, self.ask.budget
        lines = {"summary": summary, "note": self._longest() if noted else 0}
        kept, self.grounding = set(self.must), {}
        if self.talk.question and options.grounding != "none":
            self._add_documents(self.talk.question, kept, **lines)
        said = {self._said([seq]) for group in self.groups if set(group) <= kept and len(group) == 1 for seq in group}
        said.discard("")
        oldest = max(
            1 if options.limit is None else len(self.messages) - options.limit + 1,
            1 if options.turns is None else self._turn(options.turns),
        )
        after = self.talk.summary[1] + 1 if summary and self.talk.summary else 1
        stop, too_large, duplicates, optional = "complete", False, 0, []
        for group in reversed(self.groups):
            asks = options.grounding == "all" and self.messages[group[0] - 1]["role"] == "user"
            if set(group) <= self.must:
                in_reach = group[0] >= oldest and group[0] >= after
                if asks and in_reach and group[0] not in self.grounding:
                    self._add_documents(group[0], kept, **lines)
                continue
            if group[0] < oldest or group[0] < after:
                stop = "limit" if group[0] < oldest else "summary"
                break
            if not self.sendable(group):
                continue
            if options.dedupe == "messages" and self._said(group) in said:
                duplicates += 1
                continue
            # A message without cost fits, even if a note that does not fit has taken the room.
            if self.charge(kept | set(group), **lines) > max(budget, self.charge(kept, **lines)):
                if options.overflow == "stop" or budget - self.charge(kept, **lines) < 1:
                    stop = "budget"
                    break
                too_large = True
                continue
            kept |= set(group)
            if asks:
                self._add_documents(group[0], kept, **lines)
            optional.append(group)
            said |= {self._said(group)} - {""}
        if options.start == "user":
            self._begin_with_user(kept, optional)
        return kept, "budget" if too_large else stop, duplicates

    def _turn(self, turns: int) -> int:
        """Return the first seq of the last ``turns`` turns."""
        users = [seq for seq, message in enumerate(self.messages, 1) if message["role"] == "user"]
        return users[-turns] if len(users) >= turns else 1

    def _begin_with_user(self, kept: set[int], optional: list[list[int]]) -> None:
        while optional:
            spoken = [seq for seq in sorted(kept) if self.messages[seq - 1]["role"] not in ("system", "developer")]
            if self.messages[spoken[0] - 1]["role"] == "user" or spoken[0] in self.must:
                return
            kept -= set(optional.pop())

    def _said(self, group: list[int]) -> str:
        """Return a plain message's role and content as JSON; empty if the message can have no duplicate."""
        message = self.messages[group[0] - 1]
        plain = len(group) == 1 and not message.get("tool_calls") and not message.get("function_call")
        if not plain or message["role"] not in ("user", "assistant") or message["content"] is None:
            return ""
        return json.dumps([message["role"], message["content"]])


def _around(content: Any, sent: Grounded) -> Any:
    if isinstance(content, str):
        return sent.before + content + sent.after
    before = [{"type": "text", "text": sent.before}] if sent.before else []
    after = [{"type": "text", "text": sent.after}] if sent.after else []
    return [*before, *content, *after]
