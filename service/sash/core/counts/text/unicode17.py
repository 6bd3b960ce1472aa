"""Replaces characters of Unicode 17, which toktok treats as letters, marks and digits, and tiktoken 0.14 as symbols.

The class of a character decides where a text is split before encoding. So ``'s`` after such a character is one token in
toktok and two in tiktoken, whose counts are the correct ones. Each such character is replaced by one that both libraries
treat as a symbol, and whose bytes give the same number of tokens. Nearly all texts have no such character.
"""

import re
from itertools import chain
from types import MappingProxyType

_RANGES = (
    "88f c5c cdc 1acf-1add 1ae0-1aeb a7ce-a7cf a7d2 a7d4 a7f1 10940-10959 10ec5-10ec7 10efa-10efb "
    "11b60-11b67 11db0-11ddb 11de0-11de9 16ea0-16eb8 16ebb-16ed3 16ff2-16ff6 187f8-187ff 18d09-18d1e "
    "18d80-18df2 1e6c0-1e6de 1e6e0-1e6f5 1e6fe-1e6ff 2b73a-2b73f 2cea2-2cead 323b0-33479"
)
_STAND_IN = 0x1000C
# Characters whose bytes merge differently get another stand-in.
_OTHERS = {
    0x101CC: (
        "16ebc 18d11 18d81 18d8c 1e6c8 1e6f0 3246b 32478 324a4 324dd 324e8 324f0 324f4 324f8 32545 32610 "
        "32611 326c8 326f0 32718 32734 3278d 327c1 32885 3288b 328b0 328ff 32911 329d0 32abd 32b2c 32b54 "
        "32b55 32ba4 32c7c 32d11 32d81 32d8c 32dfa 32e90 32ebc 32f43 32f99 32fb3 32fb8 32fc0 32fc8 32fd0 "
        "32fe0 3318d 33192 331cc 331f4 3322c 33274 33313 3337c 3346b 33478"
    ),
    0x101B5: (
        "18d88 18d9a 323b7 3241c 3248c 324cd 324d8 32504 32589 325cf 32668 3277c 32801 32874 32a21 32a8c "
        "32b01 32b34 32b38 32cfb 32d08 32d6c 32d88 32d9a 32dfb 32eff 330a4 330a8 330ad 330c1 330dd 3314c "
        "3314d 33167 331b5 332b6 33328 33370 333b7 3341c"
    ),
    0x100FD: (
        "11de8 16eab 18de8 1e6c4 2ceab 32450 3245c 3254c 32642 3268c 326c4 3278b 327e5 327f3 32800 32870 "
        "328fc 3297f 32982 329ac 32ad8 32b50 32d00 32d5c 32de8 32df8 32e44 32eab 32f54 330ac 330b9 330fd "
        "33218 33300 33450 3345c"
    ),
    0x139A: (
        "1acf 1ad0 1ad1 1ad2 1ad3 1ad4 1ad5 1ad6 1ad7 1ad9 1ada 1adb 1adc 1add 1ae0 1ae1 1ae2 1ae3 1ae4 1ae5 "
        "1ae6 1ae7 1ae8 1ae9 1aea 1aeb"
    ),
    0xA48D: "a7ce a7cf a7d2 a7d4 a7f1",
    0xAC6: "c5c cdc",
    0x82E: "88f",
    0x18FC: "1ad8",
}


def _ranges(listed: str) -> list[range]:
    spans = (span.partition("-") for span in listed.split())
    return [range(int(first, 16), int(last or first, 16) + 1) for first, _, last in spans]


_TABLE = MappingProxyType(
    dict.fromkeys(chain(*_ranges(_RANGES)), _STAND_IN)
    | {point: stand_in for stand_in, listed in _OTHERS.items() for point in chain(*_ranges(listed))}
)


def _class_of(plane: range) -> str:
    """Return the new characters in these planes as a regular expression's class."""
    return "".join(f"{chr(each[0])}-{chr(each[-1])}" for each in _ranges(_RANGES) if each[0] in plane)


# Three searches, because ranges beyond the basic plane are slow: 4 ns a character, then 5, then 35.
_BASIC = re.compile(f"[{_class_of(range(0x10000))}]")
_ASTRAL = re.compile(f"[{chr(0x10000)}-{chr(0x10FFFF)}]")
_NEW_ASTRAL = re.compile(f"[{_class_of(range(0x10000, 0x110000))}]")


def with_stand_ins(text: str) -> str:
    """Return ``text`` with every character newer than Unicode 16 replaced. The length stays the same."""
    if text.isascii():
        return text
    if _BASIC.search(text) or (_ASTRAL.search(text) and _NEW_ASTRAL.search(text)):
        return text.translate(_TABLE)
    return text
