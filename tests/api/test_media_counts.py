"""Windows of any chat with pictures and files are within the budget and every limit, and cost what /count says.

The chats have media wherever a form has a place for one: in questions, in results that are cut or left out, in the model's
own messages and in Gemini's thoughts.
"""

from collections.abc import AsyncIterator
from random import Random
from typing import Any, NamedTuple

import httpx
import pytest
import pytest_asyncio
from conftest import http, lifespan
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from validators import limits
from validators.albums import album
from validators.media import FORMS

from sash.app import create_app
from sash.settings import Settings
from sash.store.redis.embedded import EmbeddedStore

MODELS = {
    "openai": "gpt-4o-mini",
    "responses": "gpt-5",
    "anthropic": "claude-haiku-4-5",
    "gemini": "gemini-3-pro-preview",
    "interactions": "gemini-3-pro-preview",
    "converse": "us.anthropic.claude-haiku-4-5-20251001-v1:0",
    "ollama": "llama3.2:3b",
}
SMALL = {
    "images": 4,
    "bytes": 90_000,
    "pages": 6,
    "image_side": 3000,
    "image_bytes": 30_000,
    "many_images": 2,
    "many_images_side": 1000,
}
"""Limits that a chat of a few turns is over."""
FILE = "\n".join(
    f'[models.small-{form}]\ncontext_window = 200000\nlike = "{model}"\n[models.small-{form}.limits]\n'
    + "\n".join(f"{name} = {most}" for name, most in SMALL.items())
    for form, model in MODELS.items()
)
QUERIES: dict[str, st.SearchStrategy[Any]] = {
    "tool_result_max_tokens": st.sampled_from([20, 60, 150, 600, 2000]),
    "images_kept": st.integers(0, 2),
    "tool_results_kept": st.integers(0, 2),
    "max_tokens": st.sampled_from([300, 600, 1200, 2500, 5000, 10_000]),
    "reasoning": st.sampled_from(["all", "none", "turn"]),
    "stable": st.booleans(),
    "note": st.booleans(),
    "overflow": st.just("skip"),
    "explain": st.booleans(),
}


@pytest_asyncio.fixture(scope="module")
async def small(store: EmbeddedStore, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client of an application whose models file has a model with small limits for each form."""
    models = tmp_path_factory.mktemp("models") / "models.toml"
    models.write_text(FILE)
    given = Settings(redis_url=store.url, durability="fast", models_file=models)
    async with lifespan(create_app(given)) as app, http(app) as client:
        yield client


class Case(NamedTuple):
    """A chat by the seed that draws it, in ``form``, and the window that is asked for."""

    seed: int
    form: str
    out: str
    is_small: bool
    query: dict[str, Any]

    @property
    def body(self) -> dict[str, Any]:
        """The request for the window."""
        messages = album(Random(self.seed), self.form, thinks_in_pictures=self.thinks_in_pictures)
        model = f"small-{self.out}" if self.is_small else MODELS[self.out]
        return {"model": model, "format": self.out, "messages": messages, **self.query}

    @property
    def thinks_in_pictures(self) -> bool:
        """Whether thoughts have pictures."""
        return self.seed % 2 == 1

    @property
    def is_counted_exactly(self) -> bool:
        """Whether a window that is not mended costs what /count says: it is in the form in which the messages came.

        Claude forgets what it thought in earlier turns, and a window counts the line that tells a picture in a thought.
        """
        forgets = self.out == "anthropic" and self.query.get("reasoning") == "all"
        return self.form == self.out and not forgets and not (self.form == "gemini" and self.thinks_in_pictures)

    @property
    def limits(self) -> dict[str, Any]:
        """The limits of its model."""
        return SMALL if self.is_small else limits.of_model(MODELS[self.out])


async def asked(client: httpx.AsyncClient, form: str, body: dict[str, Any]) -> dict[str, Any] | None:
    """Return the window, or None if required parts do not fit."""
    answer = await client.post("/window", params={"format": form}, json={"reserve": 0, "uncarried": "drop", **body})
    if answer.status_code == 422:
        assert answer.json()["type"] == "/problems/window-does-not-fit", answer.text
        return None
    assert answer.status_code == 200, answer.text
    window: dict[str, Any] = answer.json()
    return window


async def check(client: httpx.AsyncClient, case: Case) -> None:
    """Check a window against /count of its request, its budget and the limits."""
    window = await asked(client, case.form, case.body)
    if window is None:
        return
    tokens, request = window["tokens"], window["request"]
    assert tokens["total"] <= window["budget"]
    assert min(tokens.values()) >= 0
    assert window.get("trimmed", {"tokens": 0})["tokens"] >= 0
    if lines := window.get("explain"):
        assert sum(line["tokens"] for line in lines if line["kept"]) == tokens["messages"] + tokens["reasoning"]
    answer = await client.post("/count", params={"format": case.out}, json={"model": window["model"], **request})
    assert answer.status_code == 200, answer.text
    counted = answer.json()
    assert counted["tokens"] <= tokens["total"]
    if case.is_counted_exactly and "mended" not in window:
        assert counted["tokens"] == tokens["total"]
    assert limits.over(request, case.limits) == []
    assert [name for name in counted["over_limits"] if name in case.limits] == []


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw a chat and a window's parameters, half of them for a model with small limits."""
    form, seed = draw(st.sampled_from(FORMS)), draw(st.integers(0, 2**32))
    out, is_small = draw(st.sampled_from([form, form, *MODELS])), draw(st.booleans())
    return Case(seed, form, out, is_small, draw(st.fixed_dictionaries({}, optional=QUERIES)))


@examples(0.6)
@given(case=cases())
async def test_a_window_with_media_fits_and_is_counted(small: httpx.AsyncClient, case: Case) -> None:
    """A window of any chat in any form is within its budget and its limits, and never below /count of its request."""
    await check(small, case)


@pytest.mark.parametrize("more", [{}, {"stable": True}, {"tool_results_kept": 0}], ids=str)
async def test_a_cut_result_without_its_file_costs_no_file(small: httpx.AsyncClient, more: dict[str, Any]) -> None:
    """Converse gives files names, which cost tokens; a cut result of a chat has no file, and its line says its tokens."""
    query = {"tool_result_max_tokens": 20, "explain": True, **more}
    case = Case(3, "openai", "converse", is_small=False, query=query)
    await check(small, case)
    window = await asked(small, case.form, case.body)
    assert window is not None
    request = {"model": window["model"], **window["request"]}
    counted = (await small.post("/count", params={"format": "converse"}, json=request)).json()
    assert counted["tokens"] == window["tokens"]["total"]
