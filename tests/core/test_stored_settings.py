"""Stored settings: measured once, and remembered as far as memory goes."""

import pytest

from service.core.settings import ConversationSettings, decode_settings, encode_settings, owner_of, read_settings


def stored(size: int, number: int = 0) -> bytes:
    return encode_settings(ConversationSettings(owner=f"o-{number}", system="x" * size))


@pytest.mark.parametrize("size", [10, 100_000, 1_000_000])
def test_the_same_text_is_measured_once(size: int) -> None:
    """Its fixed parts are the same object the next time, whatever its size."""
    first = decode_settings(stored(size))
    assert decode_settings(stored(size)) is first
    assert first[0] == read_settings(stored(size))
    assert owner_of(stored(size)) == "o-0"


def test_large_ones_are_forgotten_sooner() -> None:
    """A few tenants' long prompts do not fill the memory, and do not drive short ones out."""
    small, large = stored(10), stored(300_000)
    first, other = decode_settings(small), decode_settings(large)
    for number in range(1, 9):
        decode_settings(stored(300_000, number))
    assert decode_settings(small) is first
    assert decode_settings(large) is not other
