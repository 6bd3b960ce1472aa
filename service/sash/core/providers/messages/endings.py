"""How a request may end. Some servers answer 400 to a request that ends with a reply, which a broken stream leaves.

Behind the reply they are sent a line that asks to go on. A reply that ends with calls waits for their results instead. One
that says to be a beginning (``prefix``) is taken by the servers that have the member.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from sash.core.providers.messages.hosted import is_paused
from sash.core.providers.messages.mends import Mend
from sash.core.providers.messages.words_said import has_word

GO_ON: Final = {"role": "user", "content": "Please continue."}
"""The message that asks for the rest of the reply. It is always the same, and is not stored."""
REPLY_AT_END: Final = Mend(
    name="reply_at_end",
    refused="A request that ends with a reply without calls: by Claude from 4.6, at Bedrock by all but Nova and earlier "
    "Claudes, by Mistral and by DeepSeek's reasoner without `prefix`",
    sent='Behind the reply a message of the user\'s: "Please continue."',
    evidence="'This model does not support assistant message prefill. The conversation must end with a user message.' "
    "(anthropics/claude-code 52433, anomalyco/opencode 13768, langchain-ai/deepagents 1585, charmbracelet/crush 2300); "
    "at Bedrock, too (anomalyco/opencode 29760, NousResearch/hermes-agent 101401)",
)


class _Ending(NamedTuple):
    """Models whose servers take no reply at the end, by form, maker and a pattern of their names; and where it is from."""

    forms: re.Pattern[str]
    makers: re.Pattern[str]
    models: re.Pattern[str]
    evidence: str


_ANY: Final = re.compile("")
_PREFILLED: Final = r"claude-(?:v?[123]\b|instant|(?:opus|sonnet|haiku)-(?:3|4(?!-[6-9]\b)))"
"""Claude's models that go on with a reply at the end."""
_ENDINGS: Final = (
    _Ending(
        re.compile("anthropic|converse|openai"),
        _ANY,
        re.compile(rf"^(?=.*claude)(?!.*{_PREFILLED})"),
        REPLY_AT_END.evidence,
    ),
    _Ending(
        re.compile("converse"),
        _ANY,
        re.compile(rf"^(?!.*(?:nova|{_PREFILLED}))"),
        "'The model that you are using requires the last turn in the conversation to be a user message.', of llama3-8b "
        "(i-am-bee/beeai-framework 753), as SillyTavern/SillyTavern 5733 and microsoft/semantic-kernel 10281 say of all",
    ),
    _Ending(
        re.compile("openai"),
        re.compile("mistral"),
        _ANY,
        "'Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant' (crewAIInc/crewAI "
        "2194, huggingface/smolagents 757, NEKOparapa/AiNiee 641)",
    ),
    _Ending(
        re.compile("openai"),
        re.compile("deepseek"),
        re.compile("reasoner"),
        "'The last message of deepseek-reasoner must be a user message, or an assistant message with prefix mode on' "
        "(gptme/gptme 467, BerriAI/litellm 8090, langgenius/dify 16860)",
    ),
)


@lru_cache(maxsize=1024)
def takes_reply_at_end(form: str, maker: str, model: str) -> bool:
    """Return whether a model's server takes a request in this form that ends with a reply.

    >>> [takes_reply_at_end("anthropic", "anthropic", name) for name in ("claude-sonnet-4-5", "claude-opus-4-6")]
    [True, False]
    """
    name = model.lower()
    return not any(
        each.forms.search(form) and each.makers.search(maker) and each.models.search(name) for each in _ENDINGS
    )


def is_asked_on(newest_first: Iterable[Mapping[str, Any]], form: str) -> bool:
    """Return whether the history ends with a reply that is refused there: the newest with words, if only such without words
    follow, which has no calls, and is neither a ``prefix`` nor paused, as its own ``form`` tells."""
    for message in newest_first:
        if message["role"] != "assistant" or message.get("tool_calls") or message.get("function_call"):
            return False
        if has_word(message, blanks=form == "openai"):
            return not (message.get("prefix") or is_paused(message, form))
    return False
