"""A window as the blocks that a provider's prompt cache compares: definitions, system text, lines, then messages.

Marks stand where hints put them. Tokens that a request costs beside its messages count with the blocks before them.
"""

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Final

import msgspec

from sash.core.counts.models.families import DEVELOPER, SYSTEM, TOOL, USER
from sash.core.law.history.fillers import came_in
from sash.core.providers import PROVIDERS
from sash.core.providers.form.cache_marks import CacheKind, Places
from sash.windows.window_costs import WindowCosts
from sash_tools.replays.prompt_cache import Block

_TURNS: Final = (USER, TOOL)
"""Roles of messages up to which an entry may end without a mark."""


class CachedWindow(WindowCosts, frozen=True, dict=True):
    """A window as a provider's cache sees it: the blocks of its messages, and the ends of its entries.

    ``places`` are those of its hints; None without hints.
    """

    places: Places | None = None

    @cached_property
    def roles(self) -> bytes:
        """The roles of the messages."""
        roles = self.history.records.roles
        return bytes([roles[row] for row in self.window.rows])

    @property
    def systems(self) -> list[int]:
        """The seqs of the system and developer messages before all others, which are in one text."""
        leading = len(self.roles) - len(self.roles.lstrip(bytes((SYSTEM, DEVELOPER))))
        return [*self.window.seqs[:leading]]

    @property
    def _says_system_first(self) -> bool:
        """Whether the system text is a message, which takes a mark; Responses has it in ``instructions``."""
        return PROVIDERS[self.model.format].is_chat_form

    def blocks(self, seq: int) -> int:
        """The blocks of a message: one for its text or result, and one for each call."""
        records, row = self.history.records, self.row_of[seq]
        calls = records.calls[row]
        return calls + records[row].has_text if calls else 1

    def ends(self, kind: CacheKind) -> list[int]:
        """The ends of the entries that hints ask for, as numbers of messages; 0 is the end of the system text."""
        roles, places, count = self.roles, self.places, len(self.roles)
        if places is None:
            return []
        question = max(0, roles.rfind(USER))
        if kind == "breakpoints":
            # An output of Responses takes no mark.
            marked = (SYSTEM, DEVELOPER, *(_TURNS if self._says_system_first else (USER,)))
            before = self._last(marked, question) if places.before_question else 0
            return self._leading_end() + [end for end in (self._last(_TURNS, count), before) if end]
        # Claude's user messages in a row are one turn, and system messages are not between them.
        joins = kind == "cache_control"
        while joins and question and roles[question - 1] <= USER:
            measured = self.history.records[self.window.rows[question - 1]].measure
            if came_in(measured, self.model.format):  # apart from all turns
                break
            question -= 1
        return [0, *([question] if places.before_question else []), *([count] if places.newest else [])]

    def _last(self, kinds: Iterable[int], count: int) -> int:
        """The number of the last of the first ``count`` messages that has one of these roles; 0 without one."""
        return max(self.roles.rfind(kind, 0, count) for kind in kinds) + 1

    def _leading_end(self) -> list[int]:
        """The number of the last leading system text, if it can have a cache mark. Few-shots follow the system prompt."""
        window, prompt = self.window, bool(self.window.tokens.system)
        if window.tokens.few_shots:
            return [0] if prompt and self._says_system_first else []
        leading = len(self.roles) - len(self.roles.lstrip(bytes((SYSTEM, DEVELOPER))))
        texts = prompt + (window.summary is not None) + bool(window.note) + leading
        return [leading] if texts > (not self._says_system_first) else []


def blocks_of_window(kind: CacheKind, cached: CachedWindow) -> list[Block]:
    """The blocks of a window, in the order of caching."""
    window, tokens = cached.window, cached.window.tokens
    ends = set(cached.ends(kind)) if kind != "implicit" else set()
    said = list(_messages(kind, cached, ends))
    rest = tokens.total - sum(block.tokens for block in said)
    lines = (window.summary and window.summary.text, window.note)
    # In one text with the lines, where the provider has system texts apart from its messages.
    beside = (*lines, *cached.systems) if PROVIDERS[cached.model.format].fills else ()
    definitions = min(rest, tokens.priming + tokens.tools)
    has_lines = bool(any(lines) or tokens.few_shots)
    system = min(rest - definitions, tokens.system) if has_lines or not tokens.system else rest - definitions
    is_marked = kind == "cache_control" and cached.places is not None
    # Lines are messages behind the system text, unless they are in one text with it; few-shots are between them.
    on_lines = kind == "breakpoints" and any(lines) and not tokens.few_shots
    leading = [
        Block("definitions", definitions, marked=is_marked and tokens.tools > 0),
        Block(("system", beside), system, marked=0 in ends and system > 0 and not on_lines, turn=system > 0),
    ]
    if rest > definitions + system or any(lines):
        leading.append(Block(("lines", lines), rest - definitions - system, marked=0 in ends and on_lines))
    return leading + said


def _messages(kind: CacheKind, cached: CachedWindow, ends: set[int]) -> Iterator[Block]:
    """The blocks of the messages. ``ends`` are the numbers of those behind which a mark is."""
    window = cached.window
    recalled = window.recalled if window.recalled and window.recalled.block else None
    place = recalled.place if recalled else -1
    for number, (seq, role) in enumerate(zip(window.seqs, cached.roles, strict=True), 1):
        if recalled and number == place + 1:
            yield Block(("recalled", recalled.block), recalled.tokens)
        identity = (seq, str(_sent_as(cached, seq)), tuple(window.lines.get(seq, ())))
        if kind == "cache_control":  # a mark finds entries of at most 20 blocks before it
            yield from (Block((identity, part), 0) for part in range(1, cached.blocks(seq)))
        yield Block(identity, cached.cost(seq), marked=number in ends, turn=role in _TURNS)


def _sent_as(cached: CachedWindow, seq: int) -> tuple[object, object]:
    """What follows from how a message is sent: documents, and edits without ``saved``, which is a bound at first."""
    grounded, edit = cached.window.grounding.get(seq), cached.window.edits.get(cached.row_of[seq])
    return (grounded and (grounded.before, grounded.after)), edit and msgspec.structs.replace(edit, saved=0)
