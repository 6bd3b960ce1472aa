"""A window's figures, as the answer tells them: what it costs, and what it leaves out."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta


class WindowTokens(msgspec.Struct, frozen=True):
    """The prediction of ``prompt_tokens``: ``total`` is the sum of the other figures, which are tokens by kind of part."""

    total: int
    priming: int
    system: int
    few_shots: int
    tools: int
    summary: int
    messages: int
    grounding: int
    reasoning: int

    def plus(self, part: str, tokens: int) -> "WindowTokens":
        """The figures with ``tokens`` more in this part, and so in the total."""
        return msgspec.structs.replace(self, total=self.total + tokens, **{part: getattr(self, part) + tokens})

    @property
    def parts(self) -> dict[str, int]:
        """The tokens by part."""
        return {name: tokens for name, tokens in msgspec.structs.asdict(self).items() if name != "total"}


class Dropped(msgspec.Struct, frozen=True):
    """Parts of the history that the window leaves out, in messages and in tokens of the encoding."""

    messages: int
    tokens: int
    duplicates: int
    grounding_messages: int
    grounding_tokens: int
    reasoning_tokens: Annotated[int, Meta(description="Reasoning of messages that are sent without it.")]
    images: Annotated[int, Meta(description="Pictures of sent messages that are sent as one line of text.")]
    files: Annotated[int, Meta(description="Files and sounds of sent messages that are sent as one line of text.")]
    media_bytes: Annotated[int, Meta(description="Bytes that these pictures, files and sounds have as JSON.")]


NOTHING_DROPPED: Final = Dropped(*[0] * len(Dropped.__struct_fields__))
"""The figures of a window that leaves nothing out."""
