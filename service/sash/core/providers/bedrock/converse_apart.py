"""Words beside calls and results, which Llama does not take at Bedrock, and the turns that are sent in their place."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from sash.core.providers.bedrock.converse_mends import Sent, SentTurn
from sash.core.providers.messages.mends import Mend
from sash.core.providers.writing.turns import NOTHING_SAID, RequestWriting

WORDS_APART: Final = Mend(
    name="words_apart",
    refused="A text or a picture beside a call or beside a tool result, by Llama",
    sent="The words before the calls, and those behind the results, as a turn of their own; `…` from the other side between",
    evidence="'Conversation blocks and tool use blocks cannot be provided in the same turn.' (quarkiverse/"
    "quarkus-langchain4j 1983), 'Conversation blocks and tool result blocks cannot be provided in the same turn', of "
    "llama4-maverick (strands-agents/harness-sdk 1223, langchain-ai/langchain-aws 141)",
)
_APART: Final = re.compile(r"llama")
_OF_CALLS: Final = ("toolUse", "toolResult")


def wants_calls_apart(model: str) -> bool:
    """Return whether a model takes nothing beside calls and results.

    >>> [wants_calls_apart(name) for name in ("us.meta.llama4-maverick-17b-instruct-v1:0", "amazon.nova-pro-v1:0")]
    [True, False]
    """
    return bool(_APART.search(model.lower()))


def with_calls_apart(turns: Sequence[SentTurn], writing: RequestWriting) -> list[SentTurn]:
    """Return the turns with calls and results in turns of their own, if the model wants them so."""
    if not wants_calls_apart(writing.model):
        return list(turns)
    return [part for turn in turns for part in _parts_of(turn, writing)]


def _parts_of(turn: SentTurn, writing: RequestWriting) -> Iterator[SentTurn]:
    of_calls = [each for each in turn.blocks if _is_of_calls(each)]
    others = [each for each in turn.blocks if not _is_of_calls(each)]
    if not of_calls or all("cachePoint" in each.block for each in others):
        yield turn
        return
    for seq in {each.seq for each in others}:
        writing.mends.add(WORDS_APART, seq)
    is_reply = turn.role == "assistant"
    first, second = (others, of_calls) if is_reply else (of_calls, others)
    yield turn._replace(blocks=first)
    yield SentTurn("user" if is_reply else "assistant", [Sent(0, {"text": NOTHING_SAID})])
    yield turn._replace(blocks=second)


def _is_of_calls(sent: Sent) -> bool:
    return any(name in sent.block for name in _OF_CALLS)
