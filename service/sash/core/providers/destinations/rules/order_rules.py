"""Rules of the order of messages: who follows whom, who begins, who ends, and where system messages stand."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from sash.core.providers.destinations.rules.rule import (
    ASKED,
    REPLY,
    Broken,
    Object,
    Rule,
    answered,
    blocks_of,
    called,
    in_chat,
    is_calling,
)

_SPOKEN: Final = frozenset({"text", "thinking"})
_CALLED: Final = frozenset({"toolUse", "functionCall"})
_NOTE: Final[Object] = {"role": "system", "content": "Be brief."}
_STOPPED: Final[Object] = {"messages": [ASKED, REPLY]}


def _alternation(_request: Object, messages: list[Object], value: str) -> Iterator[str]:
    for index, (before, message) in enumerate(pairwise(messages)):
        role = message["role"]
        is_doubled = before["role"] == role and not (is_calling(before) or is_calling(message))
        is_unanswered = value == "answered" and role == "user" and before["role"] == "tool"
        if (role in ("user", "assistant") and is_doubled) or is_unanswered:
            yield f"#/messages/{index + 1}"


def _beginning(_request: Object, messages: list[Object], value: str) -> Iterator[str]:
    said = [(index, each["role"]) for index, each in enumerate(messages) if each["role"] not in ("system", "developer")]
    is_asked = value == "asked" and any(role == "user" for _, role in said)
    yield from (f"#/messages/{index}" for index, role in said[:1] if role == "assistant" and not is_asked)


def _system(_request: Object, messages: list[Object], value: str) -> Iterator[str]:
    for index, (before, message) in enumerate(pairwise(messages)):
        if message["role"] == "system" and (value == "one" or before["role"] != "system"):
            yield f"#/messages/{index + 1}"


def _ending(_request: Object, messages: list[Object], value: str) -> Iterator[str]:
    last = messages[-1]
    if last["role"] not in ("assistant", "model") or (value == "prefix" and last.get("prefix")) or is_calling(last):
        return
    blocks = blocks_of(last)
    is_said = [each.get("type") in _SPOKEN or "type" not in each for each in blocks[-1:]]
    if is_said == [True] and not any(each.keys() & _CALLED for each in blocks):
        yield f"#/messages/{len(messages) - 1}"


ORDER: Final = (
    Rule(
        kind="alternation",
        values={
            "turns": "user and assistant in turn, beside calls and results",
            "answered": "besides, a reply stands between a result and a question",
        },
        judge=_alternation,
        broken=(in_chat(ASKED, ASKED), in_chat(ASKED, called("call_1"), answered("call_1"), ASKED)),
    ),
    Rule(
        kind="beginning",
        values={
            "asked": "some message is the user's",
            "user": "the first message beside system messages is no reply",
        },
        judge=_beginning,
        broken=(in_chat(REPLY),),
    ),
    Rule(
        kind="ending",
        values={
            "prefix": "the last message is no reply without calls, or one with `prefix`",
            "no_reply": "the last message is no reply without calls",
        },
        judge=_ending,
        broken=(
            in_chat(ASKED, REPLY),
            Broken(
                "anthropic",
                {"messages": [ASKED, {"role": "assistant", "content": [{"type": "text", "text": "In hall 2."}]}]},
                _STOPPED,
            ),
            Broken(
                "converse",
                {"messages": [ASKED, {"role": "assistant", "content": [{"text": "In hall 2."}]}]},
                _STOPPED,
            ),
            Broken("gemini", {"contents": [ASKED, {"role": "model", "parts": [{"text": "In hall 2."}]}]}, _STOPPED),
        ),
    ),
    Rule(
        kind="system",
        values={"first": "system messages are at the beginning", "one": "one system message, at the beginning"},
        judge=_system,
        broken=(in_chat(ASKED, _NOTE), in_chat(_NOTE, ASKED, _NOTE)),
    ),
)
