"""Asks a provider's own compaction for a summary, because a stranger's makes kept thinking invalid.

::

    the compaction that stands + the messages after it, as a window of the provider's format ─▶ the provider
    its item ─▶ PUT …/summary, which windows of the format begin with

What is sent ends before a reply, with no call open, so that the first kept message is the assistant's, as Anthropic demands
(platform.claude.com/docs/en/build-with-claude/compaction-background and compaction-thinking-blocks). OpenAI's endpoint takes
no instructions, and its whole output is passed on (developers.openai.com/api/docs/guides/compaction; all read in November
2026).
"""

from typing import Any, Final, Literal

import msgspec

from sash.core.counts.costs.counting import message_tokens
from sash.core.counts.models.families import ASSISTANT, DEVELOPER, USER
from sash.core.counts.models.models import Model
from sash.core.law.fixed_parts.conversation_settings import fixed_parts, read_settings
from sash.core.law.history.compaction import newest_summary, readable
from sash.core.law.history.view import History
from sash.core.law.records.parameters import WindowQuery
from sash.core.law.records.records import Records
from sash.core.law.render import Bodies
from sash.core.providers import PROVIDERS
from sash.core.providers.reading.native import read_compaction
from sash.core.stored.stored_summary import Summary
from sash.operations.endpoint import Endpoint, EndpointFailed
from sash.problems import InvalidEntry
from sash.store.data.layout import Target
from sash.store.data.reading import Reader
from sash.store.data.replies import Message, State
from sash.store.data.summaries import make_summary
from sash.store.data.tails import Reach
from sash.windows.answer import Made
from sash.windows.asked import Asked, Limits, plan_of
from sash.windows.flow import window
from sash.windows.needs import SeenHistory

Vendor = Literal["openai", "anthropic"]
_FORMS: Final = {each.maker: each.name for each in PROVIDERS.values() if each.compacts}
"""The form of each vendor's compactions."""
_REPLY_TOKENS: Final = 8192
_SHARE: Final = 0.8
"""The largest share of a window's budget that the compacted messages may have."""
_MESSAGES: Final = 400


def headers_of(vendor: Vendor, key: str | None) -> dict[str, str] | None:
    """Return the headers of a vendor's requests, if they are not the usual ones."""
    if vendor == "openai":
        return None
    given = {"x-api-key": key} if key else {}
    return {"anthropic-version": "2023-06-01", "anthropic-beta": "compact-2026-09-04", **given}


class Compactor:
    """Writes compactions of one vendor. ``model`` reads all conversations; without it, each window's own model."""

    def __init__(self, reader: Reader, endpoint: Endpoint, *, vendor: Vendor, model: str | None) -> None:
        self._reader = reader
        self._endpoint = endpoint
        self._vendor = vendor
        self._model = model
        self.form = _FORMS[vendor]

    async def extended(
        self, target: Target, through_seq: int, budget: int, model: Model
    ) -> tuple[Summary, State] | None:
        """Return a compaction of more messages, up to ``through_seq`` at most, and the state that it is of.

        None if nothing can be compacted. Raises EndpointFailed, HistoryEdited.
        """
        state, standing = await self._standing(target)
        first = standing.through_seq + 1 if standing else 1
        last = min(through_seq, state.length)
        page = await self._reader.page(target, first, min(last, first + _MESSAGES - 1) + 1)
        if page.made != state.made or not page.messages:
            return None
        messages = _portion(page.messages, last, model, int(budget * _SHARE))
        request = _request(state, standing, messages, self.form, model, budget) if messages else None
        if request is None:
            return None
        item = await self._asked(target, request, self._model or model.id)
        try:
            compaction, words = read_compaction(item, "")
        except InvalidEntry:
            raise EndpointFailed("an answer without a compaction") from None
        return make_summary(words, messages[-1].seq, compaction), state

    async def _standing(self, target: Target) -> tuple[State, Summary | None]:
        """The conversation's state, and the compaction that stands in windows of the form."""
        tail = await self._reader.tails.read(target, Reach(limit=1, compactions=readable(self.form)))
        summary = newest_summary(tail.state.summary, tail.appended, self.form)
        return tail.state, summary if summary is not None and summary.compaction is not None else None

    async def _asked(self, target: Target, request: dict[str, Any], model: str) -> Any:
        """Return the vendor's item, or OpenAI's whole output. Raises EndpointFailed."""
        if self._vendor == "openai":
            body = {"model": model, "input": request["input"]}
        else:
            body = {"model": model, "max_tokens": _REPLY_TOKENS, **request, "compaction": {"type": "summarize"}}
        answer = await self._endpoint.ask(msgspec.json.encode(body), target, model)
        try:
            decoded: Any = msgspec.json.decode(answer)
            item = decoded["output"] if self._vendor == "openai" else decoded["content"][0]
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, LookupError, TypeError):
            raise EndpointFailed("an answer that is no compaction") from None
        if not isinstance(item, dict | list) or (isinstance(item, dict) and not item.get("content")):
            raise EndpointFailed("a compaction that failed")
        return item


def _portion(messages: list[Message], last: int, model: Model, room: int) -> list[Message]:
    """The first messages, at most up to ``last`` and of ``room`` tokens, that end right before a reply."""
    spent, end = 0, 0
    for index, message in enumerate(messages[:-1]):
        spent += message_tokens(message.record.measure, model)
        if spent > room or message.seq > last:
            break
        role, following = message.record.measure.role, messages[index + 1].record.measure.role
        if role > DEVELOPER and role != ASSISTANT and following == ASSISTANT:
            end = index + 1
    return messages[:end]


def _request(
    state: State, standing: Summary | None, messages: list[Message], form: str, model: Model, budget: int
) -> dict[str, Any] | None:
    """The arguments of the vendor's SDK: the standing compaction and the messages as a window; None if they do not fit."""
    parts = fixed_parts(read_settings(state.settings))
    messages = [message for message in messages if not message.record.is_left_out]
    records = Records.of([message.record for message in messages])
    history = History(
        first_seq=1,
        records=records,
        length=len(messages),
        column=model.column,
        tokens=sum(each.record.reference_tokens[model.column] for each in messages),
        grounding_messages=0,
        grounding_tokens=0,
        seqs=range(1, len(messages) + 1),
        asked=records.roles.rfind(USER),
        summary=standing and msgspec.structs.replace(standing, through_seq=0, seq=0),
    )
    # Reasoning is left out: those that were made in shorter windows would make the request invalid.
    query = WindowQuery(model=model.id, format=form, reasoning="none", grounding="none", uncarried="drop")
    asked = Asked(plan_of(query, parts, Limits(model, 0, budget)))
    seen = SeenHistory(history, Bodies(1, [message.body for message in messages], {}), {})
    made = window(asked, seen).send(None)
    if not isinstance(made, Made) or made.head.kept.first_seq != 1:
        return None
    request: dict[str, Any] = msgspec.json.decode(made.body)["request"]
    return request
