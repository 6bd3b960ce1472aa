"""Levels of documents: every document at its shortest first, then each lengthened in order, and only then one is cut."""

from itertools import pairwise
from typing import Any

import pytest
from histories import MODELS, Ask, Talk, grounded, said, talk, words
from hypothesis import given
from hypothesis import strategies as st

from sash.core.chat.messages import Document
from sash.core.law.documents.grounding import Grounded
from sash.core.law.documents.levels import Leveled, highest, step_at
from sash.core.law.records.parameters import WindowQuery
from sash.problems import GroundingDoesNotFit, WindowDoesNotFit

LEVELS = st.lists(st.integers(1, 60), min_size=1, max_size=4, unique=True).map(
    lambda sizes: sorted(sizes, reverse=True)
)
LEVELED = st.lists(LEVELS.map(lambda sizes: [words(size) for size in sizes]), min_size=1, max_size=5)


@given(LEVELED)
def test_each_step_sends_a_little_more(documents: Leveled) -> None:
    """Each step adds the next document at its shortest, or lengthens one by a level; the last one sends everything."""
    steps = [step_at(documents, number) for number in range(sum(map(len, documents)) + 1)]
    assert steps[0].texts == []
    assert steps[-1].texts == [texts[0] for texts in documents]
    for before, after in pairwise(steps):
        if len(before.texts) < len(documents):
            assert after.levels == (*before.levels, len(documents[len(before.texts)]) - 1)
        else:
            changed = [place for place, (a, b) in enumerate(zip(before.levels, after.levels, strict=True)) if a != b]
            assert len(changed) == 1
            assert after.levels[changed[0]] == before.levels[changed[0]] - 1
            assert not any(before.levels[: changed[0]])


@given(LEVELED, st.integers(0, 400))
def test_the_highest_step_that_fits(documents: Leveled, room: int) -> None:
    """The chosen step fits, and the next one does not."""

    def cost(number: int) -> int:
        return sum(map(len, step_at(documents, number).texts))

    count = sum(map(len, documents))
    number = highest(count, room, cost)
    assert cost(number) <= room
    assert number == count or cost(number + 1) > room


OVERFLOW = st.sampled_from(["trim", "whole", "drop", "error"])


@st.composite
def questions(draw: st.DrawFn, *, mixed: bool = True) -> Talk:
    """Draw a question with documents that have levels."""
    found = []
    for texts in draw(LEVELED.filter(lambda documents: any(len(texts) > 1 for texts in documents))):
        extra = draw(st.sampled_from(["", "날씨 ", "12 "])) if mixed else ""
        text, *shorter = [extra + each for each in texts]
        found.append(Document(text=text, levels=shorter or None))
    return talk(grounded("which?", *found), system="Be brief.")


def chosen(found: Talk, model: str, room: int, **limits: Any) -> Grounded | None:
    return found.documents(dedupe=False, **limits).choose(1, found.stored[0][0], Ask(model).model, room)


@given(questions(), st.sampled_from(MODELS), st.integers(0, 400), OVERFLOW, st.sampled_from([None, 10, 60, 200]))
def test_never_over_the_room(found: Talk, model: str, room: int, overflow: str, most: int | None) -> None:
    """Documents with levels cost no more than the room and their own budget; only ``error`` tells what they would cost."""
    sent = chosen(found, model, room, overflow=overflow, max_tokens=most)
    if sent is None:
        return
    assert most is None or sent.cost <= most
    assert overflow == "error" or sent.cost <= room


def sent_texts(sent: Grounded | None) -> list[str]:
    """Return the texts that are sent, in order."""
    if sent is None:
        return []
    return sent.after.removeprefix("\n\nSources:\n").split("\n---\n")


@given(questions(mixed=False), st.integers(0, 300), st.integers(1, 40), st.sampled_from(["trim", "whole"]))
def test_more_room_never_sends_less(found: Talk, room: int, more: int, overflow: str) -> None:
    """More room sends as many documents or more, each at the same level or a longer one, and no fewer characters."""
    small, large = (sent_texts(chosen(found, "gpt-4o-mini", each, overflow=overflow)) for each in (room, room + more))
    assert len(small) <= len(large)
    assert all(len(before) <= len(after) for before, after in zip(small, large, strict=False))


@given(questions(), st.sampled_from(MODELS), st.integers(0, 300))
def test_whole_is_trim_without_the_cut(found: Talk, model: str, room: int) -> None:
    """``whole`` cuts nothing: it sends what ``trim`` sends, without the document that is cut."""
    whole, trimmed = (chosen(found, model, room, overflow=each) for each in ("whole", "trim"))
    texts = sent_texts(whole)
    given = found.stored[2][1]
    assert all(text in given.levels(place) for place, text in enumerate(texts))
    cut = sent_texts(trimmed)
    assert cut[: len(texts)] == texts
    assert len(cut) <= len(texts) + 1


def test_shortest_first_then_lengthened_in_order_then_one_cut() -> None:
    """As the room grows, a document is cut only until all are there, and then the first is lengthened before the second."""
    found = talk(grounded("?", *(Document(text=words(40, w), short=words(8, w)) for w in ("one", "two", "six"))))
    seen: list[tuple[int, ...]] = []
    for room in range(140):
        sizes = tuple(len(text.split()) for text in sent_texts(chosen(found, "gpt-4o-mini", room)))
        if sizes and sizes != ((seen or [()])[-1]):
            seen.append(sizes)
    ends = [(8,), (8, 8), (8, 8, 8), (40, 8, 8), (40, 40, 8), (40, 40, 40)]
    assert [sizes for sizes in seen if sizes in ends] == ends
    assert all(sizes in ends or set(sizes[:-1]) <= {8} for sizes in seen)
    assert seen[-4:] == ends[-4:]


def test_a_level_that_is_not_shorter_is_never_sent() -> None:
    """A level that is no shorter than the text before it is stored, and is not sent."""
    found = talk(grounded("?", Document(text="ok", short=words(30)), words(50)))
    assert sent_texts(chosen(found, "gpt-4o-mini", 30, overflow="whole")) == ["ok"]


def test_whole_without_levels() -> None:
    """``whole`` takes documents in their order while they fit, as docs-assistant does, and cuts none."""
    found = talk(grounded("?", words(30), words(31), "short"))
    assert sent_texts(chosen(found, "gpt-4o-mini", 50, overflow="whole")) == [words(30)]
    assert chosen(found, "gpt-4o-mini", 20, overflow="whole") is None


@pytest.mark.parametrize("overflow", ["drop", "error"])
def test_levels_come_before_an_error(overflow: str) -> None:
    """``drop`` and ``error`` are about documents that do not fit at their shortest levels."""
    found = talk(grounded("?", *(Document(text=words(90), short=words(9)) for _ in range(2))))
    sent = chosen(found, "gpt-4o-mini", 40, overflow=overflow)
    assert sent is not None
    assert (len(sent.places), sent.levels) == (2, (1, 1))
    assert chosen(found, "gpt-4o-mini", 12, overflow="drop") is None


def test_an_error_says_whether_the_documents_do_not_fit() -> None:
    """Documents that do not fit are a problem of their own; a message that is too long is the window's."""
    found = talk(said("user", "hi"), grounded(words(20), words(50)))
    limits = {"overflow": "error"}
    with pytest.raises(GroundingDoesNotFit) as caught:
        found.window(Ask(budget=60, limits=limits))
    members = caught.value.members
    assert members["needed"] == sum(members["costs"].values()) == members["budget"] + members["shortfall"]
    with pytest.raises(WindowDoesNotFit) as caught_too:
        found.window(Ask(budget=20, limits=limits))
    assert type(caught_too.value) is WindowDoesNotFit


def test_turns_count_user_messages() -> None:
    """``turns`` counts turns, of which each is a user's message and what follows it; ``limit`` counts messages."""
    found = talk(*(said(role, f"{n}") for n in range(4) for role in ("user", "assistant", "assistant")))
    window = found.window(Ask(options=WindowQuery(turns=2, explain=True)))
    assert (window.seqs, window.stop_reason) == (list(range(7, 13)), "limit")
    assert {line.reason for line in window.explain or [] if not line.kept} == {"beyond the limit"}
    assert found.window(Ask(options=WindowQuery(turns=2, limit=4))).seqs == list(range(9, 13))[0:4]
    assert found.window(Ask(options=WindowQuery(turns=9))).stop_reason == "complete"
