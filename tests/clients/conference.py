"""An invented conversation: a visitor of a conference asks a programme assistant, with documents and tool calls."""

from typing import Any

SYSTEM = "You answer questions about the programme of a software conference. Be brief, and name rooms and times."

_TALKS = (
    ("Builds that finish before the coffee", "Elm", "10:00", "Caches that can be trusted, and what to measure first."),
    ("A queue is a promise", "Oak", "11:00", "What at-least-once delivery asks of consumers, shown on three outages."),
    ("Reading other people's flame graphs", "Ash", "13:30", "Five profiles, and the one line in each that mattered."),
    ("Types for people in a hurry", "Elm", "14:30", "How a team of four typed ten years of code in a quarter."),
    ("The database is not slow", "Oak", "15:30", "Plans, indexes and the network: where a query's time goes."),
    ("Small models, large shelves", "Ash", "16:30", "Searching a library's catalogue on one plain machine."),
)
_ASKED = (
    "I use a wheelchair: only rooms without stairs, please.",
    "Who should go to the one about queues?",
    "What comes after lunch?",
    "My team writes Python without types. Is there a talk for us?",
    "And something about slow queries?",
    "Which of these are in Oak?",
    "Is there a talk about search that needs no big machine?",
    "Can you remind me ten minutes before the queue talk?",
)


def turns(rounds: int) -> list[list[dict[str, Any]]]:
    """Return the entries of each append: questions with documents, tool calls, answers; the first question is pinned."""
    return [turn for number in range(rounds) for turn in _round(number)]


def _round(number: int) -> list[list[dict[str, Any]]]:
    title, room, at, about = _TALKS[number % len(_TALKS)]
    question: dict[str, Any] = {"message": {"role": "user", "content": _ASKED[number % len(_ASKED)]}}
    if number == 0:
        return [[{**question, "pinned": True}], [_answer("Understood. Elm, Oak and Ash are all on the ground floor.")]]
    question["grounding"] = {"documents": [_document(number + step) for step in range(3)]}
    answer = [_answer(f"“{title}” is in {room} at {at}. {about}")]
    return [[question], _lookup(number, room, title), answer] if number % 4 == 3 else [[question], answer]


def _answer(text: str) -> dict[str, Any]:
    return {"message": {"role": "assistant", "content": text}}


def _document(number: int) -> dict[str, str]:
    title, room, at, about = _TALKS[number % len(_TALKS)]
    text = f"Title: {title}\nRoom: {room}\nTime: {at}\nAbout: {about}"
    return {"id": f"talk-{number % len(_TALKS)}", "text": text}


def _lookup(number: int, room: str, title: str) -> list[dict[str, Any]]:
    function = {"name": "find_talks", "arguments": f'{{"room":"{room}"}}'}
    call = {"id": f"call-{number}", "type": "function", "function": function}
    result = f'[{{"title":"{title}"}}]'
    return [
        {"message": {"role": "assistant", "content": None, "tool_calls": [call]}},
        {"message": {"role": "tool", "tool_call_id": f"call-{number}", "content": result}},
    ]
