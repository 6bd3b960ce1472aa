"""Receipts: a name for a window, from which it is made again.

A window is a function of a conversation's state, its parameters, and the figures of its model. A receipt names all three,
and has a checksum of the answer and of itself, so that other bytes are never taken for it. It tells nothing of the texts,
because log lines have it::

    w1.  life 16  last write 8  base64url of: checksum 8, then msgpack of the fields of ``_Rest``

The life and the last write are those of the entity tag. Where a receipt would be longer than ``LONGEST``, the model's name
is deflated, as those of clouds are long. Where that is not enough, and where a parameter is a text (``recall_query``), it
has a digest in place of the parameters, which are then given again beside it.
"""

import zlib
from base64 import urlsafe_b64decode
from binascii import b2a_base64
from collections.abc import Mapping
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, Final

import msgspec
from msgspec import inspect
from xxhash import xxh3_64_digest, xxh3_64_intdigest

from sash.core.chat.bounds import RECEIPTS
from sash.core.counts.models.models import Model
from sash.core.law.records.parameters import WindowQuery
from sash.core.providers.destinations.cloud_names import OF_NAMES
from sash.problems import BadRequest, Unprocessable
from sash.store.data.earlier import Then
from sash.store.data.layout import Target
from sash.store.data.replies import State

LONGEST: Final = 160
"""The largest number of characters of a receipt."""
RULES_BYTES: Final = 6
_LIFE, _CHANGE = slice(3, 19), slice(19, 27)
_CHECKSUM: Final = 8
_ROOM: Final = (LONGEST - _CHANGE.stop) * 3 // 4 - _CHECKSUM
"""Bytes of the rest that base64 has room for."""
_TO_URL: Final = bytes.maketrans(b"+/", b"-_")
_NAME: Final = 0xFFFF
"""The bits of a checksum of the conversation's name, which tells a receipt of another conversation."""
_MOST_TOKENS: Final = 100_000_000
_MOST_FACTOR: Final = 1000
_encode = msgspec.msgpack.Encoder().encode


class _Rest(msgspec.Struct, array_like=True, frozen=True):
    """The rest of a receipt.

    ``name`` is a checksum of the conversation's name, ``before`` the messages since the newest question, ``rules`` a digest
    of the model's figures, and ``total`` the window's tokens. ``parameters`` are keys and values in turn, or their digest.
    ``constant`` is there only if it is not 0.
    """

    name: int
    version: int
    length: int
    before: int
    tokens: int
    grounding_messages: int
    grounding_tokens: int
    total: int
    rules: bytes
    correction: float | None
    parameters: list[Any] | bytes
    constant: int = 0


_decode = msgspec.msgpack.Decoder(_Rest).decode


class Receipt(msgspec.Struct, frozen=True):
    """A receipt that was read. ``parameters`` are those that are not the default, or their digest; ``total`` is the window's
    ``tokens.total``, ``correction`` the factor of its estimate, and ``constant`` the tokens beside it."""

    text: str
    name: int
    life: str
    then: Then
    rules: bytes
    correction: float | None
    total: int
    parameters: Mapping[str, Any] | bytes
    constant: int


def receipt_of(
    target: Target, state: State, column: int, rules: bytes, told: tuple[Any, ...], body: bytes, total: int
) -> bytes:
    """The receipt of an answer: ``body`` is all of it except the receipt, and ``total`` the window's tokens.

    ``rules`` is the digest of the model's figures, and ``told`` what ``told_of`` gives.
    """
    life, change = state.made[0], state.etag[-8:].encode()
    fields = (
        zlib.crc32(target.name.encode()) & _NAME,
        state.version,
        state.length,
        state.length - state.question,
        state.tokens[column],
        state.grounding_messages,
        state.grounding_tokens[column],
        total,
        rules,
        *told,
    )
    packed = _encode(fields)
    if len(packed) > _ROOM:
        packed = _shorter(fields)
    checksum = xxh3_64_digest(life + packed, xxh3_64_intdigest(body))
    return b"w1." + life + change + b2a_base64(checksum + packed).translate(_TO_URL).rstrip(b"=\n")


def _shorter(fields: tuple[Any, ...]) -> bytes:
    """The fields of a receipt whose parameters are too long: with a deflated name of the model, or a digest of all."""
    place = _Rest.__struct_fields__.index("parameters")
    before, parameters, behind = fields[:place], bytes(fields[place]), fields[place + 1 :]
    packed = _encode((*before, _with_short_model(parameters), *behind))
    return packed if len(packed) <= _ROOM else _encode((*before, _digest(parameters), *behind))


def _digest(packed: bytes) -> bytes:
    return blake2b(packed, digest_size=8).digest()


def read_receipt(text: str, pointer: str) -> Receipt:
    """The receipt as it was given at ``pointer``. Raises BadRequest if it is none."""
    try:
        if not RECEIPTS.fullmatch(text):
            raise ValueError(text)  # noqa: TRY301 - the same answer as for one that cannot be read
        packed = urlsafe_b64decode(text[_CHANGE.stop :] + "=" * (-(len(text) - _CHANGE.stop) % 4))
        rest = _decode(packed[_CHECKSUM:])
        parameters = rest.parameters if isinstance(rest.parameters, bytes) else _named(rest.parameters)
        if not _is_possible(rest):
            raise ValueError(text)  # noqa: TRY301
    except (ValueError, KeyError, TypeError, msgspec.DecodeError, zlib.error):
        raise BadRequest.at(pointer, "This is no receipt: send a window's receipt as it came") from None
    life = text[_LIFE]
    then = Then(
        version=rest.version,
        etag=f"{rest.version}-{life}-{text[_CHANGE]}",
        length=rest.length,
        tokens=rest.tokens,
        grounding_messages=rest.grounding_messages,
        grounding_tokens=rest.grounding_tokens,
        question=rest.length - rest.before,
    )
    return Receipt(text, rest.name, life, then, rest.rules, rest.correction, rest.total, parameters, rest.constant)


def _is_possible(rest: _Rest) -> bool:
    """Whether some state and some window could have these figures."""
    least = min(rest.version, rest.tokens, rest.grounding_messages, rest.grounding_tokens)
    factor = 1.0 if rest.correction is None else rest.correction
    return (
        0 <= rest.before <= rest.length
        and least >= 0
        and 0 <= rest.total <= _MOST_TOKENS
        and 0 < factor <= _MOST_FACTOR
        and abs(rest.constant) <= _MOST_TOKENS
    )


def require_of(receipt: Receipt, target: Target, pointer: str) -> None:
    """Raise Unprocessable for a receipt of another conversation."""
    if receipt.name != zlib.crc32(target.name.encode()) & _NAME:
        raise Unprocessable.at(pointer, "This receipt is of a window of another conversation")


# ---- parameters


def _key(name: str) -> int:
    """A parameter's key, or a choice's, in receipts: it stays where others are added."""
    return zlib.crc32(name.encode())


class _Parameter(msgspec.Struct, frozen=True):
    name: str
    key: int
    default: Any
    choices: Mapping[str, int]
    """Numbers of the words that it may be."""


def _words(found: inspect.Type) -> list[str]:
    match found:
        case inspect.LiteralType(values):
            return [each for each in values if isinstance(each, str)]
        case inspect.UnionType(types):
            return [word for each in types for word in _words(each)]
        case inspect.Metadata(type=inner):
            return _words(inner)
    return []


def _parameters() -> list[_Parameter]:
    found = inspect.type_info(WindowQuery)
    assert isinstance(found, inspect.StructType)  # noqa: S101 - it is one
    return [
        _Parameter(
            each.name, _key(each.name) & 0xFFFF, each.default, {word: _key(word) & 0x7F for word in _words(each.type)}
        )
        for each in found.fields
    ]


_MODEL: Final = _key("model") & 0xFFFF
_LONGEST_NAME: Final = 1024


def _with_short_model(packed: bytes) -> list[Any]:
    """Parameters with the model's name deflated."""
    flat = msgspec.msgpack.decode(packed)
    for at in range(0, len(flat), 2):
        if flat[at] == _MODEL:
            deflate = zlib.compressobj(9, wbits=-15, zdict=OF_NAMES)
            flat[at + 1] = deflate.compress(flat[at + 1].encode()) + deflate.flush()
    return flat  # type: ignore[no-any-return] # packed_parameters made a list


PARAMETERS: Final = _parameters()
_BY_KEY: Final = MappingProxyType({each.key: each for each in PARAMETERS})


def packed_parameters(query: WindowQuery) -> msgspec.Raw:
    """The parameters of a window that are not the default, as msgpack."""
    found: list[Any] = []
    for each in PARAMETERS:
        value = getattr(query, each.name)
        if value != each.default:
            found += (each.key, each.choices.get(value, value))
    return msgspec.Raw(_encode(found))


def told_of(query: WindowQuery, model: Model) -> tuple[Any, ...]:
    """What receipts have of the query and the model: a correction, the parameters, and a constant if there is one.

    Where a parameter is a text, there is a digest in place of the parameters.
    """
    packed = packed_parameters(query)
    told = msgspec.Raw(_encode(_digest(bytes(packed)))) if query.recall_query else packed
    return model.correction, told, *((model.constant,) if model.constant else ())


def query_of_receipt(receipt: Receipt, given: WindowQuery, pointer: str) -> tuple[WindowQuery, bool]:
    """The parameters of the receipt's window, and whether it is to be explained.

    ``given`` are those beside the receipt, which it may need. Raises Unprocessable if the receipt needs them and has others,
    or has them itself; BadRequest if it is no receipt.
    """
    others = msgspec.structs.replace(given, explain=False)
    if isinstance(receipt.parameters, bytes):
        asked = next(
            (each for each in (given, others) if _digest(bytes(packed_parameters(each))) == receipt.parameters), None
        )
        if asked is None:
            detail = (
                "The receipt has no parameters, as they were too long, or recall_query is a text: give them beside it, all "
                "as they were when the window was made"
            )
            raise Unprocessable.at(pointer, detail)
        return asked, given.explain
    if others != WindowQuery():
        raise Unprocessable.at(
            pointer, "A receipt has the parameters of its window: give it alone, or with explain=true"
        )
    try:
        return msgspec.convert(receipt.parameters, WindowQuery), given.explain
    except msgspec.ValidationError:
        raise BadRequest.at(pointer, "This is no receipt: send a window's receipt as it came") from None


def _named(flat: list[Any]) -> dict[str, Any]:
    """Parameters by name. Raises KeyError, ValueError for one that is unknown."""
    found: dict[str, Any] = {}
    for key, value in zip(flat[::2], flat[1::2], strict=True):
        each = _BY_KEY[key]
        if isinstance(value, bytes):
            found[each.name] = zlib.decompressobj(-15, zdict=OF_NAMES).decompress(value, _LONGEST_NAME).decode()
            continue
        words = {number: word for word, number in each.choices.items()}
        is_word = each.choices and isinstance(value, int) and not isinstance(value, bool)
        found[each.name] = words[value] if is_word else value
    return found
