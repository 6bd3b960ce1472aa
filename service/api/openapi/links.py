"""What to ask next: OpenAPI links from an answer to the operations that take what it says.

A link is of a shape of answer, and every operation that answers with the shape has all of them. Programs follow these to
test the service in sequences that make sense: append, read what was appended, redact it, read it again. A link says no
body, though OpenAPI lets it: a common generator's parser takes nothing but a string there.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from service.api.openapi.components import Json

_CONVERSATION: Final = {"conversation_id": "$response.body#/id"}
_APPENDED: Final = {"conversation_id": "$response.body#/conversation_id"}
_ENTRY: Final = {**_APPENDED, "seq": "$response.body#/last_seq"}
_CURSOR: Final = {"cursor": "$response.body#/next_cursor"}

LINKS: Final[Mapping[str, Mapping[str, Mapping[str, str]]]] = {
    "Conversation": {
        "getConversation": _CONVERSATION,
        "changeConversation": {**_CONVERSATION, "If-Match": "$response.header.ETag"},
        "appendMessages": _CONVERSATION,
        "listMessages": _CONVERSATION,
        "getWindow": _CONVERSATION,
        "exportConversation": _CONVERSATION,
        "forkConversation": _CONVERSATION,
        "deleteSummary": _CONVERSATION,
        "deleteConversation": _CONVERSATION,
        "listConversations": {"owner": "$response.body#/owner"},
        "deleteOwner": {"owner_id": "$response.body#/owner"},
    },
    "AppendedMessages": {
        "getConversation": _APPENDED,
        "getWindow": _APPENDED,
        "appendMessages": _APPENDED,
        "getMessage": _ENTRY,
        "redactMessage": _ENTRY,
        "rewindConversation": _APPENDED,
        "putSummary": _APPENDED,
        "forkConversation": _APPENDED,
        "deleteConversation": _APPENDED,
    },
    "Window": {"reportUsage": _APPENDED},
    "MessagePage": {
        "listMessages": {
            "conversation_id": "$request.path.conversation_id",
            "order": "$request.query.order",
            **_CURSOR,
        },
    },
    "ConversationPage": {
        "getConversation": {"conversation_id": "$response.body#/conversations/0/id"},
        "listConversations": {"owner": "$request.query.owner", **_CURSOR},
    },
    "ModelList": {"getModel": {"model_id": "$response.body#/models/0/id"}},
}
"""By the answer's shape and the next operation: that operation's parameters, as runtime expressions."""


def all_links(summaries: Mapping[str, str]) -> Json:
    """Every link, by its component's name; a link's description is the summary of its operation."""
    return {
        f"{shape}.{operation}": {
            "operationId": operation,
            "parameters": dict(parameters),
            "description": f"{summaries[operation]}.",
        }
        for shape, links in LINKS.items()
        for operation, parameters in links.items()
    }


def links_of(shape: str) -> Iterator[tuple[str, Json]]:
    """The links of answers of a shape: the operation, and a reference."""
    for operation in LINKS.get(shape, ()):
        yield operation, {"$ref": f"#/components/links/{shape}.{operation}"}
