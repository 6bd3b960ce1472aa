"""Where a JSON value does not have the declared shape, and what is expected there.

msgspec decodes and refuses. Its errors speak of Python's types, so the place is looked for here, and said in JSON's words.
"""

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect
from msgspec.inspect import (
    AnyType,
    BoolType,
    DictType,
    FloatType,
    IntType,
    ListType,
    LiteralType,
    Metadata,
    NoneType,
    RawType,
    StrType,
    StructType,
    TupleType,
    Type,
    UnionType,
)

_READ_FROM_TEXT = ((IntType, int), (FloatType, float), (BoolType, bool), (NoneType, None))
_MOST_SHOWN = 100


class Misfit(NamedTuple):
    """A wrong place: the names and indices that lead to it, what is wrong, and a hint behind it.

    For a member that the declaration does not know, ``known`` are the members that it may stand for.
    """

    steps: tuple[str, ...]
    what: str = ""
    hint: str = ""
    known: tuple[str, ...] | None = None


def misfit(of: Any, value: Any, *, from_text: bool = False) -> Misfit | None:
    """Return the first place where ``value`` does not fit the type ``of``; None if it fits.

    With ``from_text``, ``value`` is the query string's names and texts, and a text may stand for a number.
    """
    kinds = _kinds_of(of)
    if from_text:
        types = {
            field.encode_name: field.type for kind in kinds if isinstance(kind, StructType) for field in kind.fields
        }
        value = {name: _read(types[name], text) if name in types else text for name, text in value.items()}
    found = _misfit(kinds, value, ())
    if found is not None and from_text:  # a parameter is left out, and never null
        found = found._replace(what=found.what.replace(" or null", ""))
    return found


@lru_cache(maxsize=64)
def _kinds_of(of: Any) -> list[Type]:
    return list(_alternatives(inspect.type_info(of)))


def _alternatives(kind: Type) -> Iterator[Type]:
    match kind:
        case Metadata(type=StrType(pattern=str())):
            yield kind  # its description says what the pattern demands
        case Metadata():
            yield from _alternatives(kind.type)
        case UnionType():
            for each in kind.types:
                yield from _alternatives(each)
        case _:
            yield kind


def _misfit(kinds: Sequence[Type], value: Any, steps: tuple[str, ...]) -> Misfit | None:
    structs = [kind for kind in kinds if isinstance(kind, StructType)]
    if structs and isinstance(value, dict):
        return _in_struct(structs, value, steps)
    if not any(_is_of(kind, value) for kind in kinds):
        return Misfit(steps, *_expected(kinds, value))
    for inner, step, each in _items(kinds, value):
        if found := _misfit(list(_alternatives(inner)), each, (*steps, step)):
            return found
    return None


def _read(of: Type, text: str) -> Any:
    kinds = [type(each) for each in _alternatives(of)]
    for kind, python in _READ_FROM_TEXT:
        if kind in kinds:
            try:
                return msgspec.convert(text, python, strict=False)
            except msgspec.ValidationError:
                continue
    return text


def _in_struct(kinds: Sequence[StructType], value: dict[str, Any], steps: tuple[str, ...]) -> Misfit | None:
    kind, tag = kinds[0], kinds[0].tag_field
    if tag is not None and (tag in value or len(kinds) > 1):
        if tag not in value:
            return _missing(tag, (), value, steps)
        tagged = [each for each in kinds if each.tag == value[tag]]
        if not tagged:
            return Misfit((*steps, tag), *_expected([LiteralType(tuple(each.tag for each in kinds))], value[tag]))
        kind = tagged[0]
    fields = {field.encode_name: field for field in kind.fields}
    for name, each in value.items():
        if name in fields:
            if found := _misfit(list(_alternatives(fields[name].type)), each, (*steps, name)):
                return found
        elif kind.forbid_unknown_fields and name != tag:
            return Misfit((*steps, name), known=tuple(fields))
    for name, field in fields.items():
        if field.required and name not in value:
            return _missing(name, fields, value, steps)
    return None


def _missing(name: str, fields: Iterable[str], value: dict[str, Any], steps: tuple[str, ...]) -> Misfit:
    """The problem of a missing member, or of the member that was probably meant for it."""
    for near in difflib.get_close_matches(name, value.keys() - set(fields), n=1):
        return Misfit((*steps, near), known=(name,))
    return Misfit(steps, f"The field '{name}' is missing")


def _items(kinds: Iterable[Type], value: Any) -> Iterator[tuple[Type, str, Any]]:
    """The items of a list or an object that have a type of their own, with their names or indices."""
    for kind in kinds:
        match kind:
            case ListType() if isinstance(value, list):
                yield from ((kind.item_type, str(at), each) for at, each in enumerate(value))
            case TupleType() if isinstance(value, list):
                pairs = zip(kind.item_types, value, strict=True)
                yield from ((inner, str(at), each) for at, (inner, each) in enumerate(pairs))
            case DictType() if isinstance(value, dict):
                yield from ((kind.value_type, name, each) for name, each in value.items())


def _is_of(kind: Type, value: Any) -> bool:  # noqa: PLR0911 - one line a type
    """Whether a value has a type, its bounds kept; of lists and objects without their items."""
    match kind:
        case Metadata():
            return _is_of(kind.type, value)
        case StrType():
            fits = isinstance(value, str) and _is_within(len(value), kind.min_length, kind.max_length)
            return fits and (kind.pattern is None or re.search(kind.pattern, value) is not None)
        case IntType() | FloatType():
            whole = isinstance(kind, IntType) and not isinstance(value, int)
            above = kind.gt is None or (_is_number(value) and value > kind.gt)
            fits = _is_number(value) and not whole and above and _is_within(value, kind.ge, kind.le)
            return fits and _is_multiple(kind, value)
        case LiteralType():
            return isinstance(value, str) and value in kind.values
        case ListType():
            return isinstance(value, list) and _is_within(len(value), kind.min_length, kind.max_length)
        case TupleType():
            return isinstance(value, list) and len(value) == len(kind.item_types)
        case BoolType():
            return isinstance(value, bool)
        case NoneType():
            return value is None
        case DictType():
            return isinstance(value, dict)
        case _:
            return isinstance(kind, AnyType | RawType)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_multiple(kind: IntType | FloatType, value: float) -> bool:
    return kind.multiple_of is None or value % kind.multiple_of == 0


def _is_within(value: float, least: float | None, most: float | None) -> bool:
    return (least is None or value >= least) and (most is None or value <= most)


def _expected(kinds: Sequence[Type], value: Any) -> tuple[str, str]:
    """What is wrong with a value, and a hint."""
    wanted = [text for kind in kinds for text in _texts(kind)]
    wanted = [text for text in wanted if text != "null"] or wanted  # null leaves the member as it is without a value
    if isinstance(value, str) and any(isinstance(kind, LiteralType) for kind in kinds):
        return f"Invalid value {value[:_MOST_SHOWN]!r}", f": one of {joined(wanted)}"
    shown = _shown(value)
    is_like = isinstance(value, str) and any(isinstance(kind, Metadata | StrType) for kind in kinds)
    not_this = "" if is_like or any(text.startswith(shown) for text in wanted) else f", not {shown}"
    return f"Expected {joined(list(dict.fromkeys(wanted)))}{not_this}", _wrapper(kinds, value)


def _needed(kind: StructType) -> list[msgspec.inspect.Field]:
    """The members that an object must have; of one that needs none, its text."""
    needed = [field for field in kind.fields if field.required]
    return needed or [field for field in kind.fields if field.encode_name == "text"]


def _has_messages(kind: StructType) -> bool:
    return any(field.encode_name == "messages" for field in kind.fields)


def _wrapper(kinds: Sequence[Type], value: Any) -> str:
    """A hint for a list or a text in place of the object that has it, and for an id with a slash."""
    if isinstance(value, str) and "/" in value and any(isinstance(kind, Metadata) for kind in kinds):
        return ": write user-1 or user.1 for user/1"
    for kind in kinds:
        needed = _needed(kind) if isinstance(kind, StructType) else []
        if isinstance(value, list | str) and isinstance(kind, StructType) and _has_messages(kind):
            example = "[…]" if isinstance(value, list) else '[{"role": "user", "content": "Hello"}]'
            beside = '"model": "gpt-4o", ' if any(field.encode_name == "model" for field in kind.fields) else ""
            return f': {"put the list into" if isinstance(value, list) else "send"} {{{beside}"messages": {example}}}'
        if len(needed) == 1:
            for inner in _alternatives(needed[0].type):
                if isinstance(inner, ListType) and isinstance(value, list):
                    return f': put the list into {{"{needed[0].encode_name}": […]}}'
                if isinstance(inner, StrType) and isinstance(value, str):
                    return f': put the text into {{"{needed[0].encode_name}": "…"}}'
    return ""


def _texts(kind: Type) -> list[str]:  # noqa: C901, PLR0911 - one line a type
    """What a type takes, in JSON's words."""
    match kind:
        case Metadata():
            said = str((kind.extra_json_schema or {}).get("description", "a string"))
            return [said.partition(". ")[0].rstrip(".")]
        case StrType():
            return ["a string" + _range(kind.min_length, kind.max_length, " characters", " of")]
        case IntType():
            return ["a whole number" + _numbers(kind)]
        case FloatType():
            return [("a whole number" if kind.multiple_of == 1 else "a number") + _numbers(kind)]
        case LiteralType():
            return [f"'{word}'" for word in kind.values]
        case ListType():
            return ["a list" + _range(kind.min_length, kind.max_length, " items", " of")]
        case TupleType():
            return [f"a list of {len(kind.item_types)} items"]
        case BoolType():
            return ["true", "false"]
        case NoneType():
            return ["null"]
        case StructType():
            needed = [f"'{field.encode_name}'" for field in _needed(kind)]
            return [f"an object with {' and '.join(needed)}" if needed else "an object"]
        case _:
            return ["an object"]


def _numbers(kind: IntType | FloatType) -> str:
    if kind.gt is not None:
        return f" above {kind.gt:g}" + (f", at most {kind.le:g}" if kind.le is not None else "")
    return _range(kind.ge, kind.le)


def _range(least: float | None, most: float | None, unit: str = "", of: str = "") -> str:
    match least, most:
        case None | 0, None:
            return ""
        case None | 0, _ if unit:
            return f"{of} at most {most}{unit}"
        case _, None:
            return f"{of} at least {least}{unit.removesuffix('s') if least == 1 else unit}"
        case _:
            return f"{of or ' from'} {least} to {most}{unit}"


def _shown(value: Any) -> str:
    match value:
        case str():
            return "a string"
        case list():
            return "a list"
        case dict():
            return "an object"
        case _:
            return msgspec.json.encode(value).decode()[:_MOST_SHOWN]


def joined(words: Sequence[str]) -> str:
    """Return the words with commas, and "or" before the last."""
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last
