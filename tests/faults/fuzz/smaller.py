"""Make a failing script smaller, as long as the same is wrong with it."""

import copy
import itertools
import re
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import asdict
from typing import Any

from faults.fuzz.broken import places
from faults.fuzz.judge import Wrong
from faults.fuzz.logs import joined
from faults.fuzz.scripts import Object, Script

Fails = Callable[[Script], Awaitable[bool]]


def signature(wrong: Wrong) -> tuple[str, str]:
    """Return what makes two failures the same: the kind, and the sentence without its numbers and words of its own."""
    form = str((wrong.window or {}).get("format", "")) if wrong.kind not in ("5xx", "stores", "bulk") else ""
    words = re.sub(r"\[\d+\]|/\d+|\d+|zq\w*|\{.*|\".*", "", wrong.detail)
    return wrong.kind, f"{words[:70].strip()} {form}".strip()


async def smallest(script: Script, wrong: Wrong, fails: Fails, *, seconds: float) -> Script:
    """Return a smaller script that fails, found within so many seconds. ``fails`` tells whether the same is wrong."""
    give_up = time.monotonic() + seconds
    best = copy.deepcopy(script)
    best.sent = joined(best.sent)
    if wrong.window is not None:
        best.windows = [wrong.window]
    if not await fails(best):
        return script
    shrank = True
    while shrank:
        shrank = False
        for number in range(10_000):
            made = _without(best, number)
            if made is None or time.monotonic() > give_up:
                break
            while made is not None and time.monotonic() < give_up and await fails(made):
                best, shrank = made, True
                made = _without(best, number)
        if time.monotonic() > give_up:
            break
    return best


def _without(script: Script, number: int) -> Script | None:
    """Return the script without its part ``number``, larger parts first; None where it has no such part."""
    made = asdict(script)
    part = next(itertools.islice(_parts(made), number, None), None)
    if part is None:
        return None
    _cut(*part)
    return _read(made)


def _cut(holder: Any, key: Any) -> None:
    value = holder[key]
    if isinstance(value, str) and len(value) > 8:
        holder[key] = value[: len(value) // 2]
    else:
        del holder[key]


def _parts(script: Object) -> Iterator[tuple[Any, Any]]:
    """Yield each part that may be left out: requests, messages, parameters, settings, and what is in them."""
    for name in ("sent", "changes", "windows"):
        for place in range(len(script[name]) - 1, -1, -1):
            yield script[name], place
    for _, messages in script["sent"]:
        for place in range(len(messages) - 1, -1, -1):
            yield messages, place
    for query in script["windows"]:
        for name in [each for each in query if each not in ("model", "format", "reserve")]:
            yield query, name
    for holder in (script["settings"], *(messages for _, messages in script["sent"])):
        yield from places(holder)


def _read(made: Object) -> Script:
    return Script(
        made["feature"],
        made["settings"],
        [(form, messages) for form, messages in made["sent"] if messages],
        [tuple(each) for each in made["changes"]],
        made["windows"],
        made["unsent"],
    )
