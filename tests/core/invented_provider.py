"""An invented provider, all of it in this file: importing it registers the form ``invented``.

It is as unlike the others as a provider may be. A request has ``turns`` and ``skills``. A turn has ``by`` (rules, human,
machine, skill) and ``bits``. A bit has no type: its one member says what it is (words, picture, ask, muse). Asks have no
ids: neighbouring answers follow in the order of the asks, by their skill's name. A request whose turns ask needs a skill.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from sash.core.chat.open_calls import made_id
from sash.core.providers import PROVIDERS
from sash.core.providers.form.cache_marks import CachePrices, Caching, unmarked
from sash.core.providers.form.own_members import OwnMembers
from sash.core.providers.form.part_kinds import PartKinds, kinds
from sash.core.providers.form.provider import Provider
from sash.core.providers.form.request_limits import RequestLimits
from sash.core.providers.form.requests_read import ChatRequest, ReadAsChat, chat_function, rest_of
from sash.core.providers.messages.mends import AS_TEXT, Mend
from sash.core.providers.messages.pieces import Keeps, Object, Piece, medium_part, to_json
from sash.core.providers.writing.media import read_data_url
from sash.core.providers.writing.media_types import is_web
from sash.core.providers.writing.native_messages import NativeMessages, Shape
from sash.core.providers.writing.turns import (
    HistoryStep,
    Outgoing,
    Part,
    PlainRun,
    RequestWriting,
    Result,
    Said,
    as_line,
    in_order_of_calls,
    only_text,
    read_steps,
)

BY: Final = {"rules": "system", "human": "user", "machine": "assistant", "skill": "tool"}
AS: Final = {role: by for by, role in BY.items()} | {"developer": "rules"}
SHAPE: Final = Shape(
    name="invented",
    messages="turns",
    parts="bits",
    text={},
    text_member="words",
    assistant="machine",
    members=frozenset({"by"}),
)
ANSWER_ORDER: Final = Mend(
    name="answer_order",
    refused="Answers in another order than their asks",
    sent="The answers in the order of the asks",
    evidence="an invented provider has invented rules",
)
NO_SKILL: Final[Object] = {
    "type": "function",
    "function": {"name": "rest", "description": "No skill.", "parameters": {}},
}


def read(turn: Mapping[str, Any], pointer: str) -> list[Piece]:
    del pointer
    piece = Piece(role=BY[turn["by"]], own=dict(turn))
    if piece.role == "tool":
        piece.answers = made_id(turn["skill"], 0)
    asked: dict[str, int] = {}
    for bit in turn["bits"]:
        match bit:
            case {"words": str(text)}:
                piece.add_text(text)
            case {"picture": {"seen": {"kind": str(kind), "base64": str(data)}}}:
                piece.parts.append(medium_part("image", kind, data=data))
            case {"ask": {"skill": str(name), "with": given}}:
                number = asked[name] = asked.get(name, -1) + 1
                piece.add_call(made_id(name, number), name, to_json(given))
    return [piece]


def answers_name(turn: Mapping[str, Any]) -> str:
    return str(turn["skill"])


def read_request(request: Mapping[str, Any], chat: ReadAsChat) -> ChatRequest:
    tools = [chat_function(skill, skill.get("takes"), "takes") for skill in request.get("skills", ())]
    return ChatRequest(messages=chat(request["turns"], "/turns"), tools=tools, rest=rest_of(request, "turns", "skills"))


def bits(parts: Iterable[Part], writing: RequestWriting, seq: int) -> Iterator[Object]:
    for part in parts:
        match part.body:
            case {"type": "image_url", "image_url": {"url": str(url)}} if not is_web(url):
                if media := read_data_url(url, part.place, writing):
                    yield {"picture": {"seen": {"kind": media.media_type, "base64": media.data}}}
            case {"type": "text", "text": str(text)}:
                yield {"words": text}
            case _:
                writing.mends.add(AS_TEXT, seq)
                yield {"words": as_line(part.body)["text"]}


def turns_of(step: HistoryStep, writing: RequestWriting) -> Iterator[Object]:
    match step:
        case PlainRun():
            yield from ({"by": AS[said["role"]], "bits": [{"words": said["content"]}]} for said in step.messages)
        case NativeMessages():
            yield from step.messages
        case Result():
            yield {"by": "skill", "skill": step.call.name, "bits": [*bits(step.parts, writing, step.seq)]}
        case Said(role="assistant"):
            said = [{"words": part.text} for part in only_text(step.parts, writing, "assistant") if part.text]
            asks = [{"ask": {"skill": call.name, "with": call.arguments_object()}} for call in step.calls]
            if said or asks:
                yield {"by": "machine", "bits": [*said, *asks]}
        case Said():
            yield {"by": AS[step.role], "bits": [*bits(step.parts, writing, step.seq)]}


def write(messages: Sequence[Outgoing], tools: list[Object], tool_choice: Any, writing: RequestWriting) -> Object:
    del tool_choice
    steps = in_order_of_calls(read_steps(messages, SHAPE, writing), ANSWER_ORDER, writing)
    turns = [turn for step in steps for turn in turns_of(step, writing)]
    asks = any(turn["by"] == "skill" or any("ask" in bit for bit in turn["bits"]) for turn in turns)
    offered = tools or ([NO_SKILL] if asks else [])
    skills = [{"name": tool["function"]["name"], "takes": tool["function"].get("parameters")} for tool in offered]
    return {"turns": turns} | ({"skills": skills} if skills else {})


def with_result_text(turn: Object, text: str, keeps: Keeps) -> Object:
    return {**turn, "bits": [{"words": text}, *(bit for bit in turn["bits"] if "words" not in bit and keeps(bit))]}


def caching(name: str, prices: CachePrices) -> Caching | None:
    del name, prices
    return None


class Arguments(msgspec.Struct):
    """What the invented SDK takes."""

    turns: list[dict[str, Any]]
    skills: list[dict[str, Any]] = []


INVENTED: Final = Provider(
    shape=SHAPE,
    read=read,
    read_request=read_request,
    write=write,
    is_chat=lambda message: "role" in message,
    arguments=Arguments,
    called="a turn of the invented provider",
    own_types=r"\.(words|picture|ask|muse)",
    carries=frozenset(),
    replies_are_items=False,
    fills=False,
    is_call=lambda part: isinstance(part.get("ask"), dict),
    answers_name=answers_name,
    with_result_text=with_result_text,
    own_members=OwnMembers(
        messages={"": frozenset({"by", "bits", "skill"})},
        parts={"": frozenset({"words", "picture", "ask", "muse"})},
    ),
    kinds=PartKinds(reasoning=kinds(".muse"), images=kinds(".picture.seen")),
    parts_apart=True,
    maker="inventors",
    caching=caching,
    mark=unmarked,
    mends=(ANSWER_ORDER,),
    limits=lambda _name, _window: RequestLimits(images=3),
)
PROVIDERS[INVENTED.name] = INVENTED
