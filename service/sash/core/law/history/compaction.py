"""compacted: a provider's compaction in a window. What it covers is neither sent nor counted, and what is behind it stays.

* What it is for: a compaction is the summary of all messages before it. Claude drops all blocks before it
  (platform.claude.com/docs/en/build-with-claude/compaction), and OpenAI's clients may
  (developers.openai.com/api/docs/guides/compaction); xAI's item replaces the whole conversation
  (docs.x.ai/developers/advanced-api-usage/context-compaction; all read in November 2026).
* When it can matter: in every window but with ``summary=never``.
* What wakes it: a message that is one, or one that ``PUT …/summary`` took.
* What it does: marks the rows before it as covered. Some stay, behind the compaction: system, developer and pinned messages,
  recalled ones, and a call whose result came later. The newest question does not: the compaction has it, and the reply
  behind it goes on from there.
"""

from bisect import bisect_right

import msgspec
import numpy as np

from sash.core.counts.measures.measures import measure
from sash.core.counts.models.families import DEVELOPER, TOOL
from sash.core.counts.models.models import Model
from sash.core.law.history.notes import summary_message
from sash.core.law.history.view import History
from sash.core.law.records.parameters import WindowQuery
from sash.core.law.records.units import heads_of
from sash.core.providers import PROVIDERS
from sash.core.providers.messages.references import is_readable
from sash.core.providers.reading.native import compaction_of, issuer_of
from sash.core.stored.record import Flags, Record, WindowFlags
from sash.core.stored.stored_summary import Summary


def readable(form: str) -> str:
    """The forms of the compactions that windows in ``form`` can have, each between spaces: its own, and those with words."""
    return "".join(f" {each.name} " for each in PROVIDERS.values() if each.name == form or each.compacts == "in words")


def newest_summary(
    summary: Summary | None,
    appended: tuple[int, Record, bytes] | None,
    form: str,
    view: str | None = None,
    model: Model | None = None,
) -> Summary | None:
    """The summary that was put, or the compaction that was ``appended`` if it covers more, as windows in ``form`` have it.

    ``appended`` are the seq, the record and the body of the newest one that windows in ``form`` can have. What the agent of
    a ``view`` may not see stands neither in its windows nor in the way of what it may see. Nor does a compaction that the
    ``model`` cannot read: its windows have the messages that it stands for.
    """
    found = _summary_of(*appended, form) if appended is not None else None
    summary, found = (each and _as_read(each, form, view, model) for each in (summary, found))
    if summary is not None and found is not None and summary.through_seq >= found.seq:
        return msgspec.structs.replace(summary, replaces=True)
    return found or summary


def _as_read(summary: Summary, form: str, view: str | None, model: Model | None) -> Summary | None:
    """The summary as a window has it: its compaction, else its words, else None."""
    if view is not None and not summary.is_seen(view):
        return None
    issuer = issuer_of(summary.compaction) if summary.compaction is not None else ""
    if model is not None and not is_readable(issuer, PROVIDERS[form].maker, model.provider, model.known_as):
        summary = msgspec.structs.replace(summary, compaction=None)
    return summary.sent_as(form)


def _summary_of(seq: int, record: Record, body: bytes, form: str) -> Summary | None:
    """The message at ``seq`` as the summary of those before it; None if it is no compaction."""
    message = msgspec.json.decode(body)
    found = compaction_of(message)
    if found is None:
        return None
    return Summary(
        text=found.words,
        through_seq=seq,
        measure=record.measure if found.form == form else measure(summary_message(found.words)),
        compaction=message,
        compaction_measure=record.measure,
        seq=seq,
        author=record.party.author,
    )


def compacted(history: History, options: WindowQuery) -> History | None:
    """The history without the messages that a compaction stands for; None if older ones are needed to tell which stay."""
    summary = history.summary
    if summary is None or not summary.stands or options.summary == "never":
        return history
    front, last = history.records.front, min(summary.through_seq, history.length)
    count = bisect_right(history.seqs, last, front) - front
    stays = _stays(history, count)
    if stays is None:
        return None
    asked, records, seqs = history.asked, history.records, history.seqs
    if covered := [front + index for index in range(count) if index not in stays]:
        records = records.with_flag(covered, WindowFlags.COVERED)
    if 0 <= asked < front and seqs[asked] <= last and not (asked in history.recalled or records[asked].pinned):
        kept = [row for row in range(len(seqs)) if row != asked]
        records, seqs = records.taken(np.array(kept)), [seqs[row] for row in kept]
    asked = asked if asked >= 0 and history.seqs[asked] > last else -1
    return msgspec.structs.replace(history, records=records, seqs=seqs, asked=asked, covered=last)


def _stays(history: History, count: int) -> set[int] | None:
    """The indexes of the tail's first ``count`` messages that stay; None if a call is before the tail."""
    records, front = history.tail, history.records.front
    heads = heads_of(records)
    reached = [*heads[count:].tolist(), *(heads.item(index) for index in records.where(Flags.PINNED) if index < count)]
    if not history.is_whole and any(records.roles[index] == TOOL for index in reached):
        return None
    stays = {index for index in range(count) if records.roles[index] <= DEVELOPER}
    stays |= {row - front for row in history.recalled}
    return stays.union(np.flatnonzero(np.isin(heads[:count], reached)).tolist())
