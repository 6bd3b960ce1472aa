"""Whatever pictures and files a log holds, in whatever form: each window is inside every limit of its provider."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from sash.core.counts.models.models import find_model
from sash.core.providers.form.request_limits import RequestLimits
from sash.problems import WindowDoesNotFit
from sash.windows.request import WindowRequest
from sash.windows.stateless import window_of_request
from validators import limits, media
from validators.judges import JUDGES
from validators.logs import Group, Object
from validators.test_histories import assert_counted, entries_of, refusals

MODELS = ("gpt-4o-mini", "gpt-5", "claude-haiku-4-5", "claude-opus-5", "gemini-3-pro-preview", "llama-3.3-70b")
SIDES = ((1, 1), (40, 30), (900, 900), (2500, 100))


@st.composite
def albums(draw: st.DrawFn) -> list[Group]:
    """Draw a conversation of turns with pictures, screenshots of tools and documents, in all forms."""
    said: list[Group] = []
    for number in range(draw(st.integers(1, 14))):
        form = draw(st.sampled_from(media.FORMS))
        picture = media.png(*draw(st.sampled_from(SIDES)), draw(st.sampled_from([0, 300, 3000, 9000])))
        match draw(st.sampled_from(["picture", "picture", "pictures", "tool", "tool", "file", "text"])):
            case "picture":
                said.append(media.shown(form, f"look {number}", picture))
            case "pictures":
                said.append(media.shown(form, f"compare {number}", picture, media.png(60, 60), picture))
            case "tool":
                said += [media.shown(form, f"go {number}"), *media.seen(form, f"call_{number}", picture)]
            case "file":
                said.append(media.attached(form, f"read {number}", media.pdf(draw(st.integers(1, 9)))))
            case "text":
                said.append(media.shown(form, "word " * draw(st.integers(1, 300))))
        if draw(st.booleans()):
            said.append(media.told(form, f"answer {number}"))
    return said


def most() -> st.SearchStrategy[Object]:
    """Draw the limits of a provider, of which some are not known."""
    drawn: dict[str, st.SearchStrategy[Any]] = {
        "images": st.integers(1, 8),
        "bytes": st.integers(20_000, 90_000),
        "image_side": st.sampled_from([50, 1000, 3000]),
        "image_bytes": st.sampled_from([500, 5000, 50_000]),
        "many_images_side": st.just(2000),
        "many_images": st.integers(1, 4),
        "pages": st.integers(3, 20),
        "messages": st.integers(8, 60),
    }
    return st.fixed_dictionaries({}, optional=drawn)


WAYS = st.fixed_dictionaries(
    {
        "max_tokens": st.sampled_from([100_000, 100_000, 4000, 900]),
        "stable": st.booleans(),
        "images_kept": st.sampled_from([None, None, 0, 2]),
        "tool_results_kept": st.sampled_from([None, None, 1]),
        "overflow": st.sampled_from(["stop", "stop", "skip"]),
        "uncarried": st.just("drop"),
    }
)


def window_of(form: str, model: str, said: list[Group], limit: Object, **ways: Any) -> Object | WindowDoesNotFit:
    """Return the window for a model whose provider has these limits; the problem if there is none."""
    asked = {name: value for name, value in ways.items() if value is not None}
    body = msgspec.json.encode({**asked, "model": model, "format": form, "messages": [], "reserve": 0})
    wanted = msgspec.structs.replace(msgspec.json.decode(body, type=WindowRequest), messages=entries_of(said))
    known = msgspec.structs.replace(find_model(model), limits=RequestLimits(**limit))
    try:
        found: Object = json.loads(window_of_request(wanted, {model: known})[0].body)
    except WindowDoesNotFit as problem:
        return problem
    return found


@examples(1)
@given(albums(), most(), WAYS, st.sampled_from(MODELS))
@pytest.mark.parametrize("form", JUDGES)
def test_a_window_is_inside_every_limit(form: str, said: list[Group], limit: Object, ways: Object, model: str) -> None:
    """No window is over a limit; what is left out is told; what cannot be left out is refused with the limit."""
    found = window_of(form, model, said, limit, **ways)
    if isinstance(found, WindowDoesNotFit):
        name, members = found.members["limit"], found.members
        assert name == "tokens" or members["needed"] - limit[name] >= 0 or name == "images"
        assert members["shortfall"] == members["needed"] - members["budget"] > 0
        return
    request = found["request"]
    assert limits.over(request, limit) == []
    assert refusals(form, model, request) == []
    assert_counted(form, model, found)
    dropped, text = found["dropped"], json.dumps(request)
    if "trimmed" not in found:  # a result that became one line has no others
        assert text.count(", left out") == dropped["images"] + dropped["files"]
    if found["stop_reason"] in ("images", "bytes"):
        assert dropped["images"] + dropped["files"] + dropped["messages"] > 0


@examples(1)
@given(albums(), most(), st.sampled_from(MODELS), st.integers(1, 8), st.integers(0, 100_000))
@pytest.mark.parametrize("form", JUDGES)
def test_a_larger_limit_never_keeps_fewer(
    form: str, said: list[Group], limit: Object, model: str, images: int, more: int
) -> None:
    """With tokens to spare, a larger limit never leads to fewer messages, nor to fewer pictures beside as many messages.

    A message has room before a picture, so another message may take the room of a picture.
    """
    limit = {**limit, "images": images}
    larger = {**limit, "images": images + 1, **({"bytes": limit["bytes"] + more} if "bytes" in limit else {})}
    small, large = (
        window_of(form, model, said, each, max_tokens=100_000, uncarried="drop") for each in (limit, larger)
    )
    if isinstance(small, WindowDoesNotFit):
        return
    assert not isinstance(large, WindowDoesNotFit)
    if large["stop_reason"] == "budget":  # more pictures cost more tokens
        return
    assert small["kept"]["messages"] <= large["kept"]["messages"]
    if small["kept"]["messages"] == large["kept"]["messages"]:
        assert limits.pictures_in(small["request"]) <= limits.pictures_in(large["request"])
