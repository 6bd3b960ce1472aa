"""The counting rules of Claude and Gemini: numbers, each beside the number of recorded bills that it rests on.

Neither vendor publishes its tokeniser. A text's tokens are estimated (``RATIOS``); these rules give all others::

    request = priming + definitions + message + message + …

The numbers are from 658 bills of Claude and 584 of Gemini in 40 projects' recorded tests: a bill minus the tokens of its
texts. If a family has few bills, ``definitions`` is a few tokens higher than billed, because bills that a rule was not
fitted to were up to four tokens higher (tests/truth/test_held_out.py). tests/truth/README.md has the table, and every
request that was billed more than predicted.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

import msgspec

from sash.core.counts.models.families import CropRules, PatchRules, Rules, TileRules


class VendorRules(Rules, frozen=True, kw_only=True, tag=True):
    """The vendor's tokens that are billed besides those of text.

    ``told`` is added to a system text, if it is not the same as for a message and at most 1, ``answer`` to a tool's result.

    ``definitions`` is added once if there are tool definitions, ``forced`` if the model must call a tool, ``definition`` for
    each definition. The definitions' JSON, each as a ``function`` of Claude's or a ``tool`` of OpenAI's, costs ``spelled``
    times its tokens as text, and ``marked`` times that where a description is in Markdown. If ``spelled`` is 0, the tokens
    of their words count instead, a parameter's name ``named`` times. ``parameter`` is added for each parameter,
    ``undescribed`` for one without a description, ``optional`` for an
    optional one, ``member`` for each description, other fact and value of an enumeration, ``value`` for each value but
    the first, ``nested`` for each object in an object, and ``inner`` for each other schema in a schema. With
    ``types_alone`` no fact is told but descriptions and values. If it ``escapes``, words are written as in a string of
    code.

    With ``bare_calls``, calls without definitions cost ``definitions``, too. ``documents`` is added once for documents of
    the request, whose words and names are billed besides.

    A called function's name counts ``names`` times, for the call and its result together. ``call`` is added for a call and
    its result, and ``together`` for each of several calls. The tags of a call's arguments cost ``tagged`` times the
    arguments' tokens, at most ``most_tags`` a call. A token of a result costs ``result``. ``json_object`` is added for a
    reply in JSON, ``response_format`` for a reply's schema, whose JSON costs ``format_spelled`` times its tokens as text. A
    PDF's page costs ``page``, or ``lone_page`` if a message has no other, and its words at most ``page_words``, if they are
    billed too. A character of sealed reasoning
    costs ``sealed``, also of a text if the family ``seals_texts``. In the form in which the family
    ``forgets_thinking``, all reasoning before the newest turn is free. ``adaptive`` is added for adaptive thinking.
    """

    told: int | None = None
    answer: int = 0
    definitions: int = 0
    bare_calls: bool = False
    documents: int = 0
    forced: int = 0
    definition: int = 0
    spelled: float = 0.0
    marked: float = 1.0
    spelling: Literal["function", "tool"] = "function"
    named: int = 1
    parameter: int = 0
    undescribed: int = 0
    member: int = 0
    value: int = 0
    types_alone: bool = False
    optional: int = 0
    nested: int = 0
    inner: int = 0
    escapes: bool = False
    call: int
    names: int = 2
    together: int = 0
    tagged: float = 0.0
    most_tags: int = 0
    result: float = 1.0
    response_format: int = 0
    json_object: int = 0
    format_spelled: float = 0.0
    page_words: int = 0
    lone_page: int | None = None
    sealed: float = 0.25
    seals_texts: bool = False
    adaptive: int = 0
    forgets_thinking: str = ""

    def __post_init__(self) -> None:
        """Compute the tokens around a message of each role."""
        told = min(1, self.message) if self.told is None else self.told
        spoken = (told, told, self.message, self.message, self.answer, self.message)
        msgspec.structs.force_setattr(self, "role_costs", spoken)


def _claude_images(longest: int, patches: int, each: int = 3) -> PatchRules:
    """Images of known size: 14 of 14 within 3 tokens. The limits are Anthropic's own figures, which no bill shows."""
    return PatchRules(factor=1.0, patch=28, longest=longest, budget=patches, original_budget=patches, each=each)


_CLAUDE = VendorRules(
    family="claude-4.5",
    priming=4,  # 4 and 3 a message, 1 a system text: 144 of 159 texts to a token
    message=3,
    # 492 to 502: 150 bills; one project was billed 27 a tool more, and the same models 311 until the end of 2025 (8 bills)
    definitions=500,
    forced=108,  # 61 bills: 92, and 107 and a name where one tool must be called
    definition=2,
    spelled=0.93,
    call=44,  # 40 and 13 an argument, 11 to 18 more for each of several: 146 bills
    together=14,
    tagged=1.5,
    most_tags=60,
    thinking=28,  # 34 of 34 bills without tools; 0 or more with tools
    # 115 to 135 more with the header interleaved-thinking-2025-05-14, which no request shows: 10 bills
    thinking_beside=144,
    response_format=82,  # 80, and the schema's JSON in lines: 19 bills
    format_spelled=1.03,
    page=1_600,  # 20 bills: 1,575 for an empty page, 2,660 for a full one
    page_words=1_100,
    # 5 bills of Sonnet 4.5; older models, and Haiku 4.5, by Anthropic's documents on extended thinking
    forgets_thinking="anthropic",
    images=_claude_images(1568, 1_600),
)
# 18 bills, 5 of them with images
_CLAUDE_3 = msgspec.structs.replace(
    _CLAUDE,
    family="claude-3",
    thinking_beside=0,
    definitions=285,
    forced=104,
)
# a new vocabulary: 36 bills, 17 of them with definitions, which cost 357
_CLAUDE_5 = msgspec.structs.replace(
    _CLAUDE,
    family="claude-5",
    forgets_thinking="",
    thinking_beside=0,
    definitions=361,
    call=63,  # 44 at most in one project, 26 in all others: 9 bills
    forced=130,
    response_format=124,
    format_spelled=0.82,
    images=_claude_images(2576, 4_784),
)
_GEMINI = VendorRules(
    family="gemini-2.5",
    priming=0,
    message=1,  # 1 is billed, and 1 for a system text: 114 of 150 bills of text with Gemma's vocabulary
    # a safety margin: of the bills that a half of them was not fitted to, 2 % are up to 3 above the rule
    definitions=2,
    # told as functions of Python: 89 of 110 bills, without the margin above and with Gemma's vocabulary, are equal
    definition=18,
    named=2,
    parameter=8,
    undescribed=1,
    value=4,
    optional=4,
    nested=45,  # 37 and 45: 2 bills
    types_alone=True,
    escapes=True,  # line breaks cost a token more: 5 bills of long descriptions; and half a token: 2 of these
    answer=1,
    call=23,  # 23 at most in 46 bills with Gemma's vocabulary
    names=3,
    page=258,  # 9 bills
    lone_page=1_290,  # one bill, and 7 elsewhere: of 2.0, and of 2.5 behind Vertex; 4 of 2.5 cost 258
    heard=32.0,  # a second, the last token whole: 13 bills elsewhere
    heard_begun=True,
    sealed=0.175,
    forgets=True,  # 13 bills
    images=CropRules(each=258),
)
# 95 bills; 8 of them with images, which all cost the maximum, and 7 with pages
_GEMINI_3 = msgspec.structs.replace(
    _GEMINI,
    family="gemini-3",
    definition=13,
    named=1,
    parameter=14,
    member=6,
    value=0,
    optional=0,
    inner=7,  # 7 bills of three projects
    types_alone=False,
    call=19,
    page=560,
    lone_page=None,
    sealed=0.215,
    images=TileRules(base=1_120, tile=0),
)
_WORDS_ALONE = {
    **dict.fromkeys(("message", "answer", "call"), 0),
    "named": 1,
    "parameter": 1,
    **dict.fromkeys(("undescribed", "member", "value", "optional", "nested", "inner"), 0),
    "types_alone": True,
    "escapes": False,
    "result": 0.9,
}
# 54 bills, 27 of them with definitions, of which each costs 1
_GEMINI_2 = msgspec.structs.replace(
    _GEMINI,
    family="gemini-2.0",
    heard=25.0,  # a second: 3 bills
    definition=2,
    response_format=6,  # a schema of three members cost 29: 2 bills
    format_spelled=0.2,
    **_WORDS_ALONE | {"call": 6},
)

VENDORS: Final[Mapping[str, VendorRules]] = MappingProxyType(
    {
        rules.family: rules
        for rules in (
            _CLAUDE,
            _CLAUDE_3,
            # an image of one pixel cost 3 more: one bill alone
            msgspec.structs.replace(_CLAUDE_3, family="claude-3.5-haiku", images=_claude_images(1568, 1_600, each=6)),
            msgspec.structs.replace(_CLAUDE_3, family="claude-3-opus", definitions=533, forced=-240),  # 5 bills
            msgspec.structs.replace(_CLAUDE, family="claude-4", definitions=320, forced=2),  # 58 bills: 316
            _CLAUDE_5,
            # definitions of Opus 4.7 cost 204 to 260 more than those of later models: 9 bills; a message 3 more: 8
            msgspec.structs.replace(_CLAUDE_5, family="claude-4.7", message=6, definitions=621),
            _GEMINI,
            _GEMINI_2,
            # one bill of 5 costs a token more than its text
            msgspec.structs.replace(_GEMINI_2, family="gemini-1.5", priming=1),
            _GEMINI_3,
            # behind Vertex the words alone: 25 bills, 23 of them of one project
            msgspec.structs.replace(_GEMINI_3, family="gemini-3-vertex", definition=0, **_WORDS_ALONE),
            # 53 bills: a definition costs 16; older reasoning is billed too: 4
            msgspec.structs.replace(
                _GEMINI_3,
                family="gemini-3.1",
                sealed=0.235,
                definition=15,  # 13, and 2 that one project needs
                call=19,
                forgets=False,
                seals_texts=True,
            ),
        )
    }
    # Opus 4.5, and Opus and Sonnet 4.6: billed alike, but they keep reasoning, by the same documents
    # thinking beside definitions: one bill, 34 above the definitions
    | {"claude-4.6": msgspec.structs.replace(_CLAUDE, forgets_thinking="", thinking_beside=8, adaptive=14)}
)

HOSTED: Final = (
    ("web_search_", 2_210),
    ("web_fetch_", 3_700),
    ("code_execution_", 4_700),
    ("memory_", 1_600),
    ("tool_search_", 240),
    ("advisor_", 1_220),
)
"""Tokens of the definitions of Claude's hosted tools, by the beginning of their type: the lowest bill with each (38 bills).
The results of such a tool are billed too, and not predicted."""

BUILT_IN: Final = (
    ("computer_", 1_320),
    ("text_editor_20250429", 760),
    ("text_editor_", 704),
    ("bash_", 245),
)
"""Tokens of each tool that Claude knows and the client runs. A request with any tool has the same instructions once
(``definitions``), also if these are its only ones: 14 bills, 4 of them here."""
