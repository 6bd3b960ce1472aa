"""A decoder's error as a helpful problem: the wrong place, the allowed values, and a guess at the intended one."""

import difflib
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import inspect
from msgspec.inspect import BoolType, ListType, LiteralType, Metadata, StructType, Type, UnionType

from sash.problems import BadRequest, InvalidEntry, Pointer

_AT = re.compile(r" - at `(?:key in )?(.*)`$")
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")
_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `(.*)`$", re.DOTALL)
_MISSING_FIELD = re.compile(r"Object missing required field `(.*)`$")
_WRONG_WORD = re.compile(r"Invalid (?:enum )?value ")
_OUT_OF_RANGE = ("Number out of range", "Integer value out of range")
_MOST_DIGITS = 4300
"""The longest whole number that msgspec reads into a value of any type."""
_HUGE = math.inf
"""Stands for a number out of range."""
_NEARLY_THE_SAME = 0.85


def invalid(
    error: msgspec.ValidationError,
    prefix: str,
    kind: type[BadRequest] = InvalidEntry,
    *,
    of: Any,
    value: Callable[[], Any],
) -> BadRequest:
    """A decoder's error as a problem.

    ``prefix`` is the pointer to the decoded value, ``of`` the expected type, and ``value`` returns the decoded value.
    """
    text = str(error)
    found = _AT.search(text)
    said = text[: found.start()] if found else text
    steps = [name or index for name, index in _STEP.findall(found.group(1) if found else "") if index != "..."]
    if unknown := _UNKNOWN_FIELD.match(said):
        known, _ = _place(of, value(), steps)
        name = plain(unknown.group(1))
        return misnamed(name, _fields(known), _pointer(prefix, [*steps, name]), kind)
    if missing := _MISSING_FIELD.match(said):
        known, given = _place(of, value(), steps)
        unread = given.keys() - set(_fields(known)) if isinstance(given, dict) else ()
        for name in difflib.get_close_matches(missing.group(1), unread, n=1):
            return misnamed(name, [missing.group(1)], _pointer(prefix, [*steps, name]), kind)
    words = _allowed(of, value(), steps) if _WRONG_WORD.match(said) and steps else []
    return problem_at(plain(said), _pointer(prefix, steps), f": one of {_joined(words)}" if words else "", kind)


def out_of_range(error: msgspec.ValidationError, body: bytes) -> BadRequest | None:
    """The problem of a number that cannot be held, such as 1e400 or one of 5,000 digits; None if the error is another.

    The decoder's error has no names of members.
    """
    if not str(error).startswith(_OUT_OF_RANGE):
        return None
    try:
        value = json.loads(
            body,
            parse_float=lambda number: _HUGE if math.isinf(float(number)) else 0.0,
            parse_int=lambda number: _HUGE if len(number.lstrip("-")) > _MOST_DIGITS else 0.0,
        )
    except ValueError:  # what follows the number is no JSON
        value = None
    return problem_at(_OUT_OF_RANGE[0], _pointer("", _steps_to_huge(value)), kind=BadRequest)


def _steps_to_huge(value: Any) -> list[str]:
    """The names and indices that lead to ``_HUGE``; empty if it is not in ``value``."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, each in inner:
        if each is _HUGE:
            return [str(step)]
        if isinstance(each, dict | list) and (rest := _steps_to_huge(each)):
            return [str(step), *rest]
    return []


def misnamed(name: str, known: Iterable[str], pointer: str, kind: type[BadRequest] = InvalidEntry) -> BadRequest:
    """The problem of an unknown field or parameter; ``pointer`` ends in its name."""
    what = "parameter" if pointer.startswith("#/query/") else "field"
    names = list(known)
    near = [each for each in names if _bare(each) == _bare(name)] or difflib.get_close_matches(name, names, n=1)
    near = near or [each for each in names if each.startswith(f"{name}_")]
    hint = _around(name, names) if "messages" in names else ""
    return problem_at(f"An unknown {what} {name!r}", pointer, hint or did_you_mean(near), kind)


@lru_cache(maxsize=1024)
def is_misspelt(name: str, known: frozenset[str]) -> bool:
    """Whether an unknown field is a misspelling of one of ``known``, and not a provider's new field."""
    bare = {_bare(field) for field in known}
    return _bare(name) in bare or bool(difflib.get_close_matches(_bare(name), bare, n=1, cutoff=_NEARLY_THE_SAME))


def did_you_mean(names: Sequence[str]) -> str:
    """The end of a sentence that suggests ``names``; empty if there are none."""
    quoted = [f"'{name}'" for name in names]
    return f"; did you mean {_joined(quoted)}?" if names else ""


def _joined(words: Sequence[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last


def plain(text: str) -> str:
    """A library's error text on one line, without backquotes, and cut so that it quotes little of the client's text."""
    return text.replace("`", "'").replace("\n", " ")[:300]


def _bare(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _around(name: str, names: Sequence[str]) -> str:
    """A hint for a member of a chat message or of a provider's request, in an object of messages; else empty."""
    match name:
        case "role" | "content" if "expires_at" in names:  # the first line of an import
            return "; the first line has the conversation's settings, {} for none, and each line after it a message"
        case "role" | "content":
            return '; a chat message goes into {"messages": [{"role": "user", "content": "Hello"}]}'
        case "model":
            return "; it goes into the address, as ?model="
        case "contents" | "input" | "max_tokens" if "expires_at" in names:
            form = {"contents": "gemini", "input": "responses"}.get(name, "anthropic")
            return f"; `sash import --format={form}` reads a provider's request"
        case "contents" | "input":
            form = "gemini" if name == "contents" else "responses"
            return f"; ?format={form} takes such messages" + ("" if "text" in names else ", in 'messages'")
    return ""


def problem_at(what: str, pointer: str, hint: str = "", kind: type[BadRequest] = InvalidEntry) -> BadRequest:
    """The problem of a wrong place, which ``detail`` names too. ``what`` is a sentence without its full stop."""
    end = "" if hint.endswith("?") else "."
    return kind(f"{what} at {pointer}{hint}{end}", errors=[Pointer(pointer, what + hint)])


def _pointer(prefix: str, steps: Sequence[str]) -> str:
    return "#" + prefix + "".join(f"/{step.replace('~', '~0').replace('/', '~1')}" for step in steps)


_info = lru_cache(maxsize=64)(inspect.type_info)


def _fields(types: Iterable[Type]) -> list[str]:
    """The names of the fields of these types."""
    return [field.encode_name for each in types if isinstance(each, StructType) for field in each.fields]


def _allowed(of: Any, value: Any, steps: Sequence[str]) -> list[str]:
    """The allowed words at a place, as JSON but in single quotes: the tags of a union, or the values of a Literal, and
    true and false if they are allowed beside them."""
    around, given = _place(of, value, steps[:-1])
    tags = [f"'{each.tag}'" for each in around if isinstance(each, StructType) and each.tag_field == steps[-1]]
    within = [each for outer in around for each in _inside(outer, given, steps[-1])[0]]
    switch = ["true", "false"] if any(isinstance(each, BoolType) for each in within) else []
    return tags or [*switch, *(f"'{word}'" for each in within if isinstance(each, LiteralType) for word in each.values)]


def _place(of: Any, value: Any, steps: Sequence[str]) -> tuple[list[Type], Any]:
    """The allowed types at a place, and the value there; None if it is not known."""
    types = list(_alternatives(_info(of)))
    for step in steps:
        found = [_inside(each, value, step) for each in types]
        types = [inner for inners, _ in found for inner in inners]
        value = next((each for inners, each in found if inners), None)
    return types, value


def _alternatives(info: Type) -> Iterator[Type]:
    match info:
        case Metadata():
            yield from _alternatives(info.type)
        case UnionType():
            for each in info.types:
                yield from _alternatives(each)
        case _:
            yield info


def _inside(info: Type, value: Any, step: str) -> tuple[list[Type], Any]:
    """The types of a member of ``info``, and the member's value; no types if ``value`` has another type's tag."""
    match info:
        case StructType():
            given = value if isinstance(value, dict) else {}
            is_other = info.tag_field is not None and given.get(info.tag_field, info.tag) != info.tag
            inner = [] if is_other else [field.type for field in info.fields if field.encode_name == step]
            return [each for one in inner for each in _alternatives(one)], given.get(step)
        case ListType():
            at = int(step) if step.isdigit() else 0
            within = value[at] if isinstance(value, list) and at < len(value) else None
            return list(_alternatives(info.item_type)), within
    return [], None
