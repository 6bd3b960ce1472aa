"""OpenAPI links: from an answer's values to the next operations that take these values as parameters.

Links belong to a schema of answers, and every operation that answers with the schema has them. Test programs follow links
to send meaningful sequences: append, read the message, redact it, read it again. A link has no ``requestBody``, because
the parser of a common generator accepts only a string there.
"""

from collections.abc import Mapping
from typing import Final

from sash.api.openapi.components import Json

_ID: Final = {"conversation_id": "$response.body#/id"}
_UNMOVED: Final = {**_ID, "If-Match": "$response.header.ETag"}
_APPENDED: Final = {"conversation_id": "$response.body#/conversation_id"}
_ENTRY: Final = {**_APPENDED, "seq": "$response.body#/last_seq"}
_FIRST: Final = {"conversation_id": "$response.body#/conversations/0/id"}
_CURSOR: Final = {"cursor": "$response.body#/next_cursor"}
_BRANCH: Final = {**_APPENDED, "branch": "$response.body#/branches/0/id"}
_ORDER: Final = {"conversation_id": "$request.path.conversation_id", "order": "$request.query.order"}
_LINKS: Final = (
    ("Conversation", _ID, "getConversation appendMessages listMessages getWindow exportConversation"),
    ("Conversation", _ID, "forkConversation deleteSummary deleteConversation"),
    ("Conversation", _UNMOVED, "changeConversation"),
    ("Conversation", {"owner": "$response.body#/owner"}, "listConversations"),
    ("Conversation", {"owner_id": "$response.body#/owner"}, "deleteOwner"),
    ("AppendedMessages", _APPENDED, "getConversation getWindow appendMessages rewindConversation putSummary"),
    ("AppendedMessages", _APPENDED, "forkConversation deleteConversation"),
    ("AgreedMessages", _APPENDED, "getConversation getWindow agreeMessages listMessages listBranches"),
    ("RewoundConversation", _ID, "getConversation appendMessages listMessages getWindow listBranches"),
    ("BranchList", _BRANCH, "swapBranch dropBranch"),
    ("SwappedBranch", _APPENDED, "getConversation getWindow listMessages listBranches"),
    ("AppendedMessages", _ENTRY, "getMessage changeMessage redactMessage"),
    ("Window", _APPENDED, "reportUsage"),
    ("MessagePage", _ORDER | _CURSOR, "listMessages"),
    ("Erasure", {"erasure_id": "$response.body#/id"}, "getErasure"),
    ("ConversationPage", _FIRST, "getConversation"),
    ("ConversationPage", {"owner": "$request.query.owner"} | _CURSOR, "listConversations"),
    ("ModelList", {"model_id": "$response.body#/models/0/id"}, "getModel"),
)
"""The answer's schema, the parameters as runtime expressions, and the next operations that take them."""


def all_links(summaries: Mapping[str, str]) -> Json:
    """Every link by its component's name. A link's description is its operation's summary."""
    return {
        f"{shape}.{operation}": {
            "operationId": operation,
            "parameters": parameters,
            "description": f"{summaries[operation]}.",
        }
        for shape, parameters, operations in _LINKS
        for operation in operations.split()
    }


def links_of(shape: str) -> Json:
    """References to the links of a schema, by operation."""
    return {
        operation: {"$ref": f"#/components/links/{shape}.{operation}"}
        for each, _, operations in _LINKS
        if each == shape
        for operation in operations.split()
    }
