"""A served window for tests of metrics."""

from typing import Final

import msgspec

from sash.core.chat.messages import BareEntry
from sash.core.law.records.figures import Dropped, WindowTokens
from sash.windows.answer import Made
from sash.windows.head import Kept
from sash.windows.request import WindowRequest
from sash.windows.stateless import window_of_request

NOTHING: Final = Dropped(0, 0, 0, 0, 0, 0, 0, 0, 0)
LEFT_OUT: Final = Dropped(3, 120, 0, 0, 0, 0, 0, 0, 0)
_MESSAGES: Final[list[BareEntry]] = [BareEntry(message={"role": "user", "content": "Hello"})]
_MADE: Final = window_of_request(WindowRequest(model="gpt-4o", messages=_MESSAGES), {})[0]


def made(
    model: str = "gpt-4o",
    *,
    tokens: int = 900,
    budget: int = 1000,
    stop_reason: str = "budget",
    dropped: Dropped = LEFT_OUT,
) -> Made:
    """A window with these figures."""
    head = msgspec.structs.replace(
        _MADE.head,
        model=model,
        budget=budget,
        tokens=WindowTokens(tokens, 0, 0, 0, 0, 0, tokens, 0, 0),
        kept=Kept(7, 4, 10),
        dropped=dropped,
        stop_reason=stop_reason,
    )
    return msgspec.structs.replace(_MADE, head=head)
