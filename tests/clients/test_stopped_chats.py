"""Agents that are stopped, resumed and moved to other providers run on windows, and no provider refuses a request.

The provider is README's stand-in, which refuses what ``tests/validators`` know; the programs use the providers' SDKs.
"""

from collections.abc import Iterator

import pytest
from clients.chats import Turns, chatting
from clients.speakers import SPEAKERS
from conftest import Served

pytestmark = pytest.mark.no_cover
BUDGET_TOKENS = 2500
each_form = pytest.mark.parametrize("form", SPEAKERS)


@pytest.fixture(scope="module")
def sash(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the URL of a server of this file alone."""
    process = Served(tmp_path_factory.mktemp("chats") / "data")
    process.start()
    yield process.url
    process.stop()


@each_form
@pytest.mark.parametrize("turns", [40, pytest.param(200, marks=pytest.mark.nightly)])
def test_a_stopped_and_moved_chat_is_never_refused(sash: str, form: str, turns: int) -> None:
    """Windows fit their budget, cost what is billed, leave history out, and no request of the chat is a 400."""
    with chatting(sash, f"stopped-{form}-{turns}", turns, max_tokens=BUDGET_TOKENS) as chat:
        led = Turns(chat, form, turns)
        for _ in range(turns):
            led.turn()
        assert chat.provider.refusals == []
        assert len(chat.made) >= turns
        assert sum(made["dropped"]["messages"] > 0 for made in chat.made) > turns // 2
        assert min(led.stops, led.switches) >= turns // 20
        assert any("mended" in made for made in chat.made)
