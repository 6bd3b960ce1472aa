"""Pictures, sounds and files in a provider's own form that it refuses: each is a line of text, told and counted."""

from typing import Any

import httpx
import pytest

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPj/HwAEAQH/7yMK/gAAAABJRU5ErkJggg=="
GIF = "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
PDF = "JVBERi0xLjQK"
MODELS = {
    "responses": "gpt-5",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-2.5-flash",
    "converse": "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
}
KEYS = {"responses": ("input", "content"), "gemini": ("contents", "parts")}


def own(media_type: str, data: str, kind: str = "image") -> dict[str, Any]:
    return {"type": kind, "source": {"type": "base64", "media_type": media_type, "data": data}}


def inline(media_type: str, data: str) -> dict[str, Any]:
    return {"inlineData": {"mimeType": media_type, "data": data}}


def picture(form: str, data: str) -> dict[str, Any]:
    return {"image": {"format": form, "source": {"bytes": data}}}


def seen(url: str) -> dict[str, Any]:
    return {"type": "input_image", "image_url": url, "detail": "auto"}


UNTAKEN = [
    ("responses", seen("data:image/svg+xml;base64,PHN2Zy8+"), "[image: image/svg+xml, 1 kB]\n"),
    ("responses", seen("data:image/png;base64,"), "[image: image/png, 0 kB]\n"),
    (
        "responses",
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
        "\n[audio: audio/wav, 1 kB]\n",
    ),
    ("anthropic", own("image/bmp", "Qk0AAAAA"), "[image: image/bmp, 1 kB]\n"),
    ("anthropic", own("image/png", ""), "[image: image/png, 0 kB]\n"),
    ("anthropic", own("application/zip", "AAAA", "document"), "\n[file: application/zip, 1 kB]\n"),
    ("gemini", inline("image/gif", GIF), "[image: image/gif, 1 kB]\n"),
    ("gemini", inline("image/svg+xml", "PHN2Zy8+"), "[image: image/svg+xml, 1 kB]\n"),
    ("gemini", inline("image/png", ""), "[image: image/png, 0 kB]\n"),
    (
        "gemini",
        {"fileData": {"mimeType": "image/gif", "fileUri": "https://x.test/a.gif"}},
        "[image: https://x.test/a.gif]\n",
    ),
    ("converse", picture("bmp", "Qk0AAAAA"), "[image: image/bmp, 1 kB]\n"),
    ("converse", picture("png", ""), "[image: image/png, 0 kB]\n"),
]
TYPED = [
    ("responses", seen(f"data:application/octet-stream;base64,{PIXEL}"), seen(f"data:image/png;base64,{PIXEL}")),
    ("responses", seen(f"data:IMAGE/PNG;charset=utf-8;base64,{PIXEL}\n"), seen(f"data:image/png;base64,{PIXEL}")),
    ("anthropic", own("application/octet-stream", PDF, "document"), own("application/pdf", PDF, "document")),
    ("gemini", inline("image/jpg", "/9j/4AAQ"), inline("image/jpeg", "/9j/4AAQ")),
]


async def window(client: httpx.AsyncClient, form: str, *messages: Any) -> Any:
    """Return the window of these messages in their own form."""
    body = {"model": MODELS[form], "messages": list(messages)}
    answer = await client.post("/window", params={"format": form}, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def asked(form: str, part: Any) -> Any:
    text = {"type": "input_text", "text": "hi"} if form == "responses" else {"text": "hi"}
    text = {"type": "text", "text": "hi"} if form == "anthropic" else text
    return {"role": "user", KEYS.get(form, ("", "content"))[1]: [text, part]}


def sent(form: str, made: Any) -> Any:
    """Return the second part of the window's newest message."""
    messages, parts = KEYS.get(form, ("messages", "content"))
    return made["request"][messages][-1][parts][1]


@pytest.mark.parametrize(("form", "part", "line"), UNTAKEN)
async def test_what_the_provider_refuses_is_a_line(client: httpx.AsyncClient, form: str, part: Any, line: str) -> None:
    """A medium in the provider's own form that it refuses is a line with its type and its size, in the window's total."""
    made = await window(client, form, asked(form, part))
    assert sent(form, made)["text"] == line
    assert "untaken_medium" in made["mended"]["reasons"]
    counted = await client.post("/count", params={"format": form}, json={"model": MODELS[form], **made["request"]})
    assert counted.status_code == 200, counted.text
    assert counted.json()["tokens"] <= made["tokens"]["total"]


HEIC = "AAAAGGZ0eXBoZWlj"
LINED = {
    "svg": "data:image/svg+xml;base64,PHN2Zy8+",
    "bmp": "data:image/bmp;base64,Qk0AAAAA",
    "heic": f"data:image/heic;base64,{HEIC}",
    "empty": "data:image/png;base64,",
    "elsewhere": "ftp://x.test/a.png",
}
READERS = [
    *(("gpt-4o-mini", "openai", kind) for kind in LINED),
    *(("gpt-5", "responses", kind) for kind in LINED),
    ("mistral-large-latest", "openai", "empty"),
]


@pytest.mark.parametrize(("model", "form", "kind"), READERS)
async def test_a_picture_that_is_sent_as_a_line_costs_the_line(
    client: httpx.AsyncClient, conversation: str, model: str, form: str, kind: str
) -> None:
    """A window with a line in place of a picture costs that line, a few tokens more at most, stored or in a body."""
    part = {"type": "image_url", "image_url": {"url": LINED[kind]}}
    message = {"role": "user", "content": [{"type": "text", "text": "hi"}, part]}
    made = await client.post("/window", json={"model": model, "format": form, "messages": [message]})
    request = made.json()["request"]
    assert "[image: " in str(request)
    counted = (await client.post("/count", params={"format": form}, json={"model": model, **request})).json()["tokens"]
    assert counted <= made.json()["tokens"]["total"] <= counted + 20
    await client.post(f"/conversations/{conversation}/messages", json={"messages": [message]})
    stored = await client.get(f"/conversations/{conversation}/window", params={"model": model, "format": form})
    assert stored.json()["tokens"] == made.json()["tokens"]


@pytest.mark.parametrize("kind", ["svg", "heic", "elsewhere"])
async def test_a_picture_that_another_server_gets_costs_a_picture(client: httpx.AsyncClient, kind: str) -> None:
    """Servers of other makers get the picture in chat completions, so it costs the most that a picture may."""
    part = {"type": "image_url", "image_url": {"url": LINED[kind]}}
    body = {"model": "mistral-large-latest", "messages": [{"role": "user", "content": [part]}]}
    made = (await client.post("/window", json=body)).json()
    assert made["request"]["messages"][0]["content"] == [part]
    assert made["tokens"]["total"] > 1000


@pytest.mark.parametrize(
    ("form", "part"), [(form, part) for form, part, _ in UNTAKEN if "svg" in str(part) or "Qk0" in str(part)]
)
async def test_a_picture_that_no_provider_takes_costs_its_line(client: httpx.AsyncClient, form: str, part: Any) -> None:
    """An SVG or a BMP in a provider's own form costs its line there."""
    made = await window(client, form, asked(form, part))
    request = {"model": MODELS[form], **made["request"]}
    counted = (await client.post("/count", params={"format": form}, json=request)).json()["tokens"]
    assert counted <= made["tokens"]["total"] <= counted + 20


@pytest.mark.parametrize(("form", "part", "as_sent"), TYPED)
async def test_bytes_that_the_provider_takes_have_their_type(
    client: httpx.AsyncClient, form: str, part: Any, as_sent: Any
) -> None:
    """Bytes of a type that the provider takes are sent with this type, whatever is told."""
    made = await window(client, form, asked(form, part))
    assert sent(form, made) == as_sent
    assert made["mended"]["reasons"] == {"media_type": 1}


async def test_a_text_file_in_base64_is_a_document_of_text(client: httpx.AsyncClient) -> None:
    """Claude takes the words of a text file that came as base64."""
    made = await window(
        client, "anthropic", asked("anthropic", {**own("text/plain", "SGkh", "document"), "title": "a"})
    )
    source = {"type": "text", "media_type": "text/plain", "data": "Hi!"}
    assert sent("anthropic", made) == {"type": "document", "title": "a", "source": source}
    assert made["mended"]["reasons"] == {"untaken_medium": 1}


async def test_a_picture_in_a_result_is_a_line_in_the_response(client: httpx.AsyncClient) -> None:
    """Gemini's result keeps the pictures that Gemini takes; the line of another one is in the response."""
    parts = [inline("image/gif", GIF), inline("image/png", PIXEL)]
    answer = {"id": "a", "name": "look", "response": {"output": "seen"}, "parts": parts}
    made = await window(
        client,
        "gemini",
        {"role": "user", "parts": [{"text": "hi"}]},
        {"role": "model", "parts": [{"functionCall": {"id": "a", "name": "look", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": answer}]},
    )
    found = made["request"]["contents"][-1]["parts"][0]["functionResponse"]
    assert found["response"] == {"output": "seen", "media": "[image: image/gif, 1 kB]\n"}
    assert found["parts"] == parts[1:]


async def test_a_gif_of_a_chat_message_is_a_line_too(client: httpx.AsyncClient) -> None:
    """Gemini gets the same line, told alike, in place of a GIF of a chat message and of one that came as its own part."""
    url = f"data:image/gif;base64,{GIF}"
    seen = {
        "role": "user",
        "content": [{"type": "text", "text": "hi"}, {"type": "image_url", "image_url": {"url": url}}],
    }
    body = {"model": "gemini-2.5-flash", "format": "gemini", "messages": [seen]}
    chat = (await client.post("/window", json=body)).json()
    own = await window(client, "gemini", asked("gemini", inline("image/gif", GIF)))
    assert sent("gemini", chat) == sent("gemini", own) == {"text": "[image: image/gif, 1 kB]\n"}
    assert chat["mended"] == own["mended"] == {"messages": 1, "reasons": {"untaken_medium": 1}}
    request = {"model": MODELS["gemini"], **own["request"]}
    counted = (await client.post("/count", params={"format": "gemini"}, json=request)).json()["tokens"]
    assert counted <= chat["tokens"]["total"] == own["tokens"]["total"] <= counted + 32


async def test_a_gif_costs_openai_what_its_detail_says(client: httpx.AsyncClient) -> None:
    """That a picture is a GIF changes nothing for models that take it: one of low detail costs gpt-4o the base alone."""
    costs = []
    for url in (f"data:image/gif;base64,{GIF}", f"data:image/png;base64,{PIXEL}"):
        part = {"type": "image_url", "image_url": {"url": url, "detail": "low"}}
        body = {"model": "gpt-4o", "messages": [{"role": "user", "content": [part]}]}
        made = (await client.post("/window", json=body)).json()
        assert made["exact"]
        costs.append(made["tokens"]["total"])
    assert costs[0] == costs[1] < 100


async def test_a_picture_in_a_file_part_costs_a_picture(client: httpx.AsyncClient) -> None:
    """A picture that came as a file is sent as a picture in every form, and costs one."""
    file = {"type": "file", "file": {"filename": "a.png", "file_data": f"data:image/png;base64,{PIXEL}"}}
    for form, model in (*MODELS.items(), ("openai", "gpt-4o")):
        body = {"model": model, "format": form, "messages": [{"role": "user", "content": [file]}]}
        usual = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
        made, like = [
            (await client.post("/window", json={**body, "messages": [{"role": "user", "content": [each]}]})).json()
            for each in (file, usual)
        ]
        assert (made["request"], made["tokens"]) == (like["request"], like["tokens"])


async def test_an_outputs_id_begins_as_calls_do(client: httpx.AsyncClient) -> None:
    """Responses take an output's id that begins with ``fc``; another one is left out, and told."""
    items = [
        {"role": "user", "content": "hi"},
        {"type": "function_call", "call_id": "a", "name": "look", "arguments": "{}"},
    ]
    for identity, kept in (("fc_1", {"id": "fc_1"}), ("out_1", {})):
        output = {"type": "function_call_output", "call_id": "a", "output": "seen"}
        made = await window(client, "responses", *items, {**output, "id": identity})
        assert made["request"]["input"][-1] == {**output, **kept}
        assert made.get("mended", {"reasons": {}})["reasons"] == ({} if kept else {"item_id": 1})


@pytest.mark.parametrize(
    "url",
    [
        f"data:image/png;base64,{PIXEL[:40]}\n{PIXEL[40:]}\r\n",
        f"data:image/png;charset=utf-8;base64,{PIXEL}",
        f"data:IMAGE/PNG;base64,{PIXEL}",
        f"DATA:image/png;BASE64, {PIXEL}",
    ],
)
@pytest.mark.parametrize(
    "model",
    [
        *("gpt-4o", "gpt-5", "claude-sonnet-4-5", "gemini-2.5-flash"),
        *("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "llama3.2:3b"),
    ],
)
async def test_a_data_url_is_sent_as_makers_take_it(client: httpx.AsyncClient, model: str, url: str) -> None:
    """A picture's data URL goes out without parameters, white space and upper case, and costs what the usual one costs."""
    forms = {"gpt-4o": "openai", "gpt-5": "responses", "claude-sonnet-4-5": "anthropic", "gemini-2.5-flash": "gemini"}
    form = forms.get(model, "ollama" if "llama" in model else "converse")
    made, usual = [await seen_by(client, model, form, each) for each in (url, f"data:image/png;base64,{PIXEL}")]

    assert made["request"] == usual["request"]
    assert made["tokens"] == usual["tokens"]
    if form in ("openai", "responses"):
        assert made["mended"]["reasons"] == {"media_type": 1}


async def seen_by(client: httpx.AsyncClient, model: str, form: str, url: str) -> Any:
    """Return the window of a chat with the picture, in this form."""
    content = [{"type": "text", "text": "hi"}, {"type": "image_url", "image_url": {"url": url}}]
    body = {"model": model, "format": form, "messages": [{"role": "user", "content": content}]}
    answer = await client.post("/window", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize(
    ("form", "model", "kind"),
    [
        ("anthropic", "claude-sonnet-4-5", "application/pdf"),
        ("anthropic", "claude-sonnet-4-5", "image/png"),
        ("openai", "gpt-4o", "application/pdf"),
    ],
)
async def test_a_file_at_googles_is_read_by_google_alone(
    client: httpx.AsyncClient, conversation: str, form: str, model: str, kind: str
) -> None:
    """Another provider gets a line in place of a file that was uploaded to Gemini; Gemini gets the file."""
    address = "https://generativelanguage.googleapis.com/v1beta/files/abc123"
    parts = [{"fileData": {"fileUri": address, "mimeType": kind}}, {"text": "read it"}]
    messages = [{"role": "user", "parts": parts}]
    sent = f"/conversations/{conversation}/messages"
    assert (await client.post(sent, params={"format": "gemini"}, json={"messages": messages})).status_code == 201
    there = f"/conversations/{conversation}/window"
    made = (await client.get(there, params={"model": model, "format": form})).json()
    content = made["request"]["messages"][0]["content"]
    assert {part["type"] for part in content} == {"text"}
    count = await client.post("/count", params={"format": form}, json={"model": model, **made["request"]})
    assert count.json()["tokens"] <= made["tokens"]["total"]
    own = (await client.get(there, params={"model": "gemini-2.5-flash", "format": "gemini"})).json()
    assert own["request"]["contents"][0]["parts"] == parts
