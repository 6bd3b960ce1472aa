"""What to ask next: OpenAPI links from an answer to the operations that take what it says.

A link is of a shape of answer, and every operation that answers with the shape has all of them. Programs follow these to
test the service in sequences that make sense: append, read what was appended, redact it, read it again. A link says no
body, though OpenAPI lets it: a common generator's parser takes nothing but a string there.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

Json = dict[str, Any]


class Link(msgspec.Struct, frozen=True):
    """``parameters`` hold runtime expressions of the answer or its request."""

    operation: str
    parameters: Mapping[str, str]
    description: str


_CONVERSATION: Final = {"conversation_id": "$response.body#/id"}
_APPENDED: Final = {"conversation_id": "$response.body#/conversation_id"}
_ENTRY: Final = {**_APPENDED, "seq": "$response.body#/last_seq"}

LINKS: Final[Mapping[str, tuple[Link, ...]]] = {
    "Conversation": (
        Link("getConversation", _CONVERSATION, "The conversation."),
        Link(
            "changeConversation",
            {**_CONVERSATION, "If-Match": "$response.header.ETag"},
            "Change its settings, unless somebody else did.",
        ),
        Link("appendMessages", _CONVERSATION, "Append a turn."),
        Link("listMessages", _CONVERSATION, "Its history."),
        Link("getWindow", _CONVERSATION, "What to send."),
        Link("exportConversation", _CONVERSATION, "All of it."),
        Link("forkConversation", _CONVERSATION, "A copy that goes its own way."),
        Link("deleteSummary", _CONVERSATION, "Take its summary away."),
        Link("deleteConversation", _CONVERSATION, "Erase it."),
        Link("listConversations", {"owner": "$response.body#/owner"}, "The owner's conversations."),
        Link("deleteOwner", {"owner_id": "$response.body#/owner"}, "Erase the owner's conversations."),
    ),
    "AppendedMessages": (
        Link("getConversation", _APPENDED, "The conversation."),
        Link("getWindow", _APPENDED, "What to send."),
        Link("appendMessages", _APPENDED, "The next turn."),
        Link("getMessage", _ENTRY, "The last message that was appended."),
        Link("redactMessage", _ENTRY, "Take its content away."),
        Link("rewindConversation", _APPENDED, "Forget what came after: `to_seq` is one before `first_seq`."),
        Link("putSummary", _APPENDED, "A summary of all up to here: `through_seq` is `last_seq`."),
        Link("forkConversation", _APPENDED, "Another way from here: `at_seq` is `last_seq`."),
        Link("deleteConversation", _APPENDED, "Erase the conversation."),
    ),
    "Window": (Link("reportUsage", _APPENDED, "What the provider billed for it: `window_tokens` is `tokens.total`."),),
    "MessagePage": (
        Link(
            "listMessages",
            {
                "conversation_id": "$request.path.conversation_id",
                "order": "$request.query.order",
                "cursor": "$response.body#/next_cursor",
            },
            "The next page, while there is one.",
        ),
    ),
    "ConversationPage": (
        Link("getConversation", {"conversation_id": "$response.body#/conversations/0/id"}, "The one of last activity."),
        Link(
            "listConversations",
            {"owner": "$request.query.owner", "cursor": "$response.body#/next_cursor"},
            "The next page, while there is one.",
        ),
    ),
    "ModelList": (Link("getModel", {"model_id": "$response.body#/models/0/id"}, "One of them."),),
}


def all_links() -> Json:
    """Every link, by its component's name."""
    return {_name(shape, link): _component(link) for shape, links in LINKS.items() for link in links}


def links_of(shape: str) -> Iterator[tuple[str, Json]]:
    """The links of answers of a shape: the operation, and a reference."""
    for link in LINKS.get(shape, ()):
        yield link.operation, {"$ref": f"#/components/links/{_name(shape, link)}"}


def _name(shape: str, link: Link) -> str:
    return f"{shape}.{link.operation}"


def _component(link: Link) -> Json:
    return {"operationId": link.operation, "parameters": dict(link.parameters), "description": link.description}
