"""The generators: one for each feature that windows have, so that no feature dilutes the others."""

import base64
import random
from collections.abc import Callable
from typing import Any

from core.format_histories import PDF, PNG
from faults.fuzz.agents import documents_for_agents, grounding, views, work_of_one
from faults.fuzz.broken import broken
from faults.fuzz.logs import TURNS, PlainLog, drawn, entry, joined, late, mixed
from faults.fuzz.parameters import FORMS, window, windows
from faults.fuzz.scripts import Object, Script, Sent
from faults.fuzz.stopped import broken_off
from validators import (
    albums,
    chat_turns,
    claude_turns,
    converse_turns,
    gemini_turns,
    item_turns,
    media,
    ollama_turns,
    step_turns,
)
from validators.conversations import SETTINGS
from validators.logs import GIF

_MIXED = mixed()
_CARRIERS = {
    "openai": (chat_turns.user, chat_turns.calls),
    "responses": (item_turns.user, item_turns.calls),
    "anthropic": (claude_turns.user, claude_turns.calls),
    "gemini": (gemini_turns.user, gemini_turns.calls),
    "interactions": (step_turns.user, step_turns.calls),
    "converse": (converse_turns.user, converse_turns.calls),
    "ollama": (ollama_turns.user, ollama_turns.calls),
}
"""Turns that carry pictures, files and sounds."""
_GIF = f"data:image/gif;base64,{GIF}"
_WAV = "UklGRgAAAABXQVZF"


def _fixed(chance: random.Random) -> Object:
    return dict(chance.choice(SETTINGS))


def all_forms(chance: random.Random) -> Script:
    """Turns of all forms beside one another."""
    return Script("all forms", _fixed(chance), drawn(chance, _MIXED), windows=windows(chance))


def one_form(chance: random.Random) -> Script:
    """A chat in one form, appended at once or request by request."""
    form = chance.choice(FORMS)
    sent = [each for each in drawn(chance, TURNS[form]) if each[0] == form]
    return Script(
        "one form", _fixed(chance), joined(sent) if chance.random() < 0.5 else sent, windows=windows(chance, form)
    )


def at_once(chance: random.Random) -> Script:
    """A turn of a call, its result, texts and thoughts in any order that its form allows, appended at once."""
    form = chance.choice(FORMS)
    log = PlainLog(chance)
    user, calls = _CARRIERS[form]
    for _ in range(1 + log.number(2)):
        user(log)
        for turn in chance.sample((calls, calls, TURNS[form][2], TURNS[form][3], late), 1 + log.number(3)):
            turn(log)
        if log.number(1):
            user(log)
    sent = [(each, list(messages)) for each, messages in log.groups if each == form]
    flat = [message for _, messages in sent for message in messages]
    if flat and chance.random() < 0.3:  # a text between a call and its result
        flat.insert(chance.randrange(len(flat) + 1), _said(form, "and then?", is_reply=chance.random() < 0.7))
    return Script("at once", _fixed(chance), [(form, flat)] if flat else [], windows=windows(chance, form))


def _said(form: str, text: str, *, is_reply: bool) -> Object:
    role = "assistant" if is_reply else "user"
    match form:
        case "gemini":
            return {"role": "model" if is_reply else "user", "parts": [{"text": text}]}
        case "converse":
            return {"role": role, "content": [{"text": text}]}
        case "interactions":
            return {"type": "model_output" if is_reply else "user_input", "content": [{"type": "text", "text": text}]}
    return {"role": role, "content": text}


def late_results(chance: random.Random) -> Script:
    """Calls whose results come late, twice or never, with notes and questions between."""
    form = chance.choice(FORMS)
    turns = (
        _CARRIERS[form][1],
        _CARRIERS[form][1],
        chat_turns.calls,
        late,
        late,
        late,
        chat_turns.note,
        chat_turns.user,
    )
    return Script("late results", _fixed(chance), drawn(chance, turns, 10), windows=windows(chance, form))


def documents(chance: random.Random) -> Script:
    """Questions with documents, whose content is a text, or texts, pictures, sounds and files in any order."""
    settings = _fixed(chance)
    if chance.random() < 0.3:
        settings["grounding_template"] = chance.choice(_TEMPLATES)
    sent: list[Sent] = []
    for number in range(chance.randint(1, 4)):
        question = {"role": "user", "content": _content(chance, number)}
        sent.append(("openai", [entry(question, grounding=grounding(chance, 0.8))]))
        if chance.random() < 0.6:
            sent.append(("openai", [{"role": "assistant", "content": f"answer {number} " * chance.choice((1, 20))}]))
    asked = [window(chance, max_tokens=chance.choice((20, 60, 90, 200, 400, 900, 2_500, 100_000))) for _ in range(4)]
    return Script("documents", settings, sent, windows=asked)


def documents_beside_media(chance: random.Random) -> Script:
    """Documents in a question whose words stand on both sides of a sound, a picture or a file; some forms leave that out."""
    held = [chance.choice(MEDIA) for _ in range(chance.choice((1, 1, 2)))]
    texts = [{"type": "text", "text": f"t{n} " * chance.choice((1, 10))} for n in range(2)]
    settings = {"grounding_template": _TEMPLATES[chance.randrange(3)]} if chance.random() < 0.3 else {}
    question = entry({"role": "user", "content": [texts[0], *held, texts[1]]}, grounding=grounding(chance, 1.0))
    sent: list[Sent] = [("openai", [{"role": "user", "content": "before"}])] if chance.random() < 0.3 else []
    asked = [window(chance, max_tokens=chance.choice((90, 200, 400, 900)), uncarried="drop") for _ in range(4)]
    return Script("documents beside media", settings, [*sent, ("openai", [question])], windows=asked)


_TEMPLATES = ("{documents}\n===\n{content}", "Q: {content}{documents}", "<{content}>\n{documents}")


def _content(chance: random.Random, number: int) -> Any:
    if chance.random() < 0.4:
        return f"q{number} " * chance.choice((1, 10))
    texts = [{"type": "text", "text": f"t{number}.{n} " * chance.choice((1, 10))} for n in range(chance.randint(1, 3))]
    held = [chance.choice(MEDIA) for _ in range(chance.randint(0, 2))]
    parts: list[Object] = [*texts, *held]
    chance.shuffle(parts)
    return parts


MEDIA: tuple[Object, ...] = (
    {"type": "image_url", "image_url": {"url": PNG}},
    {"type": "image_url", "image_url": {"url": _GIF}},
    {"type": "image_url", "image_url": {"url": "https://x.test/a.png", "detail": "low"}},
    {"type": "input_audio", "input_audio": {"data": _WAV, "format": "wav"}},
    {"type": "file", "file": {"filename": "a.pdf", "file_data": PDF}},
)


def album(chance: random.Random) -> Script:
    """Pictures, files and sounds wherever a form has a place for one; some are large enough to leave their message."""
    form = chance.choice(tuple(media.FORMS))
    messages = albums.album(chance, form, thinks_in_pictures=chance.random() < 0.5)
    sent: list[Sent] = [(form, messages)] if chance.random() < 0.5 else [(form, [each]) for each in messages]
    return Script("album", _fixed(chance), sent, windows=windows(chance, form))


def one_picture(chance: random.Random) -> Script:
    """The same picture, file or sound in each form that has a place for it: what becomes of it must not depend on that."""
    data, kind = chance.choice(
        ((GIF, "image/gif"), (PNG.partition(",")[2], "image/png"), (_noise(chance), "image/png"))
    )
    url = f"data:{kind};base64,{data}"
    told: dict[str, Object] = {
        "openai": {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]},
        "responses": {"role": "user", "content": [{"type": "input_image", "image_url": url, "detail": "auto"}]},
        "anthropic": {
            "role": "user",
            "content": [{"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}],
        },
        "gemini": {"role": "user", "parts": [{"inlineData": {"mimeType": kind, "data": data}}]},
        "interactions": {"type": "user_input", "content": [{"type": "image", "mime_type": kind, "data": data}]},
        "converse": {
            "role": "user",
            "content": [{"image": {"format": kind.partition("/")[2], "source": {"bytes": data}}}],
        },
        "ollama": {"role": "user", "content": "", "images": [data]},
    }
    sent: list[Sent] = [(form, [told[form]]) for form in chance.sample(FORMS, 4)]
    asked = [window(chance, max_tokens=100_000, uncarried=each) for each in ("error", "drop", "error")]
    return Script("one picture", {}, sent, windows=asked)


def _noise(chance: random.Random) -> str:
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + chance.randbytes(9_000)).decode()


def long_chats(chance: random.Random) -> Script:
    """A hundred messages with a summary, pins and compactions, read with stable cuts, limits and recall."""
    form = chance.choice(FORMS)
    turns = (*TURNS[form], *chat_turns.TURNS)
    sent: list[Sent] = []
    while sum(len(messages) for _, messages in sent) < 80:
        sent += drawn(chance, turns, 12)
    number = sum(len(messages) for _, messages in sent)
    made = [_change(chance, number) for _ in range(chance.randint(0, 3))]
    return Script("long chats", _fixed(chance) | {"recall": "lexical"}, joined(sent), made, windows(chance, form))


def _change(chance: random.Random, number: int) -> tuple[str, str, Any]:
    seq = chance.randint(1, max(1, number // 2))
    return chance.choice(
        (
            ("PUT", "/summary", {"text": "They met. " * chance.choice((1, 30)), "through_seq": seq}),
            ("PATCH", f"/messages/{seq}", {"pinned": True}),
            ("DELETE", f"/messages/{seq}", None),
            ("POST", "/rewind", {"to_seq": number // 2 + seq // 2}),
        )
    )


def changed(chance: random.Random) -> Script:
    """A conversation of which messages were redacted, pinned, summarised or taken back."""
    sent = drawn(chance, _MIXED, 10)
    number = sum(len(messages) for _, messages in sent)
    made = [_change(chance, number) for _ in range(chance.randint(1, 4))]
    return Script("changed", _fixed(chance), sent, made, windows(chance))


def hostile(chance: random.Random) -> Script:
    """A chat in one form, some of whose messages have a hostile part."""
    form = chance.choice(FORMS)
    sent: list[Sent] = [
        (form, [message]) for each, messages in drawn(chance, TURNS[form], 5) for message in messages if each == form
    ]
    kinds = []
    for place in chance.sample(range(len(sent)), min(len(sent), chance.randint(1, 2))):
        made, kind = broken(chance, sent[place][1][0])
        sent[place] = (form, [made])
        kinds.append(kind)
    return Script(f"hostile {kinds[0]}" if kinds else "hostile", _fixed(chance), sent, windows=windows(chance, form, 3))


def tools(chance: random.Random) -> Script:
    """Settings: examples with calls, tools of any schema, choices, and what is hostile in them."""
    settings: Object = {
        "system": chance.choice((None, "", "Be brief.", "<|endoftext|>")),
        "few_shots": chance.choice(
            (None, [], [{"role": "user", "content": "ping"}, {"role": "assistant", "content": "pong"}])
        ),
        "tools": chance.choice((None, [], [_tool(chance) for _ in range(chance.randint(1, 4))])),
        "tool_choice": chance.choice(
            (None, "auto", "none", "required", {"type": "function", "function": {"name": "look"}})
        ),
        "document_separator": chance.choice((None, "", "\n---\n")),
        "recall": chance.choice((None, "lexical", "off")),
    }
    settings = {name: value for name, value in settings.items() if value is not None}
    if settings and chance.random() < 0.5:
        settings, _ = broken(chance, settings)
    return Script("settings", settings, drawn(chance, _MIXED, 4), windows=windows(chance))


def _tool(chance: random.Random) -> Object:
    schema = chance.choice(
        (
            {"type": "object", "properties": {"day": {"type": "integer"}}},
            {
                "type": "object",
                "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
                "required": ["a"],
            },
            {"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"type": "string"}}},
            {},
            None,
        )
    )
    return {
        "type": "function",
        "function": {"name": chance.choice(("look", "find", "find talks!")), "parameters": schema},
    }


FEATURES: dict[str, tuple[Callable[[random.Random], Script], int]] = {
    "all forms": (all_forms, 3),
    "one form": (one_form, 3),
    "at once": (at_once, 3),
    "late results": (late_results, 2),
    "views": (views, 3),
    "an agent's work": (work_of_one, 3),
    "documents for agents": (documents_for_agents, 3),
    "documents": (documents, 4),
    "documents beside media": (documents_beside_media, 3),
    "album": (album, 2),
    "one picture": (one_picture, 2),
    "broken off": (broken_off, 2),
    "long chats": (long_chats, 1),
    "changed": (changed, 2),
    "hostile": (hostile, 5),
    "settings": (tools, 2),
}
"""The generators with their shares."""


def script(seed: int, number: int, only: str = "") -> Script:
    """Return script ``number`` of a run; the same for the same seed."""
    chance = random.Random(f"{seed}/{number}")
    names = [name for name, (_, share) in FEATURES.items() for _ in range(share) if not only or name == only]
    return FEATURES[names[number % len(names)]][0](chance)
