"""The hint of how many bodies a window will need, and the read that follows it."""

from typing import Any

import pytest
from conftest import opened
from store.entries import said

from service.store.embedded import EmbeddedStore
from service.store.reach import Reach

APPEND: dict[str, Any] = {"settings": b"{}", "if_match": "", "now_ms": 1_700_000_000_000}
READ: dict[str, Any] = {"known_version": "", "budget": 1000, "column": 0, "most": 0}


def test_a_little_more_than_last_time() -> None:
    """What is not known is not guessed; what is known grows a little; the oldest of many is forgotten."""
    reach = Reach(most=2)
    assert reach.guess("a") == 0
    for key, needed in (("a", 40), ("b", 8), ("c", 0)):
        reach.learn(key, needed, [9] * 40, whole=True)
    assert (reach.guess("a"), reach.guess("b"), reach.guess("c")) == (0, 17, 8)


def test_no_more_than_is_known_to_be_short() -> None:
    """Older messages that nobody looked at are not asked for, and none where those to ask for are large together."""
    reach = Reach(most_bytes=1000)
    reach.learn("a", 10, [9] * 12, whole=False)
    assert reach.guess("a") == 12
    reach.learn("a", 10, [700, *[9] * 19], whole=True)
    assert reach.guess("a") == 19
    reach.learn("a", 10, [700, *[9] * 10, 700], whole=False)
    assert reach.guess("a") == 0


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize(("asked", "given"), [(0, 10), (1, 1), (3, 3), (10, 10), (50, 10)])
async def test_as_many_bodies_as_asked_for(store: EmbeddedStore, conversation: str, asked: int, given: int) -> None:
    """The newest ones come beside the records, and never more than there are; without a number all of the tail's."""
    entries = said(*[str(n) for n in range(10)])
    async with opened(store.url) as conversations:
        await conversations.append("default", conversation, entries, **APPEND)
        tail = await conversations.read_window("default", conversation, **READ, bodies=asked)
        assert tail is not None
        assert (len(tail.records), tail.bodies_seq) == (10, 11 - given)
        assert tail.bodies == [entry.body for entry in entries[10 - given :]]
        await conversations.erase("default", conversation, if_match="")
