"""Two values of each parameter that answers must tell apart, and the conversations in which they do.

A key is a parameter's name, or ``operation.name`` (in a body ``operation#name``) where an operation needs values of its own.
In values, ``{name}`` stands for what the test finds out: the conversation, its owner, a cursor, a receipt.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rigs.dialogue import assistant, calling, result, user
from rigs.pictures import picture_part

WORDS = "the quick brown fox jumps over the lazy dog and runs home again "
TOOL = {
    "type": "function",
    "function": {"name": "look", "description": "Looks.", "parameters": {"type": "object", "properties": {}}},
}
DOCUMENTS = {
    "documents": [
        {"id": "d-1", "text": "A zebra has stripes. " + 20 * WORDS, "short": "Stripes."},
        {"id": "d-2", "text": "A zebra eats grass. " + 20 * WORDS},
    ]
}
RICH: Sequence[dict[str, Any]] = (
    user("What is the zebra code?", grounding=DOCUMENTS),
    {"message": {"role": "assistant", "content": "It is 4.", "reasoning_content": "Zebras count in fours."}},
    user("Look it up."),
    calling("t-1", text="Let me look.", author="triage"),
    result("t-1", "SECRET zebra " + 20 * WORDS, author="triage"),
    assistant("I looked: the zebra code is 4.", author="triage"),
    {
        "message": {"role": "user", "content": [{"type": "text", "text": "SECRET zebra"}, picture_part(1)]},
        "audience": ["fraud"],
        "grounding": {"documents": [{"text": "SECRET paper"}]},
        "metadata": {"SECRET": 1},
    },
    assistant("SECRET answer", author="fraud", audience=["fraud"]),
    user("Look again."),
    calling("u-1", text="I look again."),
    user("What is it?"),
    assistant("Noise."),
    user("Hi."),
    assistant("Hello."),
    user("Hi."),
    assistant("Hello."),
    user(40 * WORDS),
    assistant("Thank you."),
    calling("v-1", "v-2"),
    result("v-2", "second"),
    user("Go on meanwhile."),
    result("v-1", "first, late"),
    user("Which zebra code now?", grounding=DOCUMENTS),
)
"""Several agents, documents, tools, a call without a result, a late result, reasoning, a picture, repeated messages."""

HISTORIES: Mapping[str, Sequence[dict[str, Any]]] = {
    "rich": RICH,
    "compacted": (
        {"role": "user", "content": "Build a web scraper."},
        {
            "role": "assistant",
            "content": [{"type": "compaction", "content": "A scraper."}, {"type": "text", "text": "Next?"}],
        },
        {"role": "user", "content": "Go on."},
    ),
    "loop": (user("Look."), calling("t-1"), result("t-1", 100 * WORDS)),
    "spoken": (user("Say it."), {"message": {"role": "assistant", "audio": {"id": "audio_1"}}}, user("And?")),
    "dear": (user("a " * 120_000), assistant("b " * 120_000), user("And?")),
    "long": (*(make(f"turn {turn} {WORDS}") for turn in range(40) for make in (user, assistant)), user("And?")),
    "thoughts": (
        user("Look."),
        {"message": calling("t-1")["message"] | {"reasoning_content": "I had better look."}},
        result("t-1"),
        assistant("Found."),
        user("And?"),
    ),
}
FORMS: Mapping[str, str] = {"compacted": "anthropic"}
"""The format of histories that are not chat messages."""
SETTINGS: Mapping[str, Any] = {
    "model": "gpt-4o-mini",
    "system": "Be brief.",
    "tools": [TOOL],
    "recall": "lexical",
    "metadata": {"title": "Zebra"},
}


class Plain(NamedTuple):
    """The request of an operation to which a parameter is added."""

    query: Mapping[str, str] = {}
    body: Any = None
    """A text is sent as lines of JSON."""
    headers: Mapping[str, str] = {}


SEARCH = {"query": "zebra code"}
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "history_search", "arguments": SEARCH}}
REQUESTS: Mapping[str, Plain] = {
    "createConversation": Plain(body={"id": "{fresh}"}),
    "changeConversation": Plain(body={"reserve": 2}),
    "changeMessage": Plain(body={"pinned": True}),
    "appendMessages": Plain({"model": "gpt-4o-mini"}, body={}),
    "agreeMessages": Plain({"model": "gpt-4o-mini", "list": "end"}, body={}),
    "rewindConversation": Plain(body={"to_seq": 3}),
    "putSummary": Plain(body={"text": "So far.", "through_seq": 3}),
    "forkConversation": Plain(body={"id": "{fresh}"}),
    "importConversation": Plain(body='{"id": "{fresh}"}\n{"message": {"role": "user", "content": "Hi."}}\n'),
    "reportUsage": Plain(body={"model": "gpt-4o-mini", "prompt_tokens": 100, "window_tokens": 100}),
    "getWindow": Plain({"model": "gpt-4o-mini"}),
    "compareWindows": Plain({"from": "{receipt}"}),
    "buildWindow": Plain(body={"model": "gpt-4o-mini"}),
    "searchOwner": Plain(SEARCH),
    "searchMessages": Plain(SEARCH),
    "answerTool": Plain(body={"call_id": "x", "arguments": SEARCH}),
    "answerMcp": Plain({"conversation_id": "{conversation}"}, CALL, {"Accept": "application/json, text/event-stream"}),
    "countTokens": Plain(body={"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "Hi."}]}),
}
"""Requests that need a query or a body. Those of an append, of an agreement and of ``POST /window`` get the history, too."""


class Sample(NamedTuple):
    """Two values, None where the parameter is left out; the parameters beside it, and the history."""

    first: str | None
    second: str | None
    beside: Mapping[str, str | None] = {}
    history: str = "rich"


LONG = "zebra code " * 40
"""A parameter for which a receipt has no room, so that a comparison takes all parameters beside it."""
AGENTS = Sample("fraud", "billing")
SAMPLES: Mapping[str, Sample] = {
    # ---- of windows
    "model": Sample("gpt-4o-mini", "gpt-4", {"max_tokens": "500"}),
    "reserve": Sample("0", "127500"),
    "max_tokens": Sample("400", "4000"),
    "limit": Sample("1", "4"),
    "turns": Sample("1", "2"),
    "overflow": Sample("stop", "skip", {"max_tokens": "500", "grounding": "none"}),
    "grounding": Sample("latest", "none"),
    "grounding_max_tokens": Sample("50", "1000"),
    "grounding_overflow": Sample("trim", "drop", {"max_tokens": "300"}),
    "dedupe": Sample("none", "messages"),
    "stable": Sample("false", "true", {"max_tokens": "600"}, "long"),
    "stable_step": Sample("0.05", "0.5", {"max_tokens": "600", "stable": "true"}, "long"),
    "start": Sample("any", "user", {"limit": "4"}, "long"),
    "summary": Sample("never", "always", {"format": "anthropic", "model": "claude-opus-4-6"}, "compacted"),
    "recall_max_tokens": Sample("0", "300", {"max_tokens": "600", "recall_query": "zebra", "grounding": "none"}),
    "recall_query": Sample(
        "zebra code", "hello", {"max_tokens": "600", "recall_max_tokens": "200", "grounding": "none"}
    ),
    "note": Sample("false", "true", {"limit": "2"}),
    "reasoning": Sample("all", "none", {"model": "deepseek-chat"}, "thoughts"),
    "tool_result_max_tokens": Sample("20", "2000"),
    "tool_results_kept": Sample("0", "5"),
    "tool_result_overflow": Sample("trim", "error", {"max_tokens": "300"}, "loop"),
    "images_kept": Sample("0", "5"),
    "unanswered": Sample("note", "drop"),
    "uncarried": Sample("error", "drop", {"format": "responses", "model": "gpt-5"}, "spoken"),
    "history_tools": Sample("false", "true"),
    "cache": Sample(
        "none", "auto", {"format": "anthropic", "model": "claude-sonnet-4-5", "max_tokens": "20000"}, "long"
    ),
    "price": Sample("none", "auto", {"model": "gemini-2.5-pro"}, "dear"),  # a tier begins above 200,000 tokens
    "explain": Sample("false", "true"),
    "view": AGENTS,
    "format": Sample("openai", "anthropic"),
    # ---- of one operation
    "listConversations.owner": Sample("{owner}", "nobody"),
    "listConversations.limit": Sample("1", "2", {"owner": "{owner}"}),
    "listConversations.cursor": Sample(None, "{listed}", {"owner": "{owner}", "limit": "1"}),
    "listConversations.title": Sample("zeb", "lio", {"owner": "{owner}"}),
    "listConversations.If-None-Match": Sample(
        None, "{condition}", {"owner": "{owner}"}
    ),  # others change the tenant's list
    "listConversations.metadata.title": Sample("Zebra", "Lion", {"owner": "{owner}"}),
    "appendMessages.after_seq": Sample(None, "3"),
    "appendMessages.model": Sample("gpt-4o-mini", "gpt-4"),
    "agreeMessages.after_seq": Sample(None, "3", {"list": None}),
    "agreeMessages.list": Sample("end", "whole"),
    "agreeMessages.forget": Sample("false", "true", {"list": "whole"}),
    "appendMessages.forget": Sample("false", "true", {"after_seq": "3"}),
    "agreeMessages.model": Sample("gpt-4o-mini", "gpt-4"),
    "listMessages.order": Sample("asc", "desc"),
    "listMessages.limit": Sample("1", "2"),
    "listMessages.cursor": Sample(None, "{page}", {"limit": "2"}),
    "listMessages.format": Sample("openai", "anthropic"),
    "listMessages.receipt": Sample("{receipt}", "{other_receipt}"),
    "listMessages.model": Sample(None, "gpt-4"),
    "listMessages.media": Sample("described", "inline"),
    "getMessage.media": Sample("described", "inline"),
    "listBranches.messages": Sample("false", "true"),
    "followConversation.format": Sample(None, "ag-ui", {"after": "1"}),
    "followConversation.after": Sample(None, "2"),
    "followConversation.body": Sample("false", "true", {"after": "1"}),
    "followConversation.view": AGENTS._replace(beside={"after": "1", "body": "true"}),
    "importConversation.id": Sample(None, "{fresh}-2"),
    "searchOwner.query": Sample("zebra", "hello"),
    "searchOwner.limit": Sample("1", "3"),
    "searchOwner.media": Sample("described", "inline"),
    "searchMessages.query": Sample("zebra", "hello"),
    "searchMessages.limit": Sample("1", "3"),
    "searchMessages.media": Sample("described", "inline"),
    "getWindow.receipt": Sample("{receipt}", "{other_receipt}", {"model": None}),
    "compareWindows.from": Sample("{receipt}", "{other_receipt}"),
    "compareWindows.recall_query": Sample(LONG, LONG + "now"),
    "compareWindows.to": Sample(None, "{other_receipt}", {"from": "{receipt}"}),
    "buildWindow.format": Sample("openai", "anthropic"),
    "buildWindow#history_tools": Sample("false", "true"),
    "answerMcp.conversation_id": Sample("{conversation}", "{other}"),
    "answerMcp.owner": Sample("{owner}", "nobody", {"conversation_id": None}),
    "answerMcp.max_tokens": Sample("100", "2000"),
    "answerMcp.model": Sample("gpt-4o", "claude-sonnet-4-5", {"max_tokens": "100"}),
    "answerTool#max_tokens": Sample("100", "2000"),
    "answerTool#model": Sample("gpt-4o", "claude-sonnet-4-5"),
    "countTokens.format": Sample("openai", "anthropic"),
    "countTokens#model": Sample("gpt-4o", "claude-sonnet-4-5"),
    "createConversation#model": Sample("gpt-4o", "gpt-4"),
    "createConversation#reserve": Sample("1", "2"),
    "changeConversation#model": Sample("gpt-4o", "gpt-4"),
    "changeConversation#reserve": Sample("1", "2"),
    "reportUsage#model": Sample("gpt-4o", "claude-sonnet-4-5"),
}
