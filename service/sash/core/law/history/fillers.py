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
from sash.core.providers.openai.server_mends import UNSAID
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
    own_tokens = None if model.vocabulary is None else model.vocabulary.count(NOTHING_SAID)
    return message_tokens(Measure(USER, *both(NOTHING_SAID)), model, own_tokens=own_tokens)


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
    if extra is None or not extra.media:
        return 0
    pictures = (each for each in extra.media if each.kind == IMAGE and not each.form)
    known = extra.images
    images = tuple((0, 0, image[2]) if each.is_linked else image for each, image in zip(pictures, known, strict=False))
    if images == known:
        return 0
    unseen = msgspec.structs.replace(measure, extra=msgspec.structs.replace(extra, images=images))
    return max(0, message_tokens(unseen, model) - message_tokens(measure, model))


def _is_silent(measure: Measure, form: str) -> bool:
    """Return whether a message has no content in ``form`` beside calls and reasoning."""
    extra = measure.extra
    if measure.o200k or (extra is not None and (extra.images or extra.estimated)):
        return False
    own = extra.native_in(form) if extra is not None else None
    return own is None or not (own.images or any(own.rest) or own.rest_sealed or own.estimated)


def opening_tokens(
    first: Record, model: Model, *, is_oldest: bool, is_beside_system: bool, is_followed: bool = False
) -> int:
    """Return the extra tokens of a request that begins with ``first``; ``is_oldest`` if it is the history's oldest.

    ``is_beside_system`` if a system message is sent in the provider's own form: whether it stands before ``first`` depends
    on the model. ``is_followed`` if the next message, beside instructions, is the assistant's too.
    """
    is_blank = first.measure.role == USER and first.measure.o200k <= 1 and came_in(first.measure, model.format)
    if first.measure.role != ASSISTANT and not (is_blank and is_beside_system):
        return 0
    if is_beside_system:  # a blank turn of the user's is left out behind it
        return longest_opening(model)
    calls = first.measure.extra.calls if first.measure.extra is not None else 0
    may_call = calls or is_followed or _is_silent(first.measure, model.format)  # then the next message may have calls
    needed = PROVIDERS[model.format].needs_question
    if (
        is_oldest
        and came_in(first.measure, model.format)
        and (needed == "never" or (needed == "calls" and not may_call))
    ):
        return bare_opening(model)
    return filler_tokens(model)


def puts_user_first(model: Model) -> bool:
    """Return whether a request that would begin with the assistant gets a user's turn of ``…`` before it."""
    return PROVIDERS[model.format].fills or "beginning" in meet(model.format, model.provider, model.known_as).values


def longest_opening(model: Model) -> int:
    """Return the most tokens that a request may cost more because of its first message. They are the same in every turn."""
    return max(filler_tokens(model), bare_opening(model)) if puts_user_first(model) else 0


def blank_line_tokens(model: Model) -> int:
    """Return the tokens of the blank line between two system texts, which are sent as one."""
    return plain_text_tokens("\n\n", model)


def joint_tokens(model: Model) -> int:
    """Return the tokens that a system text costs more at a server that takes one alone, where what stands around it is less
    than the blank line that joins it; 0 elsewhere."""
    if (
        PROVIDERS[model.format].fills
        or meet(model.format, model.provider, model.known_as).values.get("system") != "one"
    ):
        return 0
    return max(0, blank_line_tokens(model) - math.ceil(model.rules.role_costs[SYSTEM] * model.margin))


def bridge_tokens(model: Model) -> int:
    """Return the tokens of the reply of ``…`` between a result and a question, where a server wants one; 0 elsewhere."""
    wanted = meet(model.format, model.provider, model.known_as).values.get("alternation")
    return written_cost(UNSAID, model) if wanted == "answered" else 0


@lru_cache(maxsize=64)
def noted_tokens(model: Model) -> int:
    """Return the tokens that a system message costs more where it stays in its place: mostly in a turn of the user's."""
    if PROVIDERS[model.format].has_system_messages(model.known_as):
        return 0
    as_user, as_system = (message_tokens(Measure(role, *both("a")), model) for role in (USER, SYSTEM))
    return plain_text_tokens(NOTE, model) + max(0, as_user - as_system)


def whole_text_tokens(record: Record, model: Model) -> int:
    """Return how many more tokens a system text costs as one text than as separate paragraphs, as which it was counted."""
    measure = record.measure
    if measure.extra is None or not measure.extra.parts:
        return 0
    whole = msgspec.structs.replace(measure, extra=msgspec.structs.replace(measure.extra, parts=()))
    return max(0, message_tokens(whole, model) - message_tokens(measure, model))


def stands_first(history: History, row: int) -> bool:
    """Return whether no message that may be sent stands before a row, so that none does in any window."""
    return history.seqs[0] == 1 and not history.records.sent_roles[:row].strip(bytes((NO_ROLE,)))


def joined_systems(view: View, model: Model) -> list[int]:
    """Return the indexes of the system and developer messages whose texts the model's form joins, ascending."""
    records = view.history.records
    if not PROVIDERS[model.format].fills or not (SYSTEM in records.roles or DEVELOPER in records.roles):
        return []
    indexes = [index for index, role in enumerate(records.sent_roles) if role <= DEVELOPER]
    stays = PROVIDERS[model.format].has_system_messages(model.known_as)
    return [index for index in indexes if not (stays and came_in(records[index].measure, model.format))]


def came_in(measure: Measure, form: str) -> bool:
    """Return whether a message came in this provider's form."""
    return measure.extra is not None and measure.extra.native_in(form) is not None


def few_shots_opening(few_shots: Sequence[Measure], model: Model) -> int:
    """Return the tokens of a turn before the assistant's, where few-shots begin with one, and are the first messages."""
    first = next((each.role for each in few_shots if each.role > DEVELOPER), USER)
    return filler_tokens(model) if first == ASSISTANT and puts_user_first(model) else 0


def few_shots_fillers(few_shots: Sequence[Measure], model: Model, *, are_first: bool) -> int:
    """Return the tokens that the form adds to few-shots: a turn before the assistant's if they are the request's first
    messages, and words for empty turns."""
    if not few_shots or not puts_user_first(model):
        return 0
    opening = few_shots_opening(few_shots, model) if are_first else 0
    if not PROVIDERS[model.format].fills:
        return opening
    costs = ((each, message_tokens(each, model)) for each in few_shots)
    return opening + sum(with_filler(each, cost, model) - cost for each, cost in costs)


def bare_opening(model: Model) -> int:
    """Return the extra tokens of a request that begins with an assistant's message in the provider's own form."""
    is_claude = isinstance(model.rules, VendorRules) and model.rules.definitions > 0
    return PROVIDERS[model.format].opening_tokens if is_claude else 0
