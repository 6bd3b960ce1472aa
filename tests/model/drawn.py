"""Arguments of steps: entries, settings and queries. Each is named by a number, which comes from a step's seed."""

import json
import random
from collections.abc import Callable
from itertools import count
from typing import Any

from model.world import calls_in, is_compaction, waiting

AGENTS = ("billing", "triage")
PARTIES: tuple[dict[str, Any], ...] = (
    *[{}] * 5,
    {"author": "billing"},
    {"author": "triage"},
    {"author": "triage", "audience": ["billing"]},
    {"audience": ["triage"]},
    {"author": "billing", "audience": ["triage", "user"]},
)
"""Authors and audiences; most entries have neither."""
OWNERS = ("ann", "bob")
SPENT_ON = "claude-opus-4-1"
"""The estimated model for which usage is reported. No window is asked for it, because a process may learn of a report some
seconds after the others."""

SMALL = {"images": 3, "bytes": 40_000, "messages": 60}
"""Limits that a conversation is soon over: of two models, one counted exactly and one estimated."""
MODELS_FILE = "".join(
    f'[models.small-{name}]\ncontext_window = 128000\nlike = "{model}"\n[models.small-{name}.limits]\n'
    + "".join(f"{limit} = {most}\n" for limit, most in SMALL.items())
    for name, model in (("gpt", "gpt-4o"), ("claude", "claude-sonnet-4-5"))
)

_SHAPES = (
    "user",
    "assistant",
    "next",
    "call",
    "result",
    "user with documents",
    "calls",
    "result",
    "last result",
    "system",
    "named user",
    "parts",
    "refusal",
    "thought",
    "custom call",
    "legacy call",
    "legacy result",
    "developer",
    "orphan",
    "late result",
    "compaction",
    "sealed compaction",
    "picture",
    "pictures",
)
_SIZES = (1, 8, 60, 0)
_FILLINGS = ("word ", "é 날 ", "<|endoftext|> ", 'a "quote"\n')
_PICTURE = 8_300
"""Characters of a picture's base64, which leave its message."""
_IDS = 20
_NAMED = 6
_EXTRAS = 8


Kind = Callable[[random.Random], Any]
"""A function that returns an argument of a rule, drawn with a step's random generator."""


def numbers(limit: int) -> Kind:
    """Draw a number below ``limit``."""
    return lambda chance: chance.randrange(limit)


def one_of(*values: Any) -> Kind:
    return lambda chance: chance.choice(values)


def maybe(kind: Kind) -> Kind:
    """Draw from ``kind``, or None, each half of the time."""
    return lambda chance: kind(chance) if chance.random() < 0.5 else None


def lists(kind: Kind, shortest: int, longest: int) -> Kind:
    return lambda chance: [kind(chance) for _ in range(chance.randint(shortest, longest))]


ENTRY = numbers(len(_SHAPES) * len(_SIZES) * _IDS * _EXTRAS)
ENTRIES = lists(ENTRY, 1, 4)
TURNS = lists(ENTRY, 5, 9)
SETTINGS = numbers(400)
QUERY = numbers(1200)
ANY = numbers(64)
FLAG = maybe(lambda _: True)


class Words:
    """Marker words; none is given twice."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def mark(self) -> str:
        return f"mark{next(self._numbers)}z"

    def text(self, size: int, filling: int = 0) -> str:
        """Return a text of about ``size`` words that begins with a marker word."""
        return f"{self.mark()} {_FILLINGS[filling] * size}".strip()


def entries_of(drawn: list[int], history: list[dict[str, Any]], words: Words) -> list[dict[str, Any]]:
    """Return entries that follow a history of messages; results answer its open tool calls."""
    said = list(history)
    found = []
    for number in drawn:
        entry = _entry(number, said, words)
        found.append(entry)
        if entry["message"]["role"] != "tool" or entry["message"]["tool_call_id"] in calls_in(said):
            said.append(entry["message"])
    return found


def _entry(number: int, history: list[dict[str, Any]], words: Words) -> dict[str, Any]:
    rest, shape = divmod(number, len(_SHAPES))
    rest, identity = divmod(rest, _IDS)
    extras, size = divmod(rest, len(_SIZES))
    if _SHAPES[shape] == "orphan" and extras:
        shape = 0
    entry: dict[str, Any] = {"message": _message(_SHAPES[shape], history, words.text(_SIZES[size], extras % 4), words)}
    if identity >= _IDS - _NAMED:
        entry["id"] = f"e-{identity}"
    if extras in (1, 6) and not is_compaction(entry["message"]):  # a compaction is never pinned
        entry["pinned"] = True
    if extras == 5 and not is_compaction(entry["message"]):
        entry["sent"] = False
    if extras in (2, 6):
        entry["metadata"] = {"note": words.mark(), "n": 1.5}
    if _SHAPES[shape] == "user with documents":
        entry["grounding"] = {"documents": _documents(extras, words)}
    return entry | PARTIES[number // 7 % len(PARTIES)]


def reply_of(identity: str, text: str, stage: int, *, first: bool) -> dict[str, Any]:
    """Return a reply that is begun, written on or ended; most but a ``first`` one only continue what was begun."""
    status = ("in_progress", "in_progress", "in_progress", "completed", "interrupted", None)[0 if first else stage % 6]
    entry: dict[str, Any] = {"id": identity, "message": {"role": "assistant", "content": text}}
    if status:
        entry["status"] = status
    if stage % 5 == 0 if first else stage % 4:
        entry["continues"] = True
    if stage % 8 == 1:
        entry["pinned"] = True
    if stage % 8 == 2:
        entry["metadata"] = {"part": stage}
    return entry | PARTIES[(len(identity) + ord(identity[-1]) + (stage % 9 == 5)) % len(PARTIES)]


def _documents(extras: int, words: Words) -> list[dict[str, Any]]:
    texts = [words.text(size) for size in ((5,), (40, 3), (3, 3, 3))[extras % 3]]
    shorter = {"short": texts[0]} if extras % 5 == 1 else {}
    named = [{"id": f"d-{place}"} if extras % 2 else {} for place in range(len(texts))]
    about = {"title": words.text(2), "url": "https://x.org/d", "metadata": {"page": extras}} if extras % 7 == 3 else {}
    return [{**name, "text": text, **shorter, **about} for name, text in zip(named, texts, strict=True)]


def _message(  # noqa: C901 - a case for each shape
    shape: str, history: list[dict[str, Any]], text: str, words: Words
) -> dict[str, Any]:
    open_calls, all_calls = waiting(history, is_again=True), calls_in(history)
    if shape == "next":
        shape = "result" if open_calls else "assistant"
    elif shape in ("result", "last result") and not open_calls:
        shape = "late result"
    if shape == "late result" and not all_calls:
        shape = "user"
    match shape:
        case "call" | "calls" | "custom call":
            number = 3 if shape == "calls" else 1
            calls = [_call(f"call-{len(history)}-{n}", words, custom=shape == "custom call") for n in range(number)]
            return {"role": "assistant", "content": None if number == 1 else text, "tool_calls": calls}
        case "result" | "last result" | "orphan":
            call = "call-x" if shape == "orphan" or not open_calls else open_calls[-(shape == "last result")]
            told = text if len(text) % 2 else json.dumps({"note": text, "days": [1, 2]})  # JSON is counted differently
            return {"role": "tool", "tool_call_id": call, "content": told}
        case "late result":
            return {"role": "tool", "tool_call_id": all_calls[len(history) % len(all_calls)], "content": text}
        case "legacy call":
            call = {"name": "look", "arguments": f'{{"at": "{words.mark()}"}}'}
            return {"role": "assistant", "content": None, "function_call": call}
        case "legacy result":
            return {"role": "function", "name": "look", "content": text}
        case "named user":
            return {"role": "user", "content": text, "name": "ann", "x_field": {"kept": words.mark()}}
        case "parts":
            image = {
                "type": "image_url",
                "image_url": {"url": f"https://example.org/{words.mark()}.png", "detail": "low"},
            }
            return {"role": "user", "content": [{"type": "text", "text": text}, image]}
        case "compaction":
            block = {"type": "compaction", "content": text}
            return _compaction("anthropic", {"role": "assistant", "content": [block]})
        case "sealed compaction":
            return _compaction(
                "responses", {"type": "compaction", "id": f"cmp_{words.mark()}", "encrypted_content": "c2Vh" * 9}
            )
        case "picture":
            return {"role": "user", "content": [{"type": "text", "text": text}, _picture(words.mark())]}
        case "pictures":  # one of them is in other messages too
            same = _picture(f"same{len(text) % 3}")
            return {"role": "user", "content": [_picture(words.mark()), {"type": "text", "text": text}, same, same]}
        case "thought":
            return {"role": "assistant", "content": text, "reasoning_content": words.text(8)}
        case "refusal":
            return {"role": "assistant", "content": None, "refusal": text}
        case "user with documents":
            return {"role": "user", "content": text}
    return {"role": shape, "content": text}


def _compaction(form: str, own: dict[str, Any]) -> dict[str, Any]:
    """Return a provider's compaction as it is exported, so that it can be sent beside chat messages."""
    return {"role": "assistant", "content": None, "native": {"format": form, "messages": [own]}}


def _picture(begins: str) -> dict[str, Any]:
    data = begins + "A" * (_PICTURE - len(begins))
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}", "detail": "low"}}


def _call(identity: str, words: Words, *, custom: bool) -> dict[str, Any]:
    if custom:
        return {"id": identity, "type": "custom", "custom": {"name": "write", "input": words.mark()}}
    arguments = f'{{"at": "{words.mark()}"}}'
    return {"id": identity, "type": "function", "function": {"name": "look", "arguments": arguments}}


def _system(words: Words) -> str:
    return words.text(6)


def _shots(words: Words) -> list[dict[str, Any]]:
    return [{"role": "user", "content": words.text(2)}, {"role": "assistant", "content": "pong"}]


def _tools(words: Words) -> list[dict[str, Any]]:
    parameters = {"type": "object", "properties": {"day": {"type": "integer"}}}
    return [{"type": "function", "function": {"name": "look", "description": words.mark(), "parameters": parameters}}]


_FIELDS: dict[str, tuple[Callable[[Words], Any], ...]] = {
    "model": (lambda _: "gpt-4o", lambda _: "gpt-4", lambda _: "claude-sonnet-4-5"),
    "owner": (lambda _: "ann", lambda _: "bob", lambda _: "ann"),
    "ttl_seconds": (lambda _: 100, lambda _: 5000, lambda _: 100_000),
    "system": (_system,),
    "few_shots": (_shots,),
    "tools": (_tools,),
    "tool_choice": (lambda _: "auto", lambda _: "none"),
    "grounding_template": (
        lambda words: f"{{content}}\n\n{words.mark()}:\n{{documents}}",
        lambda _: "Q {content} {documents:{title} {url}\n{text}}",
    ),
    "document_separator": (lambda _: "\n", lambda _: ""),
    "reserve": (lambda _: 0, lambda _: 500),
    "metadata": (lambda words: {"channel": words.mark(), "deep": {"a": 1, "b": [2]}}, lambda _: {"deep": {"a": 7}}),
}
_SETTINGS_DRAWN = sorted(
    (
        tuple((name, chance.randrange(9)) for name in _FIELDS if chance.random() < share)
        for chance in [random.Random(11)]
        for share in (0.05, 0.15, 0.3, 0.5)
        for _ in range(100)
    ),
    key=len,
)


def settings_of(number: int, words: Words) -> dict[str, Any]:
    """Return settings of a conversation; those of number 0 are empty."""
    found = {}
    for name, choice in _SETTINGS_DRAWN[number]:
        ways = _FIELDS[name]
        found[name] = ways[choice % len(ways)](words)
    return found


def patch_of(number: int, words: Words) -> dict[str, Any]:
    """Return a patch that sets some settings and removes others."""
    chance = random.Random(number)
    patch = settings_of(number, words)
    for name in _FIELDS:
        if chance.random() < 0.15:
            patch[name] = None
    if "metadata" in patch and isinstance(patch["metadata"], dict) and chance.random() < 0.5:
        patch["metadata"] = {"deep": {"a": None, "c": words.mark()}}
    return patch


_PARAMETERS: dict[str, tuple[Any, ...]] = {
    "model": ("gpt-4o", "gpt-4o", "gpt-4o-mini", "gpt-4", "gpt-5", "claude-sonnet-4-5") * 2
    + ("small-gpt", "small-claude", "small-claude", "nobody-knows"),
    "reserve": (0, 1024, 100_000),
    "max_tokens": (40, 80, 120, 200, 300, 500, 900, 2000, 20_000),
    "limit": (1, 2, 3, 5, 9, 30),
    "turns": (1, 2, 4),
    "overflow": ("stop", "skip"),
    "grounding": ("latest", "all", "none"),
    "grounding_max_tokens": (5, 40, 200),
    "grounding_overflow": ("trim", "whole", "drop", "error"),
    "dedupe": ("grounding", "messages", "none"),
    "stable": ("true", "false"),
    "stable_step": (0.05, 0.1, 0.5),
    "start": ("any", "user"),
    "summary": ("auto", "never", "always"),
    "note": ("true", "false"),
    "reasoning": ("turn", "all", "none"),
    "tool_result_max_tokens": (1, 40, 60, 200),
    "tool_results_kept": (0, 1, 3),
    "tool_result_overflow": ("trim", "error"),
    "images_kept": (0, 1, 2),
    "unanswered": ("note", "drop"),
    "recall_max_tokens": (20, 60, 200, 1000),
    "recall_query": ("word", "look at quotes", "mark3z mark7z mark11z", "날 é", "the"),
    "explain": ("true", "false"),
    "format": ("openai", "responses", "anthropic", "gemini"),
    "view": (*AGENTS, "nobody"),
}
_LIKELY = {"model": 0.93, "max_tokens": 0.6, "reserve": 0.08, "format": 0.15, "limit": 0.12, "view": 0.2}


def _queries() -> list[dict[str, Any]]:
    chance = random.Random(13)
    made = [
        {
            name: chance.choice(values)
            for name, values in _PARAMETERS.items()
            if chance.random() < _LIKELY.get(name, share)
        }
        for share in (0.0, 0.1, 0.25, 0.5)
        for _ in range(300)
    ]
    return sorted(made, key=len)


QUERIES = _queries()


def body_of(query: dict[str, Any], settings: dict[str, Any], entries: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the body of ``POST /window`` that asks for the window of a conversation with these settings and entries."""
    fixed = (
        "system",
        "few_shots",
        "tools",
        "tool_choice",
        "grounding_template",
        "document_separator",
        "model",
        "reserve",
    )
    body = {name: settings[name] for name in fixed if name in settings}
    said = {name: {"true": True, "false": False}.get(value, value) for name, value in query.items()}
    return {**body, **said, "messages": entries}
