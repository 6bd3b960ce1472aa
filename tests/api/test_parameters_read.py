"""A declared parameter changes an answer: every parameter of every operation of the OpenAPI document, on a real server.

For each there are two values (parameter_samples.py) that the answer must tell apart. A value that is sent twice must give
the same answer twice, so that a difference is the parameter's own.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from itertools import count
from typing import Any, NamedTuple

import httpx
import msgspec
import pytest
import pytest_asyncio
from api.parameter_samples import AGENTS, FORMS, HISTORIES, LONG, REQUESTS, SAMPLES, SETTINGS, Plain, Sample
from conftest import Served
from rigs.conformity import CONTRACT, resolved
from rigs.dialogue import indexed
from rigs.reading_events import following

from sash.core.law.records.parameters import WindowQuery
from sash.windows.counted import FreeMembers

WINDOW = {field.name for field in msgspec.structs.fields(WindowQuery)}
WHOLE = {"model", "explain"}
"""Parameters that may change a window's answer, and not the request in it."""
PROVIDERS_OWN = {field.name for field in msgspec.structs.fields(FreeMembers)}
"""Members of a chat request that is counted, which are the provider's and are in no bill."""
OTHER_STATE = '"1-0000000000000000-00000000"'
NOT_OURS = re.compile("etag|receipt|calibration|.*_at")
"""Members that are others in each answer."""
WITHOUT_TEXTS = {"compareWindows"}
"""Operations whose answers have no text of a message."""
ADDING = {"appendMessages", "agreeMessages"}
"""Operations that are sent the last message of a history."""
NEW_ID = re.compile(r"\b01[0-9A-Z]{24}\b")


class Parameter(NamedTuple):
    """A declared parameter: ``place`` is ``query``, ``header`` or ``body``."""

    operation: str
    method: str
    path: str
    place: str
    name: str

    @property
    def sample(self) -> Sample | None:
        """Two values of it; None if nobody has given any."""
        own = f"{self.operation}{'#' if self.place == 'body' else '.'}{self.name}"
        if self.place == "header":
            return SAMPLES.get(own, Sample(None, "{condition}")) if self.name in CONDITIONS else None
        return SAMPLES.get(own, SAMPLES.get(self.name))

    @property
    def has_own(self) -> bool:
        """Whether each request has a conversation of its own: it changes what is stored, or lists what was changed."""
        writes = self.method != "get" and self.path.startswith(("/conversations", "/owners"))
        return writes or self.operation in {*ADDING, "listBranches"}


CONDITIONS = {"If-Match", "If-None-Match", "Idempotency-Key"}


def declared() -> Iterator[Parameter]:
    """Yield every query and header parameter, and every window parameter in a body."""
    for path, item in CONTRACT["paths"].items():
        for method, operation in item.items():
            at = operation["operationId"], method, path
            for each in map(resolved, operation.get("parameters", ())):
                if each["in"] != "path":
                    yield Parameter(*at, each["in"], each["name"])
            content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            body = resolved(content.get("schema", {})).get("properties", {})
            of_provider = PROVIDERS_OWN if body.keys() >= PROVIDERS_OWN else set()
            for name in sorted(WINDOW & body.keys() - of_provider):
                yield Parameter(*at, "body", name)


EVERY_PARAMETER = pytest.mark.parametrize(
    "parameter", [pytest.param(each, id=f"{each.operation}-{each.place}-{each.name}") for each in declared()]
)


class World:
    """Conversations on a server, and what samples name of them."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client
        self._numbers = count(1001)
        self._kept: dict[str, dict[str, str]] = {}

    async def kept(self, history: str) -> dict[str, str]:
        """The facts of a conversation with a history, which is made once."""
        if history not in self._kept:
            facts = await self.made(history, HISTORIES[history])
            self._kept[history] = facts | await self._told(facts, history)
        return self._kept[history]

    async def made(self, history: str, entries: Any) -> dict[str, str]:
        """The facts of a new conversation."""
        name = f"parameters-{next(self._numbers)}"  # of as many tokens as any other
        facts = {
            "conversation": name,
            "owner": f"o-{name}",
            "fresh": f"f-{name}",
            "other": "nothing",
            "digest": "0" * 32,
        }
        await self._post("/conversations", {"id": name, "owner": facts["owner"], **SETTINGS})
        await self._post(f"/conversations/{name}/messages?format={FORMS.get(history, 'openai')}", {"messages": entries})
        await indexed(self.client, name)
        return facts

    async def _told(self, facts: Mapping[str, str], history: str) -> dict[str, str]:
        """Cursors, receipts and a picture's digest of a conversation, of which the owner has one more."""
        path = f"/conversations/{facts['conversation']}"
        await self._post("/conversations", {"owner": facts["owner"], **SETTINGS})
        if history == "rich":
            (await self.client.put(f"{path}/summary", json={"text": "SECRET", "through_seq": 8})).raise_for_status()
        listed = await self._get("/conversations", owner=facts["owner"], limit=1)
        page = await self._get(f"{path}/messages", limit=2)
        one, two = [(await self._get(f"{path}/window", turns=turns))["receipt"] for turns in (1, 2)]
        digests = re.findall(r"/media/([0-9a-f]{32})", json.dumps(await self._get(f"{path}/messages")))
        told = {"listed": listed["next_cursor"], "page": page["next_cursor"], "receipt": one, "other_receipt": two}
        return {name: each or "" for name, each in told.items()} | ({"digest": digests[0]} if digests else {})

    async def _post(self, path: str, body: Any) -> None:
        (await self.client.post(path, json=body)).raise_for_status()

    async def _get(self, path: str, **query: Any) -> Any:
        return (await self.client.get(path, params=query)).raise_for_status().json()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def world(served: Served) -> AsyncIterator[World]:
    """Yield the conversations of this file."""
    async with httpx.AsyncClient(base_url=served.url, timeout=30) as client:
        yield World(client)


async def answer(world: World, parameter: Parameter, value: str | None) -> Any:
    """What an operation answers with a value of the parameter: status and body, without times, tags and new names."""
    sample = parameter.sample
    assert sample is not None
    facts = await facts_for(world, parameter, sample)
    request = request_of(parameter, sample, facts)
    if parameter.place == "header":
        request = await conditional(world, parameter, request, value, facts)
    elif value is not None and parameter.place == "query":
        request["params"] |= {parameter.name: value.format(**facts)}
    elif value is not None:
        request["json"] |= {parameter.name: typed(value)}
    if parameter.operation == "followConversation":
        return await events(world, request, facts)
    got = await world.client.request(**request)
    assert got.status_code < 500, got.text
    said = plain(got.text, facts)
    if got.is_success and parameter.name in WINDOW - WHOLE and isinstance(said, dict):
        said = said.get("window") or said
        said = said.get("request", said)
    return got.status_code, got.headers.get("idempotency-replayed"), said


async def facts_for(world: World, parameter: Parameter, sample: Sample) -> dict[str, str]:
    """The facts of the conversation that a request is for."""
    if parameter.operation in ADDING:
        return await world.made(sample.history, HISTORIES[sample.history][:-1])
    if parameter.has_own:
        facts = await world.made(sample.history, HISTORIES[sample.history])
        if "branches" in parameter.path:
            path = f"/conversations/{facts['conversation']}/rewind"
            (await world.client.post(path, json={"to_seq": 3})).raise_for_status()
        return facts
    facts = await world.kept(sample.history)
    if parameter.operation == "compareWindows" and parameter.name in WINDOW:
        path, beside = f"/conversations/{facts['conversation']}/window", {**sample.beside, "recall_query": LONG}
        made = [
            await world.client.get(path, params={**beside, parameter.name: each})
            for each in (sample.first, sample.second)
        ]
        return facts | {"receipt": next(each.json()["receipt"] for each in made if each.is_success)}
    return facts


def request_of(parameter: Parameter, sample: Sample, facts: Mapping[str, str]) -> dict[str, Any]:
    """The request without the parameter."""
    given = REQUESTS.get(parameter.operation, Plain())
    names = {"conversation_id": facts["conversation"], "owner_id": facts["owner"], "name": "history_search"}
    url = parameter.path.format(**names, seq=7, digest=facts["digest"], branch="b-1")
    query: dict[str, Any] = dict(given.query)
    request: dict[str, Any] = {"method": parameter.method, "url": url, "headers": dict(given.headers)}
    body = given.body
    if isinstance(body, str):
        request["content"] = body.replace("{fresh}", facts["fresh"])
        request["headers"] |= {"Content-Type": "application/x-ndjson"}
    elif body is not None:
        body = {name: each.format(**facts) if isinstance(each, str) else each for name, each in body.items()}
        if parameter.operation in ADDING:
            body["messages"] = HISTORIES[sample.history][-1:]
            query["format"] = FORMS.get(sample.history, "openai")
        if parameter.operation == "buildWindow":
            body |= {"tools": SETTINGS["tools"], "messages": HISTORIES[sample.history]}
            query["format"] = FORMS.get(sample.history, "openai")
        if parameter.place == "body":
            body |= {name: typed(each) for name, each in sample.beside.items() if each is not None}
        request["json"] = body
    if parameter.place != "body":
        query |= sample.beside
        if parameter.operation == "buildWindow":  # whose body has no parameter twice
            if "format" in sample.beside and sample.history not in FORMS:  # in the query it would be theirs, too
                request["json"]["format"] = query.pop("format")
            request["json"] = {name: each for name, each in request["json"].items() if name not in query}
    if parameter.operation == "compareWindows" and parameter.name in WINDOW:
        query["recall_query"] = LONG
    request["params"] = {name: each.format(**facts) for name, each in query.items() if each is not None}
    return request


async def conditional(
    world: World, parameter: Parameter, request: dict[str, Any], value: str | None, facts: Mapping[str, str]
) -> dict[str, Any]:
    """The request with or without its condition: a state, another state than the present one, or a key that was used."""
    if parameter.name == "Idempotency-Key":
        first = {**request, "headers": {**request["headers"], parameter.name: facts["conversation"]}}
        (await world.client.request(**first)).raise_for_status()
        return request if value is None else first
    if value is None:
        return request
    if parameter.name == "If-None-Match":
        state = (await world.client.request(**request)).headers.get("etag", OTHER_STATE)
    else:
        state = OTHER_STATE
    return {**request, "headers": {**request["headers"], parameter.name: state}}


async def events(world: World, request: Mapping[str, Any], facts: Mapping[str, str]) -> Any:
    """The events up to the present version; of AG-UI's, the kind of the first one."""
    if "format" in request["params"]:
        async with world.client.stream("GET", request["url"], params=request["params"]) as stream:
            async for line in stream.aiter_lines():
                if line.startswith("data:"):
                    return json.loads(line[5:])["type"]
    version = (await world.client.get(f"/conversations/{facts['conversation']}")).json()["version"]
    async with following(world.client, request["url"], **request["params"]) as heard:
        await heard.until(lambda: heard.versions[-1:] == [version])
        return plain(json.dumps(heard.events), facts)


def typed(value: str) -> Any:
    """A parameter's value as JSON has it."""
    try:
        return json.loads(value)
    except ValueError:
        return value


def plain(text: str, facts: Mapping[str, str]) -> Any:
    """An answer, of which each conversation has the same name, and without what is another in each answer."""
    text = NEW_ID.sub("id", text)
    for name in ("fresh", "owner", "conversation"):
        text = text.replace(facts[name], name)

    def of(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: of(each) for name, each in value.items() if not NOT_OURS.fullmatch(name)}
        return [of(each) for each in value] if isinstance(value, list) else value

    try:
        return of(json.loads(text))
    except ValueError:
        return [of(typed(line)) for line in text.splitlines()]


@EVERY_PARAMETER
async def test_a_declared_parameter_changes_an_answer(world: World, parameter: Parameter) -> None:
    """Two values of a parameter give different answers, and one value gives the same answer twice."""
    sample = parameter.sample
    assert sample is not None, (
        f"{parameter.operation} declares the {parameter.place} parameter {parameter.name}: give SAMPLES in "
        "parameter_samples.py two values of it that its answer tells apart, or do not declare it"
    )
    values = sample.first, sample.first, sample.second
    if parameter.has_own:
        first, again, second = await asyncio.gather(*(answer(world, parameter, each) for each in values))
    else:
        first, again, second = [await answer(world, parameter, each) for each in values]
    assert again == first
    assert second != first, f"{parameter.operation} does not read {parameter.name}: read it, or do not declare it"


@pytest.mark.parametrize(
    "parameter", [each for each in declared() if each.name == "view"], ids=lambda each: each.operation
)
async def test_a_view_hides_what_is_for_others(world: World, parameter: Parameter) -> None:
    """Each operation that takes a view gives an agent nothing that is for others, which those that it is for are given."""
    sees, does_not = [json.dumps(await answer(world, parameter, agent)) for agent in (AGENTS.first, AGENTS.second)]
    assert "SECRET" not in does_not
    assert parameter.operation in WITHOUT_TEXTS or "SECRET" in sees
