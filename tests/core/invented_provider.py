"""A small invented provider, all of it in this file: importing it registers the form ``invented``.

A request has ``lines`` and ``skills``; a line has ``who`` (rules, me, you, result), ``say``, ``calls`` and ``ref``.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from sash.core.providers import PROVIDERS
from sash.core.providers.asking import Asking
from sash.core.providers.cache_marks import CacheKind, CachePrices, Caching, Places
from sash.core.providers.pieces import Object, Piece, to_json
from sash.core.providers.provider import Provider
from sash.core.providers.request_limits import RequestLimits
from sash.core.providers.requests_read import ChatRequest, ReadAsChat, chat_function, rest_of
from sash.core.providers.turns import HistoryStep, Outgoing, PlainRun, Refusals, Result, Said, read_steps, words
from sash.core.providers.whole import Shape, Whole

WHO = {"rules": "system", "me": "user", "you": "assistant", "result": "tool"}
AS = {role: who for who, role in WHO.items()} | {"developer": "rules"}
SHAPE = Shape(
    name="invented",
    messages="lines",
    parts="say",
    text={},
    members=frozenset({"who"}),
    answering=lambda line, call_id: {**line, "ref": call_id},
)


def read(line: Mapping[str, Any], pointer: str) -> list[Piece]:
    del pointer
    piece = Piece(role=WHO[line["who"]], own=dict(line), answers=line.get("ref", ""))
    piece.add_text(line.get("say", ""))
    for call in line.get("calls", ()):
        piece.add_call(call["ref"], call["do"], to_json(call["with"]))
    return [piece]


def read_request(request: Mapping[str, Any], chat: ReadAsChat) -> ChatRequest:
    tools = [chat_function(skill, skill.get("takes"), "takes") for skill in request.get("skills", ())]
    return ChatRequest(messages=chat(request["lines"], "/lines"), tools=tools, rest=rest_of(request, "lines", "skills"))


def lines_of(step: HistoryStep, refusals: Refusals) -> Iterator[Object]:
    match step:
        case PlainRun():
            yield from ({"who": AS[said["role"]], "say": said["content"]} for said in step.messages)
        case Whole():
            yield from step.messages
        case Result():
            yield {"who": "result", "ref": step.call.id, "say": words(step.parts, refusals, "tool")}
        case Said():
            calls = [{"ref": call.id, "do": call.name, "with": call.arguments_object()} for call in step.calls]
            line = {"who": AS[step.role], "say": words(step.parts, refusals, step.role)}
            yield line | ({"calls": calls} if calls else {})


def write(messages: Sequence[Outgoing], tools: list[Object], tool_choice: Any, refusals: Refusals) -> Object:
    del tool_choice
    lines = [line for step in read_steps(messages, SHAPE, refusals) for line in lines_of(step, refusals)]
    skills = [{"name": tool["function"]["name"], "takes": tool["function"].get("parameters")} for tool in tools]
    return {"lines": lines} | ({"skills": skills} if skills else {})


def caching(name: str, prices: CachePrices) -> Caching | None:
    del name, prices
    return None


def mark(request: Object, cache: CacheKind | None, places: Places, key: str) -> Object:
    del cache, places, key
    return request


class Arguments(msgspec.Struct):
    """What the invented SDK takes."""

    lines: list[dict[str, Any]]
    skills: list[dict[str, Any]] = []


INVENTED = Provider(
    shape=SHAPE,
    read=read,
    read_request=read_request,
    write=write,
    is_chat=lambda message: "role" in message,
    arguments=Arguments,
    called="a line of the invented provider",
    own_types=r"(?!)",
    carries=frozenset(),
    seals_calls=False,
    replies_are_items=False,
    fills=False,
    is_call=lambda part: "do" in part,
    with_result_text=lambda line, text, _: {**line, "say": text},
    maker="inventors",
    caching=caching,
    mark=mark,
    asking=Asking(url="https://invented.test", url_variables=(), key_variables=(), path="/count", tokens=("tokens",)),
    limits=lambda _name, _window: RequestLimits(images=3),
)
PROVIDERS[INVENTED.name] = INVENTED
