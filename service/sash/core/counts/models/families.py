"""The counting rules of each model family: numbers, each with its evidence.

A provider adds tokens around every message; their number depends on the family alone. Each model has one ``Rules``, and
``counting`` does the arithmetic.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

import msgspec

Dialect = Literal["2023", "2024", "2025"]
ROLES = ("system", "developer", "user", "assistant", "tool", "function")
"""In the order of their numbers, which records store."""
SYSTEM, DEVELOPER, USER, ASSISTANT, TOOL, FUNCTION = range(len(ROLES))
ROLE_INDEX = {role: index for index, role in enumerate(ROLES)}


WHOLE_FILE: Final = 1_000_000
"""The words of a page where no bill bounds them: all of the file's estimate counts."""


class TileRules(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Images billed by 512-pixel tiles: a base, and a price for each tile, in tokens."""

    base: int
    tile: int


class PatchRules(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Images billed by square patches times a factor, plus ``each`` token for an image.

    An image is first shrunk to the ``longest`` side in pixels, and to the ``budget`` of patches.
    """

    factor: float
    budget: int = 1536
    original_budget: int = 1536
    patch: int = 32
    longest: int = 2048
    each: int = 1


class CropRules(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Images billed by crops, ``each`` tokens for a crop and once for the whole image; a ``small`` image is billed once.

    A crop's side is the image's short side divided by 1.5, between ``least`` and ``most`` pixels. An image of unknown size
    is billed as ``unknown`` crops: the most of any size up to 3,072 pixels, and those of a photo of 12 megapixels.
    """

    each: int
    small: int = 384
    least: int = 256
    most: int = 768
    unknown: int = 25


ImageRules = TileRules | PatchRules | CropRules


class Rules(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The tokens that a family adds around text.

    ``message`` is added to each message in addition to its role's name, ``name`` to a participant's name, ``priming`` once
    in a request, ``lone`` to a request without a system text, ``assistant_text`` to each assistant message of the history.

    Definitions and a response format are sections of a system message: the first one, after a blank line and ``joining``
    tokens, or a new one. With ``joins_leading_system`` they join it only if it is the first message. With ``heads_system``
    the text before them gets a heading. ``tools_overhead`` is added before definitions. ``dialects`` are the spellings of
    definitions that the family may use; the most expensive counts. With ``format_names_reply`` a response format's name
    is billed before the reply.

    If sections are ``apart``, each is a message of its own, whatever system texts there are: ``tools_overhead`` and
    ``format_overhead`` are added, ``format_beside`` if a definition is strict, and ``format_reply`` marks earlier replies.

    ``single_call`` wraps a call and its result, ``legacy_call`` a legacy one (3 in 3 bills of gpt-3.5; one bill of a later
    family, elsewhere, is 3 higher), ``parallel_calls`` a group of several. ``parallel_unknown``: no bill has
    such a group. With ``each_call`` each of several calls is billed by itself, and so is its result. A call's name is billed
    twice, once without its recipient if ``names_bare``. A call that came with its item's id costs ``identified_call`` more,
    and ``stored_call`` if the item's status came too. If the family ``forgets``, sealed reasoning before the user's last
    message is free. ``thinking`` are instructions to think, if the request asks for reasoning, ``thinking_beside``
    those beside definitions. A second of sound costs ``heard``, where its header states its length; with ``heard_begun`` the
    last token is a whole one, else it is dropped; each ``heard_span`` of seconds that has begun counts. A PDF costs
    ``page`` for each page, and for its words what is estimated from its bytes, at most ``page_words`` a page. Beside its
    words a page cost 213 to 218 in 9 bills, and 4 in Responses in 12 of 13; the fullest had 737 tokens of words.
    ``is_settled``: bills of the same request agree.
    """

    family: str
    message: int = 3
    name: int = 1
    priming: int = 3
    lone: int = 0
    assistant_text: int = 0
    dialects: tuple[Dialect, ...] = ("2024",)
    tools_overhead: int = 5
    joining: int = 0
    heads_system: bool = False
    joins_leading_system: bool = False
    format_names_reply: bool = True
    tool_choice_free: bool = False
    required_choice: int = 0
    single_call: int = 13
    legacy_call: int = 6
    parallel_calls: int = 20
    parallel_unknown: bool = False
    apart: bool = False
    format_overhead: int = 0
    format_beside: int = 0
    format_reply: int = 0
    each_call: int = 0
    names_bare: bool = True
    is_settled: bool = True
    identified_call: int = 0
    stored_call: int = 0
    forgets: bool = False
    thinking: int = 0
    thinking_beside: int = 0
    heard: float = 0.0
    heard_begun: bool = False
    heard_span: int = 0
    page: int = 218
    page_words: int = 1_132
    images: ImageRules = TileRules(base=85, tile=170)  # 15 bills of gpt-4-turbo, gpt-4o and gpt-4.1
    role_costs: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Compute the tokens around a message of each role once. Every role's name is one token."""
        costs = (self.message + 1 + (self.assistant_text if role == "assistant" else 0) for role in ROLES)
        msgspec.structs.force_setattr(self, "role_costs", tuple(costs))


# With definitions, a leading system text becomes the section "# Instructions": 3 tokens more than the blank line (32 of 32).
_GPT5 = Rules(
    family="gpt-5",
    priming=2,
    assistant_text=2,
    dialects=("2025",),
    tools_overhead=0,
    heads_system=True,
    joins_leading_system=True,
    format_names_reply=False,
    single_call=19,
    parallel_calls=26,
    tool_choice_free=True,
    images=TileRules(base=70, tile=140),  # 2 bills
)
# Definitions of o1 cost 81 less than gpt-5's, and a named choice nothing: 6 bills elsewhere, none here.
_REASONING = Rules(
    family="o",
    priming=2,
    dialects=("2025",),
    tools_overhead=-81,
    tool_choice_free=True,
    joining=4,
    format_names_reply=False,
    single_call=19,
    parallel_unknown=True,
    images=TileRules(base=75, tile=150),
)
# Sash has no recording of these models' definitions and calls; each figure is from two bills that others published.
_O_MINI = msgspec.structs.replace(
    _REASONING,
    family="o3-mini",
    dialects=("2024",),
    tools_overhead=6,
    heads_system=True,
    joins_leading_system=True,
    single_call=13,
)
# Other providers' wrapping is not published: these figures are larger than all measured ones. A host's template may add a
# system text where there is none: up to 62 in 8 bills of six makers.
_OTHER = Rules(
    family="other",
    message=5,
    priming=10,
    lone=62,
    tools_overhead=114,
    joining=6,
    single_call=37,
    parallel_unknown=True,
    page_words=WHOLE_FILE,
)

FAMILIES: Mapping[str, Rules] = MappingProxyType(
    {
        rules.family: rules
        for rules in (
            Rules(family="gpt-3.5-0301", message=4, name=-1, dialects=("2023",), legacy_call=3),
            # a call costs the same as a legacy function's call and result: 10 tokens around it (2 of 2)
            Rules(family="gpt-2023", dialects=("2023",), required_choice=2, single_call=10, legacy_call=3),
            # the alias has named models of both dialects
            Rules(family="gpt-3.5", dialects=("2023", "2024"), required_choice=2, legacy_call=3),
            Rules(family="gpt-4-turbo"),
            # floor(10 tokens a second): 6 bills elsewhere, none here
            Rules(family="gpt-4o", heard=10.0),
            Rules(family="gpt-4.1"),
            # the text alone: no role, no wrapping (2 of 2)
            Rules(family="search", message=-1, priming=0),
            Rules(family="gpt-4o-mini", images=TileRules(base=2833, tile=5667)),  # 13 bills of pictures
            Rules(family="gpt-4.1-mini", images=PatchRules(factor=1.62)),  # 3 bills of pictures
            # by OpenAI's documents, as the factor of codex-mini and the tiles of o1, o3 and computer-use: no bill
            Rules(family="gpt-4.1-nano", images=PatchRules(factor=2.46)),
            _REASONING,
            msgspec.structs.replace(_REASONING, family="o1-mini", priming=3),
            _O_MINI,
            msgspec.structs.replace(
                _O_MINI, family="o4-mini", assistant_text=2, single_call=19, images=PatchRules(factor=1.72)
            ),  # 2 bills of pictures, and of a call
            msgspec.structs.replace(_O_MINI, family="codex-mini", single_call=19, images=PatchRules(factor=1.72)),
            msgspec.structs.replace(_REASONING, family="computer-use", images=TileRules(base=65, tile=129)),
            _GPT5,
            msgspec.structs.replace(_GPT5, family="gpt-5-chat", priming=3, assistant_text=0),  # 18 bills
            # a picture may be drawn: the definition of the hosted tool (one bill)
            msgspec.structs.replace(_GPT5, family="gpt-5-image", priming=344),
            msgspec.structs.replace(_GPT5, family="gpt-5-codex-mini", images=PatchRules(factor=1.2)),
            # OpenAI's open models, by several hosts: 67 to 73 for a text and 5 a further message, 8 a system text: 40 bills
            msgspec.structs.replace(
                _GPT5,
                family="gpt-oss",
                message=4,
                priming=70,
                assistant_text=0,
                apart=True,
                heads_system=False,
                joins_leading_system=False,
                tools_overhead=-51,
                format_overhead=76,
                single_call=25,
                page_words=WHOLE_FILE,
            ),
            msgspec.structs.replace(_GPT5, family="gpt-5-mini", images=PatchRules(factor=1.2)),  # one bill of a picture
            msgspec.structs.replace(_GPT5, family="gpt-5-nano", images=PatchRules(factor=1.5)),  # 2
            # users' measurements: no bill here has a picture of these two, nor of gpt-5.1-codex-mini
            msgspec.structs.replace(_GPT5, family="gpt-5.2", images=PatchRules(factor=1.2)),
            msgspec.structs.replace(
                _GPT5, family="gpt-5.4", images=PatchRules(factor=1.2, budget=2500, original_budget=10_000)
            ),
            _OTHER,
        )
    }
)

# In the spring of 2025 the API billed 18 tokens more for a text, and 216 for definitions: 18 bills. No request tells when.
# Definitions cost their text and 3: 89 of 89 distinct requests. ``required`` costs 9, or 8 in one project. Each of several
# calls costs 11: 26. A single call costs 11, or 14 where its item came with id and status: 24 of 29.
_RESPONSES_4O = {
    "apart": True,
    "is_settled": False,
    "tools_overhead": 3,
    "required_choice": 9,
    "format_overhead": 1,
    "format_beside": 2,
    "single_call": 11,
    "parallel_calls": 0,
    "each_call": 11,
    "names_bare": False,
    "stored_call": 3,
}
# The same definitions as in chat completions, without 78 tokens of the 93 before them: 52 of 52 distinct requests.
_RESPONSES_5 = {
    "apart": True,
    "heads_system": False,
    "joins_leading_system": False,
    "tools_overhead": -78,
    "format_reply": 3,
    "single_call": 20,
    "parallel_calls": 22,
    "each_call": 14,
    "names_bare": False,
}
# Sealed reasoning before the question is free: 23 bills. A call costs 17: 12 bills; with an id, 23: one bill.
_RESPONSES_GPT_5 = _RESPONSES_5 | {"single_call": 17, "identified_call": 6, "forgets": True}
# Definitions of o3 cost 81 less than gpt-5's, whatever the choice: 3 bills, and 2 elsewhere.
_RESPONSES_O = {"apart": True, "heads_system": False, "joins_leading_system": False, "tools_overhead": -81}
_RESPONSES_O_MINI = _RESPONSES_O | {"tools_overhead": 6, "single_call": 17}  # 8 bills, 6 of them with a call

RESPONSES: Mapping[str, Rules] = MappingProxyType(
    {
        name: msgspec.structs.replace(FAMILIES[name], page=4, **changed)
        for names, changed in (
            (("gpt-2023",), {"priming": 2}),  # 2 bills
            (("gpt-4o", "gpt-4o-mini", "gpt-4.1", "gpt-4.1-mini", "gpt-4.1-nano"), _RESPONSES_4O),
            (("o", "o1-mini"), _RESPONSES_O),
            (("o3-mini",), _RESPONSES_O_MINI | {"is_settled": False}),  # one bill of 55 more
            (("o4-mini",), _RESPONSES_O_MINI),
            (("codex-mini",), _RESPONSES_O_MINI | {"tools_overhead": 7}),  # 2 bills, and 2 of the next
            (("gpt-5-codex-mini",), _RESPONSES_GPT_5 | {"tools_overhead": -75}),
            (("gpt-5", "gpt-5-chat", "gpt-5-mini", "gpt-5-nano"), _RESPONSES_GPT_5),
            (("gpt-5.2", "gpt-5.4"), _RESPONSES_5),
        )
        for name in names
    }
)
"""The rules of requests to the Responses API, by family, where they differ from those of chat completions."""


HOSTED_BY_OPENAI: tuple[tuple[str, int], ...] = (
    ("web_search", 293),
    ("image_generation", 342),
    ("tool_search", 339),
    ("code_interpreter", 343),
    ("apply_patch", 623),
    ("computer", 484),
    ("programmatic_tool_calling", 498),
)
"""Tokens of the definitions of OpenAI's hosted tools, by the beginning of their type: the lowest bill with each (22 bills).
The results of such a tool are billed too, and are not predicted."""
