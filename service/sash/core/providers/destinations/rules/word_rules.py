"""Rules of contents: messages without words, blank texts, and texts that are lists."""

from collections.abc import Iterator
from typing import Final

from sash.core.providers.destinations.rules.rule import (
    ASKED,
    Broken,
    Object,
    Rule,
    answered,
    called,
    each_message,
    in_chat,
    shown,
)

_SAID: Final = ("content", "tool_calls", "function_call", "refusal", "audio")
_SILENT: Final[Object] = {"role": "user", "content": ""}
_NO_ANSWER: Final = {"messages": [ASKED, called("call_1"), answered("call_1", "")]}


def _is_empty_reply(message: Object) -> bool:
    return message["role"] == "assistant" and not any(message.get(name) for name in _SAID)


def _is_empty_question(message: Object) -> bool:
    return message["role"] in ("user", "system") and not message.get("content")


def _is_empty_result(message: Object) -> bool:
    return message["role"] == "tool" and not message.get("content")


def _has_blank_text(message: Object) -> bool:
    content = message.get("content")
    return isinstance(content, list) and any(
        part.get("type") == "text" and not part["text"].strip() for part in content
    )


def _texts(_request: Object, messages: list[Object], value: str) -> Iterator[str]:
    for index, message in enumerate(messages):
        content = message.get("content")
        is_list = isinstance(content, list) and all(part.get("type") == "text" for part in content)
        if is_list and (value == "all" or message["role"] == "system"):
            yield f"#/messages/{index}"


WORDS: Final = (
    Rule(
        kind="empty_question",
        values={"refused": "each message of the user's has a text or a picture, and each system message a text"},
        judge=each_message(_is_empty_question),
        broken=(in_chat(_SILENT), in_chat(_SILENT)._replace(form="cohere")),
    ),
    Rule(
        kind="empty_reply",
        values={"refused": "each message of the assistant's has a text or calls"},
        judge=each_message(_is_empty_reply),
        broken=(in_chat(ASKED, {"role": "assistant", "content": ""}),),
    ),
    Rule(
        kind="empty_result",
        values={"refused": "each result of a call has a text"},
        judge=each_message(_is_empty_result),
        broken=(Broken("cohere", _NO_ANSWER, _NO_ANSWER),),
    ),
    Rule(
        kind="empty_text",
        values={"refused": "no part of a message is a text without a visible character"},
        judge=each_message(_has_blank_text),
        broken=(
            in_chat(shown({"type": "text", "text": " "})),
            in_chat(ASKED, {"role": "assistant", "content": [{"type": "text", "text": ""}]}),
        ),
    ),
    Rule(
        kind="texts",
        values={
            "system": "a system message's content is a text, and no list of parts",
            "all": "each message's content is a text, where it has no parts but texts",
        },
        judge=_texts,
        broken=(in_chat({"role": "system", "content": [{"type": "text", "text": "Be brief."}]}, ASKED),),
    ),
)
