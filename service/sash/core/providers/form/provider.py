"""What is true of one provider: each file beside this one that is named after a provider ends in one such record.

A member without a default must be given: a provider that lacks it cannot be imported.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

import msgspec

from sash.core.providers.form.cache_marks import CacheKind, CachePrices, Caching, Places
from sash.core.providers.form.known_kinds import UnknownKind
from sash.core.providers.form.own_members import OwnMembers
from sash.core.providers.form.part_kinds import PartKinds
from sash.core.providers.form.request_limits import RequestLimits
from sash.core.providers.form.requests_read import ChatRequest, ReadAsChat
from sash.core.providers.messages.mends import Mend
from sash.core.providers.messages.pieces import Keeps, Object, Piece
from sash.core.providers.writing.media_types import ANY, Takes
from sash.core.providers.writing.native_messages import Shape
from sash.core.providers.writing.turns import Outgoing, RequestWriting

ReasoningKind = Literal["plain", "blocks", "signatures"]
"""Reasoning in members of a chat message; thinking blocks; signatures on calls (``core.counts.reasoning``)."""


class Provider(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One form of a request, and how its provider's messages are read and written.

    A message, a content or an item of the provider is called its own message.
    """

    shape: Shape
    """The form's name, and where messages, parts and text stand in it."""
    read: Callable[[Mapping[str, Any], str], list[Piece]]
    """Reads one own message at this pointer. Raises InvalidEntry."""
    regular: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda own: own
    """Writes an own message as the provider takes it, where there is one way alone: a tool's number as a text."""
    read_request: Callable[[Mapping[str, Any], ReadAsChat], ChatRequest]
    """Reads a whole request. Raises InvalidEntry."""
    write: Callable[[Sequence[Outgoing], list[Object], Any, RequestWriting], Object]
    """Writes the arguments of the provider's SDK from messages, tools and the choice of a tool."""
    is_chat: Callable[[Mapping[str, Any]], bool]
    """Whether a message that was sent in this form is a chat message all the same."""
    arguments: type[msgspec.Struct]
    """Declares what ``write`` returns, for the OpenAPI document."""
    called: str
    """What errors call an own message."""
    own_types: str
    """A pattern of the types of parts and items that only this form has; of a part without a type, a dot and its member."""
    carries: frozenset[ReasoningKind]
    """The kinds of reasoning in chat messages that this form sends."""
    replies_are_items: bool
    """Whether a reply is several neighbouring own messages."""
    fills: bool
    """Whether empty turns of the user, and a turn before an assistant's first one, are sent as ``…``, and system texts are
    joined with a blank line."""
    is_call: Callable[[Object], bool]
    """Whether an own message, or a part of one, is a call of a function or of a custom tool."""
    with_result_text: Callable[[Object, str, Keeps], Object | None]
    """Writes another text into an own tool result, in place of all parts but those that stay. None where it has no place."""
    maker: str
    """The maker of the models that this form is for, as the list of models names it."""
    caching: Callable[[str, CachePrices], Caching | None]
    """The prompt cache of a model of this maker, from its name and its prices; None without one."""
    mark: Callable[[Object, CacheKind | None, Places, str], Object]
    """Adds hints for a prompt cache of this kind, or of none, to a request; the last is the conversation's cache key."""
    cache_marks: frozenset[str] = frozenset()
    """Members of a request, or of its parts, that are such hints, and so no part of what a cache keeps."""
    limits: Callable[[str, int], RequestLimits]
    """The limits of a request to a model of this maker, by the model's name and its context window in tokens."""
    mends: tuple[Mend, ...] = ()
    """What this provider refuses, beside what all refuse (``mends.OF_ALL``), and what is sent in its place."""
    takes: Takes = ANY
    """The media that messages of the user and results may have in this form. In chat completions, for its maker's models."""
    has_system_messages: Callable[[str], bool] = lambda _: True
    """Whether a model, by its name, takes system messages that came in this form among the others."""
    is_like_chat: bool = False
    """Whether own messages look like chat messages, so that ``is_chat`` alone tells them apart."""
    answers_name: Callable[[Mapping[str, Any]], str | None] | None = None
    """Given where calls and results may come without ids, which are then made of the tools' names. Returns the tool's name
    in an own result without an id, which answers the oldest open call of that name; None for a result with an id."""
    tells_links: bool = False
    """Whether a link to a picture is sent as a line of text, because the provider fetches none."""
    needs_question: Literal["never", "calls", "always"] = "never"
    """When a history of own messages that begins with the assistant gets a question before it: ``never``, only if it begins
    with ``calls``, or ``always``."""
    kinds: PartKinds = PartKinds()
    """What the parts of own messages are."""
    own_members: OwnMembers = OwnMembers()
    """The members of own messages and their parts. Others are the client's, and are not sent."""
    of_reply: frozenset[str] = frozenset()
    """Members of a reply's messages or items that an entry has too. Beside another bare message, they are the entry's."""
    has_cache_control: bool = False
    """Whether a block may have the mark ``cache_control``."""
    binds_reasoning: re.Pattern[str] | None = None
    """Names of models that refuse or drop reasoning if anything before it has changed, beside their own compaction."""
    one_string: Mapping[str, Literal["always", "perhaps"]] = {}
    """Roles whose text parts are sent joined, as one string: ``always``, or ``perhaps``, which means to some models only."""
    parts_apart: bool = False
    """Whether each text part is counted by itself, and arguments of calls as objects."""
    media_apart: bool = False
    """Whether pictures and files of a tool result may be sent in a message of their own behind it."""
    free_members: frozenset[str] = frozenset()
    """Members of a request beside its messages whose text is in no bill, beside those of every provider."""
    shows_all: Callable[[Mapping[str, Any]], bool] = lambda _: True
    """Whether a request shows all that is billed, and has nothing beside its tools that no bill has shown."""
    opening_tokens: int = 0
    """Extra tokens of a history of own messages that begins with the assistant, for its maker's models."""
    compaction: Callable[[Object], str | None] = lambda _part: None
    """The words of a part, or of an own message, that stands for all before it; empty if only its maker can read them. None
    for all else."""
    compacts: Literal["", "in words", "sealed"] = ""
    """Whether there are such parts, and whether other providers can read them."""
    unknown_kinds: Callable[[Mapping[str, Any], str], Iterable[UnknownKind]] = lambda _own, _pointer: ()
    """The kinds of items, blocks or parts in an own message at this pointer that the provider does not have."""
    is_openais: bool = False
    """Whether the form is one of OpenAI's own."""
    has_exact_bills: bool = False
    """Whether bills of this form have been predicted to the token, so that counts of its maker's models can be exact."""

    def takes_marks(self, kind: CacheKind) -> bool:
        """Whether a request in this form can have marks for a cache of this kind."""
        return kind != "cache_control" or self.has_cache_control

    @cached_property
    def is_chat_form(self) -> bool:
        """Whether messages are sent as they are stored."""
        return self.is_openais and not self.replies_are_items

    @cached_property
    def has_openais_items(self) -> bool:
        """Whether the form is OpenAI's form of items, whose bills have rules of their own."""
        return self.is_openais and self.replies_are_items

    @cached_property
    def name(self) -> str:
        """The form's name, as ``format`` has it."""
        return self.shape.name
