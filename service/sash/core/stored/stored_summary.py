"""A summary of a conversation's first messages, or a provider's compaction of them."""

from typing import Any

import msgspec

from sash.core.counts.measures.measures import Measure


class Summary(msgspec.Struct, frozen=True, omit_defaults=True):
    """A summary of messages 1 to ``through_seq``.

    ``compaction`` is a provider's compaction as a chat message with a ``native`` member. Windows in the provider's format
    begin with it; other windows have the text.
    """

    text: str
    through_seq: int
    measure: Measure
    compaction: dict[str, Any] | None = None
    compaction_measure: Measure | None = None
    audience: list[str] | None = None
    """The agents that may see every message that it covers; None if all may."""
    seq: int = 0
    """The seq of the message that it is, if it was appended, else 0. Its words, where it has some, then stand for what it
    covers in all formats. It is not stored."""
    author: str | None = None
    """The author of that message. It is not stored."""
    replaces: bool = False
    """Whether it was put in place of such a message, and so stands as that did. It is not stored."""
    own_tokens: int | None = None
    """The text's tokens in a model's own vocabulary, while a window is made for this model. It is not stored."""

    def for_those(self, names: frozenset[str] | None) -> "Summary":
        """The summary for these agents; None are all."""
        return msgspec.structs.replace(self, audience=None if names is None else sorted(names))

    def is_seen(self, view: str) -> bool:
        """Whether this agent may see every message that it covers. A compaction has its author's windows."""
        if self.seq:
            return self.author == view
        return self.audience is None or view in self.audience

    def sent_as(self, form: str) -> "Summary | None":
        """The summary in this format: with its compaction alone, or its text alone; None if it has neither."""
        if self.compaction is not None and self.compaction["native"]["format"] == form:
            return msgspec.structs.replace(self, measure=self.compaction_measure)
        if not self.text:
            return None
        return self if self.compaction is None else msgspec.structs.replace(self, compaction=None)

    @property
    def is_message(self) -> bool:
        """Whether it is a message of the conversation as it came."""
        return bool(self.seq) and self.compaction is not None

    @property
    def stands(self) -> bool:
        """Whether every window has it, and never the messages that it covers. Asked of the summary as it is sent."""
        return bool(self.seq) or self.replaces or self.compaction is not None
