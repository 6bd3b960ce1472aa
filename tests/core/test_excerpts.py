"""What the history tools answer: parts of messages within a limit, and where to read on."""

import re

from hypothesis import given
from hypothesis import strategies as st

from sash.core.search.excerpts import PASSAGE, Told, found_text, passage, read_text
from sash.core.search.words import words_of

WORDS = st.lists(st.sampled_from(["plan", "dig", "/srv/app/main.py", "naïve", "北京", "x" * 90]), max_size=300)
TOLD = st.lists(WORDS.map(" ".join), min_size=1, max_size=6).map(
    lambda texts: [Told(seq, "user", 0, text) for seq, text in enumerate(texts, 3)]
)
MORE = re.compile(r"\n\n\[More: history_read with first=(\d+)(?:, skip=(\d+))?\]\Z")
HEAD = re.compile(r"(?:\A|\n\n)#(\d+) user, [^\n]*\n")


@given(told=TOLD, limit=st.integers(120, 4000))
def test_reading_on_reads_every_character_once(told: list[Told], limit: int) -> None:
    """A reader who follows the lines that say where to go on has each message whole, however small the limit is."""
    read = {each.seq: "" for each in told}
    first, skip = told[0].seq, 0
    for _ in range(sum(len(each.text) for each in told) + len(told)):
        rest = [each for each in told if each.seq >= first]
        text = read_text(rest, skip, 0, lambda text: len(text) <= limit)
        assert len(text) <= limit
        more = MORE.search(text)
        parts = HEAD.split(MORE.sub("", text))[1:]
        for seq, part in zip(parts[::2], parts[1::2], strict=True):
            read[int(seq)] += part
        if more is None:
            break
        first, skip = int(more[1]), int(more[2] or 0)
    assert read == {each.seq: each.text for each in told}


@given(before=WORDS, after=WORDS)
def test_a_passage_has_the_words_that_were_looked_for(before: list[str], after: list[str]) -> None:
    """The part of a long message that is shown is the one with the words of the query."""
    text = " ".join([*before, "the deploy command was kubectl rollout restart", *after])
    found = passage(text, "which kubectl rollout command?")
    assert "kubectl rollout restart" in found
    assert len(found) <= PASSAGE + 4


@given(told=TOLD, limit=st.integers(200, 3000))
def test_what_is_found_is_inside_the_limit(told: list[Told], limit: int) -> None:
    """As many messages are shown as fit, best first."""
    text = found_text(told, "plan", lambda text: len(text) <= limit)
    shown = [int(seq) for seq in HEAD.findall(text)]
    assert len(text) <= limit
    assert shown == [each.seq for each in told][: len(shown)]


def test_nothing_is_found() -> None:
    """An empty result says so, and what to try."""
    assert words_of(found_text([], "plan", lambda _: True))
