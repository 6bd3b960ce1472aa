"""What the document says of each operation beside what its handler does: a row an operation id.

Paths, methods, operation ids and descriptions come from the handlers, shapes from the Structs; the rest is here. A handler
without a row, or a row without a handler, fails a test.
"""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from service.api.fork import Fork
from service.api.history import PutSummary, Rewind
from service.api.messages import PageQuery
from service.api.openapi import examples
from service.api.openapi.shapes import Alive, AppendedMessages, ModelList, Ready
from service.api.owners import ConversationPage, ListQuery
from service.api.schemas import (
    AppendMessages,
    Conversation,
    Count,
    CountRequest,
    CreateConversation,
    MessagePage,
    ModelInfo,
    StoredMessage,
)
from service.api.transfer import NDJSON, ImportQuery
from service.api.usage import Reported, Usage
from service.core.parameters import WindowQuery
from service.core.settings import ConversationSettings
from service.operations.summary import Stats
from service.windows.request import WindowRequest

JSON = "application/json"
TAGS: Mapping[str, str] = {
    "conversations": "Settings and state of a conversation.",
    "messages": "Append turns, and read them back.",
    "windows": "The messages to send: what fits the model, exactly.",
    "models": "What a request costs, and what is known of models.",
    "operations": "For those who run the service.",
}


class Answer(msgspec.Struct, frozen=True):
    """A good answer: a Struct, the name of a component, "Text" for plain text, or nothing."""

    description: str
    shape: type | str | None = None
    headers: tuple[str, ...] = ()
    media_type: str = JSON
    example: Any = None
    or_type: str | None = None
    """Another media type, for those who ask for it."""


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One row. Errors follow from what the operation takes; those that do not are named in ``errors``."""

    tag: str
    summary: str
    answers: Mapping[int, Answer]
    body: type[msgspec.Struct] | Literal["Text"] | None = None
    body_example: Any = None
    media_type: str = JSON
    or_type: str | None = None
    """Another media type of the body."""
    query: type[msgspec.Struct] | None = None
    fills: bool = False
    """It takes memory of the store."""
    conditional: bool = False
    """Reads know If-None-Match, writes If-Match."""
    idempotent: bool = False
    """An Idempotency-Key makes a repetition harmless."""
    stored: bool = True
    errors: tuple[int, ...] = ()


_STORE = {"appendonly": "yes", "appendfsync": "always", "how": "appendfsync always"}
_READY = {"status": "ready", "durability": "durable", "store": _STORE}
_VERSIONED = ("ETag",)
_UNCHANGED = Answer("Nothing has changed since the state that If-None-Match names.", headers=_VERSIONED)
_APPENDED = Answer("Appended.", AppendedMessages, _VERSIONED, example=examples.APPENDED)

OPERATIONS: Mapping[str, Operation] = {
    "createConversation": Operation(
        tag="conversations",
        summary="Create a conversation",
        body=CreateConversation,
        body_example=examples.CREATE,
        answers={201: Answer("Created.", Conversation, ("Location", "ETag"), example=examples.CREATED)},
        fills=True,
        errors=(409,),
        idempotent=True,
    ),
    "getConversation": Operation(
        tag="conversations",
        summary="Read a conversation",
        answers={
            200: Answer("The conversation.", Conversation, _VERSIONED, example=examples.CONVERSATION),
            304: _UNCHANGED,
        },
        conditional=True,
        errors=(404,),
    ),
    "changeConversation": Operation(
        tag="conversations",
        summary="Change settings",
        body=ConversationSettings,
        body_example=examples.CHANGE,
        or_type="application/merge-patch+json",
        answers={200: Answer("Changed.", Conversation, _VERSIONED, example=examples.CHANGED)},
        fills=True,
        conditional=True,
        errors=(404,),
        idempotent=True,
    ),
    "deleteConversation": Operation(
        tag="conversations",
        summary="Erase a conversation",
        answers={204: Answer("Erased.")},
        conditional=True,
        errors=(404,),
        idempotent=True,
    ),
    "appendMessages": Operation(
        tag="messages",
        summary="Append messages",
        body=AppendMessages,
        body_example=examples.APPEND,
        query=WindowQuery,
        answers={
            201: _APPENDED,
            200: Answer("Every entry was there already.", AppendedMessages, _VERSIONED, example=examples.DUPLICATE),
        },
        fills=True,
        conditional=True,
        errors=(404, 409, 422),
        idempotent=True,
    ),
    "listMessages": Operation(
        tag="messages",
        summary="Read the history",
        query=PageQuery,
        answers={
            200: Answer("A page of history.", MessagePage, ("ETag", "Link"), example=examples.PAGE),
            304: _UNCHANGED,
        },
        conditional=True,
        errors=(404,),
    ),
    "getMessage": Operation(
        tag="messages",
        summary="Read a message",
        answers={
            200: Answer("The entry.", StoredMessage, _VERSIONED, example=examples.MESSAGE),
            304: _UNCHANGED,
        },
        conditional=True,
        errors=(404,),
    ),
    "redactMessage": Operation(
        tag="messages",
        summary="Redact a message",
        answers={204: Answer("Redacted.", headers=_VERSIONED)},
        conditional=True,
        errors=(404, 409),
        idempotent=True,
    ),
    "rewindConversation": Operation(
        tag="messages",
        summary="Forget what came after a message",
        body=Rewind,
        body_example=examples.REWIND,
        answers={200: Answer("Forgotten.", Conversation, _VERSIONED, example=examples.REWOUND)},
        conditional=True,
        errors=(404, 409, 422),
        idempotent=True,
    ),
    "putSummary": Operation(
        tag="windows",
        summary="Put a summary in place of the oldest messages",
        body=PutSummary,
        body_example=examples.SUMMARY,
        answers={200: Answer("Kept.", Conversation, _VERSIONED, example=examples.SUMMARIZED)},
        fills=True,
        conditional=True,
        errors=(404, 422),
        idempotent=True,
    ),
    "deleteSummary": Operation(
        tag="windows",
        summary="Take the summary away",
        answers={204: Answer("Taken away.", headers=_VERSIONED)},
        conditional=True,
        errors=(404,),
        idempotent=True,
    ),
    "forkConversation": Operation(
        tag="conversations",
        summary="Fork a conversation",
        body=Fork,
        body_example=examples.FORK,
        answers={201: Answer("The copy.", Conversation, ("Location", "ETag"), example=examples.FORKED)},
        fills=True,
        conditional=True,
        errors=(404, 409, 422),
        idempotent=True,
    ),
    "exportConversation": Operation(
        tag="conversations",
        summary="Export a conversation",
        answers={
            200: Answer(
                "A line of settings, then a line an entry.",
                "Text",
                _VERSIONED,
                media_type=NDJSON,
                example=examples.EXPORT,
            ),
            304: _UNCHANGED,
        },
        conditional=True,
        errors=(404,),
    ),
    "importConversation": Operation(
        tag="conversations",
        summary="Import a conversation",
        body="Text",
        body_example=examples.IMPORT,
        media_type=NDJSON,
        query=ImportQuery,
        answers={201: Answer("Imported.", Conversation, ("Location", "ETag"), example=examples.IMPORTED)},
        fills=True,
        errors=(409, 422),
        idempotent=True,
    ),
    "reportUsage": Operation(
        tag="models",
        summary="Report what the provider billed",
        body=Usage,
        body_example=examples.USAGE,
        answers={200: Answer("What is known of the model now.", Reported, example=examples.REPORTED)},
        fills=True,
        conditional=True,
        errors=(404,),
        idempotent=True,
    ),
    "listConversations": Operation(
        tag="conversations",
        summary="List an owner's conversations",
        query=ListQuery,
        answers={
            200: Answer("A page, newest activity first.", ConversationPage, ("ETag", "Link"), example=examples.LISTED),
            304: _UNCHANGED,
        },
        conditional=True,
    ),
    "deleteOwner": Operation(
        tag="conversations",
        summary="Erase all of an owner's conversations",
        answers={204: Answer("Erased.")},
        idempotent=True,
    ),
    "getWindow": Operation(
        tag="windows",
        summary="Read the window to send",
        query=WindowQuery,
        answers={200: Answer("The window.", "Window", _VERSIONED, example=examples.WINDOW), 304: _UNCHANGED},
        conditional=True,
        errors=(404, 422),
    ),
    "buildWindow": Operation(
        tag="windows",
        summary="Build a window of a history in the body",
        body=WindowRequest,
        body_example=examples.BUILD,
        answers={200: Answer("The window.", "Window", example=examples.BUILT)},
        stored=False,
        errors=(409, 422),
    ),
    "countTokens": Operation(
        tag="models",
        summary="Count tokens",
        body=CountRequest,
        body_example=examples.COUNT,
        answers={200: Answer("The count.", Count, example=examples.COUNTED)},
        stored=False,
        errors=(422,),
    ),
    "listModels": Operation(
        tag="models",
        summary="List models",
        answers={200: Answer("The models.", ModelList, example=examples.MODELS)},
        stored=False,
    ),
    "getModel": Operation(
        tag="models",
        summary="Read a model",
        answers={200: Answer("The model.", ModelInfo, example=examples.MODEL)},
        stored=False,
        errors=(404,),
    ),
    "live": Operation(
        tag="operations",
        summary="Is the process alive",
        answers={200: Answer("Alive.", Alive, example={"status": "alive"})},
        stored=False,
    ),
    "ready": Operation(
        tag="operations",
        summary="May it take traffic",
        answers={200: Answer("Ready.", Ready, example=_READY)},
    ),
    "getMetrics": Operation(
        tag="operations",
        summary="Figures for Prometheus",
        answers={
            200: Answer(
                "The figures.",
                "Text",
                media_type="text/plain",
                or_type="application/openmetrics-text",
                example=examples.METRICS,
            )
        },
        stored=False,
    ),
    "getStats": Operation(
        tag="operations",
        summary="Window statistics of the deployment",
        answers={200: Answer("The statistics.", Stats, example=examples.STATS)},
    ),
    "getDashboard": Operation(
        tag="operations",
        summary="The statistics for people",
        answers={200: Answer("The page.", "Text", media_type="text/html", example=examples.PAGE_OF_HTML)},
        stored=False,
    ),
    "getOpenapi": Operation(
        tag="operations",
        summary="This document",
        answers={200: Answer("The document.", "OpenAPIDocument", example=examples.DOCUMENT)},
        stored=False,
    ),
    "getDocs": Operation(
        tag="operations",
        summary="A page to try it",
        answers={200: Answer("The page.", "Text", media_type="text/html", example=examples.PAGE_OF_HTML)},
        stored=False,
    ),
}
