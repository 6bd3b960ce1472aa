"""Words beside calls and results, which Llama does not take at Bedrock, and the turns that are sent in their place."""

from collections.abc import Iterator, Sequence
from typing import Final

from sash.core.providers.bedrock.converse_mends import Sent, SentTurn
from sash.core.providers.destinations.destination import meet
from sash.core.providers.writing.shared_mends import WORDS_APART
from sash.core.providers.writing.turns import NOTHING_SAID, RequestWriting

_OF_CALLS: Final = ("toolUse", "toolResult")


def with_calls_apart(turns: Sequence[SentTurn], writing: RequestWriting) -> list[SentTurn]:
    """Return the turns with calls and results in turns of their own, if the model wants them so."""
    if "beside_calls" not in meet(writing.format_name, "", writing.model).values:
        return list(turns)
    found: list[SentTurn] = []
    caller = 0
    for turn in turns:
        if turn.role == "assistant":
            caller = next((each.seq for each in reversed(turn.blocks) if _is_of_calls(each)), 0)
            writing.mends.changed.add(caller)  # it was chosen by the most turns that may be put around it
        found += _parts_of(turn, caller, writing)
    return found


def _parts_of(turn: SentTurn, caller: int, writing: RequestWriting) -> Iterator[SentTurn]:
    """Yield the turn in parts. What is put between is of the message ``caller``, whose tokens are bounds of it."""
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
    yield SentTurn("user" if is_reply else "assistant", [Sent(caller, {"text": NOTHING_SAID})])
    yield turn._replace(blocks=second)


def _is_of_calls(sent: Sent) -> bool:
    return any(name in sent.block for name in _OF_CALLS)
