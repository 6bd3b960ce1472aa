"""The tokens of a window that a provider's prompt cache is expected to read and to write.

The previous request is assumed to be the window that ended before the newest reply, sent within the cache's lifetime. The
common beginning of both is read, up to the last entry that the provider's rules allow (``core/providers``).
"""

from bisect import bisect_left
from collections.abc import Iterable
from functools import cached_property
from typing import Final

import msgspec

from sash.core.counts.counting import reasoning_tokens
from sash.core.counts.families import ASSISTANT, DEVELOPER, SYSTEM, TOOL, USER
from sash.core.counts.models import Model
from sash.core.law.fillers import came_in
from sash.core.law.view import History
from sash.core.law.window import NeedOlder, Window, older
from sash.core.providers import PROVIDERS
from sash.core.providers.cache_marks import LOOKBACK_BLOCKS, CacheKind, Caching, Places

TURNS: Final = (USER, TOOL)
"""Roles of messages up to which an entry may end without a mark."""


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
    records, first, front = history.records, history.first_seq, history.records.front
    roles = records.roles
    if history.covered:
        roles = bytes(SYSTEM if is_out else role for role, is_out in zip(roles, records.unsent, strict=True))
    end = roles.rfind(ASSISTANT, front)
    question = roles.rfind(USER, front, max(end, front))
    if not history.is_whole and (end <= front or (question < 0 and history.question >= first)):
        return older()
    if end <= front:
        return None
    gone, length = int(history.line_lengths()[end - front :].sum()), history.at(end) - 1
    asked = history.at(question) if question >= 0 else history.question if history.question < first else 0
    asked = 0 if question < 0 and history.covered else asked
    recalled = frozenset(seq for seq in history.recalled if asked == history.question and seq <= length)
    earlier = msgspec.structs.replace(
        history,
        records=records[:end],
        recalled=recalled,
        length=length,
        tokens=history.tokens - gone,
        question=asked,
    )
    return earlier.without_required(history.recalled - recalled)


def began_alike(window: Window, history: History, earlier: History) -> Window | None:
    """The window of the ``earlier`` history, if it is this one without the messages since: its stable cut stood
    there already, and all messages behind it are sent as they are. None where that is not certain.

    The cut is the largest need of all messages so far, so what came since has not changed it.
    """
    cut, records = window.cut, history.records
    if cut is None or cut.since_seq > earlier.length or cut.seq > earlier.question:
        return None
    if window.seqs != [*range(cut.seq, history.length + 1)] or history.names is not None or history.before:
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
    cut = _slides(window) or any(edit.limit is not None or edit.media for edit in window.edits.values())
    steady = bool(window.seqs) and (stable or not cut)
    recalled = window.recalled is not None and bool(window.recalled.block)
    return Places(
        before_question=steady and question in window.seqs[1:],
        newest=steady and not recalled and window.seqs[-1] not in window.grounding,
        recalled=recalled,
    )


class CachedWindow(msgspec.Struct, frozen=True, dict=True):
    """A window as a provider's cache sees it: tokens and blocks of its first messages, and the ends of its entries.

    ``places`` are those of its hints; None without hints.
    """

    window: Window
    history: History
    model: Model
    places: Places | None = None

    @cached_property
    def roles(self) -> bytes:
        """The roles of the messages."""
        roles = self.history.records.roles
        return bytes([roles[index] for index in self.history.indexes(self.window.seqs)])

    @cached_property
    def _thinks(self) -> bool:
        records = self.history.records
        return bool(records.details and records.thinks)

    @property
    def systems(self) -> list[int]:
        """The seqs of the system and developer messages."""
        return [seq for seq, role in zip(self.window.seqs, self.roles, strict=True) if role <= DEVELOPER]

    @property
    def says_system_first(self) -> bool:
        """Whether the system text is a message, which takes a mark; Responses has it in ``instructions``."""
        return PROVIDERS[self.model.format].is_chat_form

    def up_to(self, count: int) -> int:
        """Tokens of the window's beginning, up to and including its first ``count`` messages."""
        tokens, seqs, recalled = self.window.tokens, self.window.seqs, self.window.recalled
        fixed = tokens["priming"] + tokens["system"] + tokens["tools"]
        after = recalled.tokens if recalled and recalled.block and count <= recalled.place(seqs) else 0
        return fixed if count <= 0 else max(fixed, tokens["total"] - after - sum(map(self.cost, seqs[count:])))

    def up_to_lines(self, kind: CacheKind) -> int:
        """Tokens that stay in the cache if the system texts differ: those up to the last mark before these texts.

        Claude gets all system texts as one text, behind the tool definitions.
        """
        tokens = self.window.tokens
        if kind == "cache_control":
            return tokens["priming"] + tokens["tools"]
        is_marked = tokens["system"] and tokens["few_shots"]  # else the mark is on the line
        return self.up_to(0) if is_marked and self.says_system_first else 0

    def is_near(self, start: int, end: int) -> bool:
        """Whether messages ``start`` to ``end`` are fewer than 20 blocks: one for each text or result and for each call."""
        seqs = self.window.seqs[start : min(end, start + LOOKBACK_BLOCKS)]
        return start <= end and sum(map(self.blocks, seqs)) < LOOKBACK_BLOCKS

    def blocks(self, seq: int) -> int:
        """The blocks of a message: one for its text or result, and one for each call."""
        records, index = self.history.records, self.history.index(seq)
        calls = records.calls[index]
        return calls + records.has_text(index) if calls else 1

    def cost(self, seq: int) -> int:
        """The tokens of a message as it is sent, with its documents."""
        history, model = self.history, self.model
        edit, grounded = self.window.edits.get(seq), self.window.grounding.get(seq)
        cost = history.whole_cost(seq, model) - (edit.saved if edit else 0) + history.lines_tokens(seq, model)
        if self._thinks and not (edit and edit.without_reasoning):
            cost += reasoning_tokens(history.record(seq).measure, model)
        return cost + (grounded.cost if grounded else 0)

    def last(self, kinds: Iterable[int], count: int) -> int:
        """The number of the last of the first ``count`` messages that has one of these roles; 0 without one."""
        return max(self.roles.rfind(kind, 0, count) for kind in kinds) + 1

    def ends(self, kind: CacheKind) -> list[int]:
        """The ends of the entries that hints ask for, as numbers of messages; 0 is the end of the system text."""
        roles, places, count = self.roles, self.places, len(self.roles)
        if places is None:
            return []
        question = max(0, roles.rfind(USER))
        if kind == "breakpoints":
            # An output of Responses takes no mark.
            marked = (SYSTEM, DEVELOPER, *(TURNS if self.says_system_first else (USER,)))
            newest = 0 if places.alone else self.last(TURNS, count)
            before = self.last(marked, question) if places.before_question else 0
            return self._leading_end() + [end for end in (newest, before) if end]
        # Claude's user messages in a row are one turn, and system messages are not between them.
        joins = kind == "cache_control"
        while joins and question and roles[question - 1] <= USER:
            measured = self.history.record(self.window.seqs[question - 1]).measure
            if came_in(measured, self.model.format):  # apart from all turns
                break
            question -= 1
        return [0, *([question] if places.before_question else []), *([count] if places.newest else [])]

    def _leading_end(self) -> list[int]:
        """The number of the last leading system text, if it can have a cache mark. Few-shots follow the system prompt."""
        window, prompt = self.window, bool(self.window.tokens["system"])
        if window.tokens["few_shots"]:
            return [0] if prompt and self.says_system_first else []
        leading = len(self.roles) - len(self.roles.lstrip(bytes((SYSTEM, DEVELOPER))))
        texts = prompt + (window.summary is not None) + bool(window.note) + leading
        return [leading] if texts > (not self.says_system_first) else []


def expect(rules: Caching, before: CachedWindow | None, now: CachedWindow, *, differs_at: int = 0) -> Expected:
    """The tokens read and written if ``now`` is sent after ``before``, with hints at their places.

    ``differs_at`` is the seq of a message before which the windows differ, or which has other text now; 0 for none.
    """
    ends = now.ends(rules.kind)
    read = _read(rules, before, now, ends, differs_at) if before else 0
    return _billed(rules, read, now.up_to(max(ends, default=0)))


def expect_unhinted(rules: Caching, now: CachedWindow, *, stable: bool) -> Expected:
    """The tokens read and written of a window without hints, for a cache that needs no marks.

    The window before is not made for this. It had this one's messages before the newest reply, or no part but the fixed
    ones if the beginning of history has moved since.
    """
    common, end = _common_unhinted(now, stable=stable), now.window.tokens["total"]
    if rules.kind == "breakpoints":
        end = now.up_to(now.last(TURNS, len(now.roles)))
        common = common and now.last(TURNS, common)
    return _billed(rules, 0 if common is None else now.up_to(common), end)


def _billed(rules: Caching, read: int, last: int) -> Expected:
    """The tokens read and written of a request with this common beginning, and with its last entry's end."""
    read = read // rules.step_tokens * rules.step_tokens if read >= rules.minimum_tokens else 0
    written = 0 if rules.kind == "implicit" or last < rules.minimum_tokens else max(0, last - read)
    return Expected(read, written)


def _common_unhinted(now: CachedWindow, *, stable: bool) -> int | None:
    """The number of messages at the window's beginning that the window before began with; None for the first window."""
    window, history, seqs = now.window, now.history, now.window.seqs
    roles, front = history.records.roles, history.records.front
    reply = roles.rfind(ASSISTANT, front)
    if reply < 0:
        return None
    if _slides(window) and not (stable and (window.cut is None or window.cut.since_seq < history.at(reply))):
        return 0
    if history.question >= history.at(reply) and history.grounding_messages:  # its question had documents
        reply = max(front, roles.rfind(USER, front, reply))
    common = bisect_left(seqs, history.at(reply))
    if window.recalled is not None and window.recalled.lines:
        return min(common, window.recalled.place(seqs)) if window.recalled.block else 0
    return common


def _slides(window: Window) -> bool:
    """Whether history begins later in each window; a summary stays where it is."""
    return window.dropped["messages"] > 0 and window.stop_reason != "summary"


def _read(rules: Caching, before: CachedWindow, now: CachedWindow, ends: list[int], differs_at: int) -> int:
    """The tokens up to the last entry of the window ``before`` that the new one, with ``ends`` of its own, begins with."""
    common = _common(before.window, now.window, differs_at)
    if PROVIDERS[now.model.format].fills and before.systems != now.systems:
        common = -1  # they are in one text, with a note and a summary
    if rules.kind == "implicit":
        return now.up_to(common)
    if common < 0:
        return now.up_to_lines(rules.kind)
    is_marked = rules.kind == "cache_control"  # a mark finds the entries of the blocks before it
    for end in sorted(before.ends(rules.kind), reverse=True):
        if end <= common and (not is_marked or any(now.is_near(end, own) for own in ends)):
            return now.up_to(end)
    return 0


def _common(before: Window, now: Window, differs_at: int) -> int:
    """The number of equal messages at both windows' beginnings; -1 if the parts before the messages differ."""
    if before.summary != now.summary or before.note != now.note:
        return -1
    told = {*before.grounding, *before.edits, *now.grounding, *now.edits}
    for count, (old, new) in enumerate(zip(before.seqs, now.seqs, strict=False)):
        if old != new or old == differs_at or (old in told and sent_as(before, old) != sent_as(now, old)):
            return count
    return min(len(before.seqs), len(now.seqs))


def sent_as(window: Window, seq: int) -> tuple[object, object]:
    """What follows from how a message is sent: documents, and edits without ``saved``, which is a bound at first."""
    grounded, edit = window.grounding.get(seq), window.edits.get(seq)
    return (grounded and (grounded.before, grounded.after)), edit and msgspec.structs.replace(edit, saved=0)
