"""Chats with screenshots, files and many tools run on windows of every form, and the stand-in refuses no request.

The stand-in knows the vendors' written limits (``tests/validators/limits.py``) beside all that they refuse otherwise.
"""

from collections.abc import Iterator
from random import Random
from typing import Any

import httpx
import pytest
from conftest import serving_alone
from rigs.standin.rules import refused, window_of
from validators import limits, media
from validators.logs import Group, Object

MODELS = {
    "openai": ("gpt-4o-mini", 128),
    "responses": ("gpt-5", 128),
    "anthropic": ("claude-haiku-4-5", 300),
    "gemini": ("gemini-3-pro-preview", 400),
}
"""Each form's model, and the tools of its chats."""
SESSIONS = (
    (0, 120, 1),
    *(pytest.param(number, 3_000, 10, marks=pytest.mark.nightly) for number in range(1, 26)),
)
"""Sessions in each form, sliding and stable: their number, their messages, and the turns from one window to the next. At
night there are 200 of 3,000 messages."""


@pytest.fixture(scope="module")
def sash(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """Yield a client of a server of this file alone."""
    with (
        serving_alone(tmp_path_factory.mktemp("albums"), SASH_MAX_BODY_BYTES="40000000") as process,
        httpx.Client(base_url=process.url, timeout=120) as client,
    ):
        yield client


def turn(number: int, form: str, random: Random) -> list[Group]:
    """Return a turn: a question, at times with pictures or a document, and six screenshots of a tool on average."""
    groups = [media.shown(form, f"question {number} " + "word " * random.randrange(40), *_pictures(random))]
    if number % 9 == 5:
        groups[0] = media.attached(form, f"read {number}", media.pdf(random.randrange(1, 45)))
    for step in range(random.randrange(1, 12)):
        groups += media.seen(form, f"call_{number}_{step}", _screenshot(random))
    return [*groups, media.told(form, f"answer {number}")]


def _screenshot(random: Random) -> str:
    """A screenshot: mostly of a window, at times of a large screen, and once in fifty one that Claude refuses."""
    sides = random.choices(((900, 900), (1280, 720), (2560, 1440), (8200, 300)), (60, 30, 8, 2))[0]
    return media.png(*sides, random.choice((300, 12_000, 30_000)))


def _pictures(random: Random) -> list[str]:
    return [_screenshot(random) for _ in range(random.choice((0, 0, 1, 3)))]


def tools(count: int) -> list[Object]:
    parameters = {"type": "object", "properties": {"at": {"type": "string"}}}
    named = [
        {"type": "function", "function": {"name": f"tool_{n}", "parameters": parameters}} for n in range(count - 1)
    ]
    return [
        {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}},
        *named,
    ]


@pytest.mark.parametrize(("number", "messages", "every"), SESSIONS)
@pytest.mark.parametrize("stable", [False, True], ids=["sliding", "stable"])
@pytest.mark.parametrize("form", MODELS)
def test_a_chat_with_screenshots_is_never_refused(
    sash: httpx.Client,
    form: str,
    stable: bool,  # noqa: FBT001 - a parameter of the test
    number: int,
    messages: int,
    every: int,
) -> None:
    """Each window is taken, whatever form its messages came in, and pictures are sent up to the limits."""
    model, count = MODELS[form]
    random = Random(f"{form} {stable} {number}")
    name = f"album-{form}-{stable}-{number}"
    made = sash.post("/conversations", json={"id": name, "model": model, "tools": tools(count)})
    assert made.status_code == 201, made.text
    windows: list[Object] = []
    stored = place = 0
    while stored < messages:
        place += 1
        came = form if random.random() < 0.7 else random.choice(media.FORMS)
        for sent in _appends([sent for _, sent in turn(place, came, random)], random):
            answer = sash.post(f"/conversations/{name}/messages", params={"format": came}, json={"messages": sent})
            assert answer.status_code == 201, answer.text
            stored += len(answer.json()["messages"])
        if (place + number) % every and stored < messages:
            continue
        asked: dict[str, Any] = {"model": model, "format": form, "stable": stable, "uncarried": "drop"}
        found = sash.get(f"/conversations/{name}/window", params=asked)
        assert found.status_code == 200, found.text
        window = found.json()
        request = window_of(form, window["request"] if form != "gemini" else _flat(window["request"]))
        assert refused(form, request, model) == []
        assert window["tokens"]["total"] <= window["budget"]
        windows.append(window)
    last = windows[-1]
    if form != "openai":  # chat completions take no pictures in results
        assert limits.pictures_in(last["request"]) > 0
    if form == "anthropic":
        assert max(each["dropped"]["images"] for each in windows) > 0
    sash.delete(f"/conversations/{name}")


def _appends(groups: list[list[Object]], random: Random) -> list[list[Object]]:
    """What is appended at once: mostly a turn, at times each step of it."""
    return groups if random.random() < 0.1 else [[message for group in groups for message in group]]


def _flat(request: Object) -> Object:
    """Gemini's request as its SDK writes it, with the members of ``config`` beside the contents."""
    return {"contents": request["contents"], **request["config"]}
