"""JSON of requests, decoded as a type, or refused with what is wrong: its bytes, its depth, its numbers, its shape."""

from typing import Any, TypeVar

import msgspec

from sash.core.chat import mistakes
from sash.core.chat.half_pairs import with_whole_pairs
from sash.core.chat.programs import whole_reply
from sash.problems import BadRequest

T = TypeVar("T")

MAX_DEPTH = 100
"""The largest nesting of a body. Decoders recurse, and must not overflow a small thread stack."""
_BLOCK = 128
STORED_DEPTH = MAX_DEPTH + _BLOCK // 2 + 8
"""The largest nesting of a line of an export: what ``refuse_deep`` tolerates, and a provider's form around it."""
_NOT_BRACKETS_OR_QUOTES = bytes(sorted(set(range(256)) - set(b'[]{}"')))
FAULTS = (msgspec.DecodeError, RecursionError, ValueError, OverflowError)
"""Exceptions of a decoder."""
_VERBATIM = frozenset({"message", "metadata", "few_shots", "tools", "tool_choice"})
"""Members that are kept as the client wrote them."""
LONG_BYTES = 32 * 1024


def decode_json(body: bytes, decoder: msgspec.json.Decoder[T], max_depth: int = MAX_DEPTH) -> T:
    """The body as the decoder's type.

    Raises BadRequest for anything that is not JSON in UTF-8, nested deeper than ``max_depth``, or of the wrong shape.
    """
    refuse_deep(body, max_depth)
    return read_json(body, decoder)


def read_json(body: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """The body, which is not nested deeply, as the decoder's type. Raises BadRequest."""
    if not body.strip():
        raise mistakes.empty_body(decoder.type)
    try:
        return _decoded(body, decoder)
    except msgspec.ValidationError:
        raise mistakes.out_of_range(body) from None
    except UnicodeDecodeError:
        raise BadRequest.at("#", f"The body is not UTF-8: byte {_not_utf8_at(body)} cannot be read") from None
    except FAULTS as error:
        if (whole := with_whole_pairs(body)) != body:
            return read_json(whole, decoder)
        raise BadRequest.at("#", f"The body is not JSON: {mistakes.plain(str(error))}") from None


def _decoded(body: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """The body as the decoder's type. Raises ValidationError for a number that cannot be held."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError:
        return convert_json(msgspec.json.decode(body), decoder)


def convert_json(value: Any, decoder: msgspec.json.Decoder[T]) -> T:
    """Decoded JSON as the decoder's type. Raises BadRequest."""
    try:
        return msgspec.convert(value, decoder.type)
    except msgspec.ValidationError:
        value = whole_numbers(value)
    try:
        return msgspec.convert(value, decoder.type)
    except msgspec.ValidationError:
        if program := whole_reply(value):
            raise program.refused("") from None
        raise mistakes.invalid("", BadRequest, of=decoder.type, value=value) from None


def whole_numbers(value: Any) -> Any:
    """The value with whole floats as integers (5.0 becomes 5), except in members that are stored verbatim.

    JSON has one kind of number, and in JSON Schema 5.0 is an integer. Some clients' libraries (Gson, Lua's) write integers
    like this.
    """
    match value:
        case float() if value.is_integer():
            return int(value)
        case dict():
            return {name: each if name in _VERBATIM else whole_numbers(each) for name, each in value.items()}
        case list():
            return [whole_numbers(each) for each in value]
        case _:
            return value


def _not_utf8_at(body: bytes) -> int:
    """The offset of the first byte that is not UTF-8. The decoder's own offset is relative to a string."""
    try:
        body.decode()
    except UnicodeDecodeError as error:
        return error.start
    return len(body)


def refuse_deep(body: bytes, max_depth: int = MAX_DEPTH) -> None:
    """Raise BadRequest if brackets nest deeper than ``max_depth``, with a tolerance of half a block.

    Removes strings, then counts open brackets block by block: linear in the body, and without recursion. Between two
    checks the depth can grow by at most half a block.
    """
    if len(body) < LONG_BYTES and body.count(b"[") + body.count(b"{") <= max_depth:  # as nearly always
        return
    if b"\\" in body:
        body = body.replace(rb"\\", b"").replace(rb"\"", b"")  # then each quote begins or ends a string
    brackets = b"".join(body.translate(None, _NOT_BRACKETS_OR_QUOTES).split(b'"')[::2])
    depth = 0
    for start in range(0, len(brackets), _BLOCK):
        block = brackets[start : start + _BLOCK]
        depth += block.count(b"[") + block.count(b"{") - block.count(b"]") - block.count(b"}")
        if depth > max_depth:
            raise BadRequest.at("#", f"The body nests deeper than {max_depth} levels, or its brackets do not match")
