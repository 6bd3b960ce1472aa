"""The alphabets of tools' names: a declared tool with another name would end every request of its conversation.

Which destination has which alphabet, and where it is known from, is a fact of it.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

ALPHABETS: Final[Mapping[str, re.Pattern[str]]] = MappingProxyType(
    {"plain": re.compile(r"[a-zA-Z0-9_-]+"), "dotted": re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]*")}
)
"""The patterns of declared tools' names, by the value of the fact ``tool_names``."""
_OF_ALL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]*")


def is_of_all(name: str) -> bool:
    """Return whether a tool's name is in the alphabets of all providers, as nearly every one is.

    >>> [is_of_all(name) for name in ("reset_code", "2fa", "files.read")]
    [True, False, False]
    """
    return bool(_OF_ALL.fullmatch(name))
