"""Versions over HTTP: ETag, If-Match, If-None-Match."""

import asyncio
from typing import Any

import httpx
import msgspec
import pytest
from rigs.dialogue import append, etag_of, history, problem, user


async def act(client: httpx.AsyncClient, what: str, conversation: str, if_match: str) -> httpx.Response:
    """Make one of the writes with an If-Match header."""
    path = f"/conversations/{conversation}"
    match what:
        case "append":
            call = client.build_request("POST", f"{path}/messages", json={"messages": [user("x", id="new")]})
        case "append with window":
            entries = {"messages": [user("x", id="new")]}
            call = client.build_request("POST", f"{path}/messages?model=gpt-4o", json=entries)
        case "change":
            call = client.build_request("PATCH", path, json={"reserve": 7})
        case _:
            call = client.build_request("DELETE", path)
    call.headers["if-match"] = if_match
    return await client.send(call)


WRITES = ("append", "append with window", "change", "erase")


@pytest.mark.parametrize("what", WRITES)
@pytest.mark.parametrize(
    "tag", ["{older}", "W/{older}", '"2"', '"3"', '"0"', '"abc"', '"1-x"', '""', '"' + "9" * 40 + '"']
)
async def test_a_moved_version_refuses(client: httpx.AsyncClient, conversation: str, what: str, tag: str) -> None:
    """A write with any version but the present one in If-Match is 412 and changes nothing."""
    await append(client, conversation, user("one", id="a"))
    older = await etag_of(client, conversation)
    await append(client, conversation, user("two", id="b"))
    before = (await client.get(f"/conversations/{conversation}")).json()

    answer = await act(client, what, conversation, tag.replace("{older}", older))

    problem(answer, 412, "precondition-failed")
    assert before == (await client.get(f"/conversations/{conversation}")).json()


@pytest.mark.parametrize("what", WRITES)
@pytest.mark.parametrize("tag", ["{now}", "W/{now}", " {now} ", "*"])
async def test_the_present_version_allows(client: httpx.AsyncClient, conversation: str, what: str, tag: str) -> None:
    """A write with the present version's ETag, weak or strong, succeeds; ``*`` matches any version."""
    await append(client, conversation, user("one", id="a"))
    await append(client, conversation, user("two", id="b"))

    answer = await act(client, what, conversation, tag.replace("{now}", await etag_of(client, conversation)))

    assert answer.is_success, answer.text


@pytest.mark.parametrize("what", WRITES)
@pytest.mark.parametrize("tag", ["2", "", '"2', '"1", "2"', 'w/"2"', '"2" x'])
async def test_what_is_no_condition(client: httpx.AsyncClient, conversation: str, what: str, tag: str) -> None:
    """An If-Match that is not one ETag is 400, not a write without a condition."""
    await append(client, conversation, user("one", id="a"))

    answer = await act(client, what, conversation, tag)

    assert problem(answer, 400, "bad-request")["errors"][0]["pointer"] == "#/header/if-match"
    assert len(await history(client, conversation)) == 1


@pytest.mark.parametrize("tag", ['"1"', "*"])
async def test_a_condition_on_what_is_not_there(client: httpx.AsyncClient, conversation: str, tag: str) -> None:
    """An append with If-Match to an absent conversation is 412 and does not create it."""
    problem(await act(client, "append", conversation, tag), 412, "precondition-failed")

    assert (await client.get(f"/conversations/{conversation}")).status_code == 404


async def test_expecting_nothing(client: httpx.AsyncClient, conversation: str) -> None:
    """If-Match with version 0 means an absent conversation: the first append succeeds, the second is 412."""
    assert (await act(client, "append", conversation, '"0"')).status_code == 201

    path = f"/conversations/{conversation}/messages"
    second = await client.post(path, json={"messages": [user("y")]}, headers={"if-match": '"0"'})

    assert problem(second, 412, "precondition-failed")["version"] == 1


async def test_a_repeated_append_under_its_old_version(client: httpx.AsyncClient, conversation: str) -> None:
    """A retry with the first attempt's If-Match is a duplicate, not 412, although that attempt changed the version."""
    await append(client, conversation, user("one"))
    tag = await etag_of(client, conversation)
    assert (await act(client, "append", conversation, tag)).status_code == 201

    again = await act(client, "append", conversation, tag)

    assert (again.status_code, again.json()["messages"][0]["duplicate"]) == (200, True)


async def test_a_body_names_its_state(client: httpx.AsyncClient, conversation: str) -> None:
    """Each body with a version has the ETag too, as the header has it; a client that keeps bodies can send it back."""
    path = f"/conversations/{conversation}"
    await client.post("/conversations", json={"id": conversation, "model": "gpt-4o"})
    answers = [
        await client.get(path),
        await client.patch(path, json={"reserve": 7}),
        await client.post(f"{path}/messages", json={"messages": [user("one"), user("two")]}),
        await client.post(f"{path}/messages?max_tokens=900", json={"messages": [user("three")]}),
        await client.put(f"{path}/summary", json={"text": "S", "through_seq": 1}),
        await client.post(f"{path}/rewind", json={"to_seq": 2}),
        await client.get(f"{path}/window"),
    ]
    bodies = [answer.json() for answer in answers]

    assert [answer.headers["etag"] for answer in answers] == [body["etag"] for body in bodies]
    assert bodies[3]["window"]["etag"] == bodies[3]["etag"]
    listed = (await client.get("/conversations?limit=1000")).json()["conversations"]
    assert [each["etag"] for each in listed if each["id"] == conversation] == [bodies[-1]["etag"]]
    assert (await act(client, "change", conversation, bodies[-1]["etag"])).status_code == 200
    moved = problem(await act(client, "change", conversation, bodies[-1]["etag"]), 412, "precondition-failed")
    assert moved["etag"] == await etag_of(client, conversation)


@pytest.mark.parametrize("what", WRITES)
async def test_a_version_is_no_etag(client: httpx.AsyncClient, conversation: str, what: str) -> None:
    """If-Match with the version in quotes is 412, which says that it is no ETag, and what to send."""
    await append(client, conversation, user("one", id="a"))

    told = problem(await act(client, what, conversation, '"1"'), 412, "precondition-failed")["detail"]

    assert '"1" is no ETag' in told
    assert "send the etag of your last answer" in told


READS = ("", "/messages", "/messages/1", "/window?model=gpt-4o")


@pytest.mark.parametrize("what", READS)
async def test_nothing_new_is_304(client: httpx.AsyncClient, conversation: str, what: str) -> None:
    """A read with the present ETag in If-None-Match is 304 without a body, and 200 after a change."""
    await append(client, conversation, user("one"))
    path = f"/conversations/{conversation}{what}"
    tag = (await client.get(path)).headers["etag"]

    for header in (tag, f"W/{tag}", f'"0", {tag}', f'{tag} , "other"', "*"):
        same = await client.get(path, headers={"if-none-match": header})
        assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
    for header in ('"0"', '"other"', "1", "", '"99"'):
        assert (await client.get(path, headers={"if-none-match": header})).status_code == 200
    await append(client, conversation, user("two"))
    moved = await client.get(path, headers={"if-none-match": tag})
    assert (moved.status_code, moved.headers["etag"]) == (200, await etag_of(client, conversation))


@pytest.mark.parametrize(("model", "status"), [("gpt-4o", 304), ("claude-sonnet-4-5", 200)])
async def test_a_window_of_the_conversations_own_model(
    client: httpx.AsyncClient, conversation: str, model: str, status: int
) -> None:
    """A window whose model is a setting of the conversation is 304 as one whose model the query names; estimates are not."""
    await client.post("/conversations", json={"id": conversation, "model": model})
    await append(client, conversation, user("one"))
    path = f"/conversations/{conversation}/window"
    tag = (await client.get(path)).headers["etag"]

    answers = [await client.get(path, headers={"if-none-match": header}) for header in (tag, "*")]

    assert [(each.status_code, each.headers["etag"]) for each in answers] == [(status, tag)] * 2
    await client.patch(f"/conversations/{conversation}", json={"model": "gpt-4.1"})
    assert (await client.get(path, headers={"if-none-match": tag})).status_code == 200


BEGINNINGS = {
    "create": ("POST", "/conversations", {"json": {"id": "{id}", "owner": "{id}"}}),
    "import": (
        "POST",
        "/conversations/import",
        {"content": '{"id": "{id}"}\n', "headers": {"content-type": "application/x-ndjson"}},
    ),
    "erase an owner": ("DELETE", "/owners/{id}", {}),
}


@pytest.mark.parametrize("tag", ["{now}", "{erased}", "*"])
@pytest.mark.parametrize("what", BEGINNINGS)
async def test_what_has_no_state_matches_none(
    client: httpx.AsyncClient, conversation: str, what: str, tag: str
) -> None:
    """If-Match with any state is 412 where a conversation begins and where an owner is erased, and changes nothing."""
    settings = {"id": conversation, "owner": conversation}
    erased = (await client.post("/conversations", json=settings)).headers["etag"]
    await client.delete(f"/conversations/{conversation}")
    kept = await client.post("/conversations", json={"id": f"{conversation}-kept", "owner": conversation})
    method, path, more = msgspec.json.decode(
        msgspec.json.encode(BEGINNINGS[what]).replace(b"{id}", conversation.encode())
    )
    call = client.build_request(method, path, **more)
    call.headers["if-match"] = tag.replace("{now}", kept.headers["etag"]).replace("{erased}", erased)

    problem(await client.send(call), 412, "precondition-failed")

    assert (await client.get(f"/conversations/{conversation}")).status_code == 404
    assert (await client.get(f"/conversations/{conversation}-kept")).status_code == 200
    await client.delete(f"/owners/{conversation}")


async def test_patches_and_appends_at_once(client: httpx.AsyncClient, conversation: str) -> None:
    """Concurrent patches and appends are all applied, and none asks the client to retry."""
    await client.post("/conversations", json={"id": conversation})

    async def change(n: int) -> httpx.Response:
        return await client.patch(f"/conversations/{conversation}", json={"metadata": {f"k{n}": n}})

    answers: list[Any] = await asyncio.gather(
        *(append(client, conversation, user(f"m{n}")) for n in range(20)), *(change(n) for n in range(12))
    )

    assert [answer.status_code for answer in answers[20:]] == [200] * 12
    body = (await client.get(f"/conversations/{conversation}")).json()
    assert body["metadata"] == {f"k{n}": n for n in range(12)}
    assert (body["version"], body["messages"]["count"]) == (33, 20)
