"""Documents of a question: which are the same, and what became of each."""

from typing import Any

import httpx
import pytest
from rigs.dialogue import append, assistant, user, window

HANDBOOK = "handbook.pdf"


def asking(text: str, *documents: tuple[str | None, str], **envelope: Any) -> dict[str, Any]:
    """Return an entry with a question and its documents, each an id and a text."""
    given = [{"text": said} | ({"id": identity} if identity else {}) for identity, said in documents]
    return user(text, grounding={"documents": given}, **envelope)


def fates(told: dict[str, Any], seq: int) -> list[tuple[str | None, str, str]]:
    """Return the line of each document of a message."""
    (line,) = [each for each in told["explain"] if each["seq"] == seq]
    return [(each["id"], each["outcome"], each["reason"]) for each in line["documents"]]


async def test_two_chunks_of_one_file(client: httpx.AsyncClient, conversation: str) -> None:
    """Documents with one id and different texts are both sent; the same id and text once."""
    chunks = [(HANDBOOK, "Doors open at eight."), (HANDBOOK, "Lunch is at noon."), (HANDBOOK, "Doors open at eight.")]
    answer = await append(client, conversation, asking("when?", *chunks), model="gpt-4o-mini", explain="true")

    told = answer["window"]
    sent = told["request"]["messages"][0]["content"]
    assert sent == "when?\n\nSources:\nDoors open at eight.\n---\nLunch is at noon."
    assert (told["grounding"]["documents"], told["grounding"]["documents_kept"]) == (3, 2)
    assert fates(told, 1) == [
        (HANDBOOK, "sent", "fits"),
        (HANDBOOK, "sent", "fits"),
        (HANDBOOK, "duplicate", "the same id and text stands once in this message"),
    ]


async def test_a_changed_text_under_an_old_id(client: httpx.AsyncClient, conversation: str) -> None:
    """Over turns, a changed text under an old id is a new document: both are sent with their questions."""
    await append(client, conversation, asking("when?", ("d", "At eight."), ("e", "In room 2.")), assistant("Eight."))
    await append(client, conversation, asking("sure?", ("d", "At nine."), ("e", "In room 2.")))

    told = await window(client, conversation, grounding="all", explain="true")

    text = str(told["request"]["messages"])
    assert [text.count(each) for each in ("At eight.", "At nine.", "In room 2.")] == [1, 1, 1]
    assert fates(told, 1) == [
        ("d", "sent", "fits"),
        ("e", "duplicate", "the same id and text is sent with a later message"),
    ]
    assert fates(told, 3) == [("d", "sent", "fits"), ("e", "sent", "fits")]


LONG = " ".join(f"w{n}" for n in range(200))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, ["sent", "sent", "sent"]),
        ({"grounding": "none"}, ["left out: grounding=none"] * 3),
        ({"grounding_max_tokens": "20"}, ["sent", *["left out: over grounding_max_tokens"] * 2]),
        ({"max_tokens": "300"}, ["sent", "cut: the rest of it does not fit", "left out: does not fit"]),
        ({"max_tokens": "300", "grounding_overflow": "drop"}, ["left out: does not fit"] * 3),
    ],
)  # fmt: skip
async def test_why_a_document_is_left_out(
    client: httpx.AsyncClient, conversation: str, query: dict[str, str], expected: list[str]
) -> None:
    """``explain`` has a line for each document: sent, cut or left out, and why. The window is the same without it."""
    await append(client, conversation, asking("when?", ("a", "At eight."), ("b", LONG), (None, "Else.")))

    told = await window(client, conversation, explain="true", **query)

    shown = [outcome if outcome == "sent" else f"{outcome}: {why}" for _, outcome, why in fates(told, 1)]
    assert shown == expected
    plain = await window(client, conversation, **query)
    del told["explain"], told["receipt"], plain["receipt"]  # a receipt names the parameters
    assert told == plain


async def test_documents_of_earlier_questions(client: httpx.AsyncClient, conversation: str) -> None:
    """Documents of earlier questions have a line too, also where their message is left out."""
    await append(client, conversation, asking("one?", ("a", "A.")), assistant(LONG), asking("two?", ("b", "B.")))
    late = await window(client, conversation, explain="true")
    small = await window(client, conversation, explain="true", max_tokens="60", grounding="all")

    assert fates(late, 1) == [("a", "left out", "grounding=latest sends the newest question's documents alone")]
    assert fates(late, 3) == [("b", "sent", "fits")]
    assert [each for each in small["explain"] if each["seq"] == 1 and each["kept"]] == []
    entries = [asking("one?", ("a", "A.")), asking("two?", ("b", "B."))]
    given = await client.post("/window", json={"model": "gpt-4o-mini", "explain": True, "messages": entries})
    assert fates(given.json(), 1) == fates(late, 1)
