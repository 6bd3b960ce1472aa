"""Conversations for the tests of windows: generated ones, short ways to write messages, and a store in memory."""

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import msgspec
import pytest
from hypothesis import strategies as st

from sash.core.chat.messages import Document, Entry, Grounding
from sash.core.chat.tool_groups import Place, calls_of, places_of
from sash.core.counts.costs.counting import reference_tokens
from sash.core.counts.measures.measures import measure
from sash.core.counts.models.models import Model, find_model
from sash.core.counts.models.price_tiers import PriceTier
from sash.core.counts.text import Encoding, count_text
from sash.core.law.build import build_window
from sash.core.law.documents.document_costs import Source
from sash.core.law.documents.documents import Documents
from sash.core.law.documents.grounding import Template
from sash.core.law.fixed_parts.conversation_settings import ConversationSettings, fixed_parts
from sash.core.law.fixed_parts.fixed import FixedParts
from sash.core.law.fixed_parts.plan import Plan, WindowSpec
from sash.core.law.history.compaction import newest_summary, readable
from sash.core.law.history.notes import summary_message
from sash.core.law.history.order import arranged
from sash.core.law.history.view import History
from sash.core.law.records.need_older import NeedOlder, older
from sash.core.law.records.parameters import WindowQuery
from sash.core.law.records.records import Records
from sash.core.law.render import Bodies, Marked, chat_messages, chat_request
from sash.core.law.selection.stable import Cut
from sash.core.law.selection.window import Window
from sash.core.measured_entries import check_entries, in_place
from sash.core.providers.messages.endings import GO_ON
from sash.core.providers.messages.mends import Mends
from sash.core.providers.reading.native import compaction_of
from sash.core.stored.record import Record
from sash.core.stored.stored_grounding import StoredGrounding, decode_grounding
from sash.core.stored.stored_summary import Summary
from sash.problems import WindowDoesNotFit
from sash.store.data.entries import prepare
from sash.windows.edits import edited
from sash.windows.needs import Older, SeenHistory

MODELS = (
    "gpt-4o-mini",
    "gpt-5",
    "gpt-3.5-turbo",
    "claude-sonnet-4-5",
    "claude-opus-4-8",
    "gemini-2.5-pro",
    "llama-3.3-70b",
)

TOOL = {
    "type": "function",
    "function": {"name": "look", "parameters": {"type": "object", "properties": {"day": {"type": "integer"}}}},
}


# ---- a store in memory: a conversation's records, and the tails that a read returns


@dataclass(frozen=True)
class Talk:
    """A conversation: its settings and entries, and a summary as its text and the last seq that it covers."""

    entries: tuple[Entry, ...] = ()
    settings: ConversationSettings = field(default_factory=ConversationSettings)
    summary: tuple[str, int] | None = None

    @cached_property
    def messages(self) -> list[dict[str, Any]]:
        return [entry.message for entry in self.entries]

    @cached_property
    def parts(self) -> FixedParts:
        return fixed_parts(self.settings)

    @cached_property
    def stored(self) -> tuple[list[Record], list[bytes], dict[int, StoredGrounding]]:
        """Records, bodies and documents as an append stores them."""
        check_entries(self.entries)
        new = prepare(self.entries, self.parts.template, now_ms=1)
        placed = zip((entry.record for entry in new), places_of(map(calls_of, self.messages)), strict=True)
        records = list(Records.of([in_place(record, place or Place()) for record, place in placed]))
        documents = {seq: decode_grounding(entry.grounding) for seq, entry in enumerate(new, 1) if entry.grounding}
        return records, [entry.body for entry in new], documents

    @cached_property
    def totals(self) -> tuple[list[int], list[int]]:
        """In each encoding, the tokens of the first n messages, from none to all of them."""
        costs = [reference_tokens(record.measure, parallel=record.parallel) for record in self.stored[0]]
        first, second = ([0, *itertools.accumulate(cost[column] for cost in costs)] for column in (0, 1))
        return first, second

    @cached_property
    def question(self) -> int:
        return max((seq for seq, m in enumerate(self.messages, 1) if m["role"] == "user"), default=0)

    def upto(self, length: int) -> "Talk":
        """The conversation when it had ``length`` messages."""
        records, bodies, documents = self.stored
        earlier = replace(self, entries=self.entries[:length])
        stored = records[:length], bodies[:length], {seq: d for seq, d in documents.items() if seq <= length}
        vars(earlier).update(stored=stored, parts=self.parts, totals=self.totals)
        return earlier

    def history(self, model: Model, first_seq: int = 1) -> History:
        """Return the history from ``first_seq`` on, made once, with the totals and the older records that a read adds."""
        made: dict[tuple[str, str, int], History] = vars(self).setdefault("_histories", {})
        wanted = (model.encoding, model.format, first_seq)
        if wanted not in made:
            made[wanted] = self._history(model, first_seq)
        return made[wanted]

    def _history(self, model: Model, first_seq: int) -> History:
        records, _, _ = self.stored
        column = 0 if model.encoding == "o200k_base" else 1
        grounded = [record.grounding[column] for record in records if record.grounding]
        before = sorted(seq for seq in self.always if seq < first_seq)
        front = Records.lone([records[seq - 1] for seq in before])
        seqs = [*before, *range(first_seq, len(records) + 1)]
        return History(
            first_seq=first_seq,
            records=front.before(Records.of(records[first_seq - 1 :]), front=len(front)),
            length=len(records),
            column=column,
            tokens=self.totals[column][len(records)],
            grounding_messages=len(grounded),
            grounding_tokens=sum(grounded),
            seqs=seqs,
            asked=seqs.index(self.question) if self.question else -1,
            summary=newest_summary(self._summary(), self._compaction(model.format), model.format, model=model),
        )

    @cached_property
    def always(self) -> set[int]:
        """Seqs that every read returns: the newest question, system and developer messages, and whole pinned groups."""
        found = {self.question} - {0}
        for group in groups(self.messages):
            pinned = any(self.entries[seq - 1].pinned for seq in group)
            if pinned or self.messages[group[0] - 1]["role"] in ("system", "developer"):
                found.update(group)
        return found

    def _summary(self) -> Summary | None:
        if self.summary is None:
            return None
        text, through = self.summary
        return Summary(text=text, through_seq=through, measure=measure(summary_message(text)))

    def _compaction(self, form: str) -> tuple[int, Record, bytes] | None:
        """The newest compaction that windows in ``form`` can have, as a read returns it."""
        records, bodies, _ = self.stored
        found = [(seq, compaction_of(message)) for seq, message in enumerate(self.messages, 1)]
        seqs = [seq for seq, each in found if each is not None and each.form in readable(form).split()]
        return (seqs[-1], records[seqs[-1] - 1], bodies[seqs[-1] - 1]) if seqs else None

    def documents(self, **limits: Any) -> Documents:
        _, bodies, documents = self.stored
        return Documents(
            sources={
                seq: Source(stored, bodies[seq - 1][stored.start : stored.end]) for seq, stored in documents.items()
            },
            template=self.parts.template,
            **limits,
        )

    def build(self, ask: "Ask", first_seq: int = 1) -> Window | Older:
        """Choose the messages as the law does, which leaves out what ``order.py`` mends (``test_order.py``).

        Rows are those of the whole history, so that windows of several tails compare.
        """
        history = self.history(ask.model, first_seq)
        built = older(ask.budget) if arranged(history, drops=False) is None else self._built(history, ask)
        if not isinstance(built, Window):
            return SeenHistory(history, Bodies(1, [], {}), {}).older(built)
        cut = built.cut and Cut(*(row and row - history.oldest_bound for row in built.cut))
        edits = {
            seq - 1: built.edits[row] for seq, row in zip(built.seqs, built.rows, strict=True) if row in built.edits
        }
        return msgspec.structs.replace(
            built, seqs=[*built.seqs], rows=[seq - 1 for seq in built.seqs], edits=edits, cut=cut
        )

    def _built(self, history: History, ask: "Ask") -> Window | NeedOlder:
        spec = WindowSpec(
            plan=Plan(ask.options, self.parts, ask.model, 0, ask.budget),
            documents=self.documents(dedupe=ask.options.dedupe != "none", **ask.limits),
        )
        return build_window(history, spec)

    def window(self, ask: "Ask") -> Window:
        window = self.build(ask)
        assert isinstance(window, Window)
        return self.edited(ask, window)[0]

    def edited(self, ask: "Ask", window: Window) -> tuple[Window, Bodies]:
        """Return the window with the exact cost of its cut results, and the bodies as they are sent."""
        return edited(window, self.history(ask.model), Bodies(1, self.stored[1], {}), ask.model)[:2]

    def request(self, window: Window, ask: "Ask | None" = None) -> bytes:
        """Return the window's request as JSON; without ``ask``, messages are sent as they are stored."""
        if window.goes_on:
            window = msgspec.structs.replace(window, lines={window.goes_on: [msgspec.json.encode(GO_ON)]})
        bodies = self.edited(ask, window)[1] if ask else Bodies(1, self.stored[1], {})
        extras = {seq: self.stored[0][seq - 1].measure.extra for seq in window.seqs}
        beside = {seq: extra.beside for seq, extra in extras.items() if extra is not None and extra.beside is not None}
        marked = Marked(Mends(), beside)
        messages = chat_messages(self.parts, window, bodies, self.stored[2], marked)
        return chat_request(self.parts, messages)


@dataclass(frozen=True)
class Ask:
    """The parameters of a window: the model's name, the budget, options, and limits for documents."""

    name: str = "gpt-4o-mini"
    budget: int = 1_000_000
    options: WindowQuery = field(default_factory=WindowQuery)
    limits: Mapping[str, Any] = field(default_factory=dict)
    tier: int | None = None
    """The tokens above which the model has another price."""

    @property
    def model(self) -> Model:
        found = find_model(self.name)
        if self.options.format != found.format:
            found = found.sent_as(self.options.format)
        return found if self.tier is None else msgspec.structs.replace(found, price_tiers=(PriceTier(self.tier),))


def groups(messages: list[dict[str, Any]]) -> list[list[int]]:
    """Return the seqs of each unit: calls with the results that follow, a legacy call with its result, or one message."""
    found: list[list[int]] = []
    for seq, message in enumerate(messages, 1):
        leader = messages[found[-1][0] - 1] if found else {}
        joins_calls = message["role"] == "tool"
        joins_legacy = message["role"] == "function" and leader.get("function_call") and len(found[-1]) == 1
        if joins_calls or (joins_legacy and not leader.get("tool_calls")):
            found[-1].append(seq)
        else:
            found.append([seq])
    return found


# ---- short ways to write messages


def talk(*messages: dict[str, Any] | Entry, summary: tuple[str, int] | None = None, **fixed: Any) -> Talk:
    entries = (m if isinstance(m, Entry) else Entry(message=m) for m in messages)
    return Talk(tuple(entries), ConversationSettings(**fixed), summary)


def said(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def pinned(message: dict[str, Any]) -> Entry:
    return Entry(message=message, pinned=True)


def grounded(content: Any, *documents: str | tuple[str, str] | Document, is_pinned: bool = False) -> Entry:
    """Return a question with documents, which are texts, pairs of id and text, or documents."""
    found = [_document(each) for each in documents]
    return Entry(message=said("user", content), grounding=Grounding(documents=found), pinned=is_pinned)


def _document(given: str | tuple[str, str] | Document) -> Document:
    match given:
        case str():
            return Document(text=given)
        case (identity, text):
            return Document(id=identity, text=text)
        case _:
            return given


def added_tokens(template: Template, content: str, documents: list[str], encoding: Encoding) -> int:
    """Return the tokens that all of the documents add to a message with this text."""
    before, after = template.around(documents)
    return count_text(before + content + after, encoding) - count_text(content, encoding)


def calling(*ids: str, content: str | None = None, arguments: str = '{"day": 1}') -> dict[str, Any]:
    calls = [{"id": i, "type": "function", "function": {"name": "look", "arguments": arguments}} for i in ids]
    return {"role": "assistant", "content": content, "tool_calls": calls}


def result(call_id: str, content: str = "found") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def compaction(form: str, content: str) -> dict[str, Any]:
    """A provider's compaction, with words or sealed."""
    block = {"type": "compaction", "content": content}
    own = {"type": "compaction", "encrypted_content": content}
    if form == "anthropic":
        own = {"role": "assistant", "content": [block]}
    return said("assistant", None, native={"format": form, "messages": [own]})


def words(count: int, word: str = "day") -> str:
    """Return a text of ``count`` tokens in every encoding."""
    return " ".join([word] * count)


# ---- generated conversations

TEXTS = (
    "",
    "ok",
    "yes, please",
    "Which talks are on today?",
    "<|endoftext|> is text",
    "오늘 강연은? 🙂",
    'a "quoted"\nline\\ ',
    '{"on": {"at": "9."}}',
    words(9),
    words(31),
    words(80),
)
_texts = st.sampled_from(TEXTS)
_rarely = st.sampled_from([False] * 6 + [True])
_ids = (f"call_{i}" for i in itertools.count())


def _one(message: dict[str, Any]) -> list[dict[str, Any]]:
    return [message]


def _parts(texts: Iterable[str]) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text} for text in texts]


def _group(calls: int, answers: list[str], order: int, content: str | None) -> list[dict[str, Any]]:
    ids = [f"call_{i}" for i in range(calls)]
    ordered = ids[order % calls :] + ids[: order % calls]
    return [calling(*ids, content=content), *(result(i, text) for i, text in zip(ordered, answers, strict=False))]


def _legacy(content: str, *, answered: bool) -> list[dict[str, Any]]:
    call = {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": "{}"}}
    return [call, said("function", content, name="look")] if answered else [call]


_groups = st.builds(
    _group,
    st.integers(1, 3),
    st.lists(_texts, max_size=3),
    st.integers(0, 2),
    st.sampled_from([None, "", "one moment"]),
)
_turns = st.one_of(
    st.builds(_one, st.builds(said, st.sampled_from(["user", "assistant"]), _texts)),
    st.builds(_one, st.builds(said, st.sampled_from(["user", "assistant"]), _texts)),
    st.builds(_one, st.builds(said, st.just("user"), st.lists(_texts, min_size=1, max_size=2).map(_parts))),
    st.builds(_one, st.builds(said, st.just("user"), _texts, name=st.sampled_from(["alice", "user"]))),
    st.builds(_one, st.builds(said, st.sampled_from(["system", "developer"]), _texts)),
    st.builds(_one, st.builds(said, st.just("assistant"), st.none(), refusal=_texts)),
    _groups,
    _groups,
    st.builds(_legacy, _texts, answered=st.booleans()),
    st.builds(_one, st.builds(said, st.just("function"), _texts, name=st.just("look"))),
)
_levels = st.lists(st.sampled_from([words(60), words(20), words(5), "요약 🙂", "day", ""]), max_size=3)
_documents = st.lists(
    st.builds(
        Document,
        text=st.sampled_from([*TEXTS[1:], words(200)]),
        id=st.sampled_from([None, "d-1", "d-2", "d-3"]),
        levels=st.none() | _levels.filter(bool),
    ),
    min_size=1,
    max_size=4,
)
_TEMPLATES = (None, "{documents}\n===\n{content}", "Q: {content}{documents}", "<{content}>\n{documents}\nAnswer:")


@st.composite
def entries(draw: st.DrawFn, *, max_turns: int = 10, pins: bool = True, documents: bool = True) -> tuple[Entry, ...]:
    """Draw entries of every kind; tool groups may lack results, at the end or before other messages."""
    drawn = []
    for message in itertools.chain.from_iterable(draw(st.lists(_turns, max_size=max_turns))):
        found = None
        if documents and message["role"] == "user" and draw(st.booleans()):
            found = Grounding(documents=draw(_documents))
        drawn.append(Entry(message=message, pinned=pins and draw(_rarely), grounding=found))
    return tuple(drawn)


@st.composite
def talks(draw: st.DrawFn, **kinds: Any) -> Talk:
    found = draw(entries(**kinds))
    fixed = ConversationSettings(
        system=draw(st.sampled_from([None, "You are helpful.", "Answer briefly.\n"])),
        few_shots=draw(st.sampled_from([None, None, [said("user", "ping"), said("assistant", "pong")], SHOT_CALLS])),
        tools=draw(st.sampled_from([None, [TOOL]])),
        tool_choice=draw(st.sampled_from([None, "auto", "none"])),
        grounding_template=draw(st.sampled_from(_TEMPLATES)),
        document_separator=draw(st.sampled_from([None, "\n", ""])),
    )
    summary = None
    if found and draw(st.booleans()):
        summary = (draw(st.sampled_from(["They met.", words(40)])), draw(st.integers(1, len(found))))
    return Talk(found, fixed, summary)


PRICES: dict[str, st.SearchStrategy[Any]] = {"price": st.sampled_from(["none", "auto", "auto"])}


def tiers(budget: int) -> st.SearchStrategy[int | None]:
    """Return a strategy for the number of tokens above which another price is, mostly below the budget."""
    return st.one_of(st.none(), st.integers(budget // 3, budget + 10))


SHOT_CALLS = [said("user", "today?"), calling("a", "b"), result("a", "날씨"), result("b"), said("assistant", "two")]


def limits() -> st.SearchStrategy[dict[str, Any]]:
    """Return a strategy for the limits of documents."""
    return st.fixed_dictionaries(
        {},
        optional={"max_tokens": st.sampled_from([5, 40, 120]), "overflow": st.sampled_from(["trim", "whole", "drop"])},
    )


def options(**given: st.SearchStrategy[Any]) -> st.SearchStrategy[WindowQuery]:
    """Return a strategy for options; ``given`` replaces single ones. A stable cut is drawn only if it is in ``given``."""
    ways: dict[str, st.SearchStrategy[Any]] = {
        "limit": st.sampled_from([None, None, 1, 2, 3, 5, 8]),
        "turns": st.sampled_from([None, None, None, 1, 2, 3]),
        "overflow": st.sampled_from(["stop", "skip"]),
        "grounding": st.sampled_from(["latest", "latest", "all", "none"]),
        "dedupe": st.sampled_from(["grounding", "messages", "none"]),
        "start": st.sampled_from(["any", "user"]),
        "summary": st.sampled_from(["auto", "never", "always"]),
        "note": st.booleans(),
    }
    return st.builds(WindowQuery, **(ways | given))


@st.composite
def asks(draw: st.DrawFn, found: Talk, *, fits: bool = True, **given: st.SearchStrategy[Any]) -> Ask:
    """Draw a window's parameters, with a budget that is mostly too small for all; if ``fits``, required messages fit."""
    name, wanted = draw(st.sampled_from(MODELS)), draw(options(**given))
    least = needed(found, name, wanted)
    most = found.window(Ask(name, 10**9, WindowQuery(grounding="all", dedupe="none"))).tokens.total + 40
    spare = draw(st.integers(0 if fits else -3, max(40, most - least)))
    return Ask(name, max(1, least + spare), wanted, draw(limits()))


def needed(found: Talk, name: str, wanted: WindowQuery | None = None) -> int:
    """Return the tokens of fixed parts and required messages, from the problem's ``needed``."""
    with pytest.raises(WindowDoesNotFit) as caught:
        found.build(Ask(name, -1, msgspec.structs.replace(wanted or WindowQuery(), grounding="none")))
    return int(caught.value.members["needed"])


@st.composite
def cases(
    draw: st.DrawFn, *, kinds: Mapping[str, Any] | None = None, fits: bool = True, **given: st.SearchStrategy[Any]
) -> tuple[Talk, Ask]:
    """Draw a conversation and a window's parameters for it, with a price tier if ``price`` is among them."""
    found = draw(talks(**(kinds or {})))
    ask = draw(asks(found, fits=fits, **given))
    return found, replace(ask, tier=draw(tiers(ask.budget))) if "price" in given else ask
