"""What a window is made of beside the history, and for which model."""

import msgspec

from sash.core.counts.models.models import Model
from sash.core.law.documents.documents import Documents
from sash.core.law.fixed_parts.fixed import Fixed
from sash.core.law.records.parameters import WindowQuery


class WindowSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A window's model, its ``budget`` in tokens, the fixed parts, the parameters and the documents.

    ``path`` is that of the conversation's messages, or empty. History leaves ``recall_reserve`` tokens free for
    recall, or fewer if the other parts need them.
    """

    model: Model
    budget: int
    fixed: Fixed
    options: WindowQuery
    documents: Documents
    path: str = ""
    recall_reserve: int = 0
