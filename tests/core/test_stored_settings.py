"""Stored settings: measured once, in a cache of limited size."""

import msgspec
import pytest

from sash.core.law.fixed_parts.conversation_settings import (
    ConversationSettings,
    decoded_settings,
    encode_settings,
    few_settings,
    read_settings,
)
from sash.core.providers.messages.members import NO_NAMES


def stored(size: int, number: int = 0) -> bytes:
    return encode_settings(ConversationSettings(owner=f"o-{number}", system="x" * size))


@pytest.mark.parametrize("size", [10, 100_000, 1_000_000])
def test_the_same_text_is_measured_once(size: int) -> None:
    """Decoding the same settings again returns the same object, whatever their size."""
    first = decoded_settings[stored(size), NO_NAMES]
    assert decoded_settings[stored(size), NO_NAMES] is first
    assert first[0] == read_settings(stored(size))
    assert few_settings(stored(size)).owner == "o-0"


def test_they_are_forgotten_before_they_fill_the_memory() -> None:
    """Kept settings have no more than 32 MiB, however long and many they are."""
    first = decoded_settings[stored(10), NO_NAMES]
    for number in range(40):
        decoded_settings[stored(1_000_000, number), NO_NAMES]
    assert sum(len(text) for text, _ in decoded_settings) <= 32 * 1024 * 1024
    assert decoded_settings[stored(10), NO_NAMES] is not first


def test_people_with_the_same_prompt_share_its_parts() -> None:
    """Owner, metadata and time to live are each conversation's own; a prompt and its tools are measured once for all."""
    tools = [{"type": "function", "function": {"name": f"look_{n}", "description": "Looks. " * 99}} for n in range(20)]
    alike = ConversationSettings(model="gpt-4o", system="Be brief.", tools=tools)
    every = [alike] + [
        msgspec.structs.replace(alike, owner=f"o-{n}", metadata={"n": n}, ttl_seconds=n or None) for n in range(300)
    ]
    found = [decoded_settings[encode_settings(each), NO_NAMES] for each in every]
    assert [settings for settings, _ in found] == every
    assert {id(parts) for _, parts in found} == {id(found[0][1])}
