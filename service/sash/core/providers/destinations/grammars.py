"""What chat templates refuse, wherever they run, and what forms do, whoever serves them: a row a fact."""

from datetime import date
from typing import Final

from sash.core.providers.destinations.facts import Fact, Kind

_CHAT: Final = frozenset({"openai"})
_DAY: Final = date(2026, 11, 29)
_CLAUDES: Final = r"claude-(?:v?[123]\b|instant|(?:opus|sonnet|haiku)-(?:3|4(?![.-][6-9]\b)))"
"""Claude's models that go on with a reply at the end."""
_GEMINIS: Final = r"gemini-(?:flash(?:-lite)?-latest|3[.-][5-9]|3[.-]\d\d|[4-9])"
"""Gemini's models that do not go on with a reply at the end."""
_QWENS: Final = r"qwen-?(3\.[5-9]|[4-9])"
_MISTRALS: Final = r"(?:devstral|magistral|ministral|mistral|mixtral)[\w.-]*-instruct"
"""Names of Mistral's weights, as they are published for others to run. Those of its own models are without the word."""
_OF_MISTRALS: Final[tuple[tuple[Kind, str], ...]] = (("alternation", "answered"), ("beginning", "user"))

_OWN_TEMPLATES: Final = (
    *(
        "azure",
        "azure_ai",
        "bedrock",
        "bedrock_converse",
        "cerebras",
        "databricks",
        "fireworks",
        "fireworks_ai",
        "groq",
    ),
    *("ollama", "ollama_chat", "openrouter", "sambanova", "together", "together_ai", "vertex", "vertex_ai", "watsonx"),
)
"""Hosts that do not run Meta's template: of none a refusal is reported."""

TEMPLATES: Final = (
    Fact(
        of="template",
        name="llama-3",
        kind="calls",
        value="one",
        models=rf"^(?!(?:{'|'.join(_OWN_TEMPLATES)})/)(?!(?:[a-z-]+\.)?meta\.)(?=.*llama-?v?3)",
        forms=_CHAT,
        evidence="'This model only supports single tool-calls at once!' (vllm-project/vllm 12938, 9451): the template that "
        "Meta publishes with Llama 3.1 to 3.3, and vLLM's own for them",
        read_on=_DAY,
    ),
    Fact(
        of="template",
        name="claude",
        kind="ending",
        value="no_reply",
        models=rf"^(?=.*claude)(?!.*{_CLAUDES})",
        forms=frozenset({"anthropic", "converse", "openai"}),
        evidence="'This model does not support assistant message prefill. The conversation must end with a user message.' "
        "(anthropics/claude-code 52433, anomalyco/opencode 13768, langchain-ai/deepagents 1585, charmbracelet/crush 2300); "
        "at Bedrock, too (anomalyco/opencode 29760, NousResearch/hermes-agent 101401)",
        read_on=_DAY,
    ),
    Fact(
        of="template",
        name="gemini",
        kind="ending",
        value="no_reply",
        models=_GEMINIS,
        forms=frozenset({"gemini", "openai"}),
        evidence="'Requests ending with a model turn are not supported unless the last part is a function response.', of "
        "gemini-3.6-flash and gemini-3.5-flash-lite, when gemini-3.5-flash still took them (LibreChat-AI/agents 323), then "
        "of all after 3.1 (pipecat-ai/pipecat 5821, anomalyco/opencode 45359, 47034, crewAIInc/crewAI 6973); in chat "
        "completions, too (ypq123456789/MoRanJiangHu 79)",
        read_on=_DAY,
    ),
    Fact(
        of="template",
        name="gemma",
        kind="alternation",
        value="answered",
        models="gemma",
        forms=_CHAT,
        evidence="'Conversation roles must alternate user/assistant/user/assistant/...' by vLLM, TGI and LM Studio "
        "(google/adk-python 1373, suitenumerique/conversations 197); vLLM's template of Gemma 3 passes over calls and "
        "results, and so sees two questions around them (tool_chat_template_gemma3_pythonic.jinja)",
        read_on=_DAY,
    ),
    Fact(
        of="template",
        name="gemma",
        kind="beginning",
        value="user",
        models="gemma",
        forms=_CHAT,
        evidence="'Conversation roles must alternate user/assistant/user/assistant/...': the template that Google publishes "
        "with Gemma 1 to 3 raises it for a message of the assistant's at an even place, as the first is",
        read_on=_DAY,
    ),
    Fact(
        of="template",
        name="gemma",
        kind="system",
        value="one",
        models="gemma",
        forms=_CHAT,
        evidence="'System message must be at the beginning.', as of Qwen 3.5",
        read_on=_DAY,
    ),
    *(
        Fact(
            of="template",
            name="mistral",
            kind=kind,
            value=value,
            models=_MISTRALS,
            forms=_CHAT,
            evidence="'After the optional system message, conversation roles must alternate user and assistant roles except "
            "for tool calls and results' by vLLM and llama.cpp (vllm-project/vllm 6862, anomalyco/opencode 5034, "
            "SWE-agent/mini-swe-agent 759, sterlp/eclipse-peon-ai 75), also behind a result: 'Unexpected role 'user' after "
            "role 'tool'' (mistralai/mistral-common 169, NousResearch/hermes-agent 20154, aliou/pi-neuralwatt 12); "
            "mistral_common takes it from 1.13 on, as Mistral's own servers do",
            read_on=_DAY,
        )
        for kind, value in _OF_MISTRALS
    ),
    Fact(
        of="template",
        name="qwen3.5",
        kind="beginning",
        value="asked",
        models=_QWENS,
        forms=_CHAT,
        evidence="'No user query found in messages.' (vllm-project/vllm 36432, langgenius/dify 33152, "
        "lmstudio-ai/lmstudio-bug-tracker 1572)",
        read_on=_DAY,
    ),
    Fact(
        of="template",
        name="qwen3.5",
        kind="system",
        value="one",
        models=_QWENS,
        forms=_CHAT,
        evidence="'System message must be at the beginning.' (vllm-project/vllm 41114, QwenLM/Qwen3.8 244)",
        read_on=_DAY,
    ),
)


def _tool_names(form: str, value: str, evidence: str, models: str = "") -> Fact:
    """The row of the alphabet of tools' names in a form."""
    forms = frozenset({form})
    return Fact(
        of="form",
        name=form,
        kind="tool_names",
        value=value,
        models=models,
        forms=forms,
        evidence=evidence,
        read_on=_DAY,
    )


_TURNS_OF_COHERE: Final[tuple[Kind, ...]] = ("empty_question", "empty_result")
_OF_GEMINI: Final = (
    "Gemini answers 400: 'Invalid function name. Must start with a letter or an underscore. Must be alphameric (a-z, A-Z, "
    "0-9), underscores (_), dots (.), colons (:), or dashes (-)' (Finerestaurant/kicad-mcp-python 2, "
    "google-gemini/gemini-cli 7869)"
)
_OF_COHERE: Final = (
    "400: 'message must not be empty in a turn', 'message must be at least 1 token long or tool results must be specified' "
    "(docs.cohere.com/reference/errors, kwaroran/Risuai 504)"
)
FORMS: Final = (
    Fact(
        of="form",
        name="openai",
        kind="call_ids",
        value="own",
        forms=_CHAT,
        evidence="400 by OpenAI and DeepSeek: 'Duplicate value for 'tool_call_id'' (neuron-core/neuron-ai 46, "
        "BuilderIO/agent-native 2312), Mistral: 'Duplicate tool call id in assistant message' (anomalyco/opencode 50145), "
        "Moonshot (openclaw/openclaw 84730, 47136): Kimi, MiMo and streams that were begun again give two calls one id "
        "(can1357/oh-my-pi 2055); xAI takes them",
        read_on=_DAY,
    ),
    *(
        Fact(
            of="form",
            name="cohere",
            kind=kind,
            value="refused",
            forms=frozenset({"cohere"}),
            evidence=_OF_COHERE,
            read_on=_DAY,
        )
        for kind in _TURNS_OF_COHERE
    ),
    _tool_names(
        "anthropic",
        "plain",
        "400: \"tools.7.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'\", today 128 "
        "(apify/tester-mcp-client 11)",
        models="claude",
    ),
    _tool_names("gemini", "dotted", _OF_GEMINI),
    _tool_names("interactions", "dotted", _OF_GEMINI),
    _tool_names(
        "cohere",
        "word",
        '400: "tool names can only contain certain characters (A-Za-z0-9_) and can\'t begin with a digit" '
        "(docs.cohere.com/reference/errors)",
    ),
    _tool_names("responses", "plain", "as of chat completions (run-llama/llama_index 16093)"),
)
