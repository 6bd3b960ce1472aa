"""Estimates a message's measure in a vocabulary that is not installed, from the scripts of each text."""

from collections.abc import Mapping
from typing import Any

import msgspec

from sash.core.chat.calls import arguments_of, compact, functions_called
from sash.core.counts.attachments import text_in
from sash.core.counts.measures import ZERO, Extra, Measure
from sash.core.counts.models import Model
from sash.core.counts.text import Pair, both, count_text
from sash.core.counts.text.vocabularies import Vocabulary
from sash.core.counts.unicode_scripts import Mix, family_tokens, mix_of

# Every figure of a measure that is a text's tokens in both encodings.
_PAIRS = tuple(field.name for field in msgspec.structs.fields(Extra) if field.type in (Pair, Pair | None))

_ARGUMENTS = frozenset({"call_arguments", "call_objects"})
_OF_CALLS = _ARGUMENTS | {"call_names", "bare_names", "together", "together_objects"}
_SPOKEN = _OF_CALLS | {"name", "listed", "opens_list", "closes_list"}
"""Texts that ``spoken_tokens`` counts."""
_UNBOUNDED = 2**53
"""The bytes assumed for texts that a message's mix does not measure: names, unknown members, escaped results."""
_OF_A_PART = 1.03
"""A safety factor: a part of a text may cost more for each o200k_base token than the whole text."""


def estimated(measure: Measure, ratios: str, said: int | None = None) -> Measure:
    """Return the measure with a family's estimated tokens (``RATIOS``) in place of the tokens of both encodings.

    ``said`` are those of all texts that ``spoken_tokens`` counts, if they are known. The rest is then estimated.
    """
    extra = measure.extra
    if extra is None:
        tokens = family_tokens(measure.o200k, measure.cl100k, None, ratios) if said is None else said
        return Measure(measure.role, tokens, tokens)
    arguments = max(1, (extra.call_objects or extra.call_arguments)[0])

    def of(name: str, pair: Pair) -> Pair:
        mix, whole = (extra.calls_mix, arguments) if name in _OF_CALLS else (extra.mix, max(1, measure.o200k))
        part = min(1.0, pair[0] / whole)
        if name in _ARGUMENTS:
            return (family_tokens(*pair, mix, ratios, part),) * 2
        return (beside_tokens(pair, mix, ratios, part),) * 2

    pairs: dict[str, Any] = {name: of(name, pair) for name in _PAIRS if any(pair := getattr(extra, name) or ZERO)}
    if said is None:
        parts = extra.parts or ((measure.o200k, measure.cl100k, extra.mix),)
        said = sum(family_tokens(*part, ratios) for part in parts)
    else:
        pairs |= dict.fromkeys(pairs.keys() & _SPOKEN, ZERO)
    if extra.parts and extra.beside is not None:  # what items cost apart is in their parts
        pairs["beside"] = msgspec.structs.replace(extra.beside, apart=ZERO)
    return Measure(measure.role, said, said, msgspec.structs.replace(extra, **pairs))


def beside_tokens(pair: Pair, mix: Mix | None, ratios: str, part: float = 1.0) -> int:
    """Return the tokens of a text, estimated with the mix of another text beside it.

    The numbers of the other text do not count, and neither its bytes nor its scripts make this text cheaper than Latin text.
    """
    unbounded = mix and msgspec.structs.replace(mix, size=_UNBOUNDED, digits=0, characters=0)
    return max(family_tokens(*pair, each, ratios, part) for each in (None, unbounded))


def estimate_text(text: str, ratios: str) -> int:
    """Return the tokens of a text for a family of ``RATIOS``."""
    o200k, cl100k = both(text)
    return family_tokens(o200k, cl100k, mix_of(text, o200k, cl100k), ratios)


def count_in(text: str, vocabulary: Vocabulary | str) -> int:
    """Return a text's tokens in an installed vocabulary, in an encoding, or for a family of ``RATIOS``."""
    match vocabulary:
        case Vocabulary():
            return vocabulary.count(text)
        case "o200k_base" | "cl100k_base":
            return count_text(text, vocabulary)
    return estimate_text(text, vocabulary)


def tokens_in(text: str, model: Model) -> int:
    """Return a text's tokens for a model: in its installed vocabulary, else by the text's scripts or the encoding."""
    return count_in(text, model.vocabulary or model.ratios or model.encoding)


def pair_tokens(pair: Pair, mix: Mix | None, model: Model, part: float = 1.0) -> int:
    """Return a text's tokens for a model, from those in both encodings and its mix. ``part`` is as in ``family_tokens``."""
    if model.ratios is None:
        return pair[model.column]
    return family_tokens(*pair, mix, model.ratios, part)


def estimate_factor(text: str, ratios: str) -> float:
    """Return a family's tokens (``RATIOS``) for one o200k_base token of a text or of a part of it; at least 1."""
    return max(1.0, _OF_A_PART * estimate_text(text, ratios) / max(1, count_text(text, "o200k_base")))


def spoken_tokens(message: Mapping[str, Any], vocabulary: Vocabulary) -> int:
    """Return the tokens of all that a chat message says: its text and its files', its author's name, and its calls."""
    content, called = message.get("content"), functions_called(message)
    parts = [{"text": content}] if isinstance(content, str) else content or ()
    texts = [text for part in parts for text in (part.get("text"), part.get("refusal"), text_in(part))]
    texts += [message.get("refusal"), message.get("name"), *(call.get("name") for call in called)]
    # Numbers may be sent in a longer form: 1e5 as 100000.0.
    texts += [max(arguments_of(call), compact(arguments_of(call)), key=len) for call in called]
    return sum(vocabulary.count(text) for text in texts if text and isinstance(text, str))
