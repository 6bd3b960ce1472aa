"""Answers the calls of the history tools out of a stored conversation."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from sash.core.chat.mistakes import invalid
from sash.core.counts.counting import plain_text_tokens
from sash.core.counts.models import Model
from sash.core.law.excerpts import Fits, Told, found_text, read_text
from sash.core.law.history_tools import SEARCH
from sash.core.law.words import told_in
from sash.problems import BadRequest
from sash.processor import PROCESSOR
from sash.store.data.layout import Target
from sash.store.data.reading import Reader
from sash.store.data.replies import Message
from sash.store.data.stored_messages import SMALL_STEP_BYTES
from sash.windows.recaller import Recaller

_MOST_READ = 100
"""Messages of one answer of ``history_read``."""


class SearchArguments(msgspec.Struct, frozen=True):
    """The arguments of ``history_search``. Others are ignored, as models invent some."""

    query: Annotated[str, Meta(min_length=1, max_length=10_000)]
    limit: Annotated[int, Meta(ge=1, le=50)] = 10


class ReadArguments(msgspec.Struct, frozen=True):
    """The arguments of ``history_read``."""

    first: Annotated[int, Meta(ge=1)]
    last: Annotated[int, Meta(ge=1)] | None = None
    skip: Annotated[int, Meta(ge=0)] = 0


class ToolAnswers:
    """Answers calls of the history tools. A model's mistake is answered in words, so that it can call again."""

    def __init__(self, reader: Reader, recaller: Recaller) -> None:
        self._reader = reader
        self._recaller = recaller

    async def answer(
        self, target: Target, name: str, arguments: Mapping[str, Any] | str, *, model: Model, max_tokens: int
    ) -> tuple[str, int]:
        """Return the answer's text, of at most ``max_tokens`` for the model, and its tokens.

        Raises NotFound, RecallIsOff, StoreUnavailable.
        """

        def fits(text: str) -> bool:
            return plain_text_tokens(text, model) <= max_tokens

        wanted = _arguments(SearchArguments if name == SEARCH else ReadArguments, arguments)
        if isinstance(wanted, str):
            text = wanted
        elif isinstance(wanted, SearchArguments):
            text = await self._found(target, wanted, fits)
        else:
            text = await self._read(target, wanted, fits)
        return text, plain_text_tokens(text, model)

    async def _found(self, target: Target, wanted: SearchArguments, fits: Fits) -> str:
        found, _, state = await self._recaller.search(target, wanted.query, wanted.limit)
        told: list[Told] = []
        for seq, _ in found:
            page = await self._reader.page(target, seq, seq)
            if page.made == state.made:  # else the text may have been redacted since the search
                told += map(_told, page.messages)
        return await PROCESSOR.run(found_text, [each for each in told if each.text], wanted.query, fits)

    async def _read(self, target: Target, wanted: ReadArguments, fits: Fits) -> str:
        last = max(wanted.first, wanted.last or wanted.first)
        until = min(last, wanted.first + _MOST_READ - 1)
        page = await self._reader.page(target, wanted.first, until, limit_bytes=SMALL_STEP_BYTES)
        if not page.messages:
            return f"There is no message {wanted.first}: this conversation has {page.length}."
        read_to = page.messages[-1].seq
        beyond = read_to + 1 if read_to < min(last, page.length) else 0
        return await PROCESSOR.run(read_text, [*map(_told, page.messages)], wanted.skip, beyond, fits)


def _arguments(
    kind: type[SearchArguments] | type[ReadArguments], given: Mapping[str, Any] | str
) -> SearchArguments | ReadArguments | str:
    """The arguments of a call, or what is wrong with them."""
    value: Any = given
    try:
        if isinstance(given, str):
            value = msgspec.json.decode(given or "{}")
        return msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError:
        what = invalid("", BadRequest, of=kind, value=value).detail
        return f"The call cannot be answered. {what.replace(' at #.', '.').replace('#/', '')}"
    except msgspec.DecodeError:
        return "The call cannot be answered. Its arguments are no JSON."


def _told(message: Message) -> Told:
    body = msgspec.json.decode(message.body)
    return Told(message.seq, body["role"], message.identity.created_ms, told_in(body))
