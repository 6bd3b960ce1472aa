"""A walk keeps the newest units that fit, and stops for one reason."""

from itertools import accumulate, takewhile

from histories import MODELS, Talk, talks
from hypothesis import given
from hypothesis import strategies as st

from sash.core.counts.models.models import find_model
from sash.core.law.history.view import view_history
from sash.core.law.selection.walk import Walk, walk


@given(talks(), st.sampled_from(MODELS), st.data())
def test_the_newest_units_that_fit_are_kept(found: Talk, name: str, data: st.DataObject) -> None:
    """For any room, bound and tail: the units behind the bound whose running sum, from the newest, is within the room."""
    model = find_model(name)
    first_seq = data.draw(st.integers(1, max(1, len(found.entries))))
    view = view_history(found.history(model, first_seq), model)
    if view is None:
        return
    room = data.draw(st.integers(0, int(view.costs.sum()) + 5))
    bound = data.draw(st.integers(view.history.oldest_bound, len(view.history.records)))
    needed = sum(view.required_costs().values())
    taken = Walk(view, view.of_units(None), {}, room, needed, firsts=(("limit", bound),))
    walk(taken)
    may = [
        index
        for index in reversed(range(view.units.front + view.headless, len(view.units)))
        if view.units.starts[index] >= bound and index not in view.required and index not in view.units.broken
    ]
    sums = [*takewhile(lambda spent: spent <= room, accumulate(int(view.unit_costs[index]) for index in may))]
    assert [index for index in reversed(taken.kept) if index not in view.required] == may[: len(sums)]
    assert taken.cost == needed + (sums[-1] if sums else 0)
    assert taken.room == room - (taken.cost - needed)
    assert (taken.stop == "budget") == (len(sums) < len(may))
