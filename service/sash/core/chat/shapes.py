"""Where a JSON value does not have the declared shape, and what is expected there.

msgspec decodes and refuses. Its errors speak of Python's types, so the place is looked for here, and said in JSON's words.
"""

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect
from msgspec.inspect import (
    AnyType,
    BoolType,
    DictType,
    Field,
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

from sash.core.chat.other_names import meant_member, meant_word

_READ_FROM_TEXT = ((IntType, int), (FloatType, float), (BoolType, bool))
_MOST_SHOWN = 100
_NOTHING = frozenset({"", "null", "none", "nil", "undefined", "nan"})
"""What clients write into a query for a value that they do not have."""
_CUT = "…"
"""Stands for any text in an example."""
_NUMBER = re.compile(r"-?\d{1,15}(\.\d{1,15})?")


class Misfit(NamedTuple):
    """A wrong place: the names and indices that lead to it, what is wrong, and a hint behind it.

    For a member that the declaration does not know, ``known`` are the members that it may stand for.
    """

    steps: tuple[str, ...]
    what: str = ""
    hint: str = ""
    known: tuple[str, ...] | None = None


def misfits(of: Any, value: Any, *, from_text: bool = False) -> Iterator[Misfit]:
    """Yield each place where ``value`` does not fit the type ``of``, in the value's order; nothing if it fits.

    With ``from_text``, ``value`` is the query string's names and texts, and a text may stand for a number.
    """
    kind = _type_of(of)
    return _misfits_of_query(kind, value) if from_text else _misfits(kind, value, ())


def _misfits_of_query(kind: Type, texts: dict[str, str]) -> Iterator[Misfit]:
    """Yield each wrong parameter. A parameter is left out, and never null."""
    fields = {each.encode_name: each for each in getattr(kind, "fields", ())}
    value = {name: _read(fields[name].type, text) if name in fields else text for name, text in texts.items()}
    found = [_in_words_of_query(each, fields, texts) for each in _misfits(kind, value, ())]
    yield from found
    if not found and (null := next((name for name, text in texts.items() if text.lower() == "null"), "")):
        yield Misfit((null,), "Expected a text, not 'null'", ": leave the parameter out")


def _in_words_of_query(found: Misfit, fields: Mapping[str, Field], texts: Mapping[str, str]) -> Misfit:
    if not found.steps:  # a parameter is missing
        return found._replace(what=found.what.replace("field", "parameter"), hint="")
    if found.steps[0] not in fields:
        return found
    name = found.steps[0]
    given = f", not {texts[name][:_MOST_SHOWN]!r}" if texts[name] else ", not an empty value"
    what, hint = found.what.replace(" or null", "").replace(", not a string", given), found.hint
    if texts[name].strip().lower() in _NOTHING and not fields[name].required:
        hint += "; or leave the parameter out" if hint else ": give a value, or leave the parameter out"
    return found._replace(what=what, hint=hint)


def example_of(of: Any) -> str:
    """The end of a sentence with a right value of the type ``of``; empty if its declaration has no example."""
    example = _example(_type_of(of))
    return f": send {_shown_example(example)}" if example is not None else ""


@lru_cache(maxsize=64)
def _type_of(of: Any) -> Type:
    return inspect.type_info(of)


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


def _misfits(of: Type, value: Any, steps: tuple[str, ...], item: Any = None) -> Iterator[Misfit]:
    """Yield the wrong places of a value; ``item`` is a right one where its own type has none."""
    kinds, example = list(_alternatives(of)), _example(of)
    example = item if example is None else example
    structs = [kind for kind in kinds if isinstance(kind, StructType)]
    if structs and isinstance(value, dict):
        yield from _in_struct(structs, value, steps)
    elif not any(_is_of(kind, value) for kind in kinds):
        yield Misfit(steps, *_expected(kinds, value, example))
    else:
        one = example[0] if isinstance(example, list) and example else None
        for inner, step, each in _items(kinds, value):
            yield from _misfits(inner, each, (*steps, step), one)


def _read(of: Type, text: str) -> Any:
    kinds = [type(each) for each in _alternatives(of)]
    for kind, python in _READ_FROM_TEXT:
        if kind in kinds:
            try:
                return msgspec.convert(text, python, strict=False)
            except msgspec.ValidationError:
                continue
    return text


def _in_struct(kinds: Sequence[StructType], value: dict[str, Any], steps: tuple[str, ...]) -> Iterator[Misfit]:
    kind, tag = kinds[0], kinds[0].tag_field
    if tag is not None and (tag in value or len(kinds) > 1):
        if tag not in value:
            missing = _missing(tag, {}, value, steps)
            tags = joined([repr(each.tag) for each in kinds])
            yield missing if missing.hint or missing.known else missing._replace(hint=f": one of {tags}")
            return
        tagged = [each for each in kinds if each.tag == value[tag]]
        if not tagged:
            yield Misfit((*steps, tag), *_expected([LiteralType(tuple(each.tag for each in kinds))], value[tag], None))
            return
        kind = tagged[0]
    fields = {field.encode_name: field for field in kind.fields}
    for name, each in value.items():
        if name in fields:
            yield from _misfits(fields[name].type, each, (*steps, name))
        elif kind.forbid_unknown_fields and name != tag:
            yield Misfit((*steps, name), known=tuple(fields))
    for name, field in fields.items():
        if field.required and name not in value:
            yield _missing(name, fields, value, steps)


def _missing(name: str, fields: Mapping[str, Field], value: dict[str, Any], steps: tuple[str, ...]) -> Misfit:
    """The problem of a missing member, or of the member that was probably meant for it."""
    for near in difflib.get_close_matches(name, value.keys() - set(fields), n=1):
        return Misfit((*steps, near), known=(name,))
    if other := meant_member(name, value):
        return Misfit(steps, f"The field {name!r} is missing", f": what {other!r} has goes into {name!r}")
    if name == "type" and "text" in value:
        return Misfit(steps, "The field 'type' is missing", ': write {"type": "text", "text": "…"}')
    example = _example(fields[name].type) if name in fields else None
    hint = f": write {_shown_example({name: example})}" if example is not None else ""
    return Misfit(steps, f"The field '{name}' is missing", hint)


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


def _expected(kinds: Sequence[Type], value: Any, example: Any) -> tuple[str, str]:
    """What is wrong with a value, and a hint. ``example`` is a right value, or None."""
    wanted = [text for kind in kinds for text in _texts(kind)]
    wanted = [text for text in wanted if text != "null"] or wanted  # null leaves the member as it is without a value
    if isinstance(value, str) and any(isinstance(kind, LiteralType) for kind in kinds):
        words = [
            each for kind in kinds if isinstance(kind, LiteralType) for each in kind.values if isinstance(each, str)
        ]
        meant = meant_word(value, words)
        listed = f": one of {joined(wanted)}"
        return f"Invalid value {value[:_MOST_SHOWN]!r}", f"{listed}; did you mean {meant!r}?" if meant else listed
    shown = _shown(value)
    if isinstance(value, list) and any(isinstance(kind, ListType) for kind in kinds):
        shown = f"one of {len(value)}" if value else "an empty list"
    is_like = isinstance(value, str) and any(isinstance(kind, Metadata | StrType) for kind in kinds)
    not_this = "" if is_like or any(text.startswith(shown) for text in wanted) else f", not {shown}"
    return f"Expected {joined(list(dict.fromkeys(wanted)))}{not_this}", _instead(kinds, value, example)


def _needed(kind: StructType) -> list[Field]:
    """The members that an object must have; of one that needs none, its text."""
    needed = [field for field in kind.fields if field.required]
    return needed or [field for field in kind.fields if field.encode_name == "text"]


def _instead(kinds: Sequence[Type], value: Any, example: Any) -> str:
    """A hint at what to write instead of a value: the value in another form, or the example."""
    if form := _other_form(kinds, value):
        return form
    if isinstance(example, dict) and (members := _around(example, value)):
        return members
    wanted = {type(kind) for kind in kinds}
    if isinstance(value, list) and value and ListType in wanted:
        return ""
    if isinstance(example, list | dict):
        return f": send {_shown_example(example)}"
    if ListType in wanted:
        return ": send a list, […]"
    return ": send an object, {…}" if not wanted.isdisjoint({StructType, DictType}) else ""


def _other_form(kinds: Sequence[Type], value: Any) -> str:
    """The hint for a value that is right in another form; else empty."""
    match value:
        case str() if "/" in value and any(isinstance(kind, Metadata) for kind in kinds):
            return ": write user-1 or user.1 for user/1"
        case str() if _NUMBER.fullmatch(value) and any(isinstance(kind, IntType | FloatType) for kind in kinds):
            return ": write the number without quotes"
        case int() | float() if not isinstance(value, bool) and _takes_text(kinds, str(value)):
            return f': write it in quotes, "{value}"'
        case list() if _takes_text(kinds, "text") and not any(isinstance(kind, ListType | TupleType) for kind in kinds):
            return ': send one text, "…"'
        case dict() if any(isinstance(kind, ListType) and _takes_object(kind.item_type) for kind in kinds):
            return ": put the object into a list, [{…}]"
    return ""


def _around(example: dict[str, Any], value: Any) -> str:
    """The hint for a list or a text without the object that has it, of which there is an example; else empty."""
    if isinstance(value, str) and all(each == _CUT for each in example.values()):
        return f": put the text into {_shown_example(example)}"
    name = next((name for name, each in example.items() if isinstance(each, list)), None)
    if name is None or not isinstance(value, list):
        return ""
    shown = _shown_example({**example, name: [_CUT]}).replace(f'["{_CUT}"]', f"[{_CUT}]")
    return f": put the list into {shown}"


def _takes_text(kinds: Iterable[Type], text: str) -> bool:
    return any(isinstance(kind, Metadata | StrType) and _is_of(kind, text) for kind in kinds)


def _takes_object(of: Type) -> bool:
    return any(isinstance(kind, StructType | DictType) for kind in _alternatives(of))


def _shown_example(example: Any) -> str:
    return json.dumps(example, ensure_ascii=False)


def _example(of: Type) -> Any:  # noqa: PLR0911 - one line a type
    """A right value of a type, from the examples that its declaration has; None if it has none.

    An object has the members that it must have. A message that an entry wraps may stand alone, so it is the entry's example.
    """
    match of:
        case Metadata() if (of.extra_json_schema or {}).get("examples"):
            return (of.extra_json_schema or {})["examples"][0]
        case Metadata():
            return _example(of.type)
        case UnionType():
            return next((found for each in of.types if (found := _example(each)) is not None), None)
        case ListType():
            item = _example(of.item_type)
            return None if item is None else [item]
        case StrType():
            return _CUT
        case StructType():
            return _example_of_struct(of)
    return None


def _example_of_struct(kind: StructType) -> Any:
    fields = {field.encode_name: field for field in kind.fields}
    if "message" in fields:
        return _example(fields["message"].type)
    names = [field.encode_name for field in _needed(kind)]
    if "messages" in fields:
        names = [name for name in ("model", "messages") if name in fields]
    members = {name: _example(fields[name].type) for name in names}
    return members if members and None not in members.values() else None


def _texts(kind: Type) -> list[str]:  # noqa: C901, PLR0911 - one line a type
    """What a type takes, in JSON's words."""
    match kind:
        case Metadata():
            said = str((kind.extra_json_schema or {}).get("description", "a string"))
            said = said.partition(". ")[0].rstrip(".")
            return [said.replace("The ", "the ", 1) if said.startswith("The ") else said]
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
