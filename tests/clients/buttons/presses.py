"""What people press in a chat, the same for each framework: what the log has then, and what the model was sent.

A framework's program makes a class ``Chat``, whose methods are the buttons, and calls ``press``, which prints one line of
JSON: for each button ``"yes"``, why there is none, or what went wrong.
"""

import asyncio
import json
import os
import traceback
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol
from uuid import uuid4

URL = os.environ.get("SASH_URL", "http://127.0.0.1:8000")


class NoButton(Exception):  # noqa: N818 - it is a fact, not a fault
    """The framework has no such button; the message says what there is instead."""


class Model:
    """Answers ``r0``, ``r1`` and so on, each once, and records the texts of what it was sent."""

    def __init__(self) -> None:
        self.sent: list[list[str]] = []
        self.replies = 0
        self.fails = False
        self.waits: asyncio.Event | None = None

    def __deepcopy__(self, _: object) -> "Model":
        return self  # a framework that copies its clients asks the same model

    async def answer(self, texts: list[str]) -> str:
        """The next reply. Raises RuntimeError while it ``fails``; says nothing while it ``waits``."""
        self.sent.append(texts)
        if self.fails:
            raise RuntimeError("the provider is down")
        if self.waits is not None:
            self.waits.set()
            await asyncio.Event().wait()
        self.replies += 1
        return f"r{self.replies - 1}"


class Chat(Protocol):
    """A framework's chat: one conversation, with whatever the framework keeps of it in this process."""

    def __init__(self, name: str, model: Model) -> None:
        """A chat as a process begins it that knows the conversation's name alone."""

    async def send(self, text: str) -> None:
        """Ask a question; the reply is stored when this returns."""

    async def regenerate(self) -> None:
        """Have the last reply written anew."""

    async def edit(self, place: int, text: str) -> None:
        """Ask the question at this place, the first is 0, in other words."""

    async def retry(self, text: str) -> None:
        """Ask the last question again, after it got no reply."""

    async def load(self) -> None:
        """Have the screen show what the log has, where the framework holds a list of its own."""

    async def back(self, branch: str) -> None:
        """Go to a branch: the log's end is its messages now, and so is the screen's."""


def get(path: str) -> Any:
    with urllib.request.urlopen(URL + path) as answer:
        return json.load(answer)


def post(path: str) -> None:
    urllib.request.urlopen(urllib.request.Request(URL + path, b"{}", {"Content-Type": "application/json"}))


class Pressed:
    """A chat of two turns, in which one button is pressed."""

    def __init__(self, chat: type[Chat]) -> None:
        self.name = f"pressed-{uuid4().hex[:8]}"
        self.path = getattr(chat, "path", lambda name: f"/conversations/{name}")(self.name)
        self.model, self.chat_type = Model(), chat
        self.chat = self.another()

    def another(self) -> Chat:
        """The same chat in another tab, or after a reload."""
        return self.chat_type(self.name, self.model)

    async def turns(self, *texts: str) -> None:
        for text in texts:
            await self.chat.send(text)

    @property
    def log(self) -> list[str]:
        """The texts of the log; that of a reply without a word is left out."""
        return [text for each in get(f"{self.path}/messages")["messages"] if (text := text_of(each["message"]))]

    @property
    def branches(self) -> list[Any]:
        return get(f"{self.path}/branches")["branches"]

    def is_now(self, *texts: str) -> None:
        """Check what the log has, and that the model was sent just that, without its last reply."""
        assert self.log == [*texts], self.log
        assert self.model.sent[-1] == [*texts[:-1]], self.model.sent[-1]


def text_of(message: Any) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text") or "" for part in content)


async def send(at: Pressed) -> None:
    await at.turns("one", "two")
    at.is_now("one", "r0", "two", "r1")


async def same_words(at: Pressed) -> None:
    await at.turns("go on", "go on")
    at.is_now("go on", "r0", "go on", "r1")


async def regenerate(at: Pressed) -> None:
    await at.turns("one", "two")
    await at.chat.regenerate()
    at.is_now("one", "r0", "two", "r2")
    assert at.branches, "the old reply is in no branch"
    await at.turns("three")
    at.is_now("one", "r0", "two", "r2", "three", "r3")


async def edit_first(at: Pressed) -> None:
    await at.turns("one", "two")
    await at.chat.edit(0, "uno")
    at.is_now("uno", "r2")
    await at.turns("three")
    at.is_now("uno", "r2", "three", "r3")


async def edit_last(at: Pressed) -> None:
    await at.turns("one", "two")
    await at.chat.edit(1, "due")
    at.is_now("one", "r0", "due", "r2")


async def retry(at: Pressed) -> None:
    await at.turns("one")
    at.model.fails = True
    try:
        await at.chat.send("two")
    except Exception:  # noqa: BLE001 - each framework has its own
        pass
    else:
        raise AssertionError("the model's failure was not told")
    at.model.fails = False
    await at.chat.retry("two")
    at.is_now("one", "r0", "two", "r1")


async def stop(at: Pressed) -> None:
    await at.turns("one")
    at.model.waits = asyncio.Event()
    asking = asyncio.create_task(at.chat.send("two"))
    await at.model.waits.wait()
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    at.model.waits = None
    await at.chat.retry("two")
    at.is_now("one", "r0", "two", "r1")


async def reload(at: Pressed) -> None:
    await at.turns("one")
    at.chat = at.another()
    await at.chat.load()
    await at.turns("two")
    at.is_now("one", "r0", "two", "r1")


async def two_tabs(at: Pressed) -> None:
    await at.turns("one")
    other = at.another()
    await other.load()
    await at.turns("two")
    await other.send("three")
    kept = at.log
    for branch in at.branches:
        post(f"{at.path}/branches/{branch['id']}")
        kept += at.log
    for text in ("one", "r0", "two", "r1", "three", "r2"):
        assert text in kept, (text, kept)
    assert len(at.log) == len({*at.log}), at.log


async def back(at: Pressed) -> None:
    await at.turns("one", "two")
    await at.chat.regenerate()
    await at.chat.back(at.branches[0]["id"])
    assert at.log == ["one", "r0", "two", "r1"], at.log
    await at.turns("three")
    at.is_now("one", "r0", "two", "r1", "three", "r3")


BUTTONS: dict[str, Callable[[Pressed], Awaitable[None]]] = {
    "send": send,
    "the same words again": same_words,
    "regenerate": regenerate,
    "edit the first": edit_first,
    "edit the last": edit_last,
    "retry after 500": retry,
    "stop and retry": stop,
    "reload": reload,
    "two tabs": two_tabs,
    "back to the old answer": back,
}


async def found(chat: type[Chat]) -> AsyncIterator[tuple[str, str]]:
    """Yield each button and what came of it."""
    for name, button in BUTTONS.items():
        try:
            async with asyncio.timeout(60):
                await button(Pressed(chat))
        except NoButton as why:
            yield name, str(why)
        except BaseException:  # noqa: BLE001 - whatever a framework raises
            yield name, "FAILED: " + traceback.format_exc()[-3000:]
        else:
            yield name, "yes"


def press(chat: type[Chat]) -> None:
    """Press each button, and print what came of it."""

    async def all_of_them() -> dict[str, str]:
        return {name: what async for name, what in found(chat)}

    print(json.dumps(asyncio.run(all_of_them())))
