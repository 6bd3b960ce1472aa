"""A record of the turns that were sent and acknowledged, to compare with what the conversations hold in the end."""

import asyncio
import json
import time
from collections import Counter
from dataclasses import dataclass, field
from operator import add
from urllib.parse import quote

from faults.wire import Wire


@dataclass
class Verdict:
    """How many turns are wrong, by kind; all numbers must be 0."""

    lost: int = 0
    duplicated: int = 0
    reordered: int = 0
    foreign: int = 0
    returned: int = 0
    """Turns that can still be read after they were erased."""

    def __bool__(self) -> bool:
        return any(self._numbers())

    def __add__(self, other: "Verdict") -> "Verdict":
        return Verdict(*map(add, self._numbers(), other._numbers()))

    def _numbers(self) -> tuple[int, ...]:
        return self.lost, self.duplicated, self.reordered, self.foreign, self.returned


@dataclass
class Ledger:
    """All turns, each ``conversation writer number``; a writer sends a number when the one before is acknowledged."""

    attempted: set[tuple[str, int, int]] = field(default_factory=set)
    acknowledged: set[tuple[str, int, int]] = field(default_factory=set)
    erased: set[tuple[str, int, int]] = field(default_factory=set)
    foreign: int = 0
    """Answers that were about another conversation than the request."""
    requests: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    failed: set[str] = field(default_factory=set)
    """Conversations of which a request failed."""

    def fail(self, conversation: str, why: str) -> None:
        """Count a failed request."""
        self.failures[why] += 1
        self.failed.add(conversation)

    def erase(self, turns: set[tuple[str, int, int]]) -> None:
        """Note that these turns were erased: none of them may be read again."""
        self.acknowledged -= turns
        self.erased |= turns

    def judge(self, histories: dict[str, list[str]]) -> Verdict:
        """Compare the record with the texts that each conversation holds now, in their order."""
        verdict = Verdict(foreign=self.foreign)
        for conversation, texts in histories.items():
            turns = [parse(text) for text in texts]
            verdict.foreign += sum(turn[0] != conversation or turn not in self.attempted for turn in turns)
            verdict.returned += sum(turn in self.erased for turn in turns)
            verdict.duplicated += len(turns) - len(set(turns))
            latest: dict[int, int] = {}
            for _, writer, number in turns:
                verdict.reordered += number < latest.get(writer, 0)
                latest[writer] = max(number, latest.get(writer, 0))
        found = {parse(text) for texts in histories.values() for text in texts}
        verdict.lost = len(self.acknowledged - found)
        return verdict


def parse(text: str) -> tuple[str, int, int]:
    """Return the conversation, writer and number of a turn's text; empty and 0 for any other text."""
    match text.split(" "):
        case [conversation, writer, number] if writer.isdigit() and number.isdigit():
            return conversation, int(writer), int(number)
        case _:
            return "", 0, 0


async def read_history(port: int, conversation: str) -> list[str]:
    """Return every text of a conversation, read page by page; a page that is 503 is asked for again, for a minute."""
    wire, texts, cursor, give_up = Wire(port, timeout_seconds=30), [], "", time.monotonic() + 60
    while True:
        more = f"&cursor={quote(cursor)}" if cursor else ""
        reply = await wire.ask("GET", f"/conversations/{conversation}/messages?limit=200{more}")
        if reply.status == 503 and time.monotonic() < give_up:
            await asyncio.sleep(0.05)
            continue
        if reply.status == 404:
            wire.close()
            return texts
        assert reply.status == 200, reply.body
        page = json.loads(reply.body)
        texts += [entry["message"]["content"] for entry in page["messages"]]
        cursor = page["next_cursor"]
        if not cursor:
            wire.close()
            return texts
