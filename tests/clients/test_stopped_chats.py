"""Agents that are stopped, resumed and moved to other providers run on windows, and no provider refuses a request.

The provider is README's stand-in, which refuses what ``tests/validators`` know; the programs use the providers' SDKs.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from clients.chats import PICTURE, Chat, Model, Turns, chatting
from clients.speakers import SPEAKERS, Heard
from conftest import serving_alone
from readme_provider import Said

Object = dict[str, Any]
BUDGET_TOKENS = 2000
CALLS = (("find_talk", '{"topic": "gradle"}'), ("draw_plan", "{}"))
each_form = pytest.mark.parametrize("form", SPEAKERS)
each_pair = pytest.mark.parametrize(
    ("form", "other"), [(form, other) for form in SPEAKERS for other in SPEAKERS if other != form]
)


@pytest.fixture(scope="module")
def sash(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the URL of a server of this file alone."""
    with serving_alone(tmp_path_factory.mktemp("chats")) as process:
        yield process.url


def script(*replies: Said) -> Callable[[str, Object], Said]:
    """Return a plan that says these replies in their order."""
    left = iter(replies)
    return lambda *_: next(left)


def asked(chat: Chat, form: str, text: str) -> Object:
    return chat.append(form, [chat.speaker(form).question(text)])


def told(chat: Chat, form: str, heard: Heard, *, streams: bool = False) -> Heard:
    """Append a reply and the results of its calls, and return the next reply."""
    assert set(chat.append(form, heard.messages)["waiting_for"]) == {call.id for call in heard.calls}
    speaker = chat.speaker(form)
    results = [speaker.result(call, f"{call.name}: 12:10", None) for call in heard.calls]
    return chat.ask(form, chat.append(form, results), streams=streams)


@each_form
@pytest.mark.parametrize("streams", [False, True])
def test_an_agent_goes_through_its_calls(sash: str, form: str, streams: bool) -> None:  # noqa: FBT001
    """The stand-in takes both calls with their results, whole or streamed, and the next question."""
    plan = script(Said("Let me see.", CALLS, "hm"), Said("At 12:10.", (), "so"), Said("In Robertson 2."))
    with chatting(sash, f"loop-{form}-{streams}", plan) as chat:
        heard = told(chat, form, chat.ask(form, asked(chat, form, "when?"), streams=streams), streams=streams)
        assert (heard.text, heard.calls) == ("At 12:10.", [])
        chat.append(form, heard.messages)
        assert chat.ask(form, asked(chat, form, "and where?"), streams=streams).text == "In Robertson 2."
        assert chat.provider.refusals == []
        sent = json.dumps(chat.provider.requests[-1])
        assert all(said in sent for said in ("find_talk: 12:10", "draw_plan: 12:10", "At 12:10.", "and where?"))


@each_form
@pytest.mark.parametrize("executed", [0, 1])
def test_a_stopped_agent_goes_on(sash: str, form: str, executed: int) -> None:
    """After a stop with calls open, the next question is answered; a result that comes two turns later is sent."""
    plan = script(Said("Let me see.", CALLS, "hm"), Said("Well."), Said("Yes."), Said("Thanks."))
    with chatting(sash, f"stop-{form}-{executed}", plan) as chat:
        speaker = chat.speaker(form)
        heard = chat.ask(form, asked(chat, form, "when?"))
        appended = chat.append(form, heard.messages)
        for call in heard.calls[:executed]:
            appended = chat.append(form, [speaker.result(call, "at noon", None)])
        assert appended["waiting_for"] == [call.id for call in heard.calls[executed:]]
        for question in ("never mind", "go on"):
            appended = asked(chat, form, question)
            assert appended["window"]["mended"]["reasons"]["unanswered_call"] == 1
            assert json.dumps(appended["window"]["request"]).count("the call was interrupted") == 2 - executed
            chat.append(form, chat.ask(form, appended).messages)
        chat.append(form, [speaker.result(heard.calls[-1], "the late plan", PICTURE)])
        appended = asked(chat, form, "and now?")
        assert chat.ask(form, appended).text == "Thanks."
        assert appended["window"]["mended"]["reasons"]["late_result"] > 0
        assert "the late plan" in json.dumps(chat.provider.requests[-1])
        assert chat.provider.refusals == []


@each_pair
def test_another_provider_goes_on(sash: str, form: str, other: str) -> None:
    """A chat goes on with another provider, in its form, and comes back; both take what the other one's replies hold."""
    replies = [Said("Let me see.", CALLS, "hm", signed) for signed in (True, False, True)]
    plan = script(*(said for reply in replies for said in (reply, Said("", (), "so"))))
    with chatting(sash, f"move-{form}-{other}", plan) as chat:
        for number, speaking in enumerate((form, other, form)):
            heard = chat.ask(speaking, asked(chat, speaking, f"question {number}"), streams=number == 1)
            chat.append(speaking, heard.messages)
            results = [chat.speaker(speaking).result(call, "12:10", PICTURE) for call in heard.calls]
            heard = chat.ask(speaking, chat.append(speaking, results))
            chat.append(speaking, heard.messages)
        assert chat.provider.refusals == []
        sent = json.dumps(chat.provider.requests[-1])
        assert all(f"question {number}" in sent for number in range(3))


@each_form
@pytest.mark.parametrize("turns", [40, pytest.param(200, marks=pytest.mark.nightly)])
def test_a_stopped_and_moved_chat_is_never_refused(sash: str, form: str, turns: int) -> None:
    """Windows fit their budget, cost what is billed, leave history out, and no request of the chat is a 400."""
    with chatting(sash, f"stopped-{form}-{turns}", Model(turns), max_tokens=BUDGET_TOKENS) as chat:
        led = Turns(chat, form, turns)
        for _ in range(turns):
            led.turn()
        assert chat.provider.refusals == []
        assert len(chat.made) >= turns
        assert sum(made["dropped"]["messages"] > 0 for made in chat.made) > turns // 2
        assert min(led.stops, led.switches) >= turns // 20
        assert {"unanswered_call", "late_result", "foreign_members"} <= led.mends()
