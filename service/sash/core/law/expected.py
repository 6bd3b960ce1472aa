"""The tokens of a window that a provider's prompt cache is expected to read and to write.

The previous request is assumed to be the window that ended before the newest reply, sent within the cache's lifetime. The
common beginning of both is read, up to the last entry that the provider's rules allow (``core/providers``).
"""

from bisect import bisect_left
from collections.abc import Iterable

import msgspec

from sash.core.counts.counting import reasoning_tokens
from sash.core.counts.families import ASSISTANT, DEVELOPER, SYSTEM, TOOL, USER
from sash.core.counts.models import Model
from sash.core.law.documents import Documents
from sash.core.law.fillers import came_in
from sash.core.law.records import Records
from sash.core.law.view import History
from sash.core.law.window import NeedOlder, Window, older
from sash.core.providers import PROVIDERS
from sash.core.providers.cache_marks import LOOKBACK_BLOCKS, CacheKind, Caching, Places

_TURNS = (USER, TOOL)


class Expected(msgspec.Struct, frozen=True):
    """Input tokens that the provider is expected to read from its prompt cache, and to write to it at an extra price."""

    expected_read_tokens: int
    expected_write_tokens: int


def before_reply(history: History) -> History | NeedOlder | None:
    """The history before the newest reply; None if there is no reply, or no message before it.

    Messages that are recalled for the newest question are not in it if the reply answered an earlier question. No message
    that a compaction covers is the reply or the question. Returns NeedOlder if the reply, or the newest question before it,
    is older than the messages that were read.
    """
    records, first = history.records, history.first_seq
    roles = records.roles
    if history.covered:
        roles = bytes(SYSTEM if is_out else role for role, is_out in zip(roles, records.unsent, strict=True))
    end = roles.rfind(ASSISTANT)
    question = roles.rfind(USER, 0, max(end, 0))
    if not history.is_whole and (end <= 0 or (question < 0 and history.question >= first)):
        return older(history)
    if end <= 0:
        return None
    gone = int(history.line_lengths()[end:].sum())
    asked = first + question if question >= 0 else min(history.question, first - 1) if not history.covered else 0
    recalled = frozenset(seq for seq in history.recalled if asked == history.question and seq < first + end)
    return msgspec.structs.replace(
        history,
        records=records[:end],
        outside={seq: each for seq, each in history.outside.items() if seq in recalled or seq not in history.recalled},
        recalled=recalled,
        length=first + end - 1,
        tokens=history.tokens - gone,
        question=asked,
    )


def began_alike(window: Window, history: History, earlier: History) -> Window | None:
    """The window of the ``earlier`` history, if it is this one without the messages since: its stable cut stood
    there already, and all messages behind it are sent as they are. None where that is not certain.

    The cut is the largest need of all messages so far, so what came since has not changed it.
    """
    cut, records = window.cut, history.records
    if cut is None or cut.since_seq > earlier.length or cut.seq > earlier.question:
        return None
    if window.seqs != [*range(cut.seq, history.length + 1)] or history.is_numbered_anew or history.outside:
        return None
    if history.summary or window.edits or window.grounding or window.summary or window.note or window.recalled:
        return None
    if history.grounding_messages or records.marks_any or (records.details and (records.thinks or records.media)):
        return None
    return msgspec.structs.replace(window, seqs=[*range(cut.seq, earlier.length + 1)])


def places_of(window: Window, question: int, *, stable: bool) -> Places:
    """The places up to which the next window begins like this one; ``question`` is the newest user message's seq.

    The end of the definitions and that of the system text always are such places. Among the messages these may be:

    - the message before the newest question, because the question's documents are not in the next window;
    - the newest message, unless it is a question with documents.

    They are not if history was left out without a stable cut, because the next window then begins at another message.
    """
    slides = window.dropped["messages"] and window.stop_reason != "summary"  # a summary stays where it is
    cut = slides or any(edit.limit is not None or edit.media for edit in window.edits.values())
    steady = bool(window.seqs) and (stable or not cut)
    recalled = window.recalled is not None and bool(window.recalled.block)
    return Places(
        before_question=steady and question in window.seqs[1:],
        newest=steady and not recalled and window.seqs[-1] not in window.grounding,
        recalled=recalled,
    )


def expect(
    rules: Caching,
    model: Model,
    history: History,
    before: tuple[Window, Places] | None,
    now: tuple[Window, Places],
    *,
    documents: Documents,
    differs_at: int = 0,
) -> Expected:
    """The tokens read and written if ``now`` is sent after ``before``, with hints at their places.

    ``differs_at`` is the seq of a message before which the windows differ, or which has other text now; 0 for none.
    """
    window, places = now
    costs = WindowCosts(window, history, model, documents)
    ends = ends_of(rules.kind, model, history, window, places)
    read = _read(rules, costs, history, before, ends, differs_at=differs_at) if before else 0
    return _billed(rules, read, costs.up_to(max(ends, default=0)))


def expect_unhinted(
    rules: Caching, model: Model, history: History, window: Window, *, documents: Documents, stable: bool
) -> Expected:
    """The tokens read and written of a window without hints, for a cache that needs no marks.

    The window before is not made for this. It had this one's messages before the newest reply, or no part but the fixed
    ones if the beginning of history has moved since.
    """
    costs = WindowCosts(window, history, model, documents)
    common = _common_unhinted(history, window, stable=stable)
    if rules.kind == "breakpoints":
        roles = history.roles_of(window.seqs)
        end = costs.up_to(_last(roles, _TURNS))
        common = common and _last(roles[:common], _TURNS)
    else:
        end = window.tokens["total"]
    return _billed(rules, 0 if common is None else costs.up_to(common), end)


def _billed(rules: Caching, read: int, last: int) -> Expected:
    """The tokens read and written of a request with this common beginning, and with its last entry's end."""
    read = read // rules.step_tokens * rules.step_tokens if read >= rules.minimum_tokens else 0
    written = 0 if rules.kind == "implicit" or last < rules.minimum_tokens else max(0, last - read)
    return Expected(read, written)


def _common_unhinted(history: History, window: Window, *, stable: bool) -> int | None:
    """The number of messages at the window's beginning that the window before began with; None for the first window."""
    roles, seqs, reply = history.records.roles, window.seqs, history.records.roles.rfind(ASSISTANT)
    if reply < 0:
        return None
    first = history.first_seq
    slides = window.dropped["messages"] and window.stop_reason != "summary"
    if slides and not (stable and (window.cut is None or window.cut.since_seq < first + reply)):
        return 0
    if history.question >= first + reply and history.grounding_messages:  # its question had documents
        reply = max(0, roles.rfind(USER, 0, reply))
    common = bisect_left(seqs, first + reply)
    if window.recalled is not None and window.recalled.lines:
        return min(common, window.recalled.place(seqs)) if window.recalled.block else 0
    return common


def _last(roles: bytes, kinds: Iterable[int]) -> int:
    """The number of the last message with one of these roles; 0 without one."""
    return max(map(roles.rfind, kinds)) + 1


def _read(
    rules: Caching,
    costs: "WindowCosts",
    history: History,
    before: tuple[Window, Places],
    ends: list[int],
    *,
    differs_at: int,
) -> int:
    """The tokens up to the last entry of the window ``before`` that the new one, with ``ends`` of its own, begins with."""
    model, now = costs.model, costs.window
    common = _common(before[0], now, differs_at)
    if PROVIDERS[model.format].fills and systems_of(before[0], history) != systems_of(now, history):
        common = -1  # they are in one text, with a note and a summary
    if rules.kind == "implicit":
        return costs.up_to(common)
    if common < 0:
        return costs.up_to_lines(rules)
    stored = [end for end in ends_of(rules.kind, model, history, *before) if end <= common]
    if rules.kind == "cache_control":  # a mark finds the entries of the blocks before it
        stored = [each for each in stored if any(costs.is_near(each, end) for end in ends)]
    return costs.up_to(max(stored)) if stored else 0


class WindowCosts:
    """Tokens and blocks of a window's first messages."""

    def __init__(self, window: Window, history: History, model: Model, documents: Documents) -> None:
        self.window = window
        self.model = model
        self._history = history
        self._documents = documents
        records = history.records
        self._thinks = bool(history.outside or (records.details and records.thinks))

    def up_to(self, count: int) -> int:
        """Tokens of the window's beginning, up to and including its first ``count`` messages."""
        tokens, seqs = self.window.tokens, self.window.seqs
        fixed = tokens["priming"] + tokens["system"] + tokens["tools"]
        block = self.window.recalled
        after = block.tokens if block and block.block and count <= block.place(seqs) else 0
        return fixed if count <= 0 else max(fixed, tokens["total"] - after - sum(map(self.cost, seqs[count:])))

    def up_to_lines(self, rules: Caching) -> int:
        """Tokens up to the last entry before the system texts that differ. Claude gets them as one, after definitions."""
        tokens = self.window.tokens
        if rules.kind == "cache_control":
            return tokens["priming"] + tokens["tools"]
        is_marked = tokens["system"] and tokens["few_shots"]  # else the mark is on the line
        return self.up_to(0) if is_marked and _says_system_first(self.model) else 0

    def is_near(self, start: int, end: int) -> bool:
        """Whether messages ``start`` to ``end`` are fewer than 20 blocks: one for each text or result and for each call."""
        seqs = self.window.seqs[start : min(end, start + LOOKBACK_BLOCKS)]
        return start <= end and sum(map(self.blocks, seqs)) < LOOKBACK_BLOCKS

    def blocks(self, seq: int) -> int:
        """The blocks of a message: one for its text or result, and one for each call."""
        records, index = self._history.records, seq - self._history.first_seq
        if index < 0:
            records, index = Records.of([self._history.outside[seq]]), 0
        calls = records.calls[index]
        return calls + records.has_text(index) if calls else 1

    def cost(self, seq: int) -> int:
        """The tokens of a message as it is sent, with its documents."""
        history, model = self._history, self.model
        edit, grounded = self.window.edits.get(seq), self.window.grounding.get(seq)
        cost = history.whole_cost(seq, model) - (edit.saved if edit else 0) + history.lines_tokens(seq, model)
        if self._thinks and not (edit and edit.without_reasoning):
            cost += reasoning_tokens(history.record(seq).measure, model)
        return cost + (self._documents.cost(history.record(seq), grounded, model) if grounded else 0)


def _common(before: Window, now: Window, differs_at: int) -> int:
    """The number of equal messages at both windows' beginnings; -1 if the parts before the messages differ."""
    if before.summary != now.summary or before.note != now.note:
        return -1
    length = min(len(before.seqs), len(now.seqs))
    is_usual = not (before.grounding or before.edits or now.grounding or now.edits or differs_at)
    if is_usual and before.seqs[:length] == now.seqs[:length]:
        return length
    count = 0
    for old, new in zip(before.seqs, now.seqs, strict=False):
        if old != new or old == differs_at or sent_as(before, old) != sent_as(now, new):
            break
        count += 1
    return count


def systems_of(window: Window, history: History) -> list[int]:
    """The seqs of a window's system and developer messages."""
    return [seq for seq, role in zip(window.seqs, history.roles_of(window.seqs), strict=True) if role <= DEVELOPER]


def sent_as(window: Window, seq: int) -> tuple[object, object]:
    """What follows from how a message is sent: documents, and edits without ``saved``, which is a bound at first."""
    grounded, edit = window.grounding.get(seq), window.edits.get(seq)
    return (grounded and (grounded.before, grounded.after)), edit and msgspec.structs.replace(edit, saved=0)


def _says_system_first(model: Model) -> bool:
    """Whether the system text is a message, which takes a mark; Responses has it in ``instructions``."""
    return PROVIDERS[model.format].is_chat_form


def ends_of(kind: CacheKind, model: Model, history: History, window: Window, places: Places) -> list[int]:
    """The ends of a window's cache entries, as numbers of messages; 0 is the end of the system text."""
    roles = history.roles_of(window.seqs)
    question = max(0, roles.rfind(USER))
    if kind == "breakpoints":
        # An output of Responses takes no mark.
        marked = (SYSTEM, DEVELOPER, *(_TURNS if _says_system_first(model) else (USER,)))
        newest = 0 if places.alone else _last(roles, _TURNS)
        before = _last(roles[:question], marked) if places.before_question else 0
        return _leading_end(model, window, roles) + [end for end in (newest, before) if end]
    # Claude's user messages in a row are one turn, and system messages are not between them.
    joins = kind == "cache_control"
    while joins and question and roles[question - 1] <= USER:
        if came_in(history.record(window.seqs[question - 1]).measure, model.format):  # apart from all turns
            break
        question -= 1
    return [0, *([question] if places.before_question else []), *([len(roles)] if places.newest else [])]


def _leading_end(model: Model, window: Window, roles: bytes) -> list[int]:
    """The end of the leading system texts, if it takes a mark. Few-shots follow the system prompt."""
    prompt = bool(window.tokens["system"])
    if window.tokens["few_shots"]:
        return [0] if prompt and _says_system_first(model) else []
    leading = len(roles) - len(roles.lstrip(bytes((SYSTEM, DEVELOPER))))
    texts = prompt + (window.summary is not None) + bool(window.note) + leading
    return [leading] if texts > (not _says_system_first(model)) else []
