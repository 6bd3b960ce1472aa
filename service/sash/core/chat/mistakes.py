"""A wrong value as a helpful problem: its place, what is expected there, and a guess at what was meant."""

import difflib
import json
import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, TypeVar

import msgspec

from sash.core.chat.other_names import meant_by
from sash.core.chat.shapes import Misfit, example_of, joined, misfits
from sash.problems import BadRequest, InvalidEntry, Pointer

T = TypeVar("T")

_MOST_DIGITS = 4300
"""The longest whole number that msgspec reads into a value of any type."""
_HUGE = math.inf
"""Stands for a number out of range."""
_MOST_LISTED = 8
_MOST_ERRORS = 8
_NEARLY_THE_SAME = 0.85
_SLIPS = 2
"""Letters in which a misspelt name differs at most: names that differ in more, such as score and short, nobody confuses."""


def converted(value: Any, kind: type[T], pointer: str) -> T:
    """Return a decoded value as this type. ``pointer`` is its place in the body. Raises BadRequest with the mistake."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        raise invalid(pointer, BadRequest, of=kind, value=value) from None


def invalid(
    prefix: str,
    kind: type[BadRequest] = InvalidEntry,
    *,
    of: Any,
    value: Any,
    from_text: bool = False,
    in_body: Sequence[str] = (),
) -> BadRequest:
    """The problem of a decoded value that does not fit the type ``of``: the first mistake, and in ``errors`` up to eight.

    ``prefix`` is the pointer to the value; ``from_text`` is as in ``misfit``, and ``in_body`` are the members of the body
    beside such a query.
    """

    def problem_of(wrong: Misfit) -> BadRequest:
        pointer = _pointer(prefix, wrong.steps)
        if wrong.known is not None:
            beside = in_body if from_text else _in_address(of) if len(wrong.steps) == 1 else ()
            return misnamed(plain(wrong.steps[-1]), wrong.known, pointer, kind, beside)
        return problem_at(plain(wrong.what), pointer, wrong.hint, kind)

    found: dict[tuple[tuple[str, ...], str], Misfit] = {}
    for wrong in islice(misfits(of, value, from_text=from_text), _MOST_ERRORS):
        found.setdefault((wrong.steps, wrong.what), wrong)  # a misspelt name is unknown, and its field is missing
    first, *others = found.values() or [Misfit((), "This has another form than the documented one")]
    problem = problem_of(first)
    problem.errors += tuple(error for other in others for error in problem_of(other).errors)
    return problem


def empty_body(of: Any) -> BadRequest:
    """The problem of a body without a byte where one of the type ``of`` is wanted."""
    return problem_at("The body is empty", "#", example_of(of) or ": send a JSON object", BadRequest)


def _in_address(of: Any) -> tuple[str, ...]:
    """The parameters that stand in the address beside a body of the type ``of``, which declares them as ``in_address``."""
    query = getattr(of, "in_address", None)
    return query.__struct_encode_fields__ if query is not None else ()


def out_of_range(body: bytes) -> BadRequest:
    """The problem of a number that cannot be held, such as 1e400 or one of 5,000 digits."""
    try:
        value = json.loads(
            body,
            parse_float=lambda number: _HUGE if math.isinf(float(number)) else 0.0,
            parse_int=lambda number: _HUGE if len(number.lstrip("-")) > _MOST_DIGITS else 0.0,
        )
    except ValueError:  # what follows the number is no JSON
        value = None
    return problem_at("Number out of range", _pointer("", _steps_to_huge(value)), kind=BadRequest)


def _steps_to_huge(value: Any) -> list[str]:
    """The names and indices that lead to ``_HUGE``; empty if it is not in ``value``."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, each in inner:
        if each is _HUGE:
            return [str(step)]
        if isinstance(each, dict | list) and (rest := _steps_to_huge(each)):
            return [str(step), *rest]
    return []


def misnamed(
    name: str,
    known: Iterable[str],
    pointer: str,
    kind: type[BadRequest] = InvalidEntry,
    beside: Sequence[str] = (),
) -> BadRequest:
    """The problem of an unknown field or parameter; ``pointer`` ends in its name.

    ``beside`` are the names that the same request knows in its body where this is a parameter, and in its address otherwise.
    """
    in_query = pointer.startswith("#/query/")
    what = "parameter" if in_query else "field"
    names = list(known)
    for other in beside:
        if _bare(other) == _bare(name):
            hint = (
                f'; it goes into the body: {{"{other}": …}}'
                if in_query
                else f"; it goes into the address, as ?{other}="
            )
            return problem_at(f"An unknown {what} {name!r}", pointer, hint, kind)
    near = [each for each in names if _bare(each) == _bare(name)]
    hint = _around(name, names) if "messages" in names else ""
    hint = hint or ("" if near else meant_by(name, names))
    near = near or _nearest(name, names)
    near = near or [each for each in names if each.startswith(f"{name}_")]
    hint = hint or ("" if near else _own_data(name, names)) or did_you_mean(near)
    hint = hint or _known(names, beside, in_query=in_query)
    return problem_at(f"An unknown {what} {name!r}", pointer, hint, kind)


def _nearest(name: str, names: Iterable[str]) -> list[str]:
    """The name that is most like ``name``. None if more than two letters, or half of its letters or more, differ."""
    bare = _bare(name)
    found = min(((_distance(bare, _bare(each)), each) for each in names), default=(len(bare), ""))
    return [found[1]] if found[0] <= min(_SLIPS, (len(bare) - 1) // 2) else []


def _distance(one: str, other: str) -> int:
    """How many letters are added, left out, exchanged or swapped between two names; about, beyond ``_SLIPS``."""
    if abs(len(one) - len(other)) > _SLIPS:
        return _SLIPS + 1
    before: list[int] = []
    last = list(range(len(other) + 1))
    for place, letter in enumerate(one, start=1):
        row = [place]
        for at, there in enumerate(other, start=1):
            least = min(last[at] + 1, row[at - 1] + 1, last[at - 1] + (letter != there))
            if place > 1 and at > 1 and letter == other[at - 2] and one[place - 2] == there:
                least = min(least, before[at - 2] + 1)
            row.append(least)
        before, last = last, row
    return last[-1]


def _known(names: Sequence[str], beside: Sequence[str], *, in_query: bool) -> str:
    """The end of a sentence that says what there is, where nothing is alike."""
    if not in_query:
        return f"; known are {_listed(names)}" if names else ""
    known = f"the call takes {_listed(names)}" if names else "the call takes no parameters"
    return f"; {known}" + (f", and in its body {_listed(beside)}" if beside else "")


def _listed(names: Sequence[str]) -> str:
    quoted = [f"'{name}'" for name in names]
    return ", ".join(quoted[:_MOST_LISTED]) + (", …" if len(quoted) > _MOST_LISTED else "")


@lru_cache(maxsize=1024)
def is_misspelt(name: str, known: frozenset[str]) -> bool:
    """Whether an unknown field is a misspelling of one of ``known``, and not a provider's new field."""
    bare = {_bare(field) for field in known}
    return _bare(name) in bare or bool(difflib.get_close_matches(_bare(name), bare, n=1, cutoff=_NEARLY_THE_SAME))


def did_you_mean(names: Sequence[str]) -> str:
    """The end of a sentence that suggests ``names``; empty if there are none."""
    quoted = [f"'{name}'" for name in names]
    return f"; did you mean {joined(quoted)}?" if names else ""


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
        case "contents" | "input" | "max_tokens" if "expires_at" in names:
            form = {"contents": "gemini", "input": "responses"}.get(name, "anthropic")
            return f"; `sash import --format={form}` reads a provider's request"
        case "contents" | "input":
            form = "gemini" if name == "contents" else "responses"
            return f"; ?format={form} takes such messages" + ("" if "text" in names else ", in 'messages'")
    return ""


def _own(name: str) -> str:
    return f'{{"metadata": {{{json.dumps(name[:40])}: "…"}}}}'


def _own_data(name: str, names: Sequence[str]) -> str:
    """A hint for an unknown name: where data of one's own goes."""
    if "text" in names and "id" in names:
        return f"; what the model is to read goes into 'text', and data of your own into 'metadata': {_own(name)}"
    return f"; data of your own goes into 'metadata': {_own(name)}" if "metadata" in names else ""


def problem_at(what: str, pointer: str, hint: str = "", kind: type[BadRequest] = InvalidEntry) -> BadRequest:
    """The problem of a wrong place, which ``detail`` names too. ``what`` is a sentence without its full stop."""
    end = "" if hint.endswith("?") else "."
    return kind(f"{what} at {pointer}{hint}{end}", errors=[Pointer(pointer, what + hint)])


def _pointer(prefix: str, steps: Sequence[str]) -> str:
    return "#" + prefix + "".join(f"/{step.replace('~', '~0').replace('/', '~1')}" for step in steps)
