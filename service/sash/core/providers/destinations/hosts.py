"""Hosts that serve other makers' models: how names say them, and what they refuse, a row a fact."""

import re
from collections.abc import Mapping
from datetime import date
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from sash.core.providers.destinations.facts import Fact, Kind

_CHAT: Final = frozenset({"openai"})
_DAY: Final = date(2026, 11, 29)

PREFIXES: Final[Mapping[str, str]] = MappingProxyType(
    {
        **{name: name for name in ("azure", "bedrock", "cerebras", "groq", "ollama", "openrouter", "venice", "vllm")},
        **{name: name for name in ("baseten", "databricks", "deepinfra", "friendliai", "huggingface", "hyperbolic")},
        **{name: name for name in ("lm_studio", "nebius", "novita", "nvidia_nim", "replicate", "sambanova")},
        **{name: name for name in ("siliconflow", "watsonx")},
        "azure_ai": "azure",
        "bedrock_converse": "bedrock",
        "fireworks": "fireworks",
        "fireworks_ai": "fireworks",
        "hosted_vllm": "vllm",
        "ollama_chat": "ollama",
        "together": "together",
        "together_ai": "together",
        "vertex": "vertex",
        "vertex_ai": "vertex",
    }
)
"""Hosts by how a model's name begins before its first slash, as LiteLLM writes it."""
_IDS: Final = (
    (
        re.compile(r"^([a-z-]{2,6}\.)?(ai21|amazon|anthropic|cohere|deepseek|meta|mistral|openai|qwen)\.[a-z]"),
        "bedrock",
    ),
    (re.compile(r"@(\d{8}|default|latest)$|^publishers/[a-z]+/models/"), "vertex"),
)
"""Hosts by the form of a model's id."""
OF_FORMS: Final[Mapping[str, str]] = MappingProxyType({"converse": "bedrock", "ollama": "ollama"})
"""Hosts whose form nobody else has."""


BILLED_AS_MADE: Final[Mapping[str, frozenset[str]]] = MappingProxyType({"converse": frozenset({"anthropic"})})
"""The makers whose models are sold in a host's form, and billed as these makers bill them."""


def host_of(model: str) -> str | None:
    """Return the host that a model's name says; None for a name that says none.

    >>> [host_of(name) for name in ("groq/qwen/qwen3-32b", "us.meta.llama4-scout-17b-instruct-v1:0", "qwen3-32b")]
    ['groq', 'bedrock', None]
    """
    name = model.strip().lower()
    begins, slash, _ = name.partition("/")
    if slash and begins in PREFIXES:
        return PREFIXES[begins]
    return next((host for pattern, host in _IDS if pattern.search(name)), None)


@lru_cache(maxsize=1024)
def at_host_of(name: str, meant: str) -> str:
    """Return the name of a model with the host that another name says, if it says none itself.

    >>> at_host_of("groq/fast", "qwen3-32b"), at_host_of("fast", "groq/qwen3-32b"), at_host_of("prod", "gpt-4")
    ('groq/qwen3-32b', 'groq/qwen3-32b', 'gpt-4')
    """
    host = host_of(name)
    return meant if host is None or host_of(meant) else f"{host}/{meant}"


UNRECORDED: Final = "unrecorded"
"""The name of every host of which nothing is recorded. What it refuses is what some other host does."""
AS_MADE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "azure": "what OpenAI's own servers refuse (learn.microsoft.com, Azure OpenAI in Foundry Models, reference); "
        "reasoning as the maker's servers take it (earendil-works/pi 9645)",
        "together": "reasoning is taken in `reasoning` and in `reasoning_content`, as Together says "
        "(anomalyco/models.dev 1573); no report of a refusal that is not the model's",
    }
)
"""Hosts that are known to refuse what the maker's servers and the template do, and where that is known from."""
_STRICT: Final = {
    "cerebras": "400: \"property 'messages.2.assistant.reasoning_content' is unsupported\" (Kilo-Org/kilocode 10375, "
    "QwenLM/qwen-code 11045)",
    "groq": "400 as of Cerebras (janhq/jan 8136); 'reasoning is not supported with this model' to `reasoning` "
    "(vercel/ai 8057)",
}
"""Hosts that refuse members which they do not know, and what they were reported to answer."""


_SYSTEM_TEXTS: Final = {
    "cerebras": "400: 'body.messages.0.system.content: Input should be a valid string' (musistudio/llms 25)",
    "groq": "400: \"'messages.0' : for 'role:system' the following must be satisfied[('messages.0.content' : value must "
    'be a string)]" (i-am-bee/beeai-framework 752, OpenHands/OpenHands 4643, livekit/agents 1790)',
}
"""Hosts that take a system message's content as a text alone."""


def _refusing(kind: Kind, value: str, name: str, evidence: str) -> Fact:
    return Fact(of="host", name=name, kind=kind, value=value, forms=_CHAT, evidence=evidence, read_on=_DAY)


_STRICTEST: Final[tuple[tuple[Kind, str], ...]] = (
    ("alternation", "answered"),
    ("arguments", "object"),
    ("beginning", "user"),
    ("empty_question", "refused"),
    ("empty_reply", "refused"),
    ("empty_text", "refused"),
    ("ending", "no_reply"),
    ("members", "known"),
    ("reasoning", "refused"),
    ("roles", "no_developer"),
    ("system", "one"),
    ("texts", "all"),
)
"""What is refused by some host or template, and can be left out or changed without a loss of words. Media, names and ids
are not among it: they would be lost, or be others, where the host takes them."""
HOSTS: Final = (
    *(_refusing("members", "known", name, evidence) for name, evidence in _STRICT.items()),
    *(_refusing("reasoning", "refused", name, evidence) for name, evidence in _STRICT.items()),
    *(_refusing("texts", "system", name, evidence) for name, evidence in _SYSTEM_TEXTS.items()),
    _refusing(
        "reasoning_in",
        "reasoning_content",
        "fireworks",
        "`reasoning_content` is what Fireworks writes and reads (docs.fireworks.ai/guides/reasoning; BerriAI/litellm 41380)",
    ),
    _refusing(
        "reasoning_in",
        "both",
        "vllm",
        "vLLM from 0.17 reads `reasoning`, and drops `reasoning_content` without an error (vllm-project/vllm 27755, 38488, "
        "QwenLM/qwen-code 4285, vllm-project/router 115); earlier ones read `reasoning_content`, as some later ones do "
        "(BerriAI/litellm 41380)",
    ),
    _refusing(
        "reasoning_in",
        "details",
        "openrouter",
        "Kimi K2.5 takes its `reasoning_details` back, and `reasoning_content` (earendil-works/pi 988, 987)",
    ),
    Fact(
        of="host",
        name="compatible",
        kind="empty_reply",
        value="refused",
        forms=_CHAT,
        evidence="DeepSeek answers 400: 'Invalid assistant message: content or tool_calls must be set' "
        "(AstrBotDevs/AstrBot 7721), Moonshot: \"the message at position 8 with role 'assistant' must not be empty\" "
        "(AstrBotDevs/AstrBot 7200)",
        read_on=_DAY,
    ),
    Fact(
        of="host",
        name="compatible",
        kind="arguments",
        value="object",
        forms=_CHAT,
        evidence="vLLM answers 400: 'Unterminated string' (vllm-project/vllm 43995, 48922), Alibaba (HKUDS/nanobot 1487)",
        read_on=_DAY,
    ),
    *(
        Fact(
            of="host",
            name=UNRECORDED,
            kind=kind,
            value=value,
            forms=_CHAT,
            evidence="A host without a record is taken to refuse what the strictest of the others does",
            read_on=_DAY,
        )
        for kind, value in _STRICTEST
    ),
    Fact(
        of="host",
        name="vertex",
        kind="beside_calls",
        value="nothing",
        models=r"gemini-3\.(?:6-flash|5-flash-lite)",
        forms=_CHAT,
        evidence="400: 'Request contains an invalid argument.' to a text beside `tool_calls`, by gemini-3.6-flash and "
        "gemini-3.5-flash-lite, and not by 3.1 (NousResearch/hermes-agent 69231, discuss.ai.google.dev 175801); a call "
        "stands behind a turn of the user's (editor-code-assistant/eca 247)",
        read_on=_DAY,
    ),
    _refusing("tool_names", "plain", "groq", "a name of another pattern is refused (langgenius/dify 22867)"),
    Fact(
        of="host",
        name="openrouter",
        kind="roles",
        value="no_developer",
        forms=_CHAT,
        evidence="400 by servers behind it: 'unknown variant `developer`', also for gpt-oss (earendil-works/pi 5229, 5221)",
        read_on=_DAY,
    ),
    Fact(
        of="host",
        name="ollama",
        kind="links",
        value="refused",
        forms=_CHAT,
        evidence="400: 'invalid image input' to an address of the web (ollama/ollama 6753, TeamWiseFlow/xiaobei 219)",
        read_on=_DAY,
    ),
    Fact(
        of="host",
        name="venice",
        kind="empty_reply",
        value="refused",
        forms=_CHAT,
        evidence="'Assistant messages must have either content or tool_calls' (anomalyco/opencode 9108)",
        read_on=_DAY,
    ),
    Fact(
        of="host",
        name="bedrock",
        kind="ending",
        value="no_reply",
        models=r"^(?!.*(?:\bnova|claude))",
        forms=frozenset({"converse"}),
        evidence="'The model that you are using requires the last turn in the conversation to be a user message.', of "
        "llama3-8b (i-am-bee/beeai-framework 753), as SillyTavern/SillyTavern 5733 and microsoft/semantic-kernel 10281 "
        "say of all",
        read_on=_DAY,
    ),
    Fact(
        of="host",
        name="bedrock",
        kind="beside_calls",
        value="nothing",
        models="llama",
        forms=frozenset({"converse"}),
        evidence="'Conversation blocks and tool use blocks cannot be provided in the same turn.' "
        "(quarkiverse/quarkus-langchain4j 1983), 'Conversation blocks and tool result blocks cannot be provided in the same "
        "turn', of llama4-maverick (strands-agents/harness-sdk 1223, langchain-ai/langchain-aws 141)",
        read_on=_DAY,
    ),
    Fact(
        of="host",
        name="bedrock",
        kind="tool_names",
        value="plain",
        forms=frozenset({"converse"}),
        evidence="botocore's service model: `ToolName`",
        read_on=_DAY,
    ),
    Fact(
        of="host",
        name="bedrock",
        kind="file_names",
        value="own",
        forms=frozenset({"converse"}),
        evidence="'Messages can't contain duplicate document names' (maximhq/bifrost 7003, vercel/ai 20365); a message "
        "with a document has a text (botocore's service model: `DocumentBlock`)",
        read_on=_DAY,
    ),
)
