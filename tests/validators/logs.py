"""Conversations as logs really are, drawn turn by turn.

Calls may have all of their results, some or none, and results may come late or twice. Each text that matters has a word of
its own, by which a test finds it in a request.
"""

import base64
import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")
Object = dict[str, Any]
Group = tuple[str, list[Object]]
"""Neighbouring messages that are appended in one request, and its format."""

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPj/HwAEAQH/7yMK/gAAAABJRU5ErkJggg=="
GIF = "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
PNG = f"data:image/png;base64,{PIXEL}"
PDF = "JVBERi0xLjQK"
SEAL = base64.b64encode(b"\x12" + bytes(range(200))).decode()
TEXTS = (
    *("yes, {}", "{}", "", "Which talks {} are on? ", " \n", " 오늘 강연은 {}? 🙂", '{{"a": "{}"}}'),
    *("{}" + "0" * 40, "day " * 40 + "{}", "word " * 90 + "{}" + " word" * 90),
)
IDS = ("call_{}", "call_1", "toolu_1", "functions.look:{}", "é|x{}", "x" * 90 + "{}", "x" * 70, "t {}")
NAMES = ("look", "look", "find talks!", "mcp.files/read", "поиск", "find_talks_" * 13, "mcp.server:look", "a-b_C")
MARKS: tuple[Object, ...] = (
    {},
    {},
    {"cache_control": {"type": "ephemeral"}},
    {"cache_control": {"type": "ephemeral", "ttl": "1h"}},
)
SIGNATURES = ("", "EqoBCkYIARgC", SEAL)
FOREIGN: tuple[Object, ...] = (
    *({}, {}, {}, {}, {"timestamp": 1}),
    {"createdAt": "2026-01-01", "modelInfo": {"id": "x"}, "ts": 1},
)
OF_ENTRIES: tuple[Object, ...] = (*({},) * 8, {"pinned": True}, {"metadata": {"a": 1}}, {"status": "completed"})
"""Members of an entry."""
_WORD = re.compile(r"zq\d+z")


def words(value: str) -> set[str]:
    """Return the words of their own that a text has. Those of thoughts are not among them."""
    return set(_WORD.findall(value))


class Call(NamedTuple):
    """A call that was made, and who writes its result, in one of the forms."""

    identity: str
    name: str
    result: Callable[["Log", str, str], Group]


@functools.cache
def _below(count: int) -> st.SearchStrategy[int]:
    return st.integers(0, count - 1)


class Log:
    """A conversation while it is drawn."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.groups: list[Group] = []
        self.calls: list[Call] = []
        self._draw = draw
        self._words = 0

    def number(self, most: int) -> int:
        """Draw a number from 0 to ``most``."""
        return self._draw(_below(most + 1))

    def pick(self, options: Sequence[T]) -> T:
        """Draw one of these; the first is the plainest."""
        return options[self._draw(_below(len(options)))]

    def maybe(self, *values: Any) -> list[Any]:
        """Return the values, or nothing."""
        return list(values) if self.number(1) else []

    def word(self, kind: str = "zq") -> str:
        """Return a word that stands nowhere else."""
        self._words += 1
        return f"{kind}{self._words}z"

    def text(self) -> str:
        """Draw a text, with a word of its own unless it is empty."""
        return self.pick(TEXTS).format(self.word())

    def thought(self) -> str:
        """Draw a thought. Its word is one of thoughts, because requests may lack it."""
        return self.pick(("hm {}", "", "let me see " * 20 + "{}")).format(self.word("zt"))

    def identity(self) -> str:
        """Draw a call's id. Some are those of earlier calls."""
        self._words += 1
        return self.pick(IDS).format(self._words)

    def add(self, form: str, *messages: Object) -> None:
        """Append messages in one request."""
        self.groups.append((form, list(messages)))

    def called(self, calls: list[Call]) -> None:
        """Note the calls, and append the results of all of them, of some, or of none."""
        self.calls += calls
        missing = (*(0,) * 5, 1, 2, 3)[self.number(7)]
        answered = calls[missing:]
        for call in answered[::-1] if self.number(3) == 1 else answered:
            self.groups.append(call.result(self, call.identity, call.name))
