"""The alphabets of tools' names, and the names in them that are sent in place of others.

A declared tool with another name would end every request of its conversation. Which destination has which alphabet, and
where it is known from, is a fact of it.
"""

import re
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, Final

ALPHABETS: Final[Mapping[str, re.Pattern[str]]] = MappingProxyType(
    {
        "dotted": re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]*"),
        "plain": re.compile(r"[a-zA-Z0-9_-]+"),
        "word": re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*"),
    }
)
"""The patterns of declared tools' names, by the value of the fact ``tool_names``."""
_OTHER: Final = {name: re.compile(r"[^a-zA-Z0-9_]" if name == "word" else r"[^a-zA-Z0-9_-]") for name in ALPHABETS}
_DIGEST_BYTES: Final = 4
_NAMED: Final = frozenset(
    {"function", "custom", "function_call", "functionCall", "functionResponse", "toolUse", "tool"}
)
"""Members whose object has a tool's name as ``name``."""
_TYPES: Final = frozenset(
    {"function_call", "custom_tool_call", "tool_use", "function_result", "function", "custom", "tool_reference"}
)
"""Types of parts and items that have a tool's name."""
_CONTENTS: Final = frozenset({"arguments", "args", "input", "response", "parameters", "result", "output"})
"""Members that hold a client's own values."""


def names_in(alphabet: str, declared: Iterable[str], longest: int) -> Mapping[str, str]:
    """Return the name that is sent for each declared one that is not in an alphabet; they follow from the names alone.

    No two tools have one name, whatever their order. A name of more than ``longest`` characters is refused elsewhere.

    >>> dict(names_in("plain", ["files.read", "look", "поиск"], 64))
    {'files.read': 'files_read', 'поиск': '______f5c3cfa9'}
    """
    pattern, names = ALPHABETS[alphabet], dict.fromkeys(declared)
    odd = [name for name in names if not pattern.fullmatch(name) and len(name) <= longest]
    found = {name: _begun(_OTHER[alphabet].sub("_", name), pattern)[:longest] for name in odd}
    taken = [*(name for name in names if name not in found), *found.values()]
    for name, plain in found.items():
        if taken.count(plain) > 1 or not plain.strip("_"):
            digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).hexdigest()
            found[name] = f"{plain[: longest - len(digest) - 1]}_{digest}"
    return MappingProxyType(found)


def _begun(name: str, pattern: re.Pattern[str]) -> str:
    return name if pattern.fullmatch(name) else f"_{name}"


def renamed(value: Any, names: Mapping[str, str]) -> Any:
    """Return a message, a definition or a choice, in any form, with other names of tools; the same if it has none of them.

    Texts, arguments and results are not read.
    """
    return _renamed(value, names, is_named=False)


def _renamed(value: Any, names: Mapping[str, str], *, is_named: bool) -> Any:
    if isinstance(value, list):
        return [_renamed(each, names, is_named=is_named) for each in value]
    if not isinstance(value, dict):
        return value
    has_name = is_named or value.get("type") in _TYPES or value.get("role") in ("tool", "function")
    changed = {
        key: each if key in _CONTENTS else _renamed(each, names, is_named=key in _NAMED) for key, each in value.items()
    }
    for key in ("name", "tool_name"):
        if (has_name or key == "tool_name") and isinstance(own := value.get(key), str) and own in names:
            changed[key] = names[own]
    return changed
