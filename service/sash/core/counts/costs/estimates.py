"""Estimates a message's measure in a vocabulary that is not installed, from the scripts of each text."""

from collections.abc import Mapping
from typing import Any

from sash.core.chat.calls import arguments_of, compact, functions_called
from sash.core.counts.measures.attachments import text_in
from sash.core.counts.models.models import Model
from sash.core.counts.text import Pair, both, count_text, mix_of
from sash.core.counts.text.unicode_scripts import Mix, family_tokens
from sash.core.counts.text.vocabularies import Vocabulary
from sash.core.providers.openai.chat_mends import fitting_function, fitting_name


def estimate_text(text: str, ratios: str) -> int:
    """Return the tokens of a text for a family of ``RATIOS``."""
    o200k, cl100k = both(text)
    tokens: int = family_tokens(o200k, cl100k, mix_of(text, o200k, cl100k), ratios)
    return tokens


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


def pair_tokens(pair: Pair, mix: Mix | None, model: Model) -> int:
    """Return a text's tokens for a model, from those in both encodings and its mix."""
    tokens: int = pair[model.column] if model.ratios is None else family_tokens(*pair, mix, model.ratios)
    return tokens


def spoken_tokens(message: Mapping[str, Any], vocabulary: Vocabulary) -> int:
    """Return the tokens of all that a chat message says: its text and its files', its author's name, and its calls."""
    content, called = message.get("content"), functions_called(message)
    parts = [{"text": content}] if isinstance(content, str) else content or ()
    texts = [text for part in parts for text in (part.get("text"), part.get("refusal"), text_in(part))]
    texts += [
        message.get("refusal"),
        _longest_name(message.get("name"), vocabulary),
        *(_longest_name(call.get("name"), vocabulary) for call in called),
    ]
    # Numbers may be sent in a form with more tokens: 1e5 as 100000.0.
    texts += [max({arguments_of(call), compact(arguments_of(call))}, key=vocabulary.count) for call in called]
    apart = sum(vocabulary.count(text) for text in texts if text and isinstance(text, str))
    if len(parts) == 1:
        return apart
    joined = "".join(part.get("text") or "" for part in parts)  # as some forms send it
    return apart + max(0, vocabulary.count(joined) - sum(vocabulary.count(part.get("text") or "") for part in parts))


def _longest_name(name: Any, vocabulary: Vocabulary) -> Any:
    """A function's or a speaker's name as it came, or as OpenAI's forms send it: which has most tokens."""
    if not isinstance(name, str):
        return name
    return max(name, fitting_function(name), fitting_name(name), key=vocabulary.count)
