"""More operations of the state machine, each a place where windows once failed.

Views with compactions and documents, media that vanish from the storage, followers far behind, and hostile parts.
"""

import asyncio
import contextlib
import json
import random
from typing import Any
from urllib.parse import urlencode

from faults.fuzz.broken import HALF, broken
from faults.fuzz.logs import TURNS, drawn
from model.asgi import Answer, Listener, Request
from model.drawn import AGENTS, ANY, QUERIES, QUERY, maybe, numbers, one_of
from model.machine import PLACES, TENANTS, Machine, step
from model.world import Name, Op, is_compaction, pictures_in

_FORMS = (
    ("openai", "gpt-4o"),
    ("openai", "deepseek-chat"),
    ("responses", "gpt-5"),
    ("anthropic", "claude-sonnet-4-5"),
    ("gemini", "gemini-2.5-flash"),
    ("interactions", "gemini-2.5-flash"),
    ("converse", "us.anthropic.claude-sonnet-4-5-20250929-v1:0"),
    ("ollama", "qwen3:8b"),
)
_TIGHT = (60, 100, 150, 200, 300, 600, 2_000)
_RESULT_WORDS = (1, 20, 400, 1_800)
_BEHIND = 34
"""Versions with bodies of ten thousand characters: more than 256 KiB of events."""
_CALL: dict[str, Any] = {"id": "call-1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
_USE = {"type": "tool_use", "id": "call-1", "name": "look", "input": '{"day": '}
_ITEM = {"type": "function_call", "call_id": "call-1", "name": "look"}
HOSTILE: tuple[tuple[str, dict[str, Any]], ...] = (
    ("openai", {"role": "user", "content": HALF}),
    ("openai", {"role": "assistant", "content": "a", "reasoning_content": HALF}),
    (
        "openai",
        {"role": "assistant", "content": None, "tool_calls": [_CALL | {"function": {"name": "look", "arguments": []}}]},
    ),
    (
        "openai",
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [_CALL | {"function": {"name": "look", "arguments": '{"a": "'}}],
        },
    ),
    ("responses", _ITEM | {"arguments": []}),
    ("responses", _ITEM | {"arguments": f'{{"day": "{HALF}"}}'}),
    ("anthropic", {"role": "assistant", "content": [_USE]}),
    ("anthropic", {"role": "assistant", "content": [_USE | {"input": []}]}),
    ("anthropic", {"role": "assistant", "content": [{"type": "text", "text": HALF}]}),
    ("gemini", {"role": "model", "parts": [{"functionCall": {"name": "look", "args": []}}]}),
    ("gemini", {"role": "model", "parts": [{"text": HALF}]}),
    ("interactions", {"type": "function_call", "id": "call-1", "name": "look", "arguments": []}),
    (
        "converse",
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "call-1", "name": "look", "input": "cut"}}]},
    ),
    ("ollama", {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "look", "arguments": []}}]}),
)
"""Replies and calls that were cut in the middle, as logs have them."""


class HardPlaces(Machine):
    """The machine with these operations too."""

    @step(place=PLACES, via=numbers(2), which=numbers(4096), agent=one_of(*AGENTS), query=QUERY)
    def several_agents_work(self, place: Any, via: int, which: int, agent: str, query: int) -> None:
        """An agent compacts, calls tools with large results, and is asked with documents for one agent each.

        The name is not the alphabet's first: Hypothesis begins with the first rule, a hundred times.
        """
        name, chance = self.name(place), random.Random(which)
        for entries in self._work(name, agent, chance):
            self.do(via, Op("append", name, {"entries": entries}))
        form, model = chance.choice(_FORMS)
        tight = {"model": model, "format": form, "reserve": 0, "max_tokens": chance.choice(_TIGHT), "uncarried": "drop"}
        for view in (agent, *AGENTS):
            self.check_windows(via, name, tight | {"view": view})
            self._see_without_failing(via, name, tight | {"view": view, "cache": "auto"})
        self.check_windows(via, name, {**QUERIES[query], "view": agent})

    def _work(self, name: Name, agent: str, chance: random.Random) -> list[list[dict[str, Any]]]:
        """Return the entries of an agent's turn, request by request."""
        talk = self.world.talks.get(name)
        number = talk.length if talk else 0
        other = next(each for each in AGENTS if each != agent)
        block = {"type": "compaction", "content": self.words.text(8)}
        compaction = {
            "role": "assistant",
            "content": None,
            "native": {"format": "anthropic", "messages": [{"role": "assistant", "content": [block]}]},
        }
        ids = [f"call-{number}-{n}" for n in range(chance.randint(1, 3))]
        calls = [{"id": each, "type": "function", "function": {"name": "look", "arguments": "{}"}} for each in ids]
        asked = {"message": {"role": "assistant", "content": None, "tool_calls": calls}, "author": agent}
        results = [
            {
                "message": {
                    "role": "tool",
                    "tool_call_id": each,
                    "content": self.words.text(chance.choice(_RESULT_WORDS)),
                },
                "author": agent,
            }
            for each in ids
        ]
        questions = [
            {
                "message": {"role": "user", "content": self.words.text(chance.choice((1, 40)))},
                "grounding": {"documents": [{"text": self.words.text(chance.choice((5, 200)))}]},
                "audience": [of],
            }
            for of in (other, agent)
        ]
        work = [[questions[0]], [{"message": compaction, "author": agent}], [asked, *results], [questions[1]]]
        if chance.random() < 0.5:
            work.append([{"message": {"role": "user", "content": self.words.text(3)}}])
        return work[chance.randint(0, 2) :]

    def _see_without_failing(self, via: int, name: Name, query: dict[str, Any]) -> None:
        """Read a window with cache hints from both applications; they are a life's own, so no body has the same."""
        one, other = (self.get(each, name, f"/window?{urlencode(query)}") for each in (via, 1 - via))
        assert (one.status, one.ok and one.body) == (other.status, other.ok and other.body), self._told(
            "the two differ", one
        )

    # ---- media that vanish

    @step(grown=True, place=PLACES, via=numbers(2), which=ANY, comes_back=numbers(2), query=maybe(QUERY))
    def media_vanish(self, place: Any, via: int, which: int, comes_back: int, query: int | None) -> None:
        """An object is gone from the storage: its picture is a line that is told, and nothing fails; then it comes back.

        It comes back from a copy of the storage, or because the same picture is sent again.
        """
        name = self.name(place)
        path = self.service.behind.vanish("/".join(name), which)
        if path is None:
            return
        self.transcript.append(f"the storage lost {path}")
        form, model = _FORMS[which % len(_FORMS)]
        asked = {
            "model": model,
            "format": form,
            "reserve": 0,
            "max_tokens": 100_000,
            "uncarried": "drop",
            "explain": "true",
        }
        window = self.ask(via, name[0], Request("GET", f"/conversations/{name[1]}/window?{urlencode(asked)}"))
        if window.ok and self._has_lost(name, window.json, path):
            assert window.json.get("mended"), self._told("an absent picture that is not told", window)
        for each in ("/export", "/messages?limit=1000", *([f"/window?{urlencode(QUERIES[query])}"] if query else ())):
            self.ask(1 - via, name[0], Request("GET", f"/conversations/{name[1]}{each}"))
        if comes_back:
            self.service.behind.bring_back()
        else:
            self._send_again(via, name, path)
        self.check(1 - via, name)

    def _has_lost(self, name: Name, window: dict[str, Any], path: str) -> bool:
        """Return whether a window keeps a message with the picture of the object at ``path``."""
        digest = path.rpartition("/")[2].partition("-")[0]
        kept = {line["seq"] for line in window.get("explain") or () if line["kept"]}
        entries = self.world.talks[name].entries
        return not self.service.encrypted and any(digest in pictures_in(entries[seq - 1].message) for seq in kept)

    def _send_again(self, via: int, name: Name, path: str) -> None:
        """Append each message with a picture once more; afterwards the object is there again."""
        talk = self.world.talks[name]
        again = [
            entry.message for entry in talk.entries if pictures_in(entry.message) and not is_compaction(entry.message)
        ]
        self.do(via, Op("append", name, {"entries": [{"message": message} for message in again[-100:]]}))
        digest = path.rpartition("-")[0]
        back = [each for each in self.service.behind.objects() if each.startswith(digest)]
        assert back, self._told(f"{path} was sent again and is not written")

    # ---- followers far behind

    @step(place=PLACES, via=numbers(2), which=numbers(9), view=one_of(None, *AGENTS))
    def follow_from_far_behind(self, place: Any, via: int, which: int, view: str | None) -> None:
        """A follower that is hundreds of kilobytes of events behind is led to the present version."""
        if which:
            return  # it is as dear as a hundred steps
        name = self.name(place)
        self.do(via, Op("append", name, {"entries": [{"message": {"role": "user", "content": self.words.text(1)}}]}))
        since = self.world.talks[name].version
        for _ in range(_BEHIND):
            said = {"role": "assistant", "content": self.words.mark() + " " + "x" * 10_000}
            self.do(via, Op("append", name, {"entries": [{"message": said}]}))
        talk = self.world.talks[name]
        asked = urlencode({"after": since, "body": "true"} | ({"view": view} if view else {}))
        request = Request("GET", f"/conversations/{name[1]}/events?{asked}")
        headers = {"authorization": f"Bearer {TENANTS[name[0]]}"}

        async def followed() -> Listener:
            listener = Listener(self.service.apps[1 - via], request, headers)
            await listener.until(lambda: bool(listener.events) and listener.events[-1]["version"] >= talk.version)
            with contextlib.suppress(asyncio.CancelledError):  # the service may have ended the stream
                await listener.leave()
            return listener

        listener = self._run(followed())
        versions = [event["version"] for event in listener.events]
        assert versions[-1:] == [talk.version], self._told(
            f"from {since} on, {listener.status} and {versions}, not {talk.version}"
        )
        self._check_followed(name, since, since, listener.events, talk.life, view)

    # ---- hostile parts

    @step(tenant=one_of(*TENANTS), via=numbers(2), which=numbers(10**9))
    def hostile_parts(self, tenant: str, via: int, which: int) -> None:
        """A message with a hostile part is refused and changes nothing, or is taken; then each form has a window of it."""
        chance, path = random.Random(which), f"/conversations/hostile-{self.number}"
        form, message = self._hostile(chance)
        first = {"messages": [{"role": "user", "content": "first"}]}
        self._post(via, tenant, f"{path}/messages", first)
        before = self.ask(via, tenant, Request("GET", f"{path}/export"))
        answer = self._post(via, tenant, f"{path}/messages?format={form}", {"messages": [message]})
        if not answer.ok:
            after = self.ask(1 - via, tenant, Request("GET", f"{path}/export"))
            assert after.body == before.body, self._told(f"refused, and it changed {before.body!r}", after)
        self._post(1 - via, tenant, f"{path}/messages", {"messages": [{"role": "user", "content": "go on"}]})
        for into, model in _FORMS:
            asked = urlencode({"model": model, "format": into, "uncarried": "drop"})
            window = self.ask(via, tenant, Request("GET", f"{path}/window?{asked}"))
            assert window.ok, self._told("no window", window)
        copy = self.ask(via, tenant, Request("GET", f"{path}/export"))
        assert copy.ok, self._told("no export", copy)
        assert self.ask(via, tenant, Request("DELETE", path)).status == 204
        lines = Request("POST", "/conversations/import", copy.body, "application/x-ndjson")
        imported = self.ask(via, tenant, lines)
        assert imported.ok, self._told("the export is not imported", imported)
        again = self.ask(via, tenant, Request("GET", f"{path}/export"))
        assert _entries(again) == _entries(copy), self._told("imported otherwise", again)
        assert self.ask(via, tenant, Request("DELETE", path)).status == 204

    @staticmethod
    def _hostile(chance: random.Random) -> tuple[str, dict[str, Any]]:
        """Draw one of the known ones, or a message of a form with a hostile part anywhere."""
        if chance.random() < 0.5:
            return chance.choice(HOSTILE)
        form = chance.choice(sorted(TURNS))
        made = [message for each, messages in drawn(chance, TURNS[form], 2) for message in messages if each == form]
        return (form, broken(chance, chance.choice(made))[0]) if made else HOSTILE[0]

    def _post(self, via: int, tenant: str, path: str, body: Any) -> Answer:
        return self.ask(via, tenant, Request("POST", path, json.dumps(body).encode()))


def _entries(export: Answer) -> list[Any]:
    return [json.loads(line)["message"] for line in export.body.splitlines()[1:]]
