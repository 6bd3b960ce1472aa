"""Tool results as they are sent: whole, cut to their beginning and end, or one line with the path of the whole result.

The store keeps every result whole. The cut depends on the message and the parameters alone, so that a prefix of the request
does not change. ``build_window`` uses an upper bound of a cut result's tokens. The cut is made later, from the body, and
never costs more than the bound.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from operator import itemgetter
from typing import Any

import msgspec
import numpy as np

from sash.core.counts.costs.counting import whole_row
from sash.core.counts.costs.message_cost import COLUMNS, message_cost
from sash.core.counts.measures.measures import Measure, measure
from sash.core.counts.measures.rows import Row, column_of_mixes, of_these, row_of
from sash.core.counts.models.models import Model
from sash.core.counts.text import Encoding, count_text, cut_text
from sash.core.counts.text.numbers import MANY, ONE
from sash.core.law.records.costs import written_cost
from sash.core.law.records.records import Records
from sash.core.providers import PROVIDERS
from sash.core.providers.messages.pieces import Object
from sash.core.providers.messages.sharing import restore
from sash.core.providers.reading.enclosures import is_picture_or_file
from sash.core.providers.reading.native import read_again
from sash.core.stored.record import Record

_OF_TEXT = [name + column for name in ("text", "listed", "opens_list", "closes_list") for column in COLUMNS]
"""The numbers of a row that follow from a result's text, beside its mix and its parts."""
_numbers_of_text = itemgetter(*_OF_TEXT)
_OF_MEDIA = (
    *("images", "pictured0", "pictured1", "estimated", "pages", "paged", "heard", "sounded"),
    *("beside_images", "beside_estimated"),
)
"""Those of its images and files."""
_CHARACTERS = 4  # of a token, approximately; a search starts with this number
_ATTEMPTS = 12


def share_of(room: int) -> int:
    """The tokens that a tool group, or the results of required messages, may have of a window's ``room``.

    Three quarters, also if all would fit: a group that takes what it can get would leave less to older messages in a larger
    window than in a smaller one.
    """
    return room * 3 // 4


class Edit(msgspec.Struct, frozen=True):
    """A change to a stored message before it is sent: its result cut to ``limit`` tokens of the model (0: to one line), and
    to ``cost`` where the line alone costs more, which saves at least ``saved`` of its tokens; or its reasoning removed, with
    or without its calls' signatures (seals); or calls removed, by their numbers; or ``media`` sent as lines, by their places
    among all that the message encloses; or ``only_text``: all but the text removed, of another agent's calls."""

    media: Sequence[int] = ()
    limit: int | None = None
    cost: int = 0
    saved: int = 0
    without_reasoning: bool = False
    without_seals: bool = False
    without_calls: Sequence[int] = ()
    only_text: bool = False


def left_out_line(tokens: int, seq: int, path: str, what: str = "this tool result", *, lost: Sequence[str] = ()) -> str:
    """Return the line in place of left-out tokens, and of ``lost`` kinds of part, such as an image."""
    where = f"; the whole is at {path}{seq}" if path else ""
    missing = [f"{tokens} tokens"] if tokens or not lost else []
    return f"[… {' and '.join([*missing, *map('the {}'.format, lost)])} of {what} left out{where} …]"


def line_costs(
    records: Records, places: Sequence[int], seqs: Sequence[int], path: str, model: Model, *, alone: bool
) -> list[int]:
    """Return the model's tokens of each of these results as one line, with images and files unless it is sent ``alone``."""
    at = np.array(places, np.int64)
    columns = of_these(records.columns, at)
    told = (columns[f"text{model.column}"].tolist(), seqs)
    # A number's tokens are its own, up to three digits each, so lines with as many digits cost the same.
    alike = ([10 ** (len(str(number)) - 1) for number in numbers] for numbers in told)
    lines = [_row_of_line(left_out_line(tokens, seq, path)) for tokens, seq in zip(*alike, strict=True)]
    row = _beside_text(columns, alone=alone)
    row.update(zip(_OF_TEXT, np.array([_numbers_of_text(line) for line in lines], np.int64).T, strict=True))
    if model.ratios is not None:
        row["mix"] = column_of_mixes([line.get("mix") for line in lines])
    found = message_cost(row, model, MANY, parallel=records.parallel[at])
    costs: list[int] = np.full(len(places), found, np.int64).tolist()
    for number, place in enumerate(places):
        if place in records.with_parts:  # its line names them
            costs[number] = _line_cost(records[place], seqs[number], path, model, alone=alone)
    return costs


def _line_cost(record: Record, seq: int, path: str, model: Model, *, alone: bool) -> int:
    measured = record.measure
    line = left_out_line(_text_tokens(measured, model), seq, path, lost=_kinds_beside(measured))
    row = _beside_text(whole_row(measured, model), alone=alone)
    row.update(_row_of_line(line), role=measured.role)
    extra = measured.extra
    if extra is not None and (own := extra.native_in(model.format)) is not None and own.told:
        # The lines that tell the provider's own parts stand beside it.
        texts = measured.o200k, measured.cl100k
        parts = own.told_parts or extra.parts or ((*texts, extra.mix),)  # where it is not told which texts, all may be
        row["parts"] = ((row["text0"], row["text1"], row.get("mix")), *parts)
        if extra.mix is not None:
            row["mix"] = extra.mix
        told = map(sum, zip(*(part[:2] for part in parts), strict=True))
        for column, tokens, text, listed in zip(COLUMNS, told, texts, extra.listed, strict=True):
            row["text" + column] += tokens
            row["listed" + column] += tokens + max(0, listed - text)
    cost: int = message_cost(row, model, ONE, parallel=record.parallel)
    return cost


@lru_cache(maxsize=4096)
def _row_of_line(line: str) -> Row:
    """The numbers of a result with this text. Not to be changed."""
    return Row(dict.fromkeys(_OF_TEXT, 0) | row_of(measure({"role": "tool", "content": line})))


def _beside_text(row: Row, *, alone: bool) -> Row:
    """The numbers of results without those of their text; ``alone``: also without those of their images and files."""
    gone = {*_OF_TEXT, "mix", "parts", *(_OF_MEDIA if alone else ())}
    return Row({name: numbers for name, numbers in row.items() if name not in gone})


def cut_result(
    message: Mapping[str, Any], record: Record, limit: int, model: Model, *, seq: int, path: str
) -> tuple[dict[str, Any], int]:
    """Return the message with its result cut to at most ``limit`` of the model's tokens, and the message's new cost.

    Images and files that only the native message has are kept, unless the result becomes one line (``limit`` 0) or is sent
    in its chat form. The line then names them.
    """
    alone = not limit
    without_text = _with_text(message, "", alone=alone)
    is_native = "native" in without_text
    lost = () if is_native and not alone else _kinds_beside(record.measure)
    line = partial(left_out_line, seq=seq, path=path, lost=lost)
    text = _text(message.get("content"))
    whole = _text_tokens(record.measure, model)
    beside = written_cost(without_text, model, parallel=record.parallel) if is_native else 0
    tokens = limit - beside
    for _ in range(_ATTEMPTS):
        if tokens <= 0:
            break
        cut = _with_text(message, _cut(text, whole, tokens, model.encoding, line, is_text_all=not lost), alone=alone)
        cost = written_cost(cut, model, parallel=record.parallel)
        if cost <= limit:
            return cut, cost
        tokens = min(tokens - 1, tokens * (limit - beside) // (cost - beside))
    cut = _with_text(message, line(whole), alone=alone)
    return cut, written_cost(cut, model, parallel=record.parallel)


def _text_tokens(measured: Measure, model: Model) -> int:
    """The tokens of a result's text, which its line names: those in the model's encoding."""
    return measured.cl100k if model.column else measured.o200k


def _kinds_beside(measured: Measure) -> Sequence[str]:
    """Return the kinds of the result's parts beside its text, such as ``image``."""
    extra = measured.extra
    if extra is None:
        return ()
    only = extra.beside.only if extra.beside is not None else ()
    return sorted({*only, *(["image"] if extra.images else ()), *(["file"] if extra.estimated else ())})


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text") or "" for part in content or ())


def _cut(text: str, whole: int, tokens: int, encoding: Encoding, line: Callable[..., str], *, is_text_all: bool) -> str:
    """The beginning and the end of a text with a line between them, at most ``tokens`` together.

    A text that fits is whole, with a line after it unless the text is all of the result.
    """
    is_json = text.lstrip()[:1] in ("{", "[")
    what = "this JSON result, cut as text," if is_json else "this tool result"
    room = tokens - count_text(line(whole, what=what), encoding) - 2
    if room < 2:
        return line(whole)
    if whole <= room:
        return text if is_text_all else f"{text}\n{line(0)}"
    head = cut_text(text[: room * 2 * _CHARACTERS], encoding, room - room // 2)
    end = _end(text[len(head) :], encoding, room // 2)
    missing = max(0, whole - count_text(head, encoding) - count_text(end, encoding))
    return f"{head}\n{line(missing, what=what)}\n{end}"


def _end(text: str, encoding: Encoding, tokens: int) -> str:
    """An end of the text of at most ``tokens``. Not always the longest, so that few counts are needed."""
    size = min(len(text), tokens * _CHARACTERS)
    while size > 0:
        end = text[len(text) - size :]
        counted = count_text(end, encoding)
        if counted <= tokens:
            return end
        size = min(size - 1, size * tokens // counted)
    return ""


def _with_text(message: Mapping[str, Any], text: str, *, alone: bool) -> Object:
    """A tool message with another text, in its member ``native``, too; without that if it has no place for a text.

    The provider's other members (``is_error``, ``cache_control``) stay. The chat form has no images and files, nor has its
    own form with ``alone``.
    """
    chat: Object = {**message, "content": text}
    native = chat.pop("native", None)
    if native is None:
        return chat
    keeps = (lambda _: False) if alone else is_picture_or_file
    own = PROVIDERS[native["format"]].with_result_text(restore(message)[0], text, keeps)
    return chat if own is None else read_again(message, [own])
