"""Windows inside their provider's limits over HTTP: bytes, pictures, tools, and the figures that tell what was left out."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from conftest import http, lifespan
from rigs.dialogue import append, assistant, statistics, user, window
from validators import limits
from validators.media import FORMS, pdf, png, seen, shown

from sash.app import create_app
from sash.settings import Settings
from sash.store.redis.embedded import EmbeddedStore

CLAUDE = "claude-opus-4-6"
HAIKU = "claude-haiku-4-5"
SHOT_BYTES = 2_430_000
"""Bytes of a screenshot of 900 by 900 pixels, of which eleven make a request of 35.7 MB."""


def picture(text: str, width: int = 100, height: int = 100, size: int = 0, **envelope: Any) -> dict[str, Any]:
    """An entry with a question and a picture."""
    url = f"data:image/png;base64,{png(width, height, size)}"
    parts = [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": url}}]
    return {"message": {"role": "user", "content": parts}, **envelope}


MODELS = f"""
[models.small]
context_window = 200000
like = "{HAIKU}"

[models.small.limits]
images = 10
tools = 5

[models.tiny]
context_window = 200000
like = "{HAIKU}"

[models.tiny.limits]
bytes = 40000
"""


@pytest_asyncio.fixture
async def small(
    store: EmbeddedStore,
    tmp_path: Path,
    encryption_key: tuple[bytes, ...],
    nothing_left: None,  # noqa: ARG001
) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client of an application whose models file has a model that takes ten pictures and five tools, and one that
    takes 40 kB."""
    models = tmp_path / "models.toml"
    models.write_text(MODELS)
    settings = Settings(redis_url=store.url, durability="fast", models_file=models, encryption_key=encryption_key)
    async with lifespan(create_app(settings)) as app, http(app) as client:
        yield client


def tools(count: int) -> list[dict[str, Any]]:
    return [{"type": "function", "function": {"name": f"tool_{n}", "parameters": {}}} for n in range(count)]


async def album(client: httpx.AsyncClient, conversation: str, count: int, **of: Any) -> None:
    """Append pictures, each with an answer."""
    for number in range(count):
        await append(client, conversation, picture(f"picture {number}", **of), assistant(f"seen {number}"))


@pytest.mark.parametrize("form", FORMS)
async def test_eleven_screenshots_are_a_request_that_claude_takes(
    client: httpx.AsyncClient, conversation: str, form: str
) -> None:
    """Of 35.7 MB, the newest nine screenshots are sent, and a line says where each older one is."""
    await album(client, conversation, 11, width=900, height=900, size=SHOT_BYTES)
    await append(client, conversation, user("and now?"))
    found = await window(client, conversation, model=CLAUDE, format=form)
    assert limits.over(found["request"], limits.of_model(CLAUDE)) == []
    assert (limits.pictures_in(found["request"]), found["kept"]["messages"]) == (9, 23)
    assert (found["dropped"]["images"], found["stop_reason"]) == (2, "bytes")
    assert found["dropped"]["media_bytes"] > 2 * SHOT_BYTES
    line = f"[image, image/png, 900x900, 2431 kB, left out; it is at /conversations/{conversation}/messages/1]"
    assert line in json.dumps(found["request"])


async def test_a_hundred_pictures_are_sent_where_a_hundred_are_taken(
    client: httpx.AsyncClient, conversation: str
) -> None:
    """Of 150 pictures for a model that takes 100, the newest are sent, and no message is left out."""
    entries = [entry for n in range(150) for entry in (picture(f"picture {n}"), assistant("seen"))]
    for start in range(0, len(entries), 60):
        await append(client, conversation, *entries[start : start + 60])
    found = await window(client, conversation, model=HAIKU, format="anthropic", explain=True)
    assert limits.over(found["request"], limits.of_model(HAIKU)) == []
    assert (limits.pictures_in(found["request"]), found["dropped"]["images"]) == (100, 50)
    assert (found["dropped"]["messages"], found["stop_reason"]) == (0, "images")
    assert [line.get("left_out") for line in found["explain"][:3]] == [{"images": 1}, None, {"images": 1}]
    given = {"model": HAIKU, "format": "anthropic", "messages": entries}
    stateless = (await client.post("/window", json=given)).json()
    assert stateless["dropped"]["images"] == 50
    assert stateless["tokens"]["total"] < found["tokens"]["total"]  # its lines have no address


async def test_pictures_that_must_be_in_are_refused_with_the_limit(
    client: httpx.AsyncClient, conversation: str
) -> None:
    """A question with 101 pictures has no window for a model that takes 100: the problem says by how much."""
    parts = picture("all", 10, 10)["message"]["content"]
    message = {"role": "user", "content": [parts[0], *[parts[1]] * 101]}
    answer = await client.post("/window", json={"model": HAIKU, "messages": [{"message": message}]})
    assert answer.status_code == 422
    problem = answer.json()
    assert problem["type"] == "/problems/window-does-not-fit"
    wanted = {"limit": "images", "budget": 100, "needed": 101, "shortfall": 1, "costs": {"question": 101}}
    assert {name: problem[name] for name in wanted} == wanted
    pinned = [picture(f"{n}", pinned=True) for n in range(60)]
    await append(client, conversation, *pinned)
    entry = {"message": {"role": "user", "content": [parts[0], *[parts[1]] * 60]}}
    stored = await client.post(
        f"/conversations/{conversation}/messages", json={"messages": [entry]}, params={"model": HAIKU}
    )
    assert stored.status_code == 201
    assert stored.json()["window"] is None
    error = stored.json()["window_error"]
    assert (error["limit"], error["costs"]) == ("images", {"pinned messages": 60, "question": 60})


async def test_documents_are_never_over_the_bytes_of_a_request(small: httpx.AsyncClient, conversation: str) -> None:
    """A question whose documents make the request too large has no window with them, whatever else gives way."""
    documents = [{"id": str(number), "text": f"{number} " + "word " * 3_500} for number in range(2)]
    await append(small, conversation, user("older " * 100), assistant("seen"))
    await append(small, conversation, user("what? " * 1_500) | {"grounding": {"documents": documents}})
    path, query = f"/conversations/{conversation}/window", {"model": "tiny", "format": "anthropic"}
    answer = await small.get(path, params=query)
    assert answer.status_code == 422
    problem = answer.json()
    assert (problem["limit"], problem["budget"], set(problem["costs"])) == ("bytes", 40_000, {"text", "documents"})
    without = await small.get(path, params={**query, "grounding": "none"})
    assert len(json.dumps(without.json()["request"])) <= 40_000


async def test_a_picture_that_claude_refuses_is_a_line_everywhere(client: httpx.AsyncClient, conversation: str) -> None:
    """A picture of over 8,000 pixels becomes a line also in the newest question; over 20 pictures, 2,000 are the limit."""
    await append(client, conversation, picture("huge", 9000, 10))
    found = await window(client, conversation, model=HAIKU, format="anthropic")
    assert (limits.pictures_in(found["request"]), found["dropped"]["images"]) == (0, 1)
    assert "9000x10" in json.dumps(found["request"])
    await album(client, conversation, 30, width=2001, height=10)
    found = await window(client, conversation, model=HAIKU, format="anthropic")
    assert limits.pictures_in(found["request"]) == 20
    assert limits.over(found["request"], limits.of_model(HAIKU)) == []


@pytest.mark.parametrize("form", FORMS)
async def test_screenshots_in_results_count_in_every_form(
    client: httpx.AsyncClient, conversation: str, form: str
) -> None:
    """An agent's screenshots that came in one form are left out, the oldest first, in its form and in the others."""
    for number in range(6):
        groups = [shown(form, f"step {number}"), *seen(form, f"call_{number}", png(60 + number, 40))]
        for kind, messages in groups:
            answer = await client.post(
                f"/conversations/{conversation}/messages", json={"messages": messages}, params={"format": kind}
            )
            assert answer.status_code == 201, answer.text
    for other in FORMS:
        found = await window(client, conversation, model=HAIKU, format=other, images_kept=2)
        sent = 0 if other == "openai" else 2  # chat completions take no picture in a result
        assert limits.pictures_in(found["request"]) == sent
        assert found["dropped"]["images"] == (0 if other == "openai" else 4)
        assert found["stop_reason"] == "complete"
        assert found["kept"]["messages"] == 18


async def test_the_beginning_of_a_stable_window_stays(small: httpx.AsyncClient, conversation: str) -> None:
    """Where ten pictures are taken, 60 turns with one each change the beginning of the request every sixth turn."""
    before: list[Any] = []
    moved = 0
    for number in range(60):
        entries = [picture(f"picture {number}"), assistant(f"seen {number}")]
        answer = await append(small, conversation, *entries, model="small", stable=True, format="anthropic")
        found = answer["window"]
        assert limits.over(found["request"], {"images": 10}) == []
        assert found["dropped"]["messages"] == 0
        now = found["request"]["messages"]
        moved += now[: len(before)] != before
        before = now
    assert moved == 9


async def test_kept_pictures_of_a_stable_window_stay_too(client: httpx.AsyncClient, conversation: str) -> None:
    """With ``images_kept`` pictures become lines only when the cut moves."""
    before: list[Any] = []
    moved, firsts = 0, set()
    for number in range(40):
        entries = [picture(f"picture {number} " + "word " * 20), assistant(f"seen {number} " + "word " * 30)]
        asked = {"model": HAIKU, "stable": True, "images_kept": 1, "max_tokens": 1500}
        found = (await append(client, conversation, *entries, **asked))["window"]
        now = found["request"]["messages"]
        moved += now[: len(before)] != before
        before = now
        firsts.add(found["kept"]["first_seq"])
    assert moved == len(firsts) - 1 > 2
    assert found["dropped"]["images"] > 0


async def test_pages_are_counted(client: httpx.AsyncClient, conversation: str) -> None:
    """Of documents with 130 pages for a model that takes 100, the older one becomes a line."""
    for pages in (70, 60):
        part = {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{pdf(pages)}"}}
        message = {"role": "user", "content": [{"type": "text", "text": "read"}, part]}
        await append(client, conversation, {"message": message}, assistant("done"))
    found = await window(client, conversation, model=HAIKU, format="anthropic")
    assert (found["dropped"]["files"], found["dropped"]["images"], found["stop_reason"]) == (1, 0, "images")
    assert limits.over(found["request"], limits.of_model(HAIKU)) == []


async def test_tools_are_checked_where_they_are_set(client: httpx.AsyncClient, conversation: str) -> None:
    """More tools than the conversation's model takes are 422 at POST and PATCH, and change nothing."""
    many = {"id": conversation, "model": "gpt-4o-mini", "tools": tools(129)}
    answer = await client.post("/conversations", json=many)
    assert (answer.status_code, answer.json()["limit"], answer.json()["shortfall"]) == (422, "tools", 1)
    assert answer.json()["errors"][0]["pointer"] == "#/tools"
    assert (await client.get(f"/conversations/{conversation}")).status_code == 404
    assert (await client.post("/conversations", json={**many, "tools": tools(128)})).status_code == 201
    patched = await client.patch(f"/conversations/{conversation}", json={"tools": tools(200)})
    assert (patched.status_code, patched.json()["limit"]) == (422, "tools")
    longer = [{"type": "function", "function": {"name": "t" * 65, "parameters": {}}}]
    patched = await client.patch(f"/conversations/{conversation}", json={"tools": longer})
    assert (patched.status_code, patched.json()["limit"]) == (422, "tool_name")
    assert len((await client.get(f"/conversations/{conversation}")).json()["tools"]) == 128


async def test_tools_of_a_conversation_without_a_model_are_checked_at_its_window(
    client: httpx.AsyncClient, conversation: str
) -> None:
    """200 tools are a conversation's to have; gpt-4o-mini takes 128, and a model of Claude takes them."""
    made = await client.post("/conversations", json={"id": conversation, "tools": tools(200)})
    assert made.status_code == 201
    await append(client, conversation, user("hello"))
    refused = await client.get(f"/conversations/{conversation}/window", params={"model": "gpt-4o-mini"})
    assert (refused.status_code, refused.json()["limit"], refused.json()["needed"]) == (422, "tools", 200)
    assert (await window(client, conversation, model=CLAUDE))["stop_reason"] == "complete"
    named = await client.patch(f"/conversations/{conversation}", json={"model": "gpt-4o-mini"})
    assert (named.status_code, named.json()["limit"]) == (422, "tools")
    assert "model" not in (await client.get(f"/conversations/{conversation}")).json()


async def test_count_names_the_bytes_of_a_request_that_is_over(small: httpx.AsyncClient) -> None:
    """POST /count names ``bytes`` where the request as JSON has more than the model takes."""
    for characters, over in ((39_000, []), (41_000, ["bytes"])):
        asked = {"model": "tiny", "messages": [{"role": "user", "content": "x " * (characters // 2)}]}
        assert (await small.post("/count", json=asked)).json()["over_limits"] == over


async def test_count_names_the_limits_that_a_request_is_over(client: httpx.AsyncClient) -> None:
    """POST /count counts a request that is too large, and says in what."""
    parts = picture("all", 3000, 10)["message"]["content"]
    messages = [{"role": "user", "content": [parts[0], *[parts[1]] * 101]}]
    counted = (await client.post("/count", json={"model": HAIKU, "messages": messages})).json()
    assert counted["over_limits"] == ["images", "many_images_side"]
    counted = (
        await client.post(
            "/count",
            json={"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "hi"}], "tools": tools(129)},
        )
    ).json()
    assert counted["over_limits"] == ["tools"]
    counted = (await client.post("/count", json={"model": "gpt-4o-mini", "text": "hi"})).json()
    assert counted["over_limits"] == []


@pytest.mark.parametrize("model", [HAIKU, CLAUDE, "gpt-4o-mini", "gemini-3-pro-preview", "llama-3.3-70b"])
async def test_a_model_shows_its_limits(client: httpx.AsyncClient, model: str) -> None:
    """GET /models has the vendor's limits; those that are not known are null."""
    shown_limits = (await client.get(f"/models/{model}")).json()["limits"]
    assert {name: most for name, most in shown_limits.items() if most is not None} == limits.of_model(model)


async def test_an_operator_sets_limits(small: httpx.AsyncClient) -> None:
    """A model of the deployment's file has the limits of the model that it is like, except those of its own."""
    shown_limits = (await small.get("/models/small")).json()["limits"]
    assert shown_limits["images"] == 10
    assert shown_limits["bytes"] == limits.of_model(HAIKU)["bytes"]
    refused = await small.post("/conversations", json={"model": "small", "tools": tools(6)})
    assert (refused.status_code, refused.json()["limit"], refused.json()["budget"]) == (422, "tools", 5)


async def test_what_was_left_out_is_counted(new_client: httpx.AsyncClient, conversation: str) -> None:
    """GET /stats and GET /metrics count pictures that were sent as lines, their bytes, and the windows that they ended."""
    before = (await statistics(new_client))["start"]["all"]
    await album(new_client, conversation, 101)
    found = await window(new_client, conversation, model=HAIKU)
    assert (found["stop_reason"], found["dropped"]["images"]) == ("images", 1)
    after = (await statistics(new_client))["start"]["all"]
    assert after["dropped_images"] - before["dropped_images"] == 1
    assert after["dropped_media_bytes"] - before["dropped_media_bytes"] == found["dropped"]["media_bytes"] > 0
    assert after["stop_reasons"]["images"] - before["stop_reasons"]["images"] == 1
    metrics = (await new_client.get("/metrics")).text
    for series in (
        'sash_window_dropped_images_total{model="claude-haiku-4-5"}',
        'sash_window_dropped_media_bytes_total{model="claude-haiku-4-5"}',
        'sash_windows_total{model="claude-haiku-4-5",stop_reason="images"}',
    ):
        assert series in metrics


async def test_windows_that_bytes_ended_are_counted(new_client: httpx.AsyncClient, conversation: str) -> None:
    """GET /stats and GET /metrics count windows with ``stop_reason`` ``bytes``."""
    before = (await statistics(new_client))["start"]["all"]["stop_reasons"]["bytes"]
    await album(new_client, conversation, 14, width=900, height=900, size=SHOT_BYTES)
    assert (await window(new_client, conversation, model=CLAUDE))["stop_reason"] == "bytes"
    assert (await statistics(new_client))["start"]["all"]["stop_reasons"]["bytes"] == before + 1
    assert f'sash_windows_total{{model="{CLAUDE}",stop_reason="bytes"}}' in (await new_client.get("/metrics")).text
