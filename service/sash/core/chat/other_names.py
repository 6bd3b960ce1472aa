"""What other services call a member or a parameter, and what to write here."""

from collections.abc import Collection, Iterable
from typing import NamedTuple


class OtherName(NamedTuple):
    """``names`` of others, the member ``ours`` that an object or a query must have for the hint, and the hint."""

    names: str
    ours: str
    hint: str


_OTHER_NAMES = (
    OtherName(
        "max_output_tokens max_completion_tokens max_new_tokens max_tokens_to_sample maxoutputtokens num_predict",
        "reserve",
        "tokens that are kept free for the reply go into 'reserve'",
    ),
    OtherName(
        "completion_tokens output_tokens total_tokens reasoning_tokens",
        "window_tokens",
        "what a reply cost is not compared: send the tokens of the prompt as 'prompt_tokens', and leave this out",
    ),
    OtherName(
        "score rank similarity distance relevance",
        "short",
        "send the most relevant document first; the number may go into its 'metadata'",
    ),
    OtherName(
        "source uri link href source_url sourceurl path file filename",
        "short",
        "a document's address goes into 'url', and its name into 'title'",
    ),
    OtherName("name heading headline", "short", "a document's title goes into 'title'"),
    OtherName(
        "content page_content pagecontent body chunk document snippet value",
        "text",
        'a document\'s text goes into \'text\': {"id": "s-1", "text": "…"}',
    ),
    OtherName(
        "documents docs sources chunks context citations retrieved search_results",
        "grounding",
        'documents go into \'grounding\': {"grounding": {"documents": [{"text": "…"}]}}',
    ),
    OtherName(
        "last last_n last_k n k history max_messages message_limit num_messages window_size last_n_conversations",
        "turns",
        "'limit' is the number of newest messages, and 'turns' that of newest turns",
    ),
    OtherName(
        "budget token_limit max_context max_context_tokens max_input_tokens context_window max_length tokens",
        "turns",
        "a window's largest number of tokens goes into 'max_tokens'",
    ),
    OtherName("summarize summarise summarize_all", "turns", "summary=always sends the stored summary"),
    OtherName(
        "after before page offset skip start since from until starting_after after_seq last_id page_token next next_page",
        "cursor",
        "pages go by cursor: send the 'next_cursor' of the page before as ?cursor=",
    ),
    OtherName(
        "per_page page_size pagesize size count max_results first top",
        "cursor",
        "the number of items on a page goes into 'limit'",
    ),
    OtherName(
        "order sort sort_by order_by", "turns", "a window has the newest messages that fit, in the order of the log"
    ),
    OtherName(
        "agent agent_id agent_name as for_agent audience author viewer role",
        "view",
        "the agent whose messages are wanted goes into 'view'",
    ),
    OtherName("since from version last_event_id cursor", "body", "the last version that you have goes into 'after'"),
    OtherName("prompt string input_text", "functions", "a plain text to count goes into 'text'"),
    OtherName("sort sort_by order_by direction reverse", "order", "send ?order=asc or ?order=desc"),
    OtherName(
        "user user_id userid username account account_id customer customer_id owner_id",
        "owner",
        "the user's id goes into 'owner'",
    ),
    OtherName(
        "deployment deployment_id deployment_name engine azure_deployment",
        "model",
        "name the model that is deployed in 'model', such as 'gpt-4o'",
    ),
    OtherName(
        "usage", "window_tokens", 'copy its figures: {"prompt_tokens": 812, "window_tokens": 809}, and the model'
    ),
    OtherName("q text search question", "query", "the text to search for goes into 'query'"),
    OtherName(
        "top_k topk top k n n_results size count max_results", "query", "the number of messages goes into 'limit'"
    ),
    OtherName(
        "functions function_declarations functiondeclarations tool_definitions tool_config",
        "tool_choice",
        'tools go into \'tools\': {"tools": [{"type": "function", "function": {"name": "…", "parameters": {}}}]}',
    ),
    OtherName("function_call toolchoice", "tool_choice", "the choice of a tool goes into 'tool_choice'"),
    OtherName(
        "q query text search name subject",
        "metadata.title",
        "a part of the title goes into 'title'; GET /owners/{owner}/search?query=… searches an owner's messages",
    ),
    OtherName(
        "tag tags label channel topic",
        "metadata.title",
        "a member of the metadata is written with its path: ?metadata.channel=web",
    ),
    OtherName(
        "conversation_id conversationid session_id sessionid thread_id threadid chat_id chatid uuid",
        "few_shots",
        "the conversation's id goes into 'id'",
    ),
    OtherName(
        "system_prompt systemprompt system_message instructions prompt persona preamble",
        "system",
        "the system prompt goes into 'system'",
    ),
    OtherName(
        "system system_prompt system_instruction systeminstruction instructions",
        "functions",
        "a system prompt is a message with the role 'system', and ?format= counts another provider's request",
    ),
    OtherName(
        "messages history",
        "ttl_seconds",
        "append messages with POST /conversations/{id}/messages, which also creates the conversation",
    ),
    OtherName(
        "max_tokens limit turns overflow stable grounding format",
        "ttl_seconds",
        "it is a parameter of each window, as in ?max_tokens=4000",
    ),
    *(
        OtherName(
            "temperature top_p top_k stream response_format seed stop n",
            ours,
            "it goes to the model, beside the window's 'request'",
        )
        for ours in ("reserve", "after_seq")
    ),
)


_OTHER_WORDS = {
    "human": "user",
    "person": "user",
    "bot": "assistant",
    "ai": "assistant",
    "model": "assistant",
    "newest": "desc",
    "latest": "desc",
    "descending": "desc",
    "last": "desc",
    "first": "asc",
    "claude": "anthropic",
    "anthropic_messages": "anthropic",
    "chat": "openai",
    "chat_completions": "openai",
    "completions": "openai",
    "gpt": "openai",
    "azure": "openai",
    "openai_responses": "responses",
    "google": "gemini",
    "vertex": "gemini",
    "bedrock": "converse",
    "ai_sdk": "ui",
    "vercel": "ui",
    "done": "completed",
    "complete": "completed",
    "finished": "completed",
    "final": "completed",
    "streaming": "in_progress",
    "pending": "in_progress",
    "partial": "in_progress",
    "stopped": "interrupted",
    "cancelled": "interrupted",
    "canceled": "interrupted",
    "aborted": "interrupted",
    "on": "lexical",
    "true": "lexical",
    "keyword": "lexical",
    "bm25": "lexical",
    "vector": "semantic",
    "embeddings": "semantic",
    "false": "off",
    "truncate": "trim",
    "cut": "trim",
    "tool_call": "function",
    "tool_use": "function",
    "function_call": "function",
    "oldest": "asc",
    "ascending": "asc",
}
"""Words that others use for a word of a list."""


_OTHER_MEMBERS = {"content": "text message body msg value prompt", "text": "content page_content body"}
"""What others call a member that an object must have."""


def meant_member(name: str, given: Iterable[str]) -> str:
    """The one of ``given`` that stands for the missing member ``name``; empty without one."""
    names = _OTHER_MEMBERS.get(name, "").split()
    return next((each for each in given if each in names), "")


def meant_word(word: str, known: Collection[str]) -> str:
    """The one of ``known`` that others call ``word``; empty without one."""
    plain = word.lower().replace("-", "_")
    return next((each for each in (plain, _OTHER_WORDS.get(plain, "")) if each in known), "")


def meant_by(name: str, known: Collection[str]) -> str:
    """The hint for a name that other services use, as the end of a sentence; empty without one.

    ``known`` are the names that the object or the query has.
    """
    for other in _OTHER_NAMES:
        if other.ours in known and name.lower().replace("-", "_") in other.names.split():
            return f"; {other.hint}"
    return ""
