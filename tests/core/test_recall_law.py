"""Recall, over histories of any kind: whole units, exact totals, the budget, a stable prefix, and ranking."""

import json
import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from sash.core.chat.messages import Entry
from sash.core.chat.packed import Packed
from sash.core.search.ranking import best, fused, scores_of_vectors, scores_of_words
from sash.core.search.words import pack_words, plain_number, words_of
from sash.windows.request import WindowRequest
from sash.windows.stateless import window_of_request

TOPICS = ("gradle", "the lake", "walnuts", "a blue key", "Biscuit the dog", "Oslo")


def message(chance: random.Random) -> list[dict[str, Any]]:
    """Return a turn: a question and its answer, sometimes with a tool group, or only one of them."""
    about = f"{chance.choice(TOPICS)} {chance.randint(0, 9)} " + "so " * chance.randint(0, 30)
    asked, told = {"role": "user", "content": f"what of {about}?"}, {"role": "assistant", "content": f"it is {about}"}
    match chance.randint(0, 6):
        case 0:
            return [asked]
        case 1:
            return [told]
        case 2:
            number = str(chance.randint(0, 10**9))
            call = {
                "id": number,
                "type": "function",
                "function": {"name": "look", "arguments": json.dumps({"at": about})},
            }
            called = {"role": "assistant", "content": None, "tool_calls": [call]}
            return [asked, called, {"role": "tool", "tool_call_id": number, "content": about}, told]
        case _:
            return [asked, told]


def history(seed: int, turns: int) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    return [each for _ in range(turns) for each in message(chance)]


def window(messages: list[dict[str, Any]], **query: Any) -> dict[str, Any]:
    entries = [Entry(message=each) for each in messages]
    wanted = WindowRequest(model="gpt-4o", reserve=0, messages=entries, **query)
    made: dict[str, Any] = msgspec.json.decode(window_of_request(wanted, {})[0].body)
    return made


def counted(request: dict[str, Any]) -> int:
    """Return the tokens of a window of all the request's messages."""
    total: int = window(request["messages"])["tokens"]["total"]
    return total


@examples(0.6)
@given(st.integers(0, 2**32), st.integers(10, 60), st.sampled_from([150, 300, 600]), st.booleans())
def test_recall_keeps_the_law(seed: int, turns: int, budget: int, stable: bool) -> None:  # noqa: FBT001
    """Totals are exact and in the budget, order is kept, and recalled results and answers have their calls and questions.

    Only what is sent as a message is explained as kept.
    """
    said = [*history(seed, turns), {"role": "user", "content": f"tell me of {TOPICS[seed % len(TOPICS)]}"}]
    made = window(said, max_tokens=budget, recall_max_tokens=budget // 2, stable=stable, explain=True)
    assert made["tokens"]["total"] <= budget
    assert made["tokens"]["total"] == counted(made["request"])
    recalled = made["recalled"]
    assert recalled["tokens"] <= budget // 2
    kept = [line["seq"] for line in made["explain"] if line["kept"]]
    assert kept == sorted(set(kept))
    assert len(kept) == made["kept"]["messages"]
    block = [] if not (stable and recalled["seqs"]) else [made["request"]["messages"][-2]]
    assert [*(said[seq - 1] for seq in kept[:-1]), *block, said[-1]] == made["request"]["messages"]
    assert set(recalled["seqs"]).isdisjoint(kept) if block else set(recalled["seqs"]) <= set(kept)
    kept += recalled["seqs"]
    for seq in recalled["seqs"]:
        role = said[seq - 1]["role"]
        if role == "tool":
            assert {seq - 1, seq} <= set(kept)
        if role == "assistant":
            asked = [place for place in range(1, seq) if said[place - 1]["role"] == "user"]
            assert not asked or asked[-1] in kept


@examples(0.3)
@given(st.integers(0, 2**32), st.sampled_from([200, 400]))
def test_without_tokens_for_it_nothing_changes(seed: int, budget: int) -> None:
    """``recall_max_tokens=0`` gives the same window as no parameter of recall."""
    said = history(seed, 30)
    assert window(said, max_tokens=budget, recall_max_tokens=0, recall_query="lake") == window(said, max_tokens=budget)


@examples(0.15)
@given(st.integers(0, 2**32))
def test_a_stable_window_with_recall_keeps_its_prefix(seed: int) -> None:
    """The next window begins with all messages before the recalled block unless the cut moved; the cut never moves back."""
    said = history(seed, 40)
    before: list[dict[str, Any]] = []
    first = 0
    for end in range(len(said) // 2, len(said)):
        if said[end - 1]["role"] != "user":
            continue
        made = window(said[:end], max_tokens=300, recall_max_tokens=100, stable=True, recall_query="the lake")
        messages = made["request"]["messages"]
        cut = made["kept"]["first_seq"]
        assert cut >= first
        if cut == first:
            assert messages[: len(before)] == before
        place = len(messages) - (2 if made["recalled"]["messages"] else 1)
        first, before = cut, messages[:place]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The dogs were RUNNING", "a dog runs"),
        ("Café Zürich", "cafe zurich"),
        ("собаки гуляли", "собака гуляла"),
        ("東京タワーへ行きました", "東京"),
        ("고양이를 사랑해", "고양이"),
        ("ฉันรักแมว", "แมว"),
    ],
)
def test_words_meet_in_their_forms(one: str, other: str) -> None:
    """Words match despite differences of case, accents, endings and missing spaces."""
    assert set(words_of(one)) & set(words_of(other))


def test_words_that_all_texts_have_are_left_out() -> None:
    """A question of only common words has no words to search for."""
    assert words_of("What was it that they had been doing there?") == []


def test_a_word_is_four_bytes() -> None:
    """A packed word has four bytes, in ascending order, with its number of occurrences, at most 15, in the lowest bits."""
    (packed,) = pack_words(["lake " * 20 + "dog"])
    numbers = [int.from_bytes(packed[at : at + 4], "little") for at in (0, 4)]
    assert numbers == sorted(numbers)
    assert {number & 15 for number in numbers} == {1, 15}
    assert {number >> 4 for number in numbers} == {plain_number(b"lake") >> 4, plain_number(b"dog") >> 4}


def test_texts_packed_together_are_as_packed_alone() -> None:
    """Packing several texts together gives what packing each alone gives, also for an empty text and common words."""
    texts = ["Cats and dogs", "", "the", "A cat, a cat's dog; CATS", "кошки и 猫が好き", "w" * 100 + " cat"]
    assert pack_words(texts) == [packed for text in texts for packed in pack_words([text])]
    assert [len(packed) // 4 for packed in pack_words(texts)] == [len(set(words_of(text))) for text in texts]


def scored(texts: list[str], question: str) -> list[int]:
    """Return the indexes of the texts that match the question, the best first."""
    words = [(plain_number(word),) for word in words_of(question)]
    return [place for place, _ in best(scores_of_words(Packed.of(pack_words(texts)), words)[0], 10)]


def test_neighbours_of_a_word_count_less_and_less() -> None:
    """A message with the word comes first, then its neighbours; messages four steps away do not match."""
    texts = ["one", "two", "three", "four", "five about walnuts", "six", "seven", "eight", "nine"]
    found = scored(texts, "walnuts?")
    assert found[0] == 4
    assert set(found[1:3]) == {3, 5}
    assert {0, 8}.isdisjoint(found)


def test_rare_words_count_more() -> None:
    """A rare word of the question counts more than a word of most messages."""
    assert scored(["talk"] * 9 + ["quince"] + ["talk"] * 9, "a talk of quinces")[0] == 9


def test_a_long_question_costs_its_rarest_words() -> None:
    """A question of 5,000 words, such as a pasted page, finds the message that has its words."""
    page = " ".join(f"word{n}" for n in range(5000))
    assert scored(["word77 word78", "nothing"], page)[0] == 0
    assert scored([], page) == scored(["text"], "") == []


@given(
    st.lists(st.dictionaries(st.integers(1, 40), st.integers(1, 15), max_size=12)),
    st.lists(st.integers(1, 45), max_size=40),
)
def test_scores_depend_on_words_and_not_on_their_numbers(texts: list[dict[int, int]], question: list[int]) -> None:
    """Messages have the same scores and matches if the numbers of all words begin alike as if each begins differently."""
    alike, different = (scores_by(texts, question, shift) for shift in (4, 20))
    assert [each.tolist() for each in alike] == [each.tolist() for each in different]
    if len(set(question)) <= 32:  # of more words only the rarest are searched for
        assert alike[1].tolist() == [not set(question).isdisjoint(text) for text in texts]


def scores_by(texts: list[dict[int, int]], question: list[int], shift: int) -> tuple[Any, Any]:
    """Score texts, which are counts of words by number; a number is moved by ``shift`` bits."""
    packed = [b"".join((word << shift | text[word]).to_bytes(4, "little") for word in sorted(text)) for text in texts]
    return scores_of_words(Packed.of(packed), [(word << shift,) for word in dict.fromkeys(question)])


def test_vectors_and_words_are_fused() -> None:
    """A message that both words and vectors find comes first; a message without a vector is found by its words."""
    words, _ = scores_of_words(Packed.of(pack_words(["lake", "pond", "sea", "lake"])), [(plain_number(b"lake"),)])
    near = scores_of_vectors(Packed.of([b"\x7f\x00", b"\x00\x7f", b""]), b"\x7f\x01", 4)
    assert near[3] >= 0
    places = [place for place, _ in best(fused(words, near), 4)]
    assert places[0] == 0
    assert 3 in places
    assert not scores_of_vectors(Packed(), b"\x7f", 3).any()


@pytest.mark.parametrize("stable", [False, True])
def test_what_the_window_says_is_not_recalled(stable: bool) -> None:  # noqa: FBT001
    """A message whose content is in the window anyway does not take the tokens of another."""
    fact = {"role": "assistant", "content": "the spare key is under the blue flowerpot"}
    chatter = [{"role": ("user", "assistant")[n % 2], "content": f"chatter {n} " + "so " * 20} for n in range(40)]
    question = {"role": "user", "content": "is the spare key under the flowerpot?"}
    asked = {"max_tokens": 250, "recall_max_tokens": 100, "stable": stable}
    once = window([fact, *chatter, question], **asked)
    assert 1 in once["recalled"]["seqs"]
    again = window([fact, *chatter, fact, question], **asked)
    assert 1 not in again["recalled"]["seqs"]
