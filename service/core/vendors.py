"""The counting rules of Claude and Gemini: numbers, each beside the number of recorded bills that it rests on.

Neither publishes its tokeniser. A text is counted in o200k_base and multiplied; what stands around it is the vendor's own::

    request = priming + definitions + message + message + …

The numbers are fitted on 658 bills of Claude and 584 of Gemini from 40 projects' recorded tests, high enough that one
request in a hundred is billed more than predicted. tests/truth/README.md has the table, and every such request.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from service.core.families import CropRules, PatchRules, Rules, TileRules


class VendorRules(Rules, frozen=True, kw_only=True):
    """What a vendor bills beside text; all figures are its tokens.

    Text is counted by ``ratios.RATIOS``. ``structure`` is how many tokens of a JSON schema cost one of text, descriptions
    apart, which are text; ``result`` the same for a tool's result. ``definitions`` stands before tool definitions,
    ``forced`` is added where the model must call one, ``definition`` for each. ``call`` wraps a call and its result.
    ``response_format`` stands before a reply's schema, whose tokens count ``format_structure``. An object's schema inside
    another's is billed twice where ``nested``. ``page`` is a PDF's page and ``page_words`` at most its words, where they
    are billed besides. ``sealed`` is a character of sealed thoughts.
    """

    structure: float
    definitions: int = 0
    forced: int = 0
    definition: int = 0
    nested: bool = False
    call: int
    result: float
    response_format: int = 0
    format_structure: float = 0.0
    page: int
    page_words: int = 0
    sealed: float = 0.25

    def __post_init__(self) -> None:
        """Work out the tokens around a message of each role: a system text and a tool's result have none."""
        spoken = (0, 0, self.message, self.message, 0, self.message)
        msgspec.structs.force_setattr(self, "role_costs", spoken)


def _claude_images(longest: int, patches: int) -> PatchRules:
    """Images of known size: 14 of 14 within a few tokens. The limits are Anthropic's own figures, which no bill shows."""
    return PatchRules(factor=1.0, patch=28, longest=longest, budget=patches, original_budget=patches, each=3)


_CLAUDE = VendorRules(
    family="claude-4.5",
    priming=4,  # 4 and 3 a message: 71 of 75 short texts to the token
    message=3,
    structure=1.13,
    definitions=500,  # 82 bills; the same models were billed 346 until the end of 2025 (8 bills)
    forced=90,  # 61 bills
    definition=48,
    call=60,  # 61 bills
    result=1.17,
    response_format=90,  # 19 bills
    format_structure=1.92,
    page=1_600,  # 20 bills: 1,575 for an empty page, 2,660 for a full one
    page_words=1_100,
    images=_claude_images(1568, 1_600),
)
_CLAUDE_3 = msgspec.structs.replace(_CLAUDE, family="claude-3", definitions=280, forced=110, definition=30)  # 7 bills
_GEMINI = VendorRules(
    family="gemini-2.5",
    priming=0,
    message=0,
    structure=0.68,
    definition=18,
    nested=True,  # 3 bills
    call=8,
    result=1.0,
    page=258,  # 9 bills
    sealed=0.175,
    images=CropRules(each=258),
)
# 95 bills; every image is as large as it can be: 8 bills, and a page: 7
_GEMINI_3 = msgspec.structs.replace(
    _GEMINI,
    family="gemini-3",
    structure=0.96,
    definition=8,
    nested=False,
    call=2,
    result=0.85,
    page=560,
    sealed=0.215,
    images=TileRules(base=1_120, tile=0),
)

VENDORS: Final[Mapping[str, VendorRules]] = MappingProxyType(
    {
        rules.family: rules
        for rules in (
            _CLAUDE,
            _CLAUDE_3,
            msgspec.structs.replace(_CLAUDE_3, family="claude-3-opus", definitions=525, forced=-130),  # 5 bills
            msgspec.structs.replace(_CLAUDE, family="claude-4", definitions=314, forced=35, definition=40, call=68),
            # a new tokeniser: 28 bills, 9 of them with definitions
            msgspec.structs.replace(
                _CLAUDE,
                family="claude-5",
                definitions=378,
                forced=150,
                definition=36,
                call=50,
                result=1.0,
                structure=0.71,
                format_structure=1.21,
                response_format=135,
                images=_claude_images(2576, 4_784),
            ),
            _GEMINI,
            # 54 bills; of a schema's structure next to nothing is billed: 14 bills
            msgspec.structs.replace(
                _GEMINI,
                family="gemini-2.0",
                structure=0.09,
                definition=6,
                nested=False,
                call=4,
                result=0.87,
            ),
            _GEMINI_3,
            # 53 bills
            msgspec.structs.replace(_GEMINI_3, family="gemini-3.1", structure=0.92, result=0.83, call=6, definition=19),
        )
    }
)

HOSTED: Final = (
    ("web_search_", 2_210),
    ("web_fetch_", 3_700),
    ("code_execution_", 4_700),
    ("memory_", 1_600),
    ("tool_search_", 200),
    ("advisor_", 1_220),
    ("computer_", 1_240),
    ("text_editor_", 700),
    ("bash_", 245),
)
"""Tokens of the definitions of Claude's hosted tools, by the beginning of their type: the least that was billed with each
(34 bills), for the last three Anthropic's own figures. What such a tool finds is billed besides, and not foreseen."""
