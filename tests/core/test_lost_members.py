"""Members of a recorded message are in the request of every form, or the message is told as mended; so are references."""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

import msgspec
import pytest
from recordings import NO_TRUTH, TRUTH

from sash.core.counts.models.models import find_model
from sash.core.counts.requests.provider_requests import count_provider_request
from sash.core.providers import PROVIDERS
from sash.core.providers.form.lost_members import METADATA
from sash.core.providers.messages.sharing import restore
from sash.core.providers.reading.native import read_request
from sash.problems import Problem
from sash.windows.request import decode_request
from sash.windows.stateless import window_of_request
from sash_tools.bills.truth_rows import rows_in

Object = dict[str, Any]
MODELS: Final = {
    "openai": "gpt-4o",
    "responses": "gpt-5",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-2.5-flash",
    "interactions": "gemini-2.5-flash",
    "converse": "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "ollama": "qwen3:8b",
    "cohere": "command-a-03-2025",
}
FREE: Final = METADATA.union(*(each.shape.aside for each in PROVIDERS.values())) | {
    *("thinking", "summary", "encrypted_content", "thoughtSignature", "thought_signature", "reasoningContent"),
    *("reasoning_content", "reasoning", "reasoning_details", "thinking_blocks", "extra_content"),
    *("url", "image_url", "file_data", "transcript", "container_id"),
    *("document_url", "name", "toolset_name", "arguments"),
}
"""Members of reasoning and media, which have rules of their own; names of tools, which a mend may change; arguments, which
are an object in some forms."""


def texts(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the texts in a value with their paths, without members that no reader misses."""
    match value:
        case str() if value.strip():
            yield path, value
        case {"thought": True} | {"type": "reasoning" | "redacted_thinking" | "thought" | "compaction"}:
            return
        case dict():
            for name, each in value.items():
                if name not in FREE:
                    yield from texts(each, (*path, name))
        case list():
            for each in value:
                yield from texts(each, path)


@cache
def recorded() -> list[tuple[str, str, list[Object]]]:
    """The recorded requests, one for each set of members that their messages have: id, form, messages."""
    found: dict[Any, tuple[str, str, list[Object]]] = {}
    for path in sorted(TRUTH.glob("*.json")):
        if path.stem.startswith(("jtokkit", "build", "kani_chat", "openai_", "cookbook", "vcr")):
            continue  # texts, and chats of texts and calls alone
        for row in rows_in(path.read_bytes(), path.stem):
            messages = row.sent.get(PROVIDERS[row.form].shape.messages)
            if not isinstance(messages, list) or len(json.dumps(messages)) > 20_000:
                continue
            shapes = {
                (each.get("role"), name) for each in messages if isinstance(each, dict) for name, _ in texts(each)
            }
            found.setdefault((row.form, frozenset(shapes)), (row.id, row.form, messages))
    return [*found.values()]


def made_of(came: str, form: str, messages: list[Object], **ways: Any) -> Object:
    body = {"model": MODELS[form], "format": form, "messages": messages, "reserve": 0, "explain": True, **ways}
    wanted, sent = decode_request(msgspec.json.encode(body), came)
    found: Object = msgspec.json.decode(window_of_request(wanted, {}, sent)[0].body)
    return found


def is_in(text: str, request: Mapping[str, Any]) -> bool:
    """Whether a text is in a request, also as part of a JSON text or in two of its parts."""
    sent = json.dumps(request, ensure_ascii=False)
    once = json.dumps(text, ensure_ascii=False)[1:-1]
    return once in sent or json.dumps(once, ensure_ascii=False)[1:-1] in sent


@pytest.mark.skipif(not TRUTH.exists(), reason=NO_TRUTH)
@pytest.mark.parametrize("form", MODELS)
def test_each_member_of_a_recorded_message_is_sent_or_told(form: str) -> None:
    """A text of a message, its parts or its calls is in the request of each form, or the message is told as mended."""
    lost = []
    for name, came, messages in recorded():
        try:
            made = made_of(came, form, messages, uncarried="drop")
            chat = read_request(came, {PROVIDERS[came].shape.messages: messages}).messages
        except Problem:  # a recording without a call's result, or longer than the model takes
            continue
        lines = {line["seq"]: line for line in made["explain"]}
        for seq, message in enumerate(chat, 1):
            line = lines.get(seq, {})
            if not line.get("kept") or line.get("mended"):
                continue
            own = restore(message) if "native" in message else [message]
            lost += [(name, came, path, text[:60]) for path, text in texts(own) if not is_in(text, made["request"])]
    assert not lost, lost[:20]


WORDS: Final = {"type": "text", "text": "q"}
NAMES: Final = {"id": "abc123", "openai": "file-abc123", "claude": "file_01abc", "google": "gs://b/abc.pdf"} | {
    "aws": "s3://b/abc.pdf",
    "web": "https://x.test/abc",
}
REFERENCES: Final[dict[str, tuple[str, Any]]] = {
    "chat file": ("openai", lambda name: {"type": "file", "file": {"file_id": name, "filename": "a.pdf"}}),
    "chat picture": ("openai", lambda name: {"type": "image_url", "image_url": {"url": name}}),
    "chat link": ("openai", lambda name: {"type": "file_url", "file_url": {"url": name}}),
    "chat video": ("openai", lambda name: {"type": "video_url", "video_url": {"url": name}}),
    "claude picture": ("anthropic", lambda name: {"type": "image", "source": {"type": "file", "file_id": name}}),
    "claude document": ("anthropic", lambda name: {"type": "document", "source": {"type": "file", "file_id": name}}),
    "responses picture": ("responses", lambda name: {"type": "input_image", "file_id": name, "detail": "auto"}),
    "responses file": ("responses", lambda name: {"type": "input_file", "file_id": name}),
    "responses link": ("responses", lambda name: {"type": "input_file", "file_url": name}),
    "gemini file": ("gemini", lambda name: {"fileData": {"fileUri": name, "mimeType": "application/pdf"}}),
    "interactions video": ("interactions", lambda name: {"type": "video", "mime_type": "video/mp4", "uri": name}),
    "converse picture": (
        "converse",
        lambda name: {"image": {"format": "png", "source": {"s3Location": {"uri": name}}}},
    ),
    "converse document": (
        "converse",
        lambda name: {"document": {"format": "pdf", "name": "paper", "source": {"s3Location": {"uri": name}}}},
    ),
}


def asked(came: str, part: Object) -> list[Object]:
    """Return a question of a form with this part."""
    if came == "gemini":
        return [{"role": "user", "parts": [{"text": "q"}, part]}]
    if came == "interactions":
        return [{"type": "user_input", "content": [WORDS, part]}]
    word = {"converse": {"text": "q"}, "responses": {"type": "input_text", "text": "q"}}.get(came, WORDS)
    return [{"role": "user", "content": [word, part]}]


@pytest.mark.parametrize("form", MODELS)
@pytest.mark.parametrize("kind", REFERENCES)
def test_no_form_refuses_a_reference(kind: str, form: str) -> None:
    """A medium that is kept elsewhere is sent where the form has a place for it, else it is a told line, counted as such."""
    came, part = REFERENCES[kind]
    for name in NAMES.values():
        made = made_of(came, form, asked(came, part(name)))
        sent = json.dumps(made["request"])
        is_line = any(f"[{word}{more}" in sent for word in ("image", "file", "document", "video") for more in ":,")
        assert is_line == bool(made.get("mended")), made
        assert is_line or "abc" in sent, made
        counted = count_provider_request(form, made["request"], find_model(MODELS[form]))
        more = made["tokens"]["total"] - counted.tokens
        is_bound = kind == "chat picture" and not is_line  # where the size of a linked picture is not known
        assert more >= 0, (name, made)
        assert is_bound or more <= (0 if counted.exact else 2), (name, made)
