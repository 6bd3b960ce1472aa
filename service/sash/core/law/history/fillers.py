"""Tokens of the words that a form which fills adds to chat messages (``Provider.fills``), and of the turn before a greeting.

Its provider accepts no empty user turn, and no history that begins with the assistant. An empty turn is sent as ``…``, and
a user turn with ``…`` is put before the assistant. A history that came in the provider's own form and begins with the
assistant gets none, which may cost more tokens (``opening_tokens``), unless the provider refuses it (``needs_question``).
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import msgspec

from sash.core.counts.costs.counting import message_tokens, plain_text_tokens
from sash.core.counts.measures.measures import Measure
from sash.core.counts.measures.media_facts import IMAGE
from sash.core.counts.models.families import ASSISTANT, DEVELOPER, SYSTEM, USER
from sash.core.counts.models.models import Model
from sash.core.counts.models.vendors import VendorRules
from sash.core.counts.text import both
from sash.core.law.history.view import History, View
from sash.core.law.records.costs import written_cost
from sash.core.law.records.records import NO_ROLE
from sash.core.providers import PROVIDERS
from sash.core.providers.destinations.destination import meet
from sash.core.providers.writing.turns import NOTE, NOTHING_SAID
from sash.core.stored.record import Record

_FILE_NAME = 12
"""Tokens of the name that a file gets, or of the number behind its own."""
_TURNS_APART = 3
"""Turns more, at most, where words stand before calls and behind their results: the question of ``…`` and the words' own
turn, and the reply of ``…``."""


@lru_cache(maxsize=64)
def filler_tokens(model: Model) -> int:
    """Return the tokens of a user's turn of ``…``."""
    return written_cost({"role": "user", "content": NOTHING_SAID}, model)


def with_filler(measure: Measure, cost: int, model: Model) -> int:
    """Return a message's tokens with what the form adds: ``…`` in place of nothing, or beside a file, and files' names; and
    the turns that divide calls from words, at most."""
    if measure.role == USER and _is_silent(measure, model.format):  # a name may cost more
        return max(filler_tokens(model), cost)
    extra, wanted = measure.extra, meet(model.format, model.provider, model.known_as).values
    if extra is not None and extra.calls and "beside_calls" in wanted:
        return cost + _TURNS_APART * filler_tokens(model)
    if extra is None or "file_names" not in wanted:
        return cost
    files = sum(each.kind != IMAGE and each.form in ("", model.format) for each in extra.media)
    own = extra.native_in(model.format)  # a document of words is no file there
    is_alone = (files or (own and own.estimated)) and measure.role == USER and measure.o200k <= 1
    return cost + math.ceil(files * _FILE_NAME * model.scale) + (filler_tokens(model) if is_alone else 0)


def unseen_tokens(measure: Measure, model: Model) -> int:
    """Return the tokens that a message's linked pictures cost more if their sizes are not known."""
    extra = measure.extra
    if extra is None or not any(each.is_linked for each in extra.media):
        return 0
    pictures = zip((each for each in extra.media if each.kind == IMAGE and not each.form), extra.images, strict=False)
    images = tuple((0, 0, image[2]) if each.is_linked else image for each, image in pictures)
    unseen = msgspec.structs.replace(measure, extra=msgspec.structs.replace(extra, images=images))
    return max(0, message_tokens(unseen, model) - message_tokens(measure, model))


def _is_silent(measure: Measure, form: str) -> bool:
    """Return whether a message has no content in ``form`` beside calls and reasoning."""
    extra = measure.extra
    if measure.o200k or (extra is not None and (extra.images or extra.estimated)):
        return False
    own = extra.native_in(form) if extra is not None else None
    return own is None or not (own.images or any(own.rest) or own.rest_sealed or own.estimated)


def opening_tokens(view: View, row: int, model: Model) -> int:
    """Return the extra tokens of a request whose first message, beside system messages, is that of a row.

    Whether a system message that came in the provider's own form is sent before it depends on the model; then a blank turn
    of the user's is left out, and the assistant's may be the first.
    """
    records, sent_in = view.history.records, PROVIDERS[model.format]
    has_own_system = any(came_in(records[each].measure, model.format) for each in view.systems)
    is_beside_system = has_own_system and sent_in.has_system_messages(model.known_as)
    if records.roles[row] != ASSISTANT and not is_beside_system:  # as nearly always
        return 0
    first: Measure = records[row].measure
    is_own = came_in(first, model.format)
    if is_beside_system:
        is_blank = first.role == USER and first.o200k <= 1 and is_own
        return longest_opening(model) if is_blank or first.role == ASSISTANT else 0
    behind = records.roles[row + 1 :] if row >= records.front else b""
    is_followed = next((role for role in behind if role > DEVELOPER), None) == ASSISTANT
    calls = first.extra.calls if first.extra is not None else 0
    may_call = calls or is_followed or _is_silent(first, model.format)  # then the next message may have calls
    is_free = sent_in.needs_question == "never" or (sent_in.needs_question == "calls" and not may_call)
    return bare_opening(model) if is_free and is_own and view.history.seqs[row] == 1 else filler_tokens(model)


def puts_user_first(model: Model) -> bool:
    """Return whether a request that would begin with the assistant gets a user's turn of ``…`` before it."""
    return PROVIDERS[model.format].fills or "beginning" in meet(model.format, model.provider, model.known_as).values


def longest_opening(model: Model) -> int:
    """Return the most tokens that a request may cost more because of its first message. They are the same in every turn."""
    return max(filler_tokens(model), bare_opening(model))


def blank_line_tokens(model: Model) -> int:
    """Return the tokens of the blank line between two system texts, which are sent as one."""
    return plain_text_tokens("\n\n", model)


def as_note_tokens(record: Record, model: Model) -> int:
    """Return how many more tokens a system text costs that stays in its place: mostly in a turn of the user's, and as one
    text, where it was counted as separate paragraphs. 0 in a form that has system messages."""
    noted, measure = _noted_tokens(model), record.measure
    if not noted or measure.extra is None or not measure.extra.parts:
        return noted
    whole = msgspec.structs.replace(measure, extra=msgspec.structs.replace(measure.extra, parts=()))
    return noted + max(0, message_tokens(whole, model) - message_tokens(measure, model))


@lru_cache(maxsize=64)
def _noted_tokens(model: Model) -> int:
    if PROVIDERS[model.format].has_system_messages(model.known_as):
        return 0
    as_user, as_system = (message_tokens(Measure(role, *both("a")), model) for role in (USER, SYSTEM))
    return plain_text_tokens(NOTE, model) + max(0, as_user - as_system)


def stands_first(history: History, row: int) -> bool:
    """Return whether no message that may be sent stands before a row, so that none does in any window."""
    return history.seqs[0] == 1 and not history.records.sent_roles[:row].strip(bytes((NO_ROLE,)))


def joined_systems(view: View, model: Model) -> list[int]:
    """Return the rows of the system and developer messages whose texts the model's form joins, ascending."""
    if not PROVIDERS[model.format].fills:
        return []
    stays, records = PROVIDERS[model.format].has_system_messages(model.known_as), view.history.records
    return [row for row in view.systems if not (stays and came_in(records[row].measure, model.format))]


def came_in(measure: Measure, form: str) -> bool:
    """Return whether a message came in this provider's form."""
    return measure.extra is not None and measure.extra.native_in(form) is not None


def few_shots_fillers(few_shots: Sequence[Measure], model: Model) -> int:
    """Return the tokens of the words that the form adds to empty turns of few-shots."""
    if not PROVIDERS[model.format].fills:
        return 0
    costs = ((each, message_tokens(each, model)) for each in few_shots)
    return sum(with_filler(each, cost, model) - cost for each, cost in costs)


def bare_opening(model: Model) -> int:
    """Return the extra tokens of a request that begins with an assistant's message in the provider's own form."""
    is_claude = isinstance(model.rules, VendorRules) and model.rules.definitions > 0
    return PROVIDERS[model.format].opening_tokens if is_claude else 0
