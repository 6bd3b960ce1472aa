"""Answers the calls of the history tools out of a stored conversation."""

from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec
from msgspec import Meta

from sash.core.chat.bounds import IDS
from sash.core.chat.mistakes import invalid
from sash.core.counts.costs.counting import plain_text_tokens
from sash.core.counts.models.models import Model
from sash.core.law.fixed_parts.conversation_settings import few_settings
from sash.core.law.fixed_parts.history_tools import SEARCH
from sash.core.search.excerpts import Fits, Told, found_text, is_an_answer, read_text
from sash.core.search.words import told_in
from sash.problems import BadRequest, NotFound
from sash.processor import PROCESSOR
from sash.store.data.layout import Target, target_at
from sash.store.data.owners import Owners
from sash.store.data.reading import Reader
from sash.store.data.replies import Message
from sash.store.data.stored_messages import SMALL_STEP_BYTES
from sash.windows.recaller import MOST_CONVERSATIONS, WIDER, Recaller
from sash.windows.seen_pages import seen_if_unedited

T = TypeVar("T")

_MOST_READ = 100
"""Messages of one answer of ``history_read``."""

_OWN = 10
"""Messages that are found besides, as some are the question itself or earlier answers."""

NOT_ANSWERED = "The call cannot be answered."
"""Begins the answer to a call with wrong arguments, and no other answer."""


class SearchArguments(msgspec.Struct, frozen=True):
    """The arguments of ``history_search``. Others are ignored, as models invent some."""

    query: Annotated[str, Meta(min_length=1, max_length=10_000)]
    limit: Annotated[int, Meta(ge=1, le=50)] = 10


class ReadArguments(msgspec.Struct, frozen=True):
    """The arguments of ``history_read``."""

    first: Annotated[int, Meta(ge=1)]
    last: Annotated[int, Meta(ge=1)] | None = None
    skip: Annotated[int, Meta(ge=0)] = 0


class ReadOfOwner(ReadArguments, frozen=True, kw_only=True):
    """The arguments of ``history_read`` where it reads all conversations of an owner."""

    conversation: str


class ToolScope(NamedTuple):
    """What the tools may read: one conversation, or all of an owner; with ``view``, what this agent sees of it."""

    tenant: str
    conversation: str | None = None
    owner: str | None = None
    view: str | None = None


class ToolAnswers:
    """Answers calls of the history tools. A model's mistake is answered in words, so that it can call again."""

    def __init__(self, reader: Reader, recaller: Recaller, owners: Owners) -> None:
        self._reader = reader
        self._recaller = recaller
        self._owners = owners

    async def answer(
        self, scope: ToolScope, name: str, arguments: Mapping[str, Any] | str, *, model: Model, max_tokens: int
    ) -> tuple[str, int]:
        """Return the answer's text, of at most ``max_tokens`` for the model, and its tokens.

        Raises NotFound, RecallIsOff, StoreUnavailable.
        """

        def fits(text: str) -> bool:
            return plain_text_tokens(text, model) <= max_tokens

        if name == SEARCH:
            text = await self._search(scope, _arguments(SearchArguments, arguments), fits)
        else:
            text = await self._read(scope, _arguments(ReadOfOwner if scope.owner else ReadArguments, arguments), fits)
        return text, plain_text_tokens(text, model)

    async def _search(self, scope: ToolScope, wanted: SearchArguments | str, fits: Fits) -> str:
        if isinstance(wanted, str):
            return wanted
        return await PROCESSOR.run(found_text, await self._found(scope, wanted), wanted.query, fits)

    async def _found(self, scope: ToolScope, wanted: SearchArguments) -> list[Told]:
        """The messages that were found, best first. The newest question and earlier answers of these tools are left out."""
        most = wanted.limit + _OWN if scope.view is None else WIDER * (wanted.limit + _OWN)
        if scope.conversation is not None:
            target = target_at(scope.tenant, scope.conversation)
            found, _ = await self._recaller.search(target, wanted.query, most)
            hits = [hit for hit in found if hit.seq != hit.state.question]
        else:
            listed, _ = await self._owners.read(scope.tenant, scope.owner or "", limit=MOST_CONVERSATIONS)
            standing = [(target_at(scope.tenant, each.id), each.state) for each in listed]
            hits, _, _ = await self._recaller.search_each(standing, wanted.query, most)
        read = await self._recaller.pages(hits)
        seen = [(hit, await seen_if_unedited(self._reader, hit.target, page, scope.view)) for hit, page in read]
        told = [_told(each, hit.target.id if scope.owner else "") for hit, page in seen for each in page.messages]
        others = (each for each in told if each.text and not (each.role == "tool" and is_an_answer(each.text)))
        return [*islice(others, wanted.limit)]

    async def _read(self, scope: ToolScope, wanted: ReadArguments | str, fits: Fits) -> str:
        """Messages word for word. An id that is none, or another owner's, is the model's mistake."""
        if isinstance(wanted, str):
            return wanted
        name = wanted.conversation if isinstance(wanted, ReadOfOwner) else scope.conversation or ""
        nothing = f"There is no conversation {name[:128]}: take the id that history_search gave."
        if scope.owner is not None and not IDS.fullmatch(name):
            return nothing
        target = target_at(scope.tenant, name)
        if scope.owner is not None:
            with suppress(NotFound):
                if few_settings((await self._reader.get(target)).settings).owner == scope.owner:
                    return await self._read_in(target, wanted, fits, scope)
            return nothing
        return await self._read_in(target, wanted, fits, scope)

    async def _read_in(self, target: Target, wanted: ReadArguments, fits: Fits, scope: ToolScope) -> str:
        last = max(wanted.first, wanted.last or wanted.first)
        until = min(last, wanted.first + _MOST_READ - 1)
        page = await self._reader.page(target, wanted.first, until, limit_bytes=SMALL_STEP_BYTES)
        if not page.messages:
            return f"There is no message {wanted.first}: this conversation has {page.length}."
        read_to = page.messages[-1].seq
        beyond = read_to + 1 if read_to < min(last, page.length) else 0
        page = await seen_if_unedited(self._reader, target, page, scope.view)
        if not page.messages:
            return f"Messages {wanted.first} to {read_to} are for other agents."
        return await PROCESSOR.run(read_text, [*map(_told, page.messages)], wanted.skip, beyond, fits)


def _arguments(kind: type[T], given: Mapping[str, Any] | str) -> T | str:
    """The arguments of a call, or what is wrong with them."""
    value: Any = given
    try:
        if isinstance(given, str):
            value = msgspec.json.decode(given or "{}")
        return msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError:
        what = invalid("", BadRequest, of=kind, value=value).detail
        return f"{NOT_ANSWERED} {what.replace(' at #.', '.').replace('#/', '')}"
    except msgspec.DecodeError:
        return f"{NOT_ANSWERED} Its arguments are no JSON."


def _told(message: Message, conversation: str = "") -> Told:
    body = msgspec.json.decode(message.body)
    return Told(message.seq, body["role"], message.identity.created_ms, told_in(body), conversation)
