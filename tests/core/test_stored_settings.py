"""Stored settings: measured once, in a cache of limited size."""

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
