"""How many characters of sealed thoughts (signatures, encrypted content) are billed, as recorded bills show.

::

    Claude, beside its thinking                       none: 9 bills; the words are billed
    Gemini, on a text or on a hosted tool's parts     none: 6 bills
    Gemini, on a call, by how the signature begins:
      E, from the Gemini API                          all: 92 bills, 0.21 tokens a character in long ones
      AY, from Vertex                                 half: 3 bills
      C, one piece                                    none: 58 bills, mostly Vertex and Gemini 2.5; two were billed
      C, several pieces, as a streamed reply has      all: 17 bills, 0.17 tokens a character
    OpenAI, in a reasoning item, beginning gAAAAA     a token for 5 without the first 900: 9 bills, 7 to 24 % less

A signature with another beginning counts like one with E. Of both, the first 100 characters are free.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final

SIGNATURES: Final = frozenset({"thoughtSignature", "thought_signature"})
"""Members with Gemini's sealed thoughts; any part may have one."""
_CALLS: Final = frozenset({"functionCall", "function_call", "executableCode", "executable_code"})
_AROUND: Final = 100
"""Characters of a seal around its thoughts, which are not billed: 92 bills."""
_OF_OPENAI: Final = "gAAAAA"
"""How a Fernet token begins: base64 of its version and of its time's first bytes."""
_AROUND_OPENAIS: Final = 900
_ONE_BYTE_LENGTH: Final = 0x80


def billed_characters(part: Mapping[str, Any], name: str) -> int:
    """Return how many characters of the member ``name``, a seal of thoughts, are billed with its part."""
    seal = part[name]
    if not isinstance(seal, str) or (name == "signature" and part.get("thinking")):
        return 0
    if name == "encrypted_content" and seal.startswith(_OF_OPENAI):
        return max(1, (len(seal) - _AROUND_OPENAIS) * 4 // 5)  # the others cost a token for 4 characters
    if name not in SIGNATURES:
        return len(seal)
    if not part.keys() & _CALLS:
        return 0
    if seal.startswith("AY"):
        return len(seal) // 2
    return 0 if is_of_vertex(seal) else max(0, len(seal) - _AROUND)


def is_of_vertex(seal: Any) -> bool:
    """Return whether a seal is in one piece, which is how Vertex mostly sends it.

    The first field of the Protocol Buffers message then needs a length of two bytes.
    """
    if not isinstance(seal, str) or not seal.startswith("C"):
        return False
    try:
        head = base64.urlsafe_b64decode(seal[:4].replace("+", "-").replace("/", "_"))
    except (binascii.Error, ValueError):
        return False
    return len(head) > 1 and head[1] >= _ONE_BYTE_LENGTH
