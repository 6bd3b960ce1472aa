"""Stored settings: measured once, in a cache of limited size."""

import msgspec
import pytest

from sash.core.law.fixed_parts.conversation_settings import (
    ConversationSettings,
    decode_settings,
    encode_settings,
    few_settings,
    read_settings,
)


def stored(size: int, number: int = 0) -> bytes:
    return encode_settings(ConversationSettings(owner=f"o-{number}", system="x" * size))


@pytest.mark.parametrize("size", [10, 100_000, 1_000_000])
def test_the_same_text_is_measured_once(size: int) -> None:
    """Decoding the same settings again returns the same object, whatever their size."""
    first = decode_settings(stored(size))
    assert decode_settings(stored(size)) is first
    assert first[0] == read_settings(stored(size))
    assert few_settings(stored(size)).owner == "o-0"


def test_large_ones_are_forgotten_sooner() -> None:
    """More long prompts evict a long prompt from the cache, but not a short one."""
    small, large = stored(10), stored(300_000)
    first, other = decode_settings(small), decode_settings(large)
    for number in range(1, 9):
        decode_settings(stored(300_000, number))
    assert decode_settings(small) is first
    assert decode_settings(large) is not other


def test_people_with_the_same_prompt_share_its_parts() -> None:
    """Owner, metadata and time to live are each conversation's own; a prompt and its tools are measured once for all."""
    tools = [{"type": "function", "function": {"name": f"look_{n}", "description": "Looks. " * 99}} for n in range(20)]
    alike = ConversationSettings(model="gpt-4o", system="Be brief.", tools=tools)
    every = [alike] + [
        msgspec.structs.replace(alike, owner=f"o-{n}", metadata={"n": n}, ttl_seconds=n or None) for n in range(300)
    ]
    found = [decode_settings(encode_settings(each)) for each in every]
    assert [settings for settings, _ in found] == every
    assert {id(parts) for _, parts in found} == {id(found[0][1])}
