"""A fact about a destination: what somebody who reads a request refuses in it or wants in it, and where it is known from.

Facts of one kind have values from the loosest to the strictest. A destination has the strictest value of all that read its
requests (``destination.meet``).
"""

import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import date
from functools import cache
from types import MappingProxyType
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
    "empty_text",
    "ending",
    "files",
    "links",
    "members",
    "pictures",
    "reasoning",
    "reasoning_in",
    "roles",
    "sounds",
    "speakers",
    "system",
    "system_text",
    "tool_names",
    "videos",
]
VALUES: Final[Mapping[Kind, Mapping[str, str]]] = MappingProxyType(
    {
        "alternation": {"turns": "user and assistant in turn, beside calls and results"},
        "arguments": {"object": "a call's arguments are a JSON object"},
        "beginning": {
            "asked": "some message is the user's",
            "user": "the first message beside system messages is no reply",
        },
        "beside_calls": {"nothing": "neither words nor pictures beside calls, or beside results"},
        "call_ids": {"nine": "a call's id is nine letters and digits"},
        "calls": {"one": "each message with calls has one"},
        "empty_question": {"refused": "each message of the user's has a text or a picture"},
        "empty_reply": {"refused": "each message of the assistant's has a text or calls"},
        "empty_text": {"refused": "no part of a message is a text without a visible character"},
        "ending": {
            "prefix": "the last message is no reply without calls, or one with `prefix`",
            "no_reply": "the last message is no reply without calls",
        },
        "files": {"refused": "no files, such as PDFs"},
        "links": {"refused": "no pictures by their addresses, only with their bytes"},
        "members": {
            "known": "messages have the members of OpenAI's requests alone",
            "own": "the maker's own members alone",
        },
        "pictures": {"refused": "no pictures"},
        "reasoning": {
            "with_calls": "each message with calls has the reasoning before them",
            "filled": "each message with calls has reasoning that is not empty, also where none is known",
            "refused": "no message has reasoning",
        },
        "reasoning_in": {
            "reasoning_content": "reasoning stands in `reasoning_content`",
            "details": "reasoning stands in `reasoning_content`, or in `reasoning_details`",
        },
        "roles": {"no_developer": "no message has the role `developer`"},
        "sounds": {"refused": "no sounds"},
        "speakers": {"users": "messages of the user's alone have a name"},
        "system": {"first": "system messages are at the beginning", "one": "one system message, at the beginning"},
        "system_text": {"text": "a system message's content is a text, and no list of parts"},
        "tool_names": {
            "dotted": "letters of a to z, digits, `_`, `.`, `:` and `-`, with a letter or `_` first",
            "plain": "letters of a to z, digits, `_` and `-`",
            "word": "letters of a to z, digits and `_`, with no digit first",
        },
        "videos": {"refused": "no videos"},
    }
)
"""What each value says, by kind; of one kind the loosest first. A destination without a fact of a kind takes all."""


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

    @property
    def strictness(self) -> int:
        """Its value's place among those of its kind."""
        return list(VALUES[self.kind]).index(self.value)

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
