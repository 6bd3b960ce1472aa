"""Whether a model takes a picture, a sound or a file at all, whatever its form has a place for."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from sash.core.counts.measures.media_facts import AUDIO, FILE, IMAGE, Medium
from sash.core.counts.models.models import Model
from sash.core.providers import PROVIDERS
from sash.core.providers.destinations.destination import meet
from sash.core.providers.destinations.facts import Kind
from sash.core.providers.writing.media_types import VIDEO

_KINDS: Final[Mapping[int, Kind]] = MappingProxyType({IMAGE: "pictures", FILE: "files", AUDIO: "sounds"})
"""The kind of the fact that a model takes none of a kind of media."""


def is_taken(medium: Medium, model: Model) -> bool:
    """Return whether a model takes a medium of this kind. A text file is sent to OpenAI's models as its text."""
    is_video = medium.kind == FILE and medium.media_type.startswith(VIDEO)
    kind, values = (
        "videos" if is_video else _KINDS.get(medium.kind),
        meet(model.format, model.provider, model.known_as).values,
    )
    if medium.kind == IMAGE and medium.is_linked and "links" in values:
        return False
    if kind is None or kind not in values:
        return True
    is_words = medium.kind == FILE and medium.media_type.startswith("text/")
    return is_words and model.provider == PROVIDERS[model.format].maker
