"""How a request may end. Some servers answer 400 to a request that ends with a reply, which a broken stream leaves.

Behind the reply they are sent a line that asks to go on. A reply that ends with calls waits for their results instead. One
that says to be a beginning (``prefix``) is taken by the servers that have the member.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from sash.core.providers.destinations.destination import Destination, evidence_of
from sash.core.providers.messages.hosted import is_paused
from sash.core.providers.messages.mends import Mend
from sash.core.providers.messages.words_said import has_word

GO_ON: Final = {"role": "user", "content": "Please continue."}
"""The message that asks for the rest of the reply. It is always the same, and is not stored."""
REPLY_AT_END: Final = Mend(
    name="reply_at_end",
    refused="A request that ends with a reply without calls: by Claude from 4.6, by Gemini from 3.5, at Bedrock by all but "
    "Nova and earlier Claudes, by Mistral and by DeepSeek's reasoner without `prefix`",
    sent='Behind the reply a message of the user\'s: "Please continue."',
    evidence=evidence_of("ending"),
)
_WITHOUT_BLANKS: Final = frozenset({"anthropic", "converse"})
"""Forms that take no blank text: a reply of white space is left out there."""


def is_asked_on(newest_first: Iterable[Mapping[str, Any]], to: Destination) -> bool:
    """Return whether the history ends with a reply that the destination refuses there.

    System messages and replies without words are passed over: the reply before them is the end. One with calls is not
    refused, nor is a ``prefix`` where one is taken, nor one that is paused, as its own form tells.
    """
    takes_prefix = to.values.get("ending") == "prefix"
    for message in newest_first:
        if message["role"] in ("system", "developer"):
            continue
        if message["role"] != "assistant" or message.get("tool_calls") or message.get("function_call"):
            return False
        if has_word(message, blanks=to.form not in _WITHOUT_BLANKS):
            return not ((takes_prefix and message.get("prefix")) or is_paused(message, to.form))
    return False
