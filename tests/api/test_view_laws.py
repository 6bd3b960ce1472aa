"""Laws of every answer to a request with ``view``, for random authors and audiences: nothing for others is in it."""

import json
import re
from collections.abc import Iterator
from itertools import count
from typing import Any

import httpx
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from model.asgi import App, Listener, Request
from profiles import examples
from rigs.dialogue import append, assistant, calling, indexed, result, user
from rigs.reading_events import applied

AGENTS = ("ada", "bob", "cid")
SOME = st.lists(st.sampled_from(AGENTS), max_size=2, unique=True)
PARTY = st.one_of(st.just((None, [])), st.tuples(st.none() | st.sampled_from(AGENTS), SOME))
ENTRY = st.tuples(st.sampled_from(["user", "assistant", "result", "pin", "draft"]), PARTY, PARTY, st.booleans())
EDITS = st.lists(
    st.tuples(st.sampled_from(["redact", "amend", "end", "rewind", "summary"]), st.integers(0, 30)), max_size=4
)
OWNER = "ann@example.com"
WHOLE = {"first": 1, "last": 90}
_numbers = count()


class Shared:
    """A conversation, whose texts, ids and other strings are each found nowhere else."""

    def __init__(self, client: httpx.AsyncClient, name: str) -> None:
        self.client = client
        self.name = name
        self.path = f"/conversations/{name}"
        self.entries: list[dict[str, Any]] = []
        self.callers: dict[int, int] = {}
        """The seq of the call of each result."""

    def take(self, kind: str, party: tuple[Any, list[str]], other: tuple[Any, list[str]], *, says: bool) -> None:
        """Add an entry; a result comes with its call, whose party is ``other``."""
        at = len(self.entries)
        named = self.named(party)
        match kind:
            case "user":
                documents = {"documents": [{"id": f"doc{at}z", "text": f"document{at}z"}]}
                self.put(user(f"text{at}z word", grounding=documents, **named))
            case "pin":
                self.put(user(f"text{at}z word", pinned=True, **named))
            case "draft":
                self.put(assistant(f"text{at}z word", status="in_progress", **named))
            case "assistant":
                self.put(assistant(f"text{at}z word", metadata={"a": f"meta{at}z"}, **named))
            case _:
                self.put(calling(f"call{at}z", text=f"text{at}z word" if says else None, **self.named(other)))
                self.put(result(f"call{at}z", f"text{at + 1}z word", **named))
                self.callers[at + 2] = at + 1

    @staticmethod
    def named(party: tuple[Any, list[str]]) -> dict[str, Any]:
        author, audience = party
        return ({"author": author} if author else {}) | ({"audience": audience} if audience else {})

    def put(self, entry: dict[str, Any]) -> None:
        self.entries.append({"id": f"id{len(self.entries)}z", **entry})

    def may(self, seq: int, view: str) -> bool:
        entry = self.entries[seq - 1]
        return not entry.get("audience") or view in entry["audience"] or view == entry.get("author")

    def is_others(self, seq: int, view: str) -> bool:
        return self.entries[seq - 1].get("author") not in (None, view)

    def seen(self, view: str) -> dict[int, str]:
        """The ids of the messages that the agent sees, by seq."""
        found = {}
        for seq, entry in enumerate(self.entries, 1):
            caller = self.callers.get(seq)
            is_hidden = caller is not None and (self.is_others(caller, view) or not self.may(caller, view))
            is_mute = "tool_calls" in entry["message"] and self.is_others(seq, view) and not entry["message"]["content"]
            if self.may(seq, view) and not is_hidden and not is_mute:
                found[seq] = entry["id"]
        return found

    def hidden(self, view: str) -> Iterator[str]:
        """Strings that no answer to this agent may have."""
        seen = self.seen(view)
        for seq, entry in enumerate(self.entries, 1):
            at = seq - 1
            if seq not in seen:
                yield from (f"text{at}z", f"document{at}z", f"doc{at}z", f"meta{at}z", f"id{at}z", f"call{at}z")
            elif "tool_calls" in entry["message"] and self.is_others(seq, view):
                yield f"call{at}z"
        for last in range(1, len(self.entries) + 1):
            if not all(self.may(seq, view) for seq in range(1, last + 1)):
                yield f"summary{last}z"
        shown = {name for seq in seen for name in self.names(seq)}
        yield from (f'"{name}"' for name in AGENTS if name not in shown | {view})

    def names(self, seq: int) -> list[str]:
        entry = self.entries[seq - 1]
        return [*entry.get("audience", ()), *filter(None, [entry.get("author")])]

    async def edit(self, kind: str, number: int) -> None:
        """Change the conversation, and what is known of it."""
        seq = number % len(self.entries) + 1
        entry = self.entries[seq - 1]
        match kind:
            case "redact":
                (await self.client.delete(f"{self.path}/messages/{seq}")).raise_for_status()
                entry["message"] = entry["message"] | {"content": None if "tool_calls" in entry["message"] else "gone"}
                entry["redacted"] = True
            case "amend" if entry.get("status") != "in_progress":
                (await self.client.patch(f"{self.path}/messages/{seq}", json={"pinned": True})).raise_for_status()
            case "end" if entry.get("status") == "in_progress" and "redacted" not in entry:
                end = calling(f"call{seq - 1}z") if number % 2 else assistant(f"text{seq - 1}z, the end")
                entry = {name: value for name, value in entry.items() if name != "status"} | end
                await append(self.client, self.name, entry)
                self.entries[seq - 1] = entry
            case "rewind" if number % 3 == 0:
                (await self.client.post(f"{self.path}/rewind", json={"to_seq": seq})).raise_for_status()
                del self.entries[seq:]
                self.callers = {each: maker for each, maker in self.callers.items() if each <= seq}
            case "summary":
                body = {"text": f"summary{seq}z", "through_seq": seq}
                await self.client.put(f"{self.path}/summary", json=body)

    async def answers(self, view: str) -> dict[str, httpx.Response]:
        """What this agent is told by every route that takes a view, by what was asked."""
        words = "word"
        asked: dict[str, tuple[str, dict[str, Any]]] = {
            "window": ("/window", {"explain": True, "note": True, "summary": "always"}),
            "claude": (
                "/window",
                {"model": "claude-sonnet-4-5", "format": "anthropic", "cache": "auto", "stable": True},
            ),
            "gemini": ("/window", {"model": "gemini-2.5-pro", "format": "gemini", "overflow": "skip", "stable": True}),
            "recall": ("/window", {"max_tokens": 90, "recall_max_tokens": 60, "recall_query": words}),
            "tools": ("/window", {"history_tools": True}),
            "listing": ("/messages", {"format": "responses", "media": "inline"}),
            "state": ("", {}),
            "export": ("/export", {}),
            "search": ("/search", {"query": words, "limit": 100}),
        }
        found = {what: await self.get(path, view, query) for what, (path, query) in asked.items()}
        for seq, entry in enumerate(self.entries, 1):
            for name in (str(seq), f"id:{entry['id']}"):
                found[f"message {name}"] = await self.get(f"/messages/{name}", view, {})
        receipt = found["window"].json().get("receipt")
        if receipt:
            found["again"] = await self.client.get(f"{self.path}/window", params={"receipt": receipt})
            found["diff"] = await self.client.get(f"{self.path}/window/diff", params={"from": receipt})
        reads = [{"first": seq} for seq in range(1, len(self.entries) + 1)]
        calls = [("history_search", {"query": words}), *(("history_read", each) for each in (WHOLE, *reads))]
        for tool, arguments in calls:
            what = f"{tool} {json.dumps(arguments)}"
            call = {"call_id": "c", "arguments": arguments, "view": view}
            found[what] = await self.client.post(f"{self.path}/tools/{tool}", json=call)
            for over in ({"conversation_id": self.name}, {"owner": OWNER}):
                asked_of = arguments if "conversation_id" in over else {**arguments, "conversation": self.name}
                found[f"{what} over MCP, {next(iter(over))}"] = await self.mcp(tool, asked_of, {**over, "view": view})
        more = {"messages": [{"id": "more", "role": "user", "content": "more", "audience": [view]}]}
        query = {"model": "gpt-4o-mini", "view": view}
        found["append"] = await self.client.post(f"{self.path}/messages", params=query, json=more)
        return found

    async def mcp(self, tool: str, arguments: dict[str, Any], query: dict[str, str]) -> httpx.Response:
        """What a call of a tool is answered over MCP."""
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        headers = {"Accept": "application/json, text/event-stream"}
        return await self.client.post("/mcp", params=query, json=call, headers=headers)

    async def get(self, path: str, view: str, query: dict[str, Any]) -> httpx.Response:
        given = {"model": "gpt-4o-mini", **query} if path == "/window" else query
        return await self.client.get(self.path + path, params={**given, "view": view})


async def followed(app: App, shared: Shared, view: str, after: int, version: int) -> list[dict[str, Any]]:
    """The events up to a version, as a reader of the view gets them."""
    path = f"{shared.path}/events?after={after}&body=true&view={view}"
    listener = Listener(app, Request("GET", path), {"host": "localhost"})
    assert await listener.until(lambda: bool(listener.events) and listener.events[-1]["version"] >= version)
    await listener.leave()
    return listener.events


@settings(examples(0.15), phases=[Phase.generate])
@given(drawn=st.lists(ENTRY, min_size=1, max_size=7), edits=EDITS, view=st.sampled_from(AGENTS))
async def test_nothing_for_others_is_told(
    app: App, client: httpx.AsyncClient, drawn: list[Any], edits: list[tuple[str, int]], view: str
) -> None:
    """No text, id or author of an unseen message is in any answer with ``view``; listings, exports, events and the tools
    for the model, over HTTP and MCP, have the messages that the agent sees, and so have requests for one."""
    shared = Shared(client, f"law-{next(_numbers)}")
    made = {"id": shared.name, "recall": "lexical", "owner": OWNER}
    (await client.post("/conversations", json=made)).raise_for_status()
    for kind, party, other, says in drawn:
        shared.take(kind, party, other, says=says)
    for entry in shared.entries:
        await append(client, shared.name, entry)
    for kind, number in edits:
        await shared.edit(kind, number)
    await indexed(client, shared.name)
    version = (await client.get(shared.path)).json()["version"]
    events = await followed(app, shared, view, 1, version)
    answers = await shared.answers(view)
    seen, hidden = shared.seen(view), [*shared.hidden(view)]
    texts = {what: each.text.replace(each.request.url.path, "").replace(r"\"", '"') for what, each in answers.items()}
    texts["events"] = json.dumps(events)
    for what, text in texts.items():
        told = [each for each in hidden if each in text]
        assert not told, (what, told, text)
    lines = [json.loads(line) for line in answers["export"].text.splitlines()]
    assert lines[0]["view"] == view
    assert {line["seq"]: line["id"] for line in lines[1:]} == seen
    assert {each["seq"]: each["id"] for each in answers["listing"].json()["messages"]} == seen
    for seq, entry in enumerate(shared.entries, 1):
        for name in (str(seq), f"id:{entry['id']}"):
            assert answers[f"message {name}"].status_code == (200 if seq in seen else 404)
    for what in (each for each in answers if each.startswith(f"history_read {json.dumps(WHOLE)}")):
        assert {int(seq) for seq in re.findall(r"#(\d+) ", answers[what].text)} == {*seen}, (what, texts[what])
    if events[0]["type"] != "reset":
        assert applied(events, {}) == seen
    versions = [event["version"] for event in events]
    assert versions == sorted(set(versions))
    assert versions[-1] == version
    await client.delete(shared.path)
