"""The counting rules of other makers' models behind chat completions: a row a family, each beside its evidence.

Their chat templates, and what their hosts add to them, decide what is billed besides text. The numbers are from 2,475
requests with their bills, of 45 projects: tests/truth/README.md has the number of each family's, and how many are short. A
row that rests on fewer than ten says so here. The same model costs more at some hosts, and its name does
not say where it runs, so a row has the figures of the dearest host, without those that add hundreds of tokens of their own.

::

    request = priming + definitions + message + message + …
    definitions = definitions + definition for each + their JSON, a line each, times spelled
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from sash.core.counts.models.families import WHOLE_FILE, PatchRules
from sash.core.counts.models.vendors import VendorRules

_SPARE_PRIMING, _SPARE_DEFINITIONS, _SPARE_CALL = 2, 8, 12
"""Tokens above what the bills need. Fitted to a random half of the bills, 4.3 % of the other half were short without these
margins, and 2.0 % with them."""


_NOVA_IMAGES: Final = PatchRules(factor=1.0, patch=28, longest=8_000, budget=2_160, each=530)
"""One bill, of one pixel: 530. A token more for each patch of 28 pixels covers AWS's table of approximate tokens, from 800
for 900 by 450 pixels to 2,600 for 1,300 by 1,300; it has no larger picture."""


# 12 and 10 for a square of 64 pixels: 6 bills. A row of patches has a mark at its end, so a patch costs a little over 1. One
# picture behind a link, which may be of any size, was billed 2,100.
_MISTRAL_IMAGES: Final = PatchRules(factor=1.02, patch=28, longest=1_540, budget=3_025, each=3)
# Pixtral bills more and smaller patches, without a rule for larger ones: two bills elsewhere, of 1,400 and 1,530
_PIXTRAL_IMAGES: Final = PatchRules(factor=1.02, patch=16, longest=1_024, budget=4_096, each=3)
# at most 6 for pictures of 16 by 16 and 60 by 30 pixels: 2 bills; a larger one costs at most what one without a rule does
_QWEN_IMAGES: Final = PatchRules(factor=1.0, patch=28, budget=1_440, each=5)


def _template(
    family: str, priming: int, message: int, *, definitions: int = 110, call: int = 30, **more: Any
) -> VendorRules:
    """Return the rules of a family: what its bills need, with the margins, in a template that writes OpenAI's tools."""
    around: dict[str, Any] = {"told": message, "names": 1, "spelled": 1.0, "spelling": "tool", "page": 0}
    return VendorRules(
        family=family,
        priming=priming + _SPARE_PRIMING,
        message=message,
        definitions=definitions + _SPARE_DEFINITIONS,
        call=call + _SPARE_CALL,
        **{**around, "page_words": WHOLE_FILE, **more},
    )


TEMPLATES: Final[Mapping[str, VendorRules]] = MappingProxyType(
    {
        rules.family: rules
        for rules in (
            _template("deepseek", 5, 2, told=8, definitions=120, call=60, json_object=20),
            _template("deepseek-v3.1", 3, 4, told=0, definitions=120, call=60),
            _template(
                "deepseek-v4",
                2,
                2,
                told=0,
                definitions=222,
                definition=-9,
                forced=8,
                call=70,
                thinking=79,
                json_object=20,
            ),
            _template("qwen", 7, 4, definitions=82, images=_QWEN_IMAGES),
            _template(
                "qwen-2.5", 7, 4, lone=16, definitions=82, images=_QWEN_IMAGES
            ),  # "You are Qwen, created by …": 8 bills
            _template("qwen-3", 7, 4, definitions=120, images=_QWEN_IMAGES),
            _template("qwen-3.5", 5, 5, definitions=204, forced=21, call=76, images=_QWEN_IMAGES),
            # 6 bills
            _template("qwen-3.5-venice", 935, 5, definitions=204, images=_QWEN_IMAGES),
            # no bill: as Llama 3, by its template
            _template("llama-2", 8, 4, definitions=80),
            _template("llama-3", 5, 4, definitions=100),
            _template("llama-3.1", 30, 4, definitions=192, json_object=12),
            # 5 bills
            _template("llama-3.1-cerebras", 30, 4, definitions=396, response_format=60, format_spelled=1.0),
            _template("llama-3.2", 23, 4, definitions=75),
            _template("llama-4", 5, 4, definitions=650),
            _template("llama-guard", 185, 4),
            _template("llama-guard-4", 196, 4),  # 2 bills
            _template("hermes", 78, 4, definitions=100),  # 8 bills
            _template("mistral", 13, 2, definitions=12, call=26, images=_MISTRAL_IMAGES),
            # sound: 375 for each 30 seconds that have begun, one bill elsewhere
            _template("voxtral", 13, 2, definitions=12, call=26, heard=12.5, heard_span=30),
            # 4 bills
            _template("pixtral", 13, 2, definitions=12, call=26, images=_PIXTRAL_IMAGES),
            # 2 bills
            _template("mistral-small-3.1", 13, 2, lone=163, definitions=12, call=10, images=_MISTRAL_IMAGES),
            # Ollama's template has Mistral's whole prompt, in which dates grow: 341 in 13 bills
            _template("mistral-small-3.1-ollama", 13, 2, lone=350, definitions=12, call=10, images=_MISTRAL_IMAGES),
            # templates with a prompt of their own: one bill each, and 2 of the second
            _template("mistral-small-24b", 13, 2, lone=150, definitions=12, call=10, images=_MISTRAL_IMAGES),
            _template("devstral-small-2505", 13, 2, lone=1_220, definitions=12, call=10, images=_MISTRAL_IMAGES),
            _template("mistral-small-3.2", 13, 2, lone=543, definitions=12, call=10, images=_MISTRAL_IMAGES),
            _template("mistral-small-3.2-venice", 954, 2, lone=640, definitions=12, call=20, images=_MISTRAL_IMAGES),
            _template("gemma", 5, 4, definitions=100),
            _template("gemma-3n", 11, 4, definitions=100),  # 3 bills
            _template("compound", 14_090, 4),  # 2 bills
            _template("grok", 5, 2, definitions=95, spelled=0.55, call=60, response_format=4, format_spelled=0.7),
            _template(
                "grok-3", 5, 2, definitions=225, spelled=0.55, call=60, response_format=4, format_spelled=0.7
            ),  # 5 bills
            # 113 before a text: 5 bills; its definitions are assumed to cost what grok-code's do
            _template(
                "grok-build", 118, 2, definitions=140, spelled=0.55, call=150, response_format=4, format_spelled=0.7
            ),
            _template(
                "grok-3-mini", 4, 2, definitions=230, spelled=0.55, call=60, response_format=4, format_spelled=0.7
            ),
            _template("grok-4", 682, 2, definitions=160, spelled=0.55, call=60, response_format=4, format_spelled=0.7),
            _template(
                "grok-4-fast", 164, 2, definitions=160, spelled=0.55, call=150, response_format=4, format_spelled=0.7
            ),
            _template(
                "grok-4.3",
                186,
                2,
                definitions=27,
                spelled=0.7,
                call=134,
                json_object=18,
                response_format=22,
                format_spelled=0.7,
            ),
            _template(
                "grok-code", 202, 2, definitions=140, spelled=0.55, call=150, response_format=4, format_spelled=0.7
            ),
            # documents: fitted to one bill, and 20 over in the other; both recordings lack the documents. Calls without
            # definitions: no bill, as command-r
            _template(
                "command", 492, 2, told=31, definitions=900, bare_calls=True, documents=1_150, call=90, json_object=107
            ),
            # a text alone has no bill: priming is that of one reply in JSON. Definitions, documents: one bill each. Of calls
            # without definitions and of three documents, one bill each tests them: 13 and 15 over
            _template("command-r", 72, 2, told=31, definitions=725, bare_calls=True, documents=600, call=90),
            # without Cohere's own prompt: 14 bills
            _template("command-bedrock", -_SPARE_PRIMING, 0, definitions=-_SPARE_DEFINITIONS, spelled=0.4, call=8),
            # 2 bills
            _template("command-a-reasoning", 1386, 2, bare_calls=True, documents=1_150),  # the last two as command
            # 3 bills
            _template("command-a-plus", 20, 4, definitions=170, bare_calls=True, documents=1_150),
            # long Markdown descriptions need 1.2 times what 0.8 gives: 4 bills elsewhere, none here
            _template("kimi-k2", 8, 3, lone=13, definitions=15, spelled=0.8, marked=1.2, call=30),
            _template("kimi-k2.5", 7, 3, definitions=12, spelled=0.56, call=50),
            _template("glm-4", 3, 2, definitions=95, forced=8, spelled=0.75, call=60),
            _template("glm-5", 8, 2, definitions=95, forced=8, spelled=0.75, call=60),
            _template("minimax-01", 14, 4, lone=693),  # 4 bills
            _template("minimax-m1", 4, 4, lone=438),  # 4 bills
            _template("minimax-m2", 4, 4, lone=31),
            _template("sonar", 1, 1),
            # what stands before a request without a system text: one or two bills each
            _template("seed-1", 10, 5, lone=66),
            _template("seed-2", 10, 5, lone=28),
            _template("mimo-2.5", 10, 5, lone=230),
            _template("mimo", 10, 5, lone=20, definitions=170),
            _template("olmo", 10, 5, lone=34),
            # text alone: 22 bills; definitions 335 and their JSON: 8; one picture, of a pixel, cost 530
            _template("nova", -_SPARE_PRIMING, 0, definitions=335, images=_NOVA_IMAGES, page_words=2_600),
            # a PDF of one page cost 2,540: 3 bills, all of one file
            # 46 around a text, 3 a further message: 6 bills; definitions: 13; thinking: one bill
            _template(
                "nova-2", 41, 3, told=0, definitions=812, call=36, thinking=52, images=_NOVA_IMAGES, page_words=2_600
            ),
        )
    }
)


TEMPLATES_IN_RESPONSES: Final[Mapping[str, VendorRules]] = MappingProxyType(
    {
        "deepseek-v4": msgspec.structs.replace(TEMPLATES["deepseek-v4"], priming=81)
    }  # always told how hard to think: 5 bills
)
"""The rules of requests to a maker's Responses API, by family, where they differ."""


class Estimate(NamedTuple):
    """The counting of models whose names match ``pattern``, without their tokeniser: a family's rules, and a margin.

    ``context_window`` is assumed if no source states it, in tokens. ``ratios`` is the row of ``RATIOS`` for text;
    without one, text is counted with o200k_base.
    """

    pattern: str
    maker: str | None
    family: str
    context_window: int
    ratios: str | None = None
    margin: float = 1.0


# The first match wins, and the last matches all names. Margins are for makers without ratios. A new Claude or Gemini is
# counted like the newest recorded family.
ESTIMATES: tuple[Estimate, ...] = (
    Estimate(r"claude-3-opus", "anthropic", "claude-3-opus", 200_000, "claude"),
    Estimate(r"claude-3[.-]5-haiku", "anthropic", "claude-3.5-haiku", 200_000, "claude"),
    Estimate(r"claude-(instant|v?2|3(?![.-]?7))", "anthropic", "claude-3", 200_000, "claude"),
    Estimate(r"claude-(3[.-]?7|4-|(opus|sonnet)-4(?![.-][2-9](?!\d)))", "anthropic", "claude-4", 200_000, "claude"),
    Estimate(r"claude-(haiku|sonnet)-4[.-]5(?!\d)", "anthropic", "claude-4.5", 200_000, "claude"),
    Estimate(r"claude-(opus-4[.-]5|(haiku|sonnet|opus)-4[.-]6)(?!\d)", "anthropic", "claude-4.6", 200_000, "claude"),
    # longer texts, and adaptive thinking beside definitions, were billed up to 4 % above their estimate: 4 bills of 15
    Estimate(r"claude-opus-4[.-]7(?!\d)", "anthropic", "claude-4.7", 200_000, "claude-5", margin=1.045),
    Estimate(r"claude|anthropic", "anthropic", "claude-5", 200_000, "claude-5"),
    Estimate(r"gemini-(1|pro(-vision)?$)", "google", "gemini-1.5", 32_768, "gemini"),
    Estimate(r"gemini-2\.0", "google", "gemini-2.0", 32_768, "gemini"),
    Estimate(r"gemini-2\.5", "google", "gemini-2.5", 32_768, "gemini"),
    Estimate(r"gemini-3(?![.-]?\d)", "google", "gemini-3", 32_768, "gemini"),
    Estimate(r"gemini", "google", "gemini-3.1", 32_768, "gemini"),
    Estimate(r"gemma-?3n", "google", "gemma-3n", 32_768, "gemini"),
    Estimate(r"gemma", "google", "gemma", 32_768, "gemini"),
    Estimate(r"gpt-oss", "openai", "gpt-oss", 131_072),
    Estimate(r"deepseek-?v?(4|[5-9])|deepseek-flash", "deepseek", "deepseek-v4", 64_000, "deepseek"),
    Estimate(r"deepseek.*v3[.p][1-9](?!.*distill)", "deepseek", "deepseek-v3.1", 64_000, "deepseek"),
    # as Ollama spells Qwen and Llama that were taught by R1: in its template, with vocabularies of their own
    Estimate(r"deepseek-r1[:-](1\.5|7|8|14|32|70)b", "deepseek", "deepseek", 64_000, "other"),
    Estimate(r"deepseek(?!.*(distill|qwen|llama))|mai-ds", "deepseek", "deepseek", 64_000, "deepseek"),
    Estimate(r"qwen3-5-9b", "qwen", "qwen-3.5-venice", 131_072, "qwen3.5"),  # as Venice spells it
    Estimate(r"qwen-?(3[.p-]?[5-9](?![\d.]*b|\d)|[4-9](?![\d.]*b))", "qwen", "qwen-3.5", 131_072, "qwen3.5"),
    Estimate(r"qwen-?3(?!\d*b)", "qwen", "qwen-3", 32_768, "qwen"),
    Estimate(r"qwen-?2[.-]5", "qwen", "qwen-2.5", 32_768, "qwen"),
    Estimate(r"qwen|qwq", "qwen", "qwen", 32_768, "qwen"),
    # Mistral's vocabulary until 2024: 32,768 tokens, except Nemo, Ministral and Pixtral; Llama 2's is nearly the same
    Estimate(
        r"mistral-(large|medium|small)-?2[34]\d\d|mistral-(7b|tiny)|mixtral|codestral|mathstral",
        "mistral",
        "mistral",
        32_768,
        "mistral",
    ),
    Estimate(r"voxtral", "mistral", "voxtral", 32_768, "tekken"),
    Estimate(r"pixtral", "mistral", "pixtral", 32_768, "tekken"),
    Estimate(r"mistral-small-24b", "mistral", "mistral-small-24b", 32_768, "tekken"),
    Estimate(r"mistral-small3\.1", "mistral", "mistral-small-3.1-ollama", 32_768, "tekken"),  # as Ollama spells it
    Estimate(r"mistral-small-3[.-]1", "mistral", "mistral-small-3.1", 32_768, "tekken"),
    Estimate(r"mistral-small-3-2-24b", "mistral", "mistral-small-3.2-venice", 32_768, "tekken"),  # as Venice spells it
    Estimate(r"mistral-small-?3[.-]2", "mistral", "mistral-small-3.2", 32_768, "tekken"),
    Estimate(r"devstral-small-2505", "mistral", "devstral-small-2505", 32_768, "tekken"),
    Estimate(r"mistral|devstral|magistral|ministral", "mistral", "mistral", 32_768, "tekken"),
    Estimate(r"hermes-?4", "nousresearch", "hermes", 131_072, "llama3"),
    Estimate(r"llama-?guard-?[4-9]", "meta", "llama-guard-4", 8_192, "llama4"),
    Estimate(r"llama-?guard", "meta", "llama-guard", 8_192, "llama3"),
    Estimate(r"llama-?v?[4-9](?![\d.]*b)", "meta", "llama-4", 131_072, "llama4"),
    Estimate(r"llama-?v?2(?![\d.]*b)|codellama", "meta", "llama-2", 4_096, "mistral"),
    Estimate(r"llama3\.1-8b", "meta", "llama-3.1-cerebras", 8_192, "llama3"),  # as Cerebras spells it
    Estimate(r"llama-?v?3[.p_-]2(?![\d.]*b|\d)", "meta", "llama-3.2", 8_192, "llama3"),
    Estimate(r"llama-?v?3[.p_-][13-9](?![\d.]*b|\d)", "meta", "llama-3.1", 8_192, "llama3"),
    Estimate(r"(?<!o)llama", "meta", "llama-3", 8_192, "llama3"),
    Estimate(r"grok-?3-mini", "x-ai", "grok-3-mini", 32_768, "other"),
    Estimate(r"grok-?3", "x-ai", "grok-3", 32_768, "other"),
    Estimate(r"grok-?build", "x-ai", "grok-build", 131_072, "other"),
    Estimate(r"grok-?code", "x-ai", "grok-code", 131_072, "other"),
    Estimate(r"grok-?4([.-]1)?-fast", "x-ai", "grok-4-fast", 131_072, "other"),
    Estimate(r"grok-?4(?![.-][2-9])", "x-ai", "grok-4", 131_072, "other"),
    Estimate(r"grok-?([4-9])", "x-ai", "grok-4.3", 131_072, "other"),
    Estimate(r"grok", "x-ai", "grok", 32_768, "other"),
    Estimate(r"cohere\.command.*-v\d", "cohere", "command-bedrock", 8_192, "other"),  # as Bedrock spells it
    Estimate(r"command-a-reasoning", "cohere", "command-a-reasoning", 128_000, "other"),
    Estimate(r"command-a-plus", "cohere", "command-a-plus", 128_000, "other"),
    Estimate(r"\bcommand-r$", "cohere", "command-r", 8_192, "other"),
    Estimate(r"\bcommand(-|$)|c4ai|\baya-", "cohere", "command", 8_192, "other"),
    Estimate(r"kimi-k-?2[.p-][5-9](?!\d)|kimi-k-?[3-9]", "moonshotai", "kimi-k2.5", 131_072, "other"),
    Estimate(r"kimi|moonshot", "moonshotai", "kimi-k2", 8_192, "other"),
    Estimate(r"\bglm-?[5-9]", "zhipuai", "glm-5", 131_072, "other"),
    Estimate(r"\bglm", "zhipuai", "glm-4", 8_192, "other"),
    Estimate(r"minimax-m-?1|abab", "minimax", "minimax-m1", 204_800, "other"),
    Estimate(r"minimax-m", "minimax", "minimax-m2", 204_800, "other"),
    Estimate(r"minimax-0", "minimax", "minimax-01", 204_800, "other"),
    Estimate(r"\bsonar", "perplexity", "sonar", 127_000, "other"),
    Estimate(r"\bcompound(-|$)", "groq", "compound", 131_072, "other"),
    Estimate(r"\bseed-[2-9]", "bytedance-seed", "seed-2", 131_072, "other"),
    Estimate(r"\bseed-1", "bytedance-seed", "seed-1", 131_072, "other"),
    Estimate(r"\bmimo-v?2[.-]5", "xiaomi", "mimo-2.5", 131_072, "other"),
    Estimate(r"\bmimo-", "xiaomi", "mimo", 131_072, "other"),
    Estimate(r"\bolmo-", "allenai", "olmo", 32_768, "other"),
    # 1.035: three bills of one test, whose long system text is in capitals
    Estimate(r"nova-[2-9]", "aws", "nova-2", 300_000, "other", margin=1.04),
    Estimate(r"nova-(micro|lite|pro|premier)", "aws", "nova", 128_000, "other", margin=1.04),
    Estimate(r"", None, "other", 8_192, "other", margin=1.15),
)
