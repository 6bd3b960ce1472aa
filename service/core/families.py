"""The counting rules of each model family: numbers, each beside the evidence for it.

A provider wraps every message in tokens of its own; how many depends on the family alone. A model points at one
``Rules``; ``counting`` does the arithmetic.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

import msgspec

Dialect = Literal["2023", "2024", "2025"]
ROLES = ("system", "developer", "user", "assistant", "tool", "function")
SYSTEM, DEVELOPER, USER, ASSISTANT, TOOL, FUNCTION = range(len(ROLES))
ROLE_INDEX = {role: index for index, role in enumerate(ROLES)}


class TileRules(msgspec.Struct, frozen=True, kw_only=True):
    """Images billed by 512-pixel tiles: a base, and so much a tile."""

    base: int
    tile: int


class PatchRules(msgspec.Struct, frozen=True, kw_only=True):
    """Images billed by square patches, shrunk to a longest side and a budget, times a factor; ``each`` image costs more."""

    factor: float
    budget: int = 1536
    original_budget: int = 1536
    patch: int = 32
    longest: int = 2048
    each: int = 1


class CropRules(msgspec.Struct, frozen=True, kw_only=True):
    """Images billed by crops and one for the whole, so much each; a ``small`` image is one.

    A crop's side is the image's short side over 1.5, between ``least`` and ``most`` pixels.
    """

    each: int
    small: int = 384
    least: int = 256
    most: int = 768
    unknown: int = 10


ImageRules = TileRules | PatchRules | CropRules


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What a family adds around text; all figures are tokens.

    ``message`` is added to each message beside its role's name, ``name`` to a participant's name, ``priming`` once a
    request, ``assistant_text`` to each assistant message in the history.

    Definitions and a response format are sections of a system message: one of their own, or the first that is there
    (only where it leads, with ``joins_leading_system``), behind a blank line and ``joining``. ``heads_system`` where the
    text before them gets a heading. ``tools_overhead`` stands before definitions; ``dialects`` are the spellings that a
    name may stand for, of which the dearest counts. ``format_names_reply`` where a response format's name stands before
    the reply.

    ``single_call`` wraps a call and its result, ``parallel_calls`` a group of several; ``parallel_unknown`` says that no
    bill shows such a group.
    """

    family: str
    message: int = 3
    name: int = 1
    priming: int = 3
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
    parallel_calls: int = 20
    parallel_unknown: bool = False
    images: ImageRules = TileRules(base=85, tile=170)
    role_costs: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Work out, once, the tokens around a message of each role: every role's name is one token."""
        costs = (self.message + 1 + (self.assistant_text if role == "assistant" else 0) for role in ROLES)
        msgspec.structs.force_setattr(self, "role_costs", tuple(costs))


# Definitions make a leading system text the section "# Instructions": 3 more than the blank line (32 of 32).
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
    images=TileRules(base=70, tile=140),
)
_GPT4O = Rules(family="gpt-4o")
# No recording of o1 and o3 has definitions: charged like gpt-5's, which are dearer.
_REASONING = Rules(
    family="o",
    priming=2,
    dialects=("2025",),
    tools_overhead=0,
    joining=4,
    format_names_reply=False,
    single_call=19,
    parallel_unknown=True,
    images=TileRules(base=75, tile=150),
)
# Their definitions and calls are in no recording of ours; the figures are those of two bills each elsewhere.
_O_MINI = msgspec.structs.replace(
    _REASONING,
    family="o3-mini",
    dialects=("2024",),
    tools_overhead=6,
    heads_system=True,
    joins_leading_system=True,
    single_call=13,
)

FAMILIES: Mapping[str, Rules] = MappingProxyType(
    {
        rules.family: rules
        for rules in (
            Rules(family="gpt-3.5-0301", message=4, name=-1, dialects=("2023",)),
            # a call costs what the call of an old function and its result do: 10 around it (2 of 2)
            Rules(family="gpt-2023", dialects=("2023",), required_choice=2, single_call=10),
            # the alias has pointed at both
            Rules(family="gpt-3.5", dialects=("2023", "2024"), required_choice=2),
            Rules(family="gpt-4-turbo"),
            _GPT4O,
            # the text alone: no role, no wrapping (2 of 2)
            Rules(family="search", message=-1, priming=0),
            msgspec.structs.replace(_GPT4O, family="gpt-4o-mini", images=TileRules(base=2833, tile=5667)),
            msgspec.structs.replace(_GPT4O, family="gpt-4.1-mini", images=PatchRules(factor=1.62)),
            msgspec.structs.replace(_GPT4O, family="gpt-4.1-nano", images=PatchRules(factor=2.46)),
            _REASONING,
            msgspec.structs.replace(_REASONING, family="o1-mini", priming=3),
            _O_MINI,
            msgspec.structs.replace(_O_MINI, family="o4-mini", single_call=19, images=PatchRules(factor=1.72)),
            msgspec.structs.replace(_REASONING, family="computer-use", images=TileRules(base=65, tile=129)),
            _GPT5,
            msgspec.structs.replace(_GPT5, family="gpt-5-mini", images=PatchRules(factor=1.2)),
            msgspec.structs.replace(_GPT5, family="gpt-5-nano", images=PatchRules(factor=1.5)),
            msgspec.structs.replace(_GPT5, family="gpt-5.2", images=PatchRules(factor=1.2)),
            msgspec.structs.replace(
                _GPT5, family="gpt-5.4", images=PatchRules(factor=1.2, budget=2500, original_budget=10_000)
            ),
            # other providers' wrapping is not published: more than any that was seen
            Rules(
                family="other",
                message=5,
                priming=10,
                tools_overhead=114,
                joining=6,
                single_call=25,
                parallel_unknown=True,
            ),
            # Qwen 2.5's template says 22 tokens of its own where there is no system message
            Rules(
                family="qwen2.5",
                message=5,
                priming=28,
                tools_overhead=114,
                joining=6,
                single_call=25,
                parallel_unknown=True,
            ),
        )
    }
)


class Estimate(NamedTuple):
    """How names of one maker are counted without its tokeniser: a family's rules, and a margin on top.

    ``context_window`` is what a model is taken to hold when nobody states it. ``ratios`` names the row of
    ``ratios.RATIOS`` that its text is counted by; without one it is counted as o200k_base has it.
    """

    pattern: re.Pattern[str]
    maker: str | None
    family: str
    margin: float
    context_window: int
    ratios: str | None = None


# The first that matches wins; the last takes all. Margins are for what no ratio covers. A new Claude or Gemini counts as the
# newest family that was recorded.
ESTIMATES: tuple[Estimate, ...] = (
    Estimate(re.compile(r"claude-3-opus"), "anthropic", "claude-3-opus", 1.0, 200_000, "claude"),
    Estimate(re.compile(r"claude-(instant|v?2|3(?![.-]?7))"), "anthropic", "claude-3", 1.0, 200_000, "claude"),
    Estimate(
        re.compile(r"claude-(3[.-]?7|4-|(opus|sonnet)-4(?![.-][2-9](?!\d)))"),
        "anthropic",
        "claude-4",
        1.0,
        200_000,
        "claude",
    ),
    Estimate(
        re.compile(r"claude-(haiku|sonnet|opus)-4[.-][56](?!\d)"), "anthropic", "claude-4.5", 1.0, 200_000, "claude"
    ),
    Estimate(re.compile(r"claude|anthropic"), "anthropic", "claude-5", 1.0, 200_000, "claude-5"),
    Estimate(re.compile(r"gemini-(1|2\.0|pro(-vision)?$)"), "google", "gemini-2.0", 1.0, 32_768, "gemini"),
    Estimate(re.compile(r"gemini-2\.5"), "google", "gemini-2.5", 1.0, 32_768, "gemini"),
    Estimate(re.compile(r"gemini-3(?!\.)"), "google", "gemini-3", 1.0, 32_768, "gemini"),
    Estimate(re.compile(r"gemini"), "google", "gemini-3.1", 1.0, 32_768, "gemini"),
    Estimate(re.compile(r"gemma"), "google", "other", 1.0, 32_768, "gemini"),
    Estimate(re.compile(r"gpt-oss"), "openai", "gpt-5", 1.1, 131_072),
    Estimate(re.compile(r"deepseek(?!.*distill)"), "deepseek", "other", 1.0, 64_000, "deepseek"),
    Estimate(re.compile(r"qwen-?(3\.[5-9]|[4-9])"), "qwen", "other", 1.0, 131_072, "qwen3.5"),
    Estimate(re.compile(r"qwen-?3"), "qwen", "other", 1.0, 32_768, "qwen"),
    Estimate(re.compile(r"qwen|qwq"), "qwen", "qwen2.5", 1.0, 32_768, "qwen"),
    # until 2024 a vocabulary of 32,768, but for Nemo, Ministral and Pixtral; Llama 2 has it too, or nearly
    Estimate(
        re.compile(r"mistral-(large|medium|small)-?2[34]\d\d|mistral-(7b|tiny)|mixtral|codestral|mathstral"),
        "mistral",
        "other",
        1.0,
        32_768,
        "mistral",
    ),
    Estimate(re.compile(r"mistral|devstral|magistral|ministral|pixtral"), "mistral", "other", 1.0, 32_768, "tekken"),
    Estimate(re.compile(r"llama-?4"), "meta", "other", 1.0, 131_072, "llama4"),
    Estimate(re.compile(r"llama-?2|codellama"), "meta", "other", 1.0, 4_096, "mistral"),
    Estimate(re.compile(r"llama"), "meta", "other", 1.0, 8_192, "llama3"),
    Estimate(re.compile(r""), None, "other", 1.15, 8_192, "other"),
)
