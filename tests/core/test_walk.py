"""The two walks, by a running sum and step by step, have the same result."""

from histories import MODELS, Talk, quick, talks
from hypothesis import given
from hypothesis import strategies as st

from sash.core.counts.models import find_model
from sash.core.law.view import view_history
from sash.core.law.walk import Bounds, Walk, at_once, step_by_step


@st.composite
def bounds(draw: st.DrawFn, length: int) -> Bounds:
    seqs = st.one_of(st.just(1), st.integers(1, length + 1))
    firsts = tuple((why, draw(seqs)) for why in ("budget", "limit", "summary"))
    return Bounds(firsts, user_first=draw(st.booleans()))


@quick
@given(talks(), st.sampled_from(MODELS), st.data())
def test_at_once_is_step_by_step(found: Talk, name: str, data: st.DataObject) -> None:
    """For any room, bounds and tail, both walks keep the same units, stop for the same reason and leave the same room."""
    model = find_model(name)
    first_seq = data.draw(st.integers(1, max(1, len(found.entries))))
    view = view_history(found.history(model, first_seq), model)
    if view is None:
        return
    room = data.draw(st.integers(0, int(view.costs.sum()) + 5))
    limits = data.draw(bounds(len(found.entries)))
    quick_walk = at_once(Walk(room=room, grounding={}, seen=set()), view, limits)
    slow_walk = step_by_step(Walk(room=room, grounding={}, seen=set()), view, limits)
    assert quick_walk == slow_walk
