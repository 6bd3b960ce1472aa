"""Recall for a window: ranks older messages, and chooses the best.

::

    build the window without recall ── if nothing is left out, it is the result
        │
    build it with recall_max_tokens reserved ── messages left out may be recalled, in the tokens that remain
        │
    records and words of older messages ── shortlist: ranked, as units ── their exact costs ── choose
        │
        ├─ stable=false: build the window again, with the chosen messages in their places
        └─ stable=true:  keep the window, with one added message directly before the newest question
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from sash.core.chat.packed import Packed
from sash.core.chat.tool_groups import links_in
from sash.core.counts.costs.counting import reasoning_tokens, seals_tokens
from sash.core.counts.models.families import USER
from sash.core.counts.models.models import Model
from sash.core.law.history.view import History
from sash.core.law.recall import Candidate, Recollection, Searched, candidates, explained
from sash.core.law.records.costs import message_costs, record_cost, written_cost
from sash.core.law.records.parameters import WindowQuery
from sash.core.law.records.records import Records
from sash.core.law.records.units import late_in
from sash.core.law.selection.explain import documents_told
from sash.core.law.selection.window import Window
from sash.core.search.ranking import NEIGHBOURS, Scores, best, fused, scores_of_vectors, scores_of_words
from sash.core.search.words import transcript
from sash.core.stored.record import DIGEST_BYTES, RECORD_BYTES, RESULTS, Flags, Record
from sash.core.stored.stored_grounding import StoredGrounding

_FEWEST = 64
_WIDE, _WIDER = 3, 12
"""Rooms that the candidates fill."""
_USUAL_COST = 4
"""About the tokens that a message costs in addition to its text."""
NOTHING = Recollection({}, Searched(0, None, None))


class Old(NamedTuple):
    """Messages from ``first_seq`` on: their records, and the words and vectors that are known."""

    first_seq: int
    records: Records
    words: Packed
    vectors: Packed = Packed()

    @property
    def searched(self) -> Searched:
        """The number and range of the messages that recall searches."""
        count = len(self.words)
        return Searched(count, self.first_seq, self.first_seq + count - 1) if count else NOTHING.searched

    @property
    def late(self) -> list[int]:
        """The seqs of late results."""
        return [self.first_seq + index for index in late_in(self.records)]

    def apart(self, seqs: Sequence[int]) -> Records:
        """The records of single messages, without their details."""
        return self.records.taken(np.array(seqs, np.int64) - self.first_seq)


class Question(NamedTuple):
    """A text to search for: the numbers of each of its words, and its vector, empty if there is none."""

    words: Sequence[Sequence[int]]
    vector: bytes = b""


def costs_of(records: Mapping[int, Record], old: Old, model: Model, query: WindowQuery) -> dict[int, int]:
    """Tokens of ``old``'s messages by seq, with the reasoning that is sent of older turns: all, or signatures on calls."""
    plain = [
        seq
        for seq, record in records.items()
        if record.measure.extra is None and record.grounding is None and record.own_tokens is None
    ]
    found = message_costs(old.apart(plain), model)
    costs = dict(zip(plain, found.tolist(), strict=True))
    costs |= {seq: record_cost(record, model) for seq, record in records.items() if seq not in costs}
    if query.reasoning == "none":
        return costs
    sent = reasoning_tokens if query.reasoning == "all" else seals_tokens
    return {seq: cost + sent(records[seq].measure, model, query.format) for seq, cost in costs.items()}


def block_place(window: Window, history: History) -> int:
    """The number of a window's messages before a block: it stands before the newest question, or, without one, before the
    newest message with its tool group."""
    if history.asked in window.rows:
        return window.rows.index(history.asked)
    roles = bytes(map(history.records.roles.__getitem__, window.rows))
    return max(0, len(roles.rstrip(RESULTS)) - 1)


def joined(parts: Sequence[tuple[Old, Question]]) -> tuple[Old, Question, Callable[[int], tuple[int, int] | None]]:
    """Several conversations as one, to be ranked together; and a function from a place in it to the part and the seq.

    Between two conversations stand a few empty messages, as words also count for their neighbours: they have no seq.
    """
    words: list[Packed] = []
    vectors: list[Packed] = []
    starts: list[int] = []
    end, gap = 0, Packed.of([b""] * NEIGHBOURS)
    for old, _ in parts:
        starts.append(end)
        end += len(old.words) + NEIGHBOURS
        words += (old.words, gap)
        vectors += (old.vectors, Packed.of([b""] * (len(old.words) - len(old.vectors))), gap)
    alike = zip(*(question.words for _, question in parts), strict=True)
    numbers = [tuple({number for each in word for number in each}) for word in alike]
    vector = next((question.vector for _, question in parts if question.vector), b"")

    def place(at: int) -> tuple[int, int] | None:
        number = bisect_right(starts, at) - 1
        offset, old = at - starts[number], parts[number][0]
        return (number, old.first_seq + offset) if offset < len(old.words) else None

    return (
        Old(1, Records(b""), Packed.concatenated(words), Packed.concatenated(vectors)),
        Question(numbers, vector),
        place,
    )


def found(old: Old, question: Question, limit: int) -> list[tuple[int, float]]:
    """Places in ``old`` and scores of the messages that are relevant to a text, best first."""
    scores, holds = scores_of_words(old.words, question.words)
    return _ranked(old, question, scores * holds, limit)


def _ranked(old: Old, question: Question, scores: Scores, limit: int) -> list[tuple[int, float]]:
    """The best places and scores. ``scores`` are those by words; the question's vector counts too, if it has one."""
    if question.vector:
        scores = fused(scores, scores_of_vectors(old.vectors, question.vector, len(scores)))
    return best(scores, limit)


def _best_first(old: Old, question: Question, scores: Scores, limit: int) -> Iterator[tuple[int, float]]:
    """The same one after another: the first few are nearly always enough."""
    yield from (few := _ranked(old, question, scores, min(_FEWEST, limit)))
    if limit > _FEWEST == len(few):
        yield from _ranked(old, question, scores, limit)[_FEWEST:]


def shortlist(
    old: Old, question: Question, window: Window, room: int, column: int, *, user_first: bool, view: str | None = None
) -> list[Candidate]:
    """Candidates for recall, best first, with about three times ``room`` tokens, so that a later one can fit.

    With ``user_first`` each candidate begins with a user's message. For a ``view`` there are more, as it may not see all.
    """
    most = (_WIDE if view is None else _WIDER) * room
    tokens = old.records.tokens(column).tolist()
    scores, _ = scores_of_words(old.words, question.words)
    ranked = _best_first(old, question, scores, max(_FEWEST, room // _USUAL_COST))
    wanted, total = [], 0
    for candidate in candidates(ranked, old.records, old.first_seq, frozenset(window.seqs)):
        cost = sum([tokens[seq - old.first_seq] + _USUAL_COST for seq in candidate.seqs])
        if cost <= room + _FEWEST and not (
            user_first and old.records.roles[min(candidate.seqs) - old.first_seq] != USER
        ):
            wanted.append(candidate)
            total += cost
        if total > most:
            break
    return wanted


def recallable(wanted: list[Candidate], old: Old, records: Mapping[int, Record], view: str | None) -> list[Candidate]:
    """The candidates without tool groups that have late results, which are not recalled with them; and for a ``view``
    without what the agent may not see, and without other agents' tool groups."""
    late = {records[seq].links for seq in old.late}
    if not late and view is None:  # as nearly always
        return wanted

    def is_apart(record: Record) -> bool:
        if late and record.calls and not late.isdisjoint(links_in(record.links)):
            return True
        if view is None:
            return False
        is_others_group = (record.grouped and not record.flags & Flags.WITHHELD) and record.party.is_others(view)
        return is_others_group or not record.party.is_seen(view)

    apart = {seq for seq, record in records.items() if is_apart(record)}
    return [each for each in wanted if apart.isdisjoint(each.seqs)]


def digests_of(seqs: Sequence[int], history: History) -> set[bytes]:
    """The digests of what these messages of a history say."""
    sent = {*seqs}
    ends = [(row + 1) * RECORD_BYTES for row, seq in enumerate(history.seqs) if seq in sent]
    return {history.records.packed[end - DIGEST_BYTES : end] for end in ends}


def in_places(
    taken: Sequence[Candidate], old: Old, records: Mapping[int, Record], costs: Mapping[int, int]
) -> Recollection:
    """The recollection if the messages are sent in their own places."""
    lines = explained(taken, records, costs)
    return Recollection(lines, old.searched, sum(line.tokens for line in lines.values()))


def in_block(
    taken: Sequence[Candidate],
    old: Old,
    records: Mapping[int, Record],
    costs: Mapping[int, int],
    bodies: Mapping[int, bytes],
    template: str,
    model: Model,
    room: int,
) -> Recollection:
    """The recollection if the messages are sent as one message of at most ``room`` tokens.

    The message's role is user: some providers move system messages to the beginning, which would change the window's
    beginning. If the template makes the message too long, the lowest-ranked messages are left out.
    """
    for count in range(len(taken), 0, -1):
        lines = explained(taken[:count], records, costs)
        said = transcript(msgspec.json.decode(bodies[seq]) for seq in lines)
        message = {"role": "user", "content": template.replace("{messages}", said)}
        tokens = written_cost(message, model)
        if tokens <= room:
            return Recollection(lines, old.searched, tokens, msgspec.json.encode(message))
    return Recollection({}, old.searched)


def beside_documents(recollection: Recollection, given: Mapping[int, StoredGrounding]) -> Recollection:
    """The recollection in a block, whose messages' documents are told as left out."""
    told = {seq: documents_told(each) for seq, each in given.items()}
    lines = recollection.lines
    changed = {seq: msgspec.structs.replace(lines[seq], documents=documents) for seq, documents in told.items()}
    return msgspec.structs.replace(recollection, lines={**lines, **changed})


def recollected(window: Window, recollection: Recollection, history: History) -> Window:
    """The window of a history with its recollection, and with the tokens of the recollection's block, if it has one.

    Messages in a block are explained as not kept, because they are not sent as messages: ``kept`` does not count them.
    """
    tokens, lines, block = window.tokens, window.explain, recollection.block
    if block:
        tokens = tokens.plus("messages", recollection.tokens)
        recollection = msgspec.structs.replace(recollection, place=block_place(window, history))
    if lines is not None:
        by_seq = {line.seq: line for line in lines}
        for seq, line in recollection.lines.items():  # the window's own line has the tokens of a message in its place
            own = line if block else by_seq.get(seq, line)
            by_seq[seq] = msgspec.structs.replace(own, kept=not block, reason=line.reason, score=line.score)
        lines = [by_seq[seq] for seq in sorted(by_seq)]
    return msgspec.structs.replace(window, tokens=tokens, explain=lines, recalled=recollection)


def first_seen(window: Window, history: History) -> int:
    """The seq from which on a window has all messages, up to its newest one."""
    seqs, front = np.sort(history.seqs), history.records.front
    # Without the gaps of messages that an agent does not see.
    numbers = np.append(seqs[:front], history.first_seq + np.arange(len(seqs) - front))
    sent = numbers[np.isin(seqs, window.seqs)].tolist()
    left = last_left_out(sent, sent[-1] if sent else 0) if window.dropped.messages else 0
    return seqs.item(np.searchsorted(numbers, left + 1)) if left else 1


def last_left_out(seqs: Sequence[int], length: int) -> int:
    """The seq before the window's last unbroken run of messages; 0 if the run begins at the first message."""
    if not seqs or seqs[-1] != length:
        return length
    count = len(seqs)
    return seqs[bisect_left(range(count), length - count + 1, key=lambda index: seqs[index] - index)] - 1
