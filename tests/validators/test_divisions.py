"""A history's windows do not depend on how its messages were divided among requests."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from validators.conversations import conversations
from validators.divisions import as_bulk, divided
from validators.judges import JUDGES
from validators.logs import Group, Object
from validators.test_histories import MODELS, entries_of, parameters, window_of

TOLD = ("request", "tokens", "kept", "mended", "dropped", "exact", "stop_reason")


@examples(1)
@given(conversations(), parameters(), st.sampled_from(MODELS), st.sampled_from([*JUDGES]), st.randoms())
def test_messages_in_one_request_or_in_several_are_one_history(
    conversation: list[Group], ways: Object, model: str, form: str, random: Random
) -> None:
    """In one request, one by one, or in any chunks: the same messages, and the same window in every format."""
    bulk, *others = [
        entries_of(groups)
        for groups in (
            as_bulk(conversation),
            divided(conversation, lambda: True),
            divided(conversation, lambda: random.random() < 0.5),
        )
    ]
    messages = [each.message for each in bulk]
    assert [[each.message for each in found] for found in others] == [messages, messages]
    expected = told(window_of(form, model, bulk, ways))
    assert [told(window_of(form, model, found, ways)) for found in others] == [expected, expected]


def told(window: Object | None) -> Object | None:
    return window and {name: window[name] for name in TOLD if name in window}
