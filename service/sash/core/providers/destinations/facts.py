"""A fact about a destination: what somebody who reads a request refuses in it or wants in it, and where it is known from.

Facts of one kind have values from the loosest to the strictest, which the kind's rule has (``rules/``). A destination has
the strictest value of all that read its requests (``destination.meet``).
"""

import re
from collections.abc import Set as AbstractSet
from datetime import date
from functools import cache
from typing import Final, Literal

import msgspec

Party = Literal["form", "maker", "host", "template", "model"]
Kind = Literal[
    "alternation",
    "arguments",
    "beginning",
    "beside_calls",
    "call_ids",
    "calls",
    "empty_question",
    "empty_reply",
    "empty_result",
    "empty_text",
    "ending",
    "file_names",
    "files",
    "links",
    "members",
    "parameters",
    "pictures",
    "reasoning",
    "reasoning_in",
    "roles",
    "schemas",
    "sounds",
    "speakers",
    "system",
    "texts",
    "tool_names",
    "videos",
]

_BY_NAME: Final = frozenset({"template", "model"})


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """A row: what one party refuses or wants.

    ``of`` and ``name`` say whose fact it is. ``models`` is a pattern of names of models, in lower case, and ``forms`` are
    the forms in which it holds; an empty one stands for all. The evidence was read on ``read_on``.
    """

    of: Party
    name: str
    kind: Kind
    value: str
    evidence: str
    read_on: date
    models: str = ""
    forms: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        """Compile the pattern as the table is loaded: the first window would take the time of all of them."""
        _pattern(self.models)

    def holds(self, form: str, parties: AbstractSet[tuple[Party, str]], model: str) -> bool:
        """Return whether it is about a model's requests in a form. A template, and what a model takes, is known by the
        model's name alone."""
        if self.forms and form not in self.forms:
            return False
        if self.of not in _BY_NAME and (self.of, self.name) not in parties:
            return False
        return not self.models or _pattern(self.models).search(model) is not None


@cache
def _pattern(models: str) -> re.Pattern[str]:
    return re.compile(models)
