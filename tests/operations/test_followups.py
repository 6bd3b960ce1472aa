"""Tests the estimate of how many tokens of a window also began the window before."""

from typing import Any

from sash.operations.followups import Beginning, Followups


def window(seqs: list[int], *, tokens: int = 100, **changes: Any) -> tuple[list[int], Beginning]:
    known: dict[str, Any] = {
        "fixed": 1,
        "count": len(seqs),
        "first_seq": seqs[0],
        "last_seq": seqs[-1],
        "question": seqs[-1],
        "tokens": tokens,
    }
    return seqs, Beginning(**{**known, **changes})


def followed(*windows: tuple[list[int], Beginning], most: int = 10) -> list[int | None]:
    followups = Followups(most)
    return [followups.follow("c", seqs, beginning, fifty) for seqs, beginning in windows]


def fifty(first_seq: int, last_seq: int) -> int:
    """Return the tokens of these messages, 50 each."""
    return 50 * (last_seq - first_seq + 1)


def test_the_first_follows_nothing():
    """A conversation's first window has no earlier window to compare with."""
    assert followed(window([1, 2, 3])) == [None]


def test_a_window_that_grew_reuses_the_whole_of_the_one_before():
    """If the cut stays, all tokens of the former window are reused."""
    assert followed(window([5, 6, 7], tokens=90), window([5, 6, 7, 8, 9], tokens=140)) == [None, 90]


def test_a_window_that_slid_reuses_nothing():
    """A window without the former window's first message reuses nothing of the provider's cache."""
    assert followed(window([5, 6, 7]), window([6, 7, 8])) == [None, 0]


def test_a_pinned_message_does_not_hide_a_moved_cut():
    """Windows that share only the pinned first message reuse nothing."""
    assert followed(window([1, 5, 6, 7]), window([1, 7, 8, 9])) == [None, 0]


def test_other_fixed_parts_reuse_nothing():
    """If the parts before the messages change, nothing is reused."""
    assert followed(window([1, 2]), window([1, 2, 3], fixed=2)) == [None, 0]


def test_documents_go_with_their_question():
    """After the next question, only the part before the former question's documents is reused."""
    before = window([1, 2, 3], tokens=900, question=3, documents=600, documents_from=3)
    after = window([1, 2, 3, 4, 5], tokens=800, question=5, documents=400, documents_from=5)
    assert followed(before, after) == [None, 250]


def test_documents_stay_while_their_question_is_answered():
    """While the same question is being answered, its documents stay in place and the whole former window is reused."""
    before = window([1, 2, 3], tokens=900, question=3, documents=600, documents_from=3)
    after = window([1, 2, 3, 4, 5], tokens=950, question=3, documents=600, documents_from=3)
    assert followed(before, after) == [None, 900]


def test_a_window_that_shrank_reuses_nothing():
    """After a rewind, a window that is shorter than the former one reuses nothing."""
    assert followed(window([1, 2, 3, 4]), window([1, 2])) == [None, 0]


def test_the_oldest_are_forgotten():
    """The number of remembered conversations is limited; the least recently used is forgotten first."""
    followups = Followups(2)
    seqs, beginning = window([1, 2])
    assert [followups.follow(key, seqs, beginning, fifty) for key in ("a", "b", "a", "c", "b", "c")] == [
        None,
        None,
        100,
        None,
        None,
        100,
    ]
