"""What makers' own servers refuse and want, and other servers of their models with them: a row a fact."""

from datetime import date
from typing import Final

from sash.core.providers.destinations.facts import Fact

_CHAT: Final = frozenset({"openai"})
_SPOKEN: Final = frozenset({"anthropic", "openai"})
"""The forms in which DeepSeek and Moonshot serve their models."""
_DAY: Final = date(2026, 11, 29)
_DEVELOPER: Final = (
    "DeepSeek answers 422: 'unknown variant `developer`, expected one of `system`, `user`, `assistant`, `tool`' "
    "(eclipse-theia/theia 15144, earendil-works/pi 1048)"
)
_NAMES: Final = "400: \"Invalid 'tools[0].function.name': … pattern '^[a-zA-Z0-9_-]+$'\" (run-llama/llama_index 16093)"
_NO_BLANKS: Final = (
    "Moonshot answers 400: \"the message at position 307 with role 'assistant' must not be empty\", as reported of replies "
    "(MoonshotAI/kimi-code 1985), and of a system message (Mouseww/anything-analyzer 32); Alibaba: 'The content field "
    "is a required field.' (QwenLM/qwen-code 5265)"
)
_NO_BLANK_TEXTS: Final = (
    "'messages: text content blocks must be non-empty', also behind LiteLLM and Databricks (BerriAI/litellm 22930, "
    "cecli-dev/cecli 102, databricks/databricks-ai-bridge 333, open-webui/open-webui 21918)"
)
_NO_EMPTY_ELEMENTS: Final = (
    "400: 'An empty message was provided. Every message needs at least one non-empty content element.' "
    "(langbot-app/LangBot 1205)"
)
_BLANK_QUESTIONS: Final = (
    *((name, _NO_BLANKS) for name in ("moonshotai", "qwen")),
    ("anthropic", _NO_BLANK_TEXTS),
    ("zhipuai", "Z.ai answers 400 to a blank message of the user's: 'messages 参数非法' (openclaw/openclaw 75421)"),
    ("x-ai", _NO_EMPTY_ELEMENTS),
)
"""Makers whose servers take no empty question, and what they were reported to answer."""
_DEEPSEEKS: Final = r"v([4-9]|\d\d)"
_KIMIS: Final = r"kimi-k(2-thinking|2[.p-][5-9]|[3-9])"
_CONTENT: Final = (
    "'reasoning_content is missing' also where it was sent back as `reasoning` (charmbracelet/fantasy 195, "
    "earendil-works/pi 987)"
)
MAKERS: Final = (
    Fact(
        of="maker",
        name="openai",
        kind="reasoning",
        value="refused",
        forms=_CHAT,
        evidence="400: 'Unknown parameter' (openai-node: ChatCompletionMessageParam)",
        read_on=_DAY,
    ),
    Fact(
        of="maker",
        name="openai",
        kind="members",
        value="known",
        forms=_CHAT,
        evidence="400: 'Unknown parameter' (openai-node: ChatCompletionMessageParam)",
        read_on=_DAY,
    ),
    Fact(
        of="maker",
        name="mistral",
        kind="reasoning",
        value="refused",
        forms=_CHAT,
        evidence="422: 'Extra inputs are not permitted' (charmbracelet/crush 1590, BerriAI/litellm 30835)",
        read_on=_DAY,
    ),
    Fact(
        of="maker",
        name="mistral",
        kind="members",
        value="own",
        forms=_CHAT,
        evidence="422: 'Extra inputs are not permitted' (charmbracelet/crush 1590, OpenMinis/OpenMinis 87)",
        read_on=_DAY,
    ),
    Fact(
        of="maker",
        name="mistral",
        kind="call_ids",
        value="nine",
        forms=_CHAT,
        evidence="400: 'Tool call id was … but must be a-z, A-Z, 0-9, with a length of 9' (langchain-ai/langchain 24668, "
        "anomalyco/opencode 1680; mistral_common.protocol.instruct.validator)",
        read_on=_DAY,
    ),
    Fact(
        of="maker",
        name="mistral",
        kind="system",
        value="first",
        forms=_CHAT,
        evidence="'Unexpected role 'system' after role 'assistant'' (mistral_common.protocol.instruct.validator)",
        read_on=_DAY,
    ),
    Fact(
        of="maker",
        name="mistral",
        kind="ending",
        value="prefix",
        forms=_CHAT,
        evidence="'Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant' "
        "(crewAIInc/crewAI 2194, huggingface/smolagents 757, NEKOparapa/AiNiee 641)",
        read_on=_DAY,
    ),
    Fact(
        of="maker",
        name="deepseek",
        kind="ending",
        value="prefix",
        models="reasoner",
        forms=_CHAT,
        evidence="'The last message of deepseek-reasoner must be a user message, or an assistant message with prefix mode "
        "on' (gptme/gptme 467, BerriAI/litellm 8090, langgenius/dify 16860)",
        read_on=_DAY,
    ),
    Fact(
        of="maker",
        name="deepseek",
        kind="reasoning",
        value="with_calls",
        models=_DEEPSEEKS,
        evidence="api-docs.deepseek.com/guides/thinking_mode: where a tool was called between two questions, the reasoning "
        "must be passed back in all subsequent requests (earendil-works/pi 3636, QuantumNous/new-api 4806, n8n-io/n8n "
        "29119, rikkahub/rikkahub 1587; langchain-ai/langchain 34166 was not refused)",
        read_on=_DAY,
    ),
    Fact(
        of="maker",
        name="deepseek",
        kind="texts",
        value="all",
        forms=_CHAT,
        evidence="400: 'messages[7]: invalid type: sequence, expected a string' (QwenLM/qwen-code 2318, "
        "Gitlawb/openclaude 774, tailcallhq/forgecode 2008, BerriAI/litellm 6642, cline/cline 230); SambaNova of its model, "
        "too: \"Invalid 'content' type. Expected one of: ['str'], got list.\" (musistudio/claude-code-router 965)",
        read_on=_DAY,
    ),
    Fact(
        of="maker",
        name="moonshotai",
        kind="reasoning",
        value="with_calls",
        models=_KIMIS,
        evidence="'reasoning_content is missing in assistant tool call message at index N' (openclaw/openclaw 71050, "
        "danny-avila/LibreChat 12836)",
        read_on=_DAY,
    ),
    Fact(
        of="maker",
        name="moonshotai",
        kind="reasoning",
        value="filled",
        models=_KIMIS,
        forms=_SPOKEN,
        evidence="'thinking is enabled but reasoning_content is missing in assistant tool call message at index 2': a space "
        "is taken (bestruirui/octopus 251), an empty text is not by all (earendil-works/pi 4251; Lapis0x0/obsidian-yolo 243 "
        "sends one); bytedance/deer-flow 3043, continuedev/continue 11711, CherryHQ/cherry-studio 12619; in Claude's form "
        "as thinking (NousResearch/hermes-agent 14018, borawong/AiMaMi 10; 49143 was not refused)",
        read_on=_DAY,
    ),
    Fact(
        of="maker",
        name="deepseek",
        kind="reasoning",
        value="filled",
        models=_DEEPSEEKS,
        forms=_SPOKEN,
        evidence="'The `reasoning_content` in the thinking mode must be passed back to the API.' also of calls that "
        "had none, such as another model's; clients send a filler (openclaw/openclaw 73417, Gitlawb/openclaude 878); in "
        "Claude's form: 'The `content[].thinking` in the thinking mode must be passed back' (openclaw/openclaw 71998, "
        "OEvortex/aether 31)",
        read_on=_DAY,
    ),
    Fact(
        of="maker",
        name="deepseek",
        kind="reasoning",
        value="filled",
        models=_DEEPSEEKS,
        forms=frozenset({"responses"}),
        evidence="'The `reasoning_text` in the thinking mode must be passed back to the API.' at its own address of "
        "Responses (rikkahub/rikkahub 1629, lidge-jun/opencodex 1534)",
        read_on=_DAY,
    ),
    Fact(
        of="maker",
        name="perplexity",
        kind="system",
        value="first",
        models="sonar",
        forms=_CHAT,
        evidence="'After the (optional) system message(s), user or tool message(s) should alternate with assistant "
        "message(s).' (anomalyco/opencode 9416, SidhuK/WardenApp 24)",
        read_on=_DAY,
    ),
    Fact(
        of="maker",
        name="perplexity",
        kind="alternation",
        value="turns",
        models="sonar",
        forms=_CHAT,
        evidence="'After the (optional) system message(s), user or tool message(s) should alternate with assistant "
        "message(s).' (anomalyco/opencode 9416, SidhuK/WardenApp 24, serac-labs/serac 53)",
        read_on=_DAY,
    ),
    Fact(
        of="maker",
        name="perplexity",
        kind="beginning",
        value="user",
        models="sonar",
        forms=_CHAT,
        evidence="The same answer: behind system messages it begins with the user (edenai/edenai-apis 144)",
        read_on=_DAY,
    ),
    *(
        Fact(
            of="maker",
            name=name,
            kind="reasoning_in",
            value="reasoning_content",
            models=models,
            forms=_CHAT,
            evidence=_CONTENT,
            read_on=_DAY,
        )
        for name, models in (("deepseek", _DEEPSEEKS), ("moonshotai", _KIMIS))
    ),
    Fact(
        of="maker",
        name="x-ai",
        kind="speakers",
        value="users",
        forms=_CHAT,
        evidence="400: \"Only messages of role 'user' can have a name.\" (BerriAI/litellm 9720, microsoft/autogen 4715, "
        "pipecat-ai/pipecat 2274)",
        read_on=_DAY,
    ),
    *(
        Fact(of="maker", name=name, kind="tool_names", value="plain", forms=forms, evidence=evidence, read_on=_DAY)
        for name, forms, evidence in (
            ("openai", _CHAT, _NAMES),
            ("mistral", _CHAT, _NAMES),
            ("deepseek", _SPOKEN, _NAMES),
            ("moonshotai", _SPOKEN, _NAMES),
            ("anthropic", _CHAT, "As of Claude's own form, whoever passes the request on (apify/tester-mcp-client 11)"),
        )
    ),
    Fact(
        of="maker",
        name="google",
        kind="tool_names",
        value="dotted",
        models="gemini",
        forms=_CHAT,
        evidence="As of Gemini's own form, whoever passes the request on: LiteLLM (BerriAI/litellm 12543), Copilot "
        "(microsoft/vscode-copilot-release 7928)",
        read_on=_DAY,
    ),
    *(
        Fact(of="maker", name=name, kind="roles", value="no_developer", forms=_CHAT, evidence=_DEVELOPER, read_on=_DAY)
        for name in ("mistral", "deepseek", "qwen", "moonshotai", "zhipuai", "minimax")
    ),
    *(
        Fact(
            of="maker",
            name=name,
            kind="empty_question",
            value="refused",
            forms=_CHAT,
            evidence=evidence,
            read_on=_DAY,
        )
        for name, evidence in _BLANK_QUESTIONS
    ),
    *(
        Fact(of="maker", name=name, kind="empty_text", value="refused", forms=_CHAT, evidence=evidence, read_on=_DAY)
        for name, evidence in (
            ("anthropic", _NO_BLANK_TEXTS),
            (
                "moonshotai",
                (
                    "400: 'Invalid request: text content is empty', also beside calls; the empty text as content is taken "
                    "there (BerriAI/litellm 42186, MoonshotAI/kimi-cli 2621)"
                ),
            ),
            ("zhipuai", "400: 'messages[2].content[1].text: cannot be empty' (zed-industries/zed 37751, 38153)"),
        )
    ),
    Fact(
        of="maker",
        name="minimax",
        kind="system",
        value="one",
        forms=_CHAT,
        evidence="2013 ('invalid chat setting') to two system messages, 'chat content has invalid message role: system' to "
        "one behind others: MiniMax says that it takes one (MiniMax-AI/MiniMax-M2 51, 27, openclaw/openclaw 19386, "
        "can1357/oh-my-pi 954)",
        read_on=_DAY,
    ),
    Fact(
        of="maker",
        name="minimax",
        kind="beside_calls",
        value="results",
        forms=frozenset({"anthropic"}),
        evidence="'tool call result does not follow tool call (2013)' at its address of Claude's form: a text of the user's "
        "is kept out of the turn with results (NousResearch/hermes-agent 48123)",
        read_on=_DAY,
    ),
    Fact(
        of="maker",
        name="minimax",
        kind="speakers",
        value="users",
        forms=_CHAT,
        evidence="2013 ('invalid chat setting') to a tool's message with a name (temm1e-labs/temm1e 29)",
        read_on=_DAY,
    ),
    Fact(
        of="maker",
        name="minimax",
        kind="parameters",
        value="told",
        forms=_CHAT,
        evidence="2013 ('function parameters is empty') to a function without them, of M2.1 to M3 (QwenLM/qwen-code 11834, "
        "11905)",
        read_on=_DAY,
    ),
    Fact(
        of="maker",
        name="moonshotai",
        kind="links",
        value="refused",
        models=r"^(?:moonshot(?:ai)?/)?[^/]+$",
        forms=_CHAT,
        evidence="400 to an address of the web at Moonshot's own servers: bytes or a file's id alone, and hosts fetch it "
        "(OpenHands/software-agent-sdk 3155, HeyPuter/puter 2931, platform.kimi.ai/docs/guide/use-kimi-vision-model)",
        read_on=_DAY,
    ),
    Fact(
        of="maker",
        name="moonshotai",
        kind="schemas",
        value="typed",
        forms=_CHAT,
        evidence="400: 'tools.function.parameters is not a valid moonshot flavored json schema': 'when using anyOf, type "
        "should be defined in anyOf items' (MoonshotAI/kimi-code 2661, openclaw/openclaw 113130, vercel/ai 18921), 'when "
        "using $ref' the same (lidge-jun/opencodex 2677), 'type is not defined' (MoonshotAI/kimi-cli 2030)",
        read_on=_DAY,
    ),
    Fact(
        of="maker",
        name="zhipuai",
        kind="beginning",
        value="asked",
        forms=_CHAT,
        evidence="Z.ai answers 400 to a request without a message of the user's: '[1214] The messages parameter is illegal' "
        "(diegosouzapw/OmniRoute 11209, openclaw/openclaw 73688, anomalyco/opencode 2557)",
        read_on=_DAY,
    ),
)
