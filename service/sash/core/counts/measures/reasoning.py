"""Tokens of the reasoning in a chat message, by kind."""

from collections.abc import Mapping
from typing import Any

import msgspec

from sash.core.counts.text import Pair, mix_of, strings, text_tokens
from sash.core.counts.text.unicode_scripts import Mix
from sash.core.providers.messages.reasoning_members import BLOCKS, CONTENT, PLAIN, SIGNED


class Reasoning(msgspec.Struct, array_like=True, frozen=True):
    """Tokens of a message's reasoning, by kind: plain members, thinking blocks, signatures on calls.

    ``mix`` are the properties of the first two that decide their tokens in other vocabularies.
    """

    plain: Pair = (0, 0)
    blocks: Pair = (0, 0)
    signatures: Pair = (0, 0)
    mix: Mix | None = None


def reasoning_of(message: Mapping[str, Any]) -> Reasoning | None:
    """Return the tokens of an assistant message's reasoning; None if it has none."""
    said = {name: message[name] for name in PLAIN if message.get(name)}
    if (
        "reasoning" in said and said.get(CONTENT, said["reasoning"]) == said["reasoning"]
    ):  # some servers get it so, or twice
        said[CONTENT] = said.pop("reasoning")
    thought = {BLOCKS: message[BLOCKS]} if message.get(BLOCKS) else {}
    plain, blocks = text_tokens(said), text_tokens(thought)
    signed = [each[SIGNED] for each in (message, *(message.get("tool_calls") or ())) if each.get(SIGNED)]
    mix = mix_of("".join(strings(said | thought)), plain[0] + blocks[0], plain[1] + blocks[1])
    found = Reasoning(plain, blocks, text_tokens(signed), mix)
    return None if found == Reasoning() else found
