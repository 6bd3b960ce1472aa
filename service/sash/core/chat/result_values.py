"""The content of a tool's result as programs write it: what their function returned, where forms have a text or parts."""

from collections.abc import Callable
from typing import Any

import msgspec

IsPart = Callable[[dict[str, Any]], bool]


def has_type(part: dict[str, Any]) -> bool:
    """Return whether an object says, or means to say, which part it is."""
    return "type" in part


def returned_content(value: Any, is_part: IsPart = has_type) -> Any:
    """Return a text, null, or a list with a part as it is, and the JSON text of every other value.

    >>> returned_content("7"), returned_content(7), returned_content(["a"])
    ('7', '7', '["a"]')
    """
    is_content = value is None or isinstance(value, str) or (isinstance(value, list) and _has_part(value, is_part))
    return value if is_content else msgspec.json.encode(value).decode()


def _has_part(values: list[Any], is_part: IsPart) -> bool:
    return not values or any(isinstance(each, dict) and is_part(each) for each in values)
