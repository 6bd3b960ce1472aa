"""The rules of destinations: a record each of what its values say, what breaks it, and requests that do.

Whose requests a rule is about, and where that is known from, are rows in the files beside this folder. A new rule is one
more record here and one more row; the tests draw histories around its broken requests.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from sash.core.providers.destinations.facts import Kind
from sash.core.providers.destinations.rules.call_rules import CALLS
from sash.core.providers.destinations.rules.media_rules import MEDIA
from sash.core.providers.destinations.rules.member_rules import MEMBERS
from sash.core.providers.destinations.rules.order_rules import ORDER
from sash.core.providers.destinations.rules.rule import Rule
from sash.core.providers.destinations.rules.word_rules import WORDS

RULES: Final[Mapping[Kind, Rule]] = MappingProxyType(
    {each.kind: each for each in sorted((*CALLS, *MEDIA, *MEMBERS, *ORDER, *WORDS), key=lambda each: each.kind)}
)
"""Each rule by its kind."""
