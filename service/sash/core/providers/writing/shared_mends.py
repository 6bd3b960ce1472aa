"""Mends that several forms have, each once."""

from typing import Final

from sash.core.providers.destinations.destination import evidence_of
from sash.core.providers.messages.mends import Mend

SYSTEM_ROLE: Final = Mend(
    name="system_role",
    refused="A message with the role `system`, by Claude before Opus 4.8 and by most models of Bedrock",
    sent="Its text in `system`; behind other messages, as a `system_note`",
    evidence="Anthropic: 'role 'system' is not supported on this model' (platform.claude.com, mid-conversation system "
    "messages); Bedrock: only the newest service model has the role; 'Valid Values: user | assistant' before",
)
BLANK_TEXT: Final = Mend(
    name="blank_text",
    refused="A text block without a visible character, in a message or in a tool result; a compaction with an empty summary",
    sent="The message without the block; a user's message without another block is `…`, an assistant's is left out",
    evidence="Anthropic: 'messages: text content blocks must be non-empty': Claude gives such blocks and does not take them "
    "(anthropics/anthropic-sdk-python 461, anthropics/claude-code 62396); Bedrock: 'The text field in the ContentBlock "
    "object at messages.11.content.0 is blank. Add text to the text field' (continuedev/continue 9767, "
    "OpenHands/OpenHands 5339)",
)
EMPTY_QUESTION: Final = Mend(
    name="empty_question",
    refused="A user's message without a text and without a picture, by Moonshot, Alibaba, Z.ai, xAI, Cohere and Claude; "
    "a system message without a text, in chat completions",
    sent="`…` as its text; the request without the system message",
    evidence=evidence_of("empty_question"),
)
EMPTY_RESULT: Final = Mend(
    name="empty_result",
    refused="A result of a call without a text, by Cohere",
    sent="`…` as its text",
    evidence=evidence_of("empty_result"),
)
WORDS_APART: Final = Mend(
    name="words_apart",
    refused="A text or a picture beside a call or beside a tool result, by Llama at Bedrock; beside a call, by "
    "the newest small Gemini at Vertex's address of chat completions; beside a result, by MiniMax in Claude's form",
    sent="The words before the calls, and those behind the results, as a turn of their own; `…` from the other side between",
    evidence=evidence_of("beside_calls"),
)
CALL_ID: Final = Mend(
    name="call_id",
    is_free=True,
    refused="An id of a call that is too long: of more than 40 characters in chat completions, 64 elsewhere; one that two "
    "calls of a message have; for Claude, Bedrock and Interactions also one that is used twice; for Claude and Bedrock one "
    "that is not of letters, digits, `_` and `-`",
    sent="Another id, alike in the call and in its results, which answer calls of one id in their order",
    evidence="OpenAI answers 400: 'Invalid messages[1].tool_calls[0].id: string too long. Expected a string with maximum "
    "length 40', 'input[2].call_id … maximum length 64'; Anthropic: '`tool_use` ids must be unique'; 'tool_use.id: String "
    "should match pattern ^[a-zA-Z0-9_-]+$'; botocore's service model: `ToolUseId` has 1 to 64 characters",
)
CALL_NAME: Final = Mend(
    name="call_name",
    is_free=True,
    refused="A called tool's name that is not of letters, digits, `_` and `-`, or is longer than 128, at Bedrock 64; by "
    "Claude and Bedrock, and in Claude's form by DeepSeek and Moonshot",
    sent="The name with `_` in their place, cut to that length",
    evidence="The pattern of names is ^[a-zA-Z0-9_-]{1,128}$ (platform.claude.com, tool use, 'Specifying client tools'); "
    "botocore's service model: `ToolName` is [a-zA-Z0-9_-]+ with 1 to 64 characters",
)
RESULTS_FIRST: Final = Mend(
    name="results_first",
    is_free=True,
    refused="Another block before a tool result in one turn of the user's",
    sent="The results first, then the others",
    evidence="'tool_use ids were found without tool_result blocks immediately after': results come first in the content "
    "(platform.claude.com, tool use, 'Handle tool calls'); Claude at Bedrock answers the same",
)
FAILED_WITHOUT_WORDS: Final = Mend(
    name="failed_without_words",
    refused="A tool result that is marked as an error and has no content",
    sent="The result without the mark",
    evidence="Anthropic: 'tool_result: content cannot be empty if `is_error` is true'; Bedrock: 'The content field at "
    "messages.2.content.0.toolResult cannot be empty when status value is error' "
    "(aws-samples/sample-multi-agent-orchestration-chat-on-agentcore 15)",
)
FAILED_WITH_MEDIA: Final = Mend(
    name="failed_with_media",
    refused="A tool result that is marked as an error and has anything but texts, such as a picture; by Claude",
    sent="The result without the mark",
    evidence="Anthropic: \"all content must be type 'text' if 'is_error' is true\" (vellum-ai/vellum-assistant 18387, "
    "caozhiyuan/copilot-api 196)",
)
RESULT_ORDER: Final = Mend(
    name="result_order",
    is_free=True,
    refused="Results without ids in another order than their calls, which pairs them wrongly; as a line for a call gives it",
    sent="The results in the order of the calls",
    evidence="Results without an id are paired with the calls by name and order (ai.google.dev/gemini-api/docs/"
    "function-calling, 'Parallel function calling'); 'The Ollama chat API allows no identification of tool results' "
    "(ollama/ollama 11417, 6708)",
)
