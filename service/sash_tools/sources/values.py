"""Read bytes as JSON: one value, or one on each line."""

from typing import Any

import msgspec

from sash.commands.source_error import SourceError
from sash.core.chat.half_pairs import with_whole_pairs
from sash.core.chat.json_bodies import refuse_deep
from sash.problems import BadRequest

_decoder = msgspec.json.Decoder()
_BOM = b"\xef\xbb\xbf"


def values_in(data: bytes, name: str) -> tuple[list[Any], bool]:
    """Return one JSON value, or those of several lines; and whether there were lines. Raises SourceError."""
    data = data.removeprefix(_BOM)
    lines = [(number, line) for number, line in enumerate(data.splitlines(), 1) if line.strip()]
    if not lines:
        raise SourceError(f"{name}: is empty")
    if len(lines) > 1 and _is_value(lines[0][1]):
        return [decoded(line, f"{name}: line {number}") for number, line in lines], True
    return [decoded(data, name)], False


def _is_value(line: bytes) -> bool:
    try:
        decoded(line, "")
    except SourceError:
        return False
    return True


def decoded(data: bytes, where: str) -> Any:
    """Return a JSON value. Raises SourceError, whose text begins with ``where``."""
    try:
        refuse_deep(data)
        try:
            return _decoder.decode(data)
        except msgspec.DecodeError:
            return _decoder.decode(with_whole_pairs(data))
    except BadRequest:
        raise SourceError(f"{where}: nests too deep, or its brackets do not match") from None
    except UnicodeDecodeError as error:
        raise SourceError(f"{where}: not UTF-8 at byte {error.start}") from None
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise SourceError(f"{where}: not JSON: {error}") from None
