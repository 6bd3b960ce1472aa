"""Any chat, as any screen shows it, and what a person then presses."""

from typing import Any

from hypothesis import strategies as st
from rigs.agreeing import Message

WORDS = ["ok", "yes", "a", "b c", "look", "here it is", "def f():\n  x"]


def user(text: str, **beside: Any) -> Message:
    return {"role": "user", "content": text, **beside}


def reply(text: str | None, *calls: str, **beside: Any) -> Message:
    made = [{"id": each, "type": "function", "function": {"name": "look", "arguments": "{}"}} for each in calls]
    return {"role": "assistant", "content": text, **({"tool_calls": made} if made else {}), **beside}


def result(call: str, text: str = "found", **beside: Any) -> Message:
    return {"role": "tool", "tool_call_id": call, "content": text, **beside}


@st.composite
def chats(draw: st.DrawFn) -> list[Message]:
    """A log: questions, turns with calls, results and reasoning, system and hidden messages, perhaps a half reply."""
    chat: list[Message] = []
    for turn in range(draw(st.integers(0, 5))):
        if draw(st.integers(0, 6)) == 0:
            chat.append({"role": "system", "content": draw(st.sampled_from(["be brief", "be kind"]))})
        chat.append(user(draw(st.sampled_from(WORDS))))
        for step in range(draw(st.integers(0, 3))):
            name = f"c{turn}-{step}"
            if draw(st.booleans()):
                called = {"name": f"f{turn}-{step}", "arguments": "{}"}
                message = reply(draw(st.sampled_from([*WORDS, None])), reasoning_content="hm")
                chat.append({**message, "tool_calls": [{"id": name, "type": "function", "function": called}]})
                chat += [result(name)] if draw(st.integers(0, 9)) else []
            else:
                chat.append(reply(draw(st.sampled_from(WORDS))))
            if draw(st.integers(0, 9)) == 0:
                chat.append(reply("a secret", hidden=True))
    if chat and chat[-1]["role"] == "assistant" and not chat[-1].get("hidden") and draw(st.booleans()):
        chat[-1]["status"] = "interrupted"
    return chat


STYLES = ("rich", "texts", "joined", "last")


def screen(chat: list[Message], style: str, between: str) -> list[Message]:
    """What a screen shows of a chat: all of it, its texts, each turn's texts joined, or its last one."""
    shown = [each for each in chat if not each.get("hidden") and each["role"] != "system"]
    if style == "rich":
        return [dict(each) for each in shown]
    found: list[Message] = []
    turn: list[Message] = []
    for each in [*shown, user("")]:
        if each["role"] != "user":
            turn += [each] if each["role"] == "assistant" and each["content"] else []
            continue
        if turn and style == "texts":
            found += [{name: one.get(name) for name in ("role", "content", "id", "status")} for one in turn]
        elif turn:
            said = turn if style == "joined" else turn[-1:]
            found.append(reply(between.join(one["content"] for one in said), status=turn[-1].get("status")))
        turn = []
        found.append(dict(each))
    return found[:-1]


@st.composite
def screens(draw: st.DrawFn) -> tuple[list[Message], str, str]:
    return draw(chats()), draw(st.sampled_from(STYLES)), draw(st.sampled_from(["", " ", "\n\n"]))


@st.composite
def changed_lists(draw: st.DrawFn, shown: list[Message]) -> list[Message]:
    """The screen's list after the person pressed something."""
    questions = [place for place, each in enumerate(shown) if each["role"] == "user"]
    match draw(st.sampled_from(["send", "regenerate", "edit", "edit in place", "delete", "retry", "anew"])):
        case "send":
            return [*shown, user(draw(st.sampled_from(WORDS)))]
        case "regenerate" if questions:
            cut = shown[: questions[-1] + 1]
            return [*cut, reply(draw(st.sampled_from(WORDS)))] if draw(st.booleans()) else cut
        case "edit" if questions:
            place = draw(st.sampled_from(questions))
            return [*shown[:place], user(f"edited {draw(st.integers(0, 3))}", id=shown[place].get("id"))]
        case "edit in place" if questions:
            place = draw(st.sampled_from(questions))
            return [*shown[:place], user("edited", id=shown[place].get("id")), *shown[place + 1 :]]
        case "delete" if shown:
            place = draw(st.integers(0, len(shown) - 1))
            left = [*shown[:place], *shown[place + 1 :]]
            made = {call["id"] for each in left for call in each.get("tool_calls") or ()}
            return [each for each in left if each["role"] != "tool" or each["tool_call_id"] in made]
        case "anew" if questions:
            return [*shown, dict(shown[questions[-1]], id=None)]
    return shown
