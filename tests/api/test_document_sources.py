"""Where documents are from: what is kept of it, what the model sees of it, and what a window tells for citations."""

import json
from typing import Any

import httpx
import pytest
from readme_blocks import blocks, section
from rigs.dialogue import append, assistant, user, window

PAGE = {
    "id": "s-1",
    "text": "Doors open at eight.",
    "title": "Handbook",
    "url": "https://x.org/1",
    "metadata": {"page": 3},
}
PLAIN = {"text": "Lunch is at noon."}
FORM = "{content}\n\nSources:\n{documents:[{id}] {title}\n<{url}>\n{text}}"
MODELS = {
    "openai": "gpt-4o-mini",
    "responses": "gpt-4o-mini",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-2.5-flash",
}


def asking(*documents: dict[str, Any], **envelope: Any) -> dict[str, Any]:
    """Return an entry with a question and documents."""
    return user("when?", grounding={"documents": [*documents]}, **envelope)


def source(document: dict[str, Any], seq: int = 1) -> dict[str, Any]:
    """Return a document as a window's ``grounding`` tells it."""
    return {"seq": seq} | {name: value for name, value in document.items() if name != "text"}


async def test_sources_are_kept_and_told(client: httpx.AsyncClient, conversation: str) -> None:
    """Title, address and metadata are stored, exported and told with the kept documents; the model sees the text alone."""
    path = f"/conversations/{conversation}"
    told = (await append(client, conversation, asking(PAGE, PLAIN), model="gpt-4o-mini"))["window"]

    assert told["grounding"]["sources"] == [source(PAGE), source(PLAIN)]
    sent = told["request"]["messages"][0]["content"]
    assert sent == "when?\n\nSources:\nDoors open at eight.\n---\nLunch is at noon."
    assert (await client.get(f"{path}/messages/1")).json()["grounding"] == {"documents": [PAGE, PLAIN]}
    exported = (await client.get(f"{path}/export")).content
    copy = (await client.post("/conversations/import", content=exported.replace(conversation.encode(), b"copy-of-sources"),
                              headers={"Content-Type": "application/x-ndjson"})).json()  # fmt: skip
    again = await window(client, copy["id"])
    assert again["grounding"] == told["grounding"]
    assert (await client.delete(f"/conversations/{copy['id']}")).status_code == 204
    assert (await client.delete(f"{path}/messages/1")).status_code == 204
    assert "sources" not in (await window(client, conversation))["grounding"]


async def test_the_pages_documents(client: httpx.AsyncClient) -> None:
    """The page's template and answer are what the service takes and tells."""
    template, answer = map(json.loads, blocks("json", section("service/sash/windows/README.md", "## Sources")))
    (told,) = answer["grounding"]["sources"]
    entry = asking(
        {**{name: value for name, value in told.items() if name != "seq"}, "text": "Latency."}, {"text": " "}
    )

    window = (await client.post("/window", json={"model": "gpt-4o-mini", "messages": [entry], **template})).json()

    assert window["grounding"] == answer["grounding"]
    written = "when?\n\nSources:\n[s-12] Network latency\nhttps://example.org/s-12\nLatency."
    assert window["request"]["messages"] == [{"role": "user", "content": written}]


async def test_documents_without_a_source(client: httpx.AsyncClient, conversation: str) -> None:
    """Where no document says where it is from, a window has figures alone."""
    told = (await append(client, conversation, asking(PLAIN, {"id": "b", "text": "B."}), model="gpt-4o-mini"))["window"]
    assert told["grounding"] == {"documents": 2, "documents_kept": 2, "truncated": False, "documents_shortened": 0}


@pytest.mark.parametrize("form", MODELS)
async def test_a_template_writes_sources(client: httpx.AsyncClient, conversation: str, form: str) -> None:
    """A form in the template writes id, title and address; a line of what a document lacks is left out. All is counted."""
    await client.post("/conversations", json={"id": conversation, "grounding_template": FORM})
    await append(client, conversation, asking(PAGE, PLAIN, {"text": "No title.", "url": "https://x.org/2"}))

    told = await window(client, conversation, model=MODELS[form], format=form)

    first = "[s-1] Handbook\n<https://x.org/1>\nDoors open at eight."
    written = f"{first}\n---\nLunch is at noon.\n---\n<https://x.org/2>\nNo title."
    assert f"Sources:\n{written}" in str(told["request"]).replace("\\n", "\n")
    body = {"model": MODELS[form], **told["request"]}
    counted = (await client.post(f"/count?format={form}", json=body)).json()
    assert counted["tokens"] == told["tokens"]["total"]


@pytest.mark.parametrize("room", range(0, 60, 3))
async def test_written_sources_fit(client: httpx.AsyncClient, room: int) -> None:
    """Documents in a form are cut and chosen by what is sent, so a window is never over its budget."""
    short = {**PAGE, "short": "Eight."}
    body = {
        "model": "gpt-4o-mini",
        "messages": [asking(short, PLAIN)],
        "grounding_template": FORM,
        "max_tokens": 12 + room,
    }

    told = (await client.post("/window", json=body)).json()

    assert told["tokens"]["total"] <= told["budget"]
    assert len(told["grounding"].get("sources", [])) in (0, told["grounding"]["documents_kept"])
    counted = (await client.post("/count", json={"model": "gpt-4o-mini", **told["request"]})).json()
    assert counted["tokens"] == told["tokens"]["total"]


@pytest.mark.parametrize("empty", ["", " \n"])
async def test_empty_texts_are_left_out(client: httpx.AsyncClient, conversation: str, empty: str) -> None:
    """A document without a word is kept, not sent, and costs nothing; ``explain`` says why."""
    alone = (await append(client, conversation, asking({"text": empty, "title": "T"}), model="gpt-4o-mini"))["window"]
    assert alone["request"]["messages"] == [{"role": "user", "content": "when?"}]
    assert alone["tokens"]["grounding"] == 0
    documents = [{"text": empty}, PLAIN, {"text": empty, "short": empty}]
    told = await append(
        client, conversation, assistant("Soon."), asking(*documents), model="gpt-4o-mini", explain="true"
    )
    assert told["window"]["request"]["messages"][-1]["content"] == "when?\n\nSources:\nLunch is at noon."
    fates = [each["reason"] for each in told["window"]["explain"][-1]["documents"]]
    assert fates == ["its text is empty", "fits", "its text is empty"]


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("{content}{documents:{title}}", "must contain {text} once"),
        ("{content}{documents}{documents:{text}}", "must contain {content} and {documents}, once each"),
        ("{content}\n{title}\n{documents}", "belongs into their form, as in {documents:{title}"),
    ],
)
async def test_wrong_forms(client: httpx.AsyncClient, template: str, says: str) -> None:
    """A template with a form that cannot be used is refused, and says how one is written."""
    for path in ("/conversations", "/window"):
        body = {"grounding_template": template} | ({"model": "gpt-4o", "messages": []} if path == "/window" else {})
        answer = await client.post(path, json=body)
        assert answer.status_code == 400
        assert says in answer.json()["detail"]
