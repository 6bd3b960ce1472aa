"""Windows of several agents: what an agent sees of any log is a request that its provider takes, and costs what it says."""

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from sash.core.chat.messages import Entry
from validators.conversations import conversations
from validators.judges import JUDGES
from validators.logs import Group, Object
from validators.test_histories import (
    MODELS,
    assert_counted,
    entries_of,
    parameters,
    refusals,
    window_of,
)

AGENTS = ("billing", "triage", "refunds")
PARTIES = st.tuples(
    st.sampled_from([None, None, *AGENTS]),
    st.one_of(st.none(), st.none(), st.lists(st.sampled_from(AGENTS), min_size=1, max_size=2)),
)


def named(entries: list[Entry], data: st.DataObject) -> list[Entry]:
    """The entries, each with an author and an audience."""
    found = []
    for entry in entries:
        author, audience = data.draw(PARTIES)
        found.append(msgspec.structs.replace(copy.deepcopy(entry), author=author, audience=audience))
    return found


@examples(0.3)
@given(conversations(), parameters(), st.sampled_from(MODELS), st.sampled_from(AGENTS), st.data())
@pytest.mark.parametrize("form", JUDGES)
def test_a_view_is_a_request_that_its_provider_takes(
    form: str, conversation: list[Group], ways: Object, model: str, view: str, data: st.DataObject
) -> None:
    """No rule of the provider refuses what an agent sees, whatever it does not see, and its total covers it."""
    ways = {**ways, "more": {**ways["more"], "view": view}}
    found: Any = window_of(form, model, named(entries_of(conversation), data), ways)
    if found is None:
        return
    assert refusals(form, model, found["request"]) == []
    assert_counted(form, model, found)
