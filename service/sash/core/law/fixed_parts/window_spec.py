"""What one window is made of beside the history."""

import msgspec

from sash.core.law.documents.documents import Documents
from sash.core.law.fixed_parts.plan import Plan


class WindowSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A window's plan, and the documents that it may send.

    ``path`` is that of the conversation's messages, or empty. History leaves ``recall_reserve`` tokens free for
    recall, or fewer if the other parts need them.
    """

    plan: Plan
    documents: Documents
    path: str = ""
    recall_reserve: int = 0
