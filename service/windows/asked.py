"""A request for a window of a stored conversation."""

import msgspec

from service.core.parameters import WindowQuery
from service.core.recall import Recollection
from service.core.settings import FixedParts
from service.windows.budgets import Limits


class Asked(msgspec.Struct, frozen=True):
    """A request for a window of one conversation, with its limits and settings."""

    conversation: str
    query: WindowQuery
    limits: Limits
    parts: FixedParts
    version: int
    recall: str | None = None
    """The conversation's recall mode; None for the default."""
    aside: int = 0
    """Tokens of the budget that are reserved for recall."""
    recollection: Recollection | None = None
    draft: bool = False
    """Whether only the choice of messages is wanted, without their bodies."""
    cache_key: str = ""
    """The conversation's ``prompt_cache_key``, with ``cache=auto``."""
