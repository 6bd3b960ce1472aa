"""The alphabets of tools' names: a declared tool with another name would end every request of its conversation."""

import re
from typing import Final

import msgspec


class Alphabet(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider takes as a declared tool's name, beside its length (``RequestLimits.tool_name``)."""

    pattern: re.Pattern[str]
    words: str
    """What the pattern says, for a problem's detail."""
    evidence: str


PLAIN_NAMES: Final = Alphabet(
    pattern=re.compile(r"[a-zA-Z0-9_-]+"),
    words="letters of a to z, digits, `_` and `-`",
    evidence="OpenAI answers 400: \"Invalid 'tools[0].function.name': string does not match pattern. Expected a string that "
    "matches the pattern '^[a-zA-Z0-9_-]+$'\" (run-llama/llama_index 16093); Anthropic: \"tools.7.custom.name: String "
    "should match pattern '^[a-zA-Z0-9_-]{1,64}$'\", today 128 (apify/tester-mcp-client 11); botocore's service "
    "model: `ToolName`",
)
DOTTED_NAMES: Final = Alphabet(
    pattern=re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]*"),
    words="letters of a to z, digits, `_`, `.`, `:` and `-`, with a letter or `_` first",
    evidence="Gemini answers 400: 'Invalid function name. Must start with a letter or an underscore. Must be alphameric "
    "(a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-)' (Finerestaurant/kicad-mcp-python 2, "
    "google-gemini/gemini-cli 7869)",
)
_OF_ALL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]*")


def is_of_all(name: str) -> bool:
    """Return whether a tool's name is in the alphabets of all providers, as nearly every one is.

    >>> [is_of_all(name) for name in ("reset_code", "2fa", "files.read")]
    [True, False, False]
    """
    return bool(_OF_ALL.fullmatch(name))
