"""Earlier states of a conversation, for windows that are made again.

The log has all messages, so only settings and summaries that were replaced are kept beside it, in two fields of the
conversation's hash. Each entry is little-endian::

    last version with it 4   last message that a summary covers 4   bytes of the value 4   the value, sealed as it was

An empty value: there was none. ``LOST`` in place of the message: what these versions had is not known, because newer values
took the room (the newest eight are kept, of 256 KiB together), or because it was taken away with what it told.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from sash.problems import NotFound
from sash.store.data.changes import ChangeKind, VersionChange, changes_since
from sash.store.data.datakeys import DataKeys
from sash.store.data.histories import boundary, newest_question, totals_of
from sash.store.data.layout import HISTORY, WITH_WORDS, Keys, Target, check_identity, decode_summary, life_of
from sash.store.data.reading import Reader
from sash.store.data.replies import State, Tail
from sash.store.data.script_calls import if_ok
from sash.store.data.sealing import AnySealer, Kind
from sash.store.data.tails import Reach, TailReply, tail_of
from sash.store.redis.client import Client
from sash.store.redis.lua import SCRIPTS, ScriptCall

_ENTRY: Final = Struct("<III")
_TIME: Final = Struct("<Id")
LOST: Final = 2**32 - 1
_MOST_CHECKED: Final = 20_000


class Then(msgspec.Struct, frozen=True):
    """A state that a receipt names: its version, entity tag, log's length, totals in one encoding, and newest question."""

    version: int
    etag: str
    length: int
    tokens: int
    grounding_messages: int
    grounding_tokens: int
    question: int


class Since(msgspec.Struct, frozen=True):
    """What changed since then. ``changes`` is None where it is not known."""

    changes: list[VersionChange] | None
    times: dict[int, int]
    """Milliseconds since 1970, by version, of changes to what was there."""


class Past(msgspec.Struct, frozen=True):
    """What is read of an earlier state: its tail, or None where a part of it is not known any more; and what changed since.

    ``lost`` names that part: ``settings`` or ``summary``.
    """

    tail: Tail | None
    since: Since
    lost: str = ""


class PastReply(NamedTuple):
    """Stored values from ``read_past``: the log's length now, what tells earlier states, and the tail of one of them."""

    length: int
    earlier: Sequence[bytes | None]
    """The fields ``changes``, ``change_times``, ``settings_before`` and ``summaries_before``."""
    tail: TailReply


class PastTotals(NamedTuple):
    """Figures of an earlier state: the log's length, tokens in both encodings, messages with documents and the tokens of
    these in both, and the newest user message."""

    length: int
    tokens: tuple[int, int]
    grounded: int
    grounding: tuple[int, int]
    question: int


def read_past(keys: Keys, totals: PastTotals, reach: Reach) -> ScriptCall[PastReply]:
    """Read the tail of an earlier state. The call raises NotFound, ConversationDamaged."""
    length, tokens, grounded, grounding, question = totals
    arguments = (length, *tokens, grounded, *grounding, question, reach.packed)
    kept = keys.first(WITH_WORDS if reach.words else HISTORY)
    return ScriptCall(SCRIPTS["read_past"], kept, arguments, if_ok(_read_past))


def _read_past(length: int, earlier: Sequence[bytes | None], *tail: Any) -> PastReply:
    return PastReply(length, earlier, TailReply(*tail))


class EarlierStates:
    """Reads earlier states of conversations."""

    def __init__(self, client: Client, reader: Reader, data_keys: DataKeys) -> None:
        self._client = client
        self._reader = reader
        self._data_keys = data_keys

    async def read(self, target: Target, then: Then, reach: Reach, *, life: str) -> Past | None:
        """Return the state of one ``life`` that ``then`` names, with a tail as for a window; None where that life has ended.

        Raises HistoryEdited, ConversationDamaged.
        """
        tokens, grounding = (then.tokens, then.tokens), (then.grounding_tokens, then.grounding_tokens)
        totals = PastTotals(then.length, tokens, then.grounding_messages, grounding, then.question)
        try:
            reply = await self._client.run(read_past(target.keys, totals, reach))
        except NotFound:
            return None
        changes, times, *earlier = reply.earlier
        check_identity(reply.tail.name, target.name)
        etag = (reply.tail.etag or b"").decode()
        if life_of(etag) != life:
            return None
        version = int(etag.partition("-")[0])
        known = changes_since(then.version, version, reply.length, changes or b"")
        since = Since(known.found if known is not None else None, _times(times or b""))
        # The store may have lost a write, and another one came in its place.
        is_other = then.version == version and then.etag != etag
        if (
            is_other
            or then.length > reply.length
            or then.version > version
            or any(rewound(each, then) for each in since.changes or ())
        ):
            return Past(None, since)

        def opened(sealer: AnySealer) -> Past:
            lost, settings, summary = _parts(then.version, *earlier)
            if lost:
                return Past(None, since, lost)
            tail = tail_of(sealer, target.name, reply.tail)
            return Past(msgspec.structs.replace(tail, state=_state(sealer, tail.state, then, settings, summary)), since)

        past = await self._data_keys.reading(target.tenant, target.name, opened)
        if past.tail is None or not past.tail.outside:
            return past
        # A result that came later, and is pinned, pins its call.
        _, unpinned = await boundary(self._reader, target, then.length, past.tail.state)
        tail, given = past.tail, past.tail.outside
        kept = [index for index, each in enumerate(given) if each.seq == then.question or each.seq not in unpinned]
        outside, front = tuple(given[index] for index in kept), tail.front.taken(np.array(kept, np.int64))
        return msgspec.structs.replace(past, tail=msgspec.structs.replace(tail, outside=outside, front=front))

    async def stood(self, target: Target, then: Then) -> bool | None:
        """Return whether the log up to a state has the figures that it names, although no change to it is known.

        None where more than ``_MOST_CHECKED`` messages came since. Raises HistoryEdited, NotFound.
        """
        state = await self._reader.get(target)
        if state.length - then.length > _MOST_CHECKED:
            return None
        left = [*state.tokens, state.grounding_messages, *state.grounding_tokens]
        async for _, records in self._reader.steps(target, then.length + 1, state.length, state=state):
            left = [total - one for total, one in zip(left, totals_of(records), strict=True)]
        told = (then.tokens, then.grounding_messages, then.grounding_tokens)
        if told not in ((left[0], left[2], left[3]), (left[1], left[2], left[4])):
            return False
        return then.question == await newest_question(self._reader, target, then.length, state)


def _parts(version: int, settings: bytes | None, summaries: bytes | None) -> tuple[str, bytes | None, bytes | None]:
    """The part that is lost, or an empty string; and the settings and the summary of a version, None where they are those of
    now."""
    had, is_other = _before(settings or b"", version)
    told, was_other = _before(summaries or b"", version)
    if is_other and had is None:
        return "settings", None, None
    if was_other and told is None:
        return "summary", None, None
    return "", had, told


def _state(sealer: AnySealer, now: State, then: Then, settings: bytes | None, summary: bytes | None) -> State:
    """The state as it was then."""
    return msgspec.structs.replace(
        now,
        version=then.version,
        etag=then.etag,
        settings=now.settings if settings is None else sealer.open(Kind.SETTINGS, settings),
        summary=now.summary
        if summary is None
        else decode_summary(sealer.open(Kind.SUMMARY, summary))
        if summary
        else None,
    )


def _before(field: bytes, version: int) -> tuple[bytes | None, bool]:
    """The value that a version had, None where it is lost, and whether the field tells; else it is the present one."""
    at = 0
    while at < len(field):
        last, through, size = _ENTRY.unpack_from(field, at)
        at += _ENTRY.size
        if last >= version:
            return (None if through == LOST else field[at : at + size]), True
        at += size
    return None, False


def _times(field: bytes) -> dict[int, int]:
    return {version: int(ms) for version, ms in _TIME.iter_unpack(field)}


def rewound(change: VersionChange, then: Then) -> bool:
    """Whether a change took messages of that state away."""
    return bool(change.kinds & ChangeKind.REWOUND) and change.to_seq is not None and change.to_seq < then.length
