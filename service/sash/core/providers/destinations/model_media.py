"""Which models take no pictures, sounds, videos and files: a row a family. A model of no row takes all.

A model is in a row only if its maker, or nearly every seller, lists it so, because a picture that is left out in vain is a
loss, too. Names are patterns of families and versions: a later version may take more.
"""

import re
from collections.abc import Iterator
from datetime import date
from typing import Final

from sash.core.providers.destinations.facts import Fact, Kind

_DAY: Final = date(2026, 11, 29)
_LISTED: Final = "modalities as listed (anomalyco/models.dev)"
_SEES: Final = r"vl(?!lm)|vision|omni|ocr|llava|multimodal|audio|\bvideo|qvq|janus|minicpm|livetranslate"
"""Words of names of models that take more than text."""
SEES: Final = re.compile(_SEES)
_NOT_SEEING: Final = rf"^(?!.*(?:{_SEES}))(?=.*(?:{{}}))"

_TEXT_ALONE: Final = (
    (
        "gpt",
        (
            r"gpt-?3\.?5"
            r"|(?:^|[/.])gpt-4(?:-(?:0314|0613|32k.*|1106(?:-preview)?|0125(?:-preview)?|turbo-preview))?$"
            r"|\bo1-(?:mini|preview)|\bo3-mini|gpt-oss|codex-spark"
        ),
        (
            "OpenAI answers 400: 'Invalid image URL … Expected a base64-encoded data URL' (BerriAI/litellm 4790), "
            f"as to o3-mini (machine-theory/lm-council 14); {_LISTED}"
        ),
    ),
    (
        "deepseek",
        r"deepseek(?!.*v(?:[5-9]|\d\d))",
        (
            "400: 'unknown variant `image_url`, expected `text`' (rikkahub/rikkahub 1433, boldsoftware/shelley 224, "
            f"esengine/DeepSeek-Reasonix 7859, cline/cline 9819); {_LISTED}"
        ),
    ),
    (
        "mistral",
        (
            r"codestral|mathstral|mixtral|(?:open-)?mistral-(?:7b|nemo|tiny|saba)|mistral-small-(?:24b|2402|2409|2501)"
            r"|mistral-large-2?4\d\d|mistral-large-(?:2402|2407|2411)|devstral-(?:medium|small-250[57]|latest|2512|2-123b)"
            r"|magistral-(?:small|medium)-250[67]|ministral-[38]b-2410"
        ),
        _LISTED,
    ),
    (
        "glm",
        r"\bglm-?(?:4(?:[.p-][5-7])?|5(?:[.p-][1-3])?|z1)(?![\dv]|[.p-]\d+(?![\db]))(?!-flash(?<=3-flash))",
        (
            "Z.ai answers 400: \"messages.content.type … ['text']\" (TriDefender/zcode-api 26; "
            "openkursar/hello-halo 346: GLM 5.3 takes text alone, GLM 5.3 Flash pictures), OpenRouter 404: 'No endpoints "
            f"found that support image input' (nexu-io/nexu 875), Ollama 400 (ollama/ollama 17301); {_LISTED}"
        ),
    ),
    (
        "qwen",
        (
            r"qwen-?(?:1\.5|2(?:[.p-]?5)?|3)(?![.p_]\d|[-_]?[5-9](?![\db]))|qwen-(?:max|turbo|long|coder|math)(?!-latest)"
            r"|qwq"
        ),
        f"Fireworks answers 400 to a picture for qwen3-235b (machine-theory/lm-council 14); {_LISTED}",
    ),
    (
        "kimi",
        r"kimi-k-?2(?![._p-]?[5-9](?!\d))|moonshot-v1",
        _LISTED,
    ),
    (
        "llama",
        r"llama-?v?2|llama-?v?3(?![._p-]2)|llama-?v?3[._p-]2(?!.*(?:11b|90b))|codellama",
        f"Llama 3.2 of 11 and of 90 billion parameters are the first that see (promptfoo/promptfoo 6555); {_LISTED}",
    ),
    ("grok", r"grok-?(?:2|3|beta|code)", _LISTED),
    ("nova", r"nova-micro", _LISTED),
    ("titan", r"titan-(?:text|tg1)", _LISTED),
    ("claude", r"claude-(?:v?2|instant)", _LISTED),
    (
        "command",
        r"\bcommand-(?:r|light|nightly|text|a-03-2025|a-reasoning|a-translate)|\bcommand-a?$",
        _LISTED,
    ),
    ("minimax", r"minimax-?(?:m[12]|text)|abab", _LISTED),
    ("gemma", r"gemma-?2(?![\d])|gemma-?7b|gemma-?3[:-](?:1b|270m)|codegemma", _LISTED),
    ("phi", r"\bphi-?(?:3|3\.5|4)(?![\d.])", _LISTED),
    (
        "others",
        (
            r"jamba|hermes-?[34]|olmo-?[23]|nemotron-3-(?:nano|super|ultra)|mimo-v2(?:\.5)?-(?:flash|pro)|seed-oss"
            r"|palmyra-x[45]|granite-?[34]"
        ),
        _LISTED,
    ),
)
"""Families of models that take text alone: the name of the row, a pattern of names, and the evidence."""
_NO_VIDEOS: Final = (
    ("gpt", r"\bgpt-|chatgpt|\bo[1-4]\b"),
    ("claude", "claude"),
    ("grok", r"\bgrok"),
    ("mistral", r"mistral|magistral|pixtral|voxtral"),
    ("llama", "llama-?4|llama-?v?3[._p-]2"),
    ("command", r"\bcommand-"),
)
"""Families that take pictures, and no videos: the name of the row, and a pattern of names."""
READERS: Final = ("openrouter", "bedrock", "bedrock_converse")
"""Hosts that read files themselves, and give the model their text."""
_NOT_READ: Final = rf"(?!(?:{'|'.join(READERS)})/)"


def _row(name: str, kind: Kind, models: str, evidence: str, forms: frozenset[str] = frozenset()) -> Fact:
    return Fact(
        of="model",
        name=name,
        kind=kind,
        value="refused",
        models=models,
        forms=forms,
        evidence=evidence,
        read_on=_DAY,
    )


def _rows() -> Iterator[Fact]:
    for name, pattern, evidence in _TEXT_ALONE:
        models = _NOT_SEEING.format(pattern)
        yield _row(name, "pictures", models, evidence)
        yield _row(name, "sounds", models, evidence)
        yield _row(name, "videos", models, evidence)
        files = f"^{_NOT_READ}{models.removeprefix('^')}"
        yield _row(name, "files", files, evidence, frozenset({"openai", "responses", "ollama"}))
    yield _row(
        "gpt-audio",
        "pictures",
        r"gpt-(?:4o-(?:mini-)?)?audio",
        _LISTED,
    )
    yield _row("voxtral", "pictures", "voxtral", _LISTED)
    yield _row(
        "gpt",
        "sounds",
        r"^(?!.*(?:audio|realtime))(?=.*(?:\bgpt-(?:4|5)|chatgpt|\bo[1-4]\b))",
        "'either text or image_url type' (openai/openai-python 2454, vercel/ai 3302)",
        frozenset({"openai", "responses"}),
    )
    yield _row(
        "claude",
        "sounds",
        "claude",
        f"anthropic.types.ContentBlockParam has no sound; {_LISTED}",
        frozenset({"openai", "anthropic"}),
    )
    for name, models in _NO_VIDEOS:
        yield _row(name, "videos", models, _LISTED)


MODELS: Final = tuple(_rows())
