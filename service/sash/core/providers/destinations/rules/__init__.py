"""The rules of destinations: a record each of what its values say, what breaks it, and requests that do.

Whose requests a rule is about, and where that is known from, are rows in the files beside this folder. A new rule is one
more record here and one more row; the tests draw histories around its broken requests.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from sash.core.providers.destinations.facts import Kind
from sash.core.providers.destinations.rules.calls import CALLS
from sash.core.providers.destinations.rules.media import MEDIA
from sash.core.providers.destinations.rules.members import MEMBERS
from sash.core.providers.destinations.rules.order import ORDER
from sash.core.providers.destinations.rules.rule import Rule
from sash.core.providers.destinations.rules.words import WORDS

RULES: Final[Mapping[Kind, Rule]] = MappingProxyType(
    {each.kind: each for each in sorted((*CALLS, *MEDIA, *MEMBERS, *ORDER, *WORDS), key=lambda each: each.kind)}
)
"""Each rule by its kind."""
