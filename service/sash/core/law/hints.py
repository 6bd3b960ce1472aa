"""Hints for a provider's prompt cache, at stable places of a request: up to such a place, the next request is the same.

The stable places are the end of the definitions, the end of the system text, and two among the messages:

- the message before the newest question, because the question's documents are not in the next window;
- the newest message, unless it is a question with documents.

The last two are not stable if history was left out without a stable cut, because the next window then begins at another
message. A client's own marks are not changed by hints; those that the provider refuses are left out before. A request has
four marks at most. Rules and sources are in each provider's file. Hints are not billed.
"""

from hashlib import blake2b

from sash.core.providers import PROVIDERS
from sash.core.providers.cache_marks import Caching, Places
from sash.core.providers.pieces import Object

_KEY_BYTES = 16


def cache_key(name: str, life: str) -> str:
    """A conversation's ``prompt_cache_key``: a digest keyed by its random life, from which no id can be derived."""
    return blake2b(name.encode(), key=life.encode()[:64], digest_size=_KEY_BYTES).hexdigest()


def hinted(form: str, provider: str, request: Object, rules: Caching | None, places: Places, key: str) -> Object:
    """The request with the hints that its format and model allow; unchanged if they allow none.

    ``provider`` is the model's maker: a key is for the cache of the form's own maker alone.
    """
    sent_in = PROVIDERS[form]
    return sent_in.mark(request, rules.kind if rules else None, places, key if provider == sent_in.maker else "")
