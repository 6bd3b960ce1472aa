"""A window of a stored conversation, as it is asked for."""

import msgspec

from service.core.parameters import WindowQuery
from service.core.recall import Recollection
from service.core.settings import FixedParts
from service.windows.budgets import Limits


class Asked(msgspec.Struct, frozen=True):
    """A window of one conversation, as it is asked for."""

    conversation: str
    query: WindowQuery
    limits: Limits
    parts: FixedParts
    version: int
    recall: str | None = None
    """How the conversation recalls; None where it does not say."""
    aside: int = 0
    """Tokens that history leaves free for recall."""
    recollection: Recollection | None = None
    draft: bool = False
    """Whether only the law's decision is asked for."""
    cache_key: str = ""
    """The conversation's ``prompt_cache_key``, where hints for the prompt cache are asked for."""
