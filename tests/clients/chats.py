"""A chat as users have it, over Sash and the stand-in of README: stopped, resumed, and with other providers in between.

All is drawn from one seed. A turn asks a question, runs the calls of the replies and ends with a reply, or with its
beginning. The user may stop it while calls run: then some results are stored, the others come two turns later or never, and
the next question follows.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from clients.speakers import SPEAKERS, Call, Heard, Speaker
from readme_provider import Plan, Provider, Said, provided
from validators import gemini

Object = dict[str, Any]

PICTURE = (
    "iVBORw0KGgoAAAANSUhEUgAAAAYAAAAGCAAAAADFp7CUAAAAL0lEQVR42mNggABug9Cq+UcYxBJWfbHrYFCc8D/vrg+DzoGQFzUC"
    "DOYfViZJXwEA7zAOZJNUgIYAAAAASUVORK5CYII="
)
"""A PNG of 6 by 6 grey pixels."""
SYSTEM = "You know the programme."
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}
    for name in ("find_talk", "draw_plan")
]
_MOST_STEPS = 3
_WORDS = ("talks", "gradle", "오늘", "Robertson", "at", "12:10", "☕", "and", "room", "which")


class Model:
    """What the stand-in says: texts, calls and reasoning, signed or not, and sometimes nothing."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.steps = 0

    def __call__(self, _: str, body: Object) -> Said:
        """Return the next reply. A question has at most three replies with calls."""
        del body
        draw = self.random
        thought = self.words(12) if draw.random() < 0.5 else ""
        is_signed = draw.random() < 0.7
        if self.steps < _MOST_STEPS and draw.random() < 0.4:
            self.steps += 1
            names = [draw.choice(("find_talk", "draw_plan")) for _ in range(draw.randint(1, 3))]
            calls = tuple((name, '{"topic": "gradle ☕", "day": 1}') for name in names)
            return Said(draw.choice(("", self.words(8))), calls, thought, is_signed)
        self.steps = 0
        return Said("" if draw.random() < 0.08 else self.words(40), (), thought, is_signed)

    def words(self, most: int) -> str:
        return " ".join(self.random.choice(_WORDS) for _ in range(self.random.randint(1, most)))


class Chat:
    """A conversation that one program leads, with a speaker for each provider."""

    def __init__(self, sash: httpx.Client, provider: Provider, conversation: str, **window: Any) -> None:
        self.sash = sash
        self.provider = provider
        self.path = f"/conversations/{conversation}"
        self.window = window
        self.speakers: dict[str, Speaker] = {}
        self.made: list[Object] = []
        self.billed: list[int] = []
        self.appended = 0
        settings = {"id": conversation, "system": SYSTEM, "tools": TOOLS}
        self.sash.post("/conversations", json=settings).raise_for_status()

    def speaker(self, form: str) -> Speaker:
        if form not in self.speakers:
            self.speakers[form] = SPEAKERS[form](self.provider.environment["ANTHROPIC_BASE_URL"])
        return self.speakers[form]

    def close(self) -> None:
        for speaker in self.speakers.values():
            speaker.close()

    def append(self, form: str, messages: list[Object]) -> Object:
        """Append messages with a member of the program's own; return the answer, with the window for this speaker."""
        query = {"format": form, "model": self.speaker(form).model, **self.window}
        entries = [{"message": {**message, "timestamp": self.appended}} for message in messages]
        answer = self.sash.post(f"{self.path}/messages", params=query, json={"messages": entries})
        assert answer.status_code == 201, answer.text
        self.appended += len(messages)
        found: Object = answer.json()
        assert found["window"] is not None, found["window_error"]
        return found

    def ask(self, form: str, appended: Object, *, streams: bool = False) -> Heard:
        """Send the window of an append; check that it fits and costs what the provider bills."""
        window = appended["window"]
        heard = self.speaker(form).ask(window["request"], streams=streams)
        total = window["tokens"]["total"]
        assert total <= window["budget"]
        assert form != "gemini" or gemini.refused(window["request"], window["model"]) == []
        assert heard.billed <= total
        assert heard.billed == total or not window["exact"], (heard.billed, total)
        self.made.append(window)
        self.billed.append(heard.billed)
        return heard


class Turns:
    """Leads a chat turn by turn, as drawn from a seed."""

    def __init__(self, chat: Chat, home: str, seed: int) -> None:
        self.chat = chat
        self.home = home
        self.form = home
        self.random = random.Random(seed)
        self.number = 0
        self.late: list[tuple[int, str, Call]] = []
        """Results that come late: the turn in which they come, the format of their call, and the call."""
        self.stops = self.switches = 0
        self.has_picture = False

    def turn(self) -> None:
        """Ask a question, and go on until the reply has no calls or the user stops."""
        self.number += 1
        self._switch()
        form, draw = self.form, self.random
        text = draw.choice(("Which talks are on? ☕", "and in the afternoon?", "draw me a plan " * 20, "go on"))
        appended = self.chat.append(form, [self.chat.speaker(form).question(f"{self.number}: {text}")])
        appended = self._late_results() or appended
        while True:
            heard = self.chat.ask(form, appended, streams=draw.random() < 0.5)
            if not heard.calls:
                is_half = draw.random() < 0.1
                said = [self.chat.speaker(form).half(heard.text[: draw.randrange(40)])] if is_half else heard.messages
                self.chat.append(form, said)
                return
            if (answered := self._run(form, heard)) is None:
                return
            appended = answered

    def mends(self) -> set[str]:
        """Return the reasons of mends in all windows that were sent."""
        return {reason for made in self.chat.made for reason in made.get("mended", {}).get("reasons", ())}

    def _switch(self) -> None:
        """Ask another provider for a turn or some, and come back."""
        if self.random.random() < 0.15:
            others = [form for form in SPEAKERS if form != self.form]
            self.form = self.home if self.form != self.home else self.random.choice(others)
            self.switches += 1

    def _run(self, form: str, heard: Heard) -> Object | None:
        """Store calls and results; return the last append's answer, or None if the user stopped before all came."""
        appended = self.chat.append(form, heard.messages)
        assert set(appended["waiting_for"]) == {call.id for call in heard.calls}, appended["waiting_for"]
        wanted = len(heard.calls) if self.random.random() < 0.75 else self.random.randrange(len(heard.calls))
        order = self.random.sample(heard.calls, len(heard.calls))
        self.has_picture = False
        if wanted == len(order) and self.random.random() < 0.5:
            return self.chat.append(form, [self._result(form, call) for call in order])
        for call in order[:wanted]:
            appended = self.chat.append(form, [self._result(form, call)])
        if wanted == len(order):
            return appended
        self.stops += 1
        for call in order[wanted:]:
            if self.random.random() < 0.6:
                self.late.append((self.number + 2, form, call))
        return None

    def _late_results(self) -> Object | None:
        """Append the results that are due. Return the answer to the question after them, if there were some."""
        due = [each for each in self.late if each[0] <= self.number]
        self.late = [each for each in self.late if each[0] > self.number]
        for _, form, call in due:
            self.chat.append(form, [self._result(form, call)])
        if not due:
            return None
        return self.chat.append(self.form, [self.chat.speaker(self.form).question("and now?")])

    def _result(self, form: str, call: Call) -> Object:
        text = self.random.choice(
            ("gradle: The Network Latency Tax, 12:10, Robertson 2", "no talks", "talk " * 120, "")
        )
        picture = PICTURE if call.name == "draw_plan" and not self.has_picture else None
        self.has_picture = True
        return self.chat.speaker(form).result(call, text, picture)


@contextmanager
def chatting(url: str, conversation: str, plan: Plan, **window: Any) -> Iterator[Chat]:
    """Yield a chat over the Sash at ``url``, with a stand-in of its own that says what is planned."""
    with httpx.Client(base_url=url) as sash, provided(url, plan) as provider:
        chat = Chat(sash, provider, conversation, **window)
        try:
            yield chat
        finally:
            chat.close()
