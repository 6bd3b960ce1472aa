"""Idempotency-Key: a request takes effect once; its repeat is answered from what is there, with the same status and ids."""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import httpx
import pytest
import redis
from rigs.dialogue import append, history, problem, user

from sash.store.data.claims import Claim, Claims
from sash.store.data.layout import PREFIX
from sash.store.redis.client import Client


@pytest.fixture
def key(fresh: Callable[[], str]) -> dict[str, str]:
    """Return the header with a key that no other test uses."""
    return {"Idempotency-Key": f"key {fresh()}".replace(" ", "-")}


def told(answer: httpx.Response) -> tuple[int, Any, str | None]:
    """Return what a repeated answer has in common with the first where nothing happened between: all but "duplicate"."""
    body = answer.json() if answer.content else None
    for message in body.get("messages", ()) if isinstance(body, dict) and "first_seq" in body else ():
        del message["duplicate"]
    return answer.status_code, body, answer.headers.get("location")


def turn(text: str = "hello") -> dict[str, Any]:
    return {"messages": [{"message": {"role": "user", "content": text}}]}


async def test_an_append_once(client: httpx.AsyncClient, conversation: str, key: dict[str, str]) -> None:
    """Entries without ids that are sent twice are stored once; both answers have the same status, ids, seqs and window."""
    path = f"/conversations/{conversation}/messages?model=gpt-4o"

    first = await client.post(path, json=turn(), headers=key)
    second = await client.post(path, json=turn(), headers=key)

    assert first.status_code == 201
    assert told(second) == told(first)
    assert second.headers["idempotency-replayed"] == "true"
    assert "idempotency-replayed" not in first.headers
    assert len(await history(client, conversation)) == 1


@pytest.mark.parametrize("edit", ["redact", "change"])
async def test_a_repeat_shows_what_is_there_now(
    client: httpx.AsyncClient, conversation: str, key: dict[str, str], edit: str
) -> None:
    """A repeated append has the first one's status, ids and seqs, and a window without what was taken away since."""
    path = f"/conversations/{conversation}"
    await client.post("/conversations", json={"id": conversation, "system": "marked"})
    text = "hello" if edit == "change" else "marked"
    first = await client.post(f"{path}/messages?model=gpt-4o", json=turn(text), headers=key)
    assert "marked" in first.text
    await client.patch(path, json={"system": "other"})
    if edit == "redact":
        await client.delete(f"{path}/messages/1")

    again = await client.post(f"{path}/messages?model=gpt-4o", json=turn(text), headers=key)

    assert again.status_code == first.status_code == 201
    assert told(again)[1]["messages"] == told(first)[1]["messages"]
    assert "marked" not in again.text
    assert again.headers["idempotency-replayed"] == "true"


async def test_a_repeat_after_a_rewind_stores_nothing(
    client: httpx.AsyncClient, conversation: str, key: dict[str, str]
) -> None:
    """An append whose messages a rewind took away is 409 when it is repeated, and does not bring them back."""
    path = f"/conversations/{conversation}"
    await append(client, conversation, user("one"))
    await client.post(f"{path}/messages", json=turn(), headers=key)
    await client.post(f"{path}/rewind", json={"to_seq": 1})

    problem(await client.post(f"{path}/messages", json=turn(), headers=key), 409, "conflict")

    assert len(await history(client, conversation)) == 1


@pytest.mark.parametrize("name", ["2", "id:rated"])
@pytest.mark.parametrize("follows", [False, True])
async def test_a_repeated_change_of_a_message_that_is_gone(
    client: httpx.AsyncClient, conversation: str, key: dict[str, str], name: str, *, follows: bool
) -> None:
    """A change of a message that a rewind took away is 409 when it is repeated, also where another message follows there."""
    path = f"/conversations/{conversation}"
    await append(client, conversation, user("one"), user("two", id="rated"))
    change = {"metadata": {"rating": "up"}}
    assert (await client.patch(f"{path}/messages/{name}", json=change, headers=key)).json()["id"] == "rated"
    standing = await client.patch(f"{path}/messages/{name}", json=change, headers=key)
    assert (standing.status_code, standing.json()["metadata"]) == (200, {"rating": "up"})
    await client.post(f"{path}/rewind", json={"to_seq": 1})
    if follows:
        await append(client, conversation, user("another"))

    problem(await client.patch(f"{path}/messages/{name}", json=change, headers=key), 409, "conflict")

    assert all("metadata" not in each for each in await history(client, conversation))


@pytest.mark.parametrize("erased", [False, True])
async def test_a_repeat_whose_model_is_gone(
    client: httpx.AsyncClient, conversation: str, key: dict[str, str], *, erased: bool
) -> None:
    """A repeated append does not need the model that its conversation named; it is 409 if the conversation was erased."""
    path = f"/conversations/{conversation}"
    await client.post("/conversations", json={"id": conversation, "model": "gpt-4o"})
    first = await client.post(f"{path}/messages?max_tokens=200", json=turn(), headers=key)
    assert first.json()["window"] is not None
    if erased:
        await client.delete(path)
        await append(client, conversation, user("other words"))
    else:
        await client.patch(path, json={"model": None})

    again = await client.post(f"{path}/messages?max_tokens=200", json=turn(), headers=key)

    if erased:
        problem(again, 409, "conflict")
    else:
        assert (again.status_code, again.json()["window"]) == (201, None)
        assert again.json()["window_error"]["type"] == "/problems/unprocessable"
    assert len(await history(client, conversation)) == 1


async def test_a_repeat_meets_no_condition_again(
    client: httpx.AsyncClient, conversation: str, key: dict[str, str]
) -> None:
    """A change under If-Match is not 412 when it is repeated, though it moved the version itself."""
    path = f"/conversations/{conversation}"
    tag = (await client.post(f"{path}/messages", json=turn("one"))).headers["etag"]
    requests: list[tuple[str, str, dict[str, Any]]] = [
        ("POST", f"{path}/messages", turn()),
        ("PATCH", path, {"system": "x"}),
        ("PUT", f"{path}/summary", {"text": "x", "through_seq": 1}),
        ("POST", f"{path}/rewind", {"to_seq": 1}),
    ]
    for number, (method, where, body) in enumerate(requests):
        headers = {"Idempotency-Key": key["Idempotency-Key"] + str(number), "If-Match": tag}
        first = await client.request(method, where, json=body, headers=headers)
        assert first.is_success, first.text
        again = await client.request(method, where, json=body, headers=headers)
        assert (again.status_code, again.headers["etag"]) == (first.status_code, first.headers["etag"])
        tag = first.headers["etag"]


async def test_a_repeat_does_not_put_an_older_summary_back(
    client: httpx.AsyncClient, conversation: str, key: dict[str, str]
) -> None:
    """A summary that was replaced since stays replaced when its request is repeated; the answer shows the newer one."""
    path = f"/conversations/{conversation}/summary"
    await append(client, conversation, user("hello"))
    await client.put(path, json={"text": "marked", "through_seq": 1}, headers=key)
    await client.put(path, json={"text": "other", "through_seq": 1})

    again = await client.put(path, json={"text": "marked", "through_seq": 1}, headers=key)

    assert (again.status_code, again.json()["summary"]["text"]) == (200, "other")


async def test_every_kind_of_request(client: httpx.AsyncClient, fresh: Callable[[], str]) -> None:
    """Every kind of request that changes something accepts a key: the second answer equals the first."""
    owner, copy, imported = fresh(), fresh(), fresh()
    created = await client.post("/conversations", json={"owner": owner}, headers={"Idempotency-Key": f"{owner}-c"})
    again = await client.post("/conversations", json={"owner": owner}, headers={"Idempotency-Key": f"{owner}-c"})
    assert told(again) == told(created)
    path = created.headers["location"]
    await append(client, created.json()["id"], *(user(f"line {n}") for n in range(6)))
    exported = (await client.get(f"{path}/export")).content
    ndjson = {"Content-Type": "application/x-ndjson"}
    usage = {"model": f"ft:gpt-4o:{owner}", "prompt_tokens": 5, "window_tokens": 5}
    requests: list[tuple[str, str, dict[str, Any]]] = [
        ("PATCH", path, {"json": {"system": "x"}}),
        ("PUT", f"{path}/summary", {"json": {"text": "x", "through_seq": 2}}),
        ("DELETE", f"{path}/summary", {}),
        ("DELETE", f"{path}/messages/2", {}),
        ("POST", f"{path}/usage", {"json": usage}),
        ("POST", f"{path}/fork", {"json": {"id": copy}}),
        ("POST", f"{path}/fork", {"json": {}}),
        ("POST", f"/conversations/import?id={imported}", {"content": exported, "headers": ndjson}),
        ("POST", f"{path}/rewind", {"json": {"to_seq": 3}}),
        ("DELETE", path, {}),
        ("DELETE", f"/owners/{owner}", {}),
    ]
    for number, (method, where, options) in enumerate(requests):
        headers = options.pop("headers", {}) | {"Idempotency-Key": f"{owner}-{number}"}
        first = await client.request(method, where, headers=headers, **options)
        second = await client.request(method, where, headers=headers, **options)
        assert first.status_code in (200, 201, 204), first.text
        assert told(second) == told(first), (method, where)


async def test_another_body(client: httpx.AsyncClient, conversation: str, key: dict[str, str]) -> None:
    """A key that is reused with another body, path, query or method is 422, and nothing is stored."""
    path = f"/conversations/{conversation}/messages"
    await client.post(path, json=turn(), headers=key)

    others = [
        await client.post(path, json=turn("something else"), headers=key),
        await client.post(f"{path}?model=gpt-4o", json=turn(), headers=key),
        await client.post(f"/conversations/{conversation}x/messages", json=turn(), headers=key),
        await client.patch(f"/conversations/{conversation}", json=turn(), headers=key),
    ]

    for answer in others:
        problem(answer, 422, "idempotency-key-reused")
    assert len(await history(client, conversation)) == 1


@pytest.mark.parametrize("pieces", [False, True])
async def test_another_file_of_the_same_length(
    client: httpx.AsyncClient, fresh: Callable[[], str], key: dict[str, str], *, pieces: bool
) -> None:
    """All bytes of an import are compared, though its body is never held: another file of the same length is 422."""
    identity = fresh()
    lines = b'{"id":"%s"}\n' % identity.encode() + b'{"message":{"role":"user","content":"tea"}}\n' * 1000

    async def sent(body: bytes) -> httpx.Response:
        async def stream() -> Any:
            for start in range(0, len(body), 10_000):
                yield body[start : start + 10_000]

        content: Any = stream() if pieces else body
        headers = {**key, "Content-Type": "application/x-ndjson"}
        return await client.post("/conversations/import", content=content, headers=headers)

    first, again, other = [await sent(body) for body in (lines, lines, lines[:-6] + b'a"}}\n' + b" ")]

    assert first.status_code == 201, first.text
    assert told(again) == told(first)
    assert again.headers["idempotency-replayed"] == "true"
    problem(other, 422, "idempotency-key-reused")


@pytest.mark.parametrize("path", ["/owners/{}", "/conversations/import", "/conversations/{}/usage"])
async def test_a_method_that_the_path_does_not_take(
    client: httpx.AsyncClient, conversation: str, key: dict[str, str], path: str
) -> None:
    """A method that the path does not support is 405, even with a key that was used before."""
    await client.post(f"/conversations/{conversation}/messages", json=turn(), headers=key)

    problem(await client.put(path.format(conversation), headers=key), 405, "method-not-allowed")


async def test_at_the_same_time(client: httpx.AsyncClient, conversation: str, key: dict[str, str]) -> None:
    """Of concurrent requests with one key, one runs; the others get its answer, or 409 with ``Retry-After``."""
    path = f"/conversations/{conversation}/messages"

    answers = await asyncio.gather(*(client.post(path, json=turn(), headers=key) for _ in range(20)))

    assert {answer.status_code for answer in answers} <= {201, 409}
    assert len({answer.content for answer in answers if answer.status_code == 201}) == 1
    for answer in answers:
        if answer.status_code == 409:
            problem(answer, 409, "idempotency-key-in-progress")
            assert int(answer.headers["retry-after"]) >= 1
    assert len(await history(client, conversation)) == 1


async def test_what_failed_runs_again(client: httpx.AsyncClient, conversation: str, key: dict[str, str]) -> None:
    """A failed request does not use up its key: repeated later under the same key, it can succeed."""
    path = f"/conversations/{conversation}/rewind"
    problem(await client.post(path, json={"to_seq": 0}, headers=key), 404, "not-found")
    await append(client, conversation, user("hello"))
    assert (await client.post(path, json={"to_seq": 0}, headers=key)).status_code == 200
    await append(client, conversation, user("hello"))
    assert (await client.post(path, json={"to_seq": 0}, headers=key)).json()["messages"]["count"] == 1
    assert len(await history(client, conversation)) == 1


async def test_an_append_whose_window_does_not_fit(
    client: httpx.AsyncClient, conversation: str, key: dict[str, str]
) -> None:
    """A turn whose window does not fit is stored; repeated under the same key, it is not stored again."""
    path = f"/conversations/{conversation}/messages?model=gpt-4o&max_tokens=10"
    answers = [await client.post(path, json=turn("word " * 50), headers=key) for _ in range(2)]
    assert [(answer.status_code, answer.json()["window"]) for answer in answers] == [(201, None)] * 2
    assert len(await history(client, conversation)) == 1


async def test_a_run_that_dies(client: httpx.AsyncClient, conversation: str, key: dict[str, str], server: Any) -> None:
    """A run that died after its append holds its key for a while (409); then a repeat answers as a duplicate."""
    path = f"/conversations/{conversation}"
    first = await client.post(f"{path}/messages", json=turn(), headers=key)
    (claim,) = [name for name in server.scan_iter(f"{PREFIX}{{default/request/*") if server.hexists(name, "status")]
    server.hdel(claim, "status")  # as if the process had died between the append and noting it
    server.hset(claim, "until", int(time.time() * 1000) + 5000)

    waiting = await client.post(f"{path}/messages", json=turn(), headers=key)
    server.hset(claim, "until", int(time.time() * 1000) - 1)
    later = await client.post(f"{path}/messages", json=turn(), headers=key)

    problem(waiting, 409, "idempotency-key-in-progress")
    assert later.status_code == 200
    assert later.json()["messages"][0] == first.json()["messages"][0] | {"duplicate": True}
    assert len(await history(client, conversation)) == 1
    assert 0 < server.pttl(claim) <= 86_400_000
    server.delete(claim)


@pytest.mark.parametrize("how", ["rewind", "erase", "redact", "change", "create"])
async def test_a_change_that_dies(  # the request is repeated after another append
    client: httpx.AsyncClient, conversation: str, key: dict[str, str], server: Any, how: str
) -> None:
    """A change whose run died right after it is not applied again to later messages."""
    path = f"/conversations/{conversation}"
    await append(client, conversation, user("one"), user("two"))
    method, where, body = {
        "rewind": ("POST", f"{path}/rewind", {"to_seq": 1}),
        "erase": ("DELETE", path, None),
        "redact": ("DELETE", f"{path}/messages/1", None),
        "change": ("PATCH", path, {"system": "x"}),
        "create": ("POST", "/conversations", {"id": f"{conversation}-2"}),
    }[how]
    first = await client.request(method, where, json=body, headers=key)
    claims = [name for name in server.scan_iter(f"{PREFIX}{{default/request/*") if server.hexists(name, "status")]
    for claim in claims:
        server.hdel(claim, "status")
        server.hset(claim, "until", 1)
    if how != "erase":
        await append(client, conversation, user("three"))

    again = await client.request(method, where, json=body, headers=key)

    assert again.status_code == first.status_code, again.text
    if how == "rewind":
        assert [message["message"]["content"] for message in await history(client, conversation)] == ["one", "three"]


@pytest.mark.parametrize("way", ["append", "append after", "agree", "agree, if it is as it was"])
@pytest.mark.parametrize("forget", [False, True])
async def test_a_write_that_dies_and_is_taken_back(
    client: httpx.AsyncClient,
    conversation: str,
    key: dict[str, str],
    server: Any,
    way: str,
    forget: bool,  # noqa: FBT001
) -> None:
    """A write whose run died right after it is not done again where another rewound it before the repeat."""
    path = f"/conversations/{conversation}"
    first = await append(client, conversation, user("one"), user("two"))
    method, where, body, headers = {
        "append": ("POST", "", turn("three"), {}),
        "append after": ("POST", "?after_seq=1", turn("three"), {}),
        "agree": ("PUT", "?list=whole", {"messages": [user("one"), user("two"), user("three")]}, {}),
        "agree, if it is as it was": (
            "PUT",
            "?list=whole",
            {"messages": [user("one"), user("three")]},
            {"If-Match": first["etag"]},
        ),
    }[way]
    sent = partial(client.request, method, f"{path}/messages{where}", json=body, headers=key | headers)
    assert (await sent()).is_success
    for claim in server.scan_iter(f"{PREFIX}{{default/request/*"):
        if server.hdel(claim, "status"):
            server.hset(claim, "until", 1)
    assert (await client.post(f"{path}/rewind", json={"to_seq": 1, "forget": forget})).is_success
    exported = (await client.get(f"{path}/export")).text

    again = await sent()

    assert again.status_code == (409 if method == "POST" else 200), again.text
    assert (await client.get(f"{path}/export")).text == exported
    assert exported.count('"three"') == (not forget)


async def test_a_branch_that_is_the_log_by_now_was_not_dropped(
    client: httpx.AsyncClient, conversation: str, key: dict[str, str], server: Any
) -> None:
    """Where a run died before it dropped a branch, and another made it the log meanwhile, the repeat is 404, and not 204."""
    path = f"/conversations/{conversation}"
    await append(client, conversation, user("one"), user("two"))
    branch = (await client.post(f"{path}/rewind", json={"to_seq": 1})).json()["branch"]["id"]
    before = {*server.scan_iter(f"{PREFIX}{{default/request/*")}
    assert (await client.post(f"{path}/branches/{branch}")).is_success
    assert (await client.delete(f"{path}/branches/{branch}", headers=key)).status_code == 404
    (claim,) = {*server.scan_iter(f"{PREFIX}{{default/request/*")} - before
    server.hset(claim, "until", 1)  # as if that run had died, and nobody knew what it had done

    again = await client.delete(f"{path}/branches/{branch}", headers=key)

    problem(again, 404, "not-found")
    assert [each["message"]["content"] for each in await history(client, conversation)] == ["one", "two"]


async def test_an_erased_turn_does_not_come_back(
    client: httpx.AsyncClient, conversation: str, key: dict[str, str], server: Any, store: Any
) -> None:
    """Claims of keys hold no text of a message; an append that is repeated after its erasure is 409 and stores nothing."""
    path = f"/conversations/{conversation}"
    secret = turn("the secret is 4711 " * 100)
    await client.post(f"{path}/messages?model=gpt-4o", json=secret, headers=key)
    with redis.Redis.from_url(store.url) as raw:
        claims = [raw.hgetall(name) for name in raw.scan_iter(f"{PREFIX}{{default/request/*")]
    assert claims
    assert "4711" not in repr(claims)

    await client.delete(path)

    problem(await client.post(f"{path}/messages?model=gpt-4o", json=secret, headers=key), 409, "conflict")
    assert list(server.scan_iter(f"{PREFIX}{{default/{conversation}}}:*")) == []


@pytest.mark.parametrize("what", ["create", "fork", "import"])
async def test_a_conversation_that_was_erased_is_not_made_again(
    client: httpx.AsyncClient, conversation: str, key: dict[str, str], what: str
) -> None:
    """A request that made a conversation is 409 when it is repeated after the erasure, also in a new life of the id."""
    await append(client, conversation, user("hello"))
    made = f"{conversation}-made"
    ndjson = {"Content-Type": "application/x-ndjson"}

    async def sent() -> httpx.Response:
        match what:
            case "create":
                return await client.post("/conversations", json={"id": made}, headers=key)
            case "fork":
                return await client.post(f"/conversations/{conversation}/fork", json={"id": made}, headers=key)
            case _:
                return await client.post(f"/conversations/import?id={made}", content=b"{}\n", headers=key | ndjson)

    assert (await sent()).status_code == 201
    await client.delete(f"/conversations/{made}")
    problem(await sent(), 409, "conflict")
    assert (await client.get(f"/conversations/{made}")).status_code == 404

    await append(client, made, user("new words"))
    problem(await sent(), 409, "conflict")


async def test_tenants_share_no_keys(store: Any) -> None:
    """Equal keys of two tenants are independent of each other."""
    client = Client(store.url)
    await client.open()
    try:
        claims = Claims(client)
        one = await claims.take("one", "k", b"a", 1000)
        other = await claims.take("two", "k", b"b", 1000)
        assert isinstance(one, Claim)
        assert isinstance(other, Claim)
        assert await claims.take("one", "k", b"b", 1000) == "other"
        assert await claims.take("one", "k", b"a", 1000) == "busy"
        await client.commands([("DEL", one.key)])
        await client.commands([("DEL", other.key)])
    finally:
        await client.close()


@pytest.mark.parametrize("value", ["", "x" * 256, "a b", "\u00e9"])
async def test_wrong_keys(client: httpx.AsyncClient, conversation: str, value: str) -> None:
    """A key that is empty, longer than 255 characters, or not visible ASCII is 400."""
    path = f"/conversations/{conversation}/messages"
    answer = await client.post(path, json=turn(), headers={"Idempotency-Key": value.encode()})
    problem(answer, 400, "bad-request")


async def test_reads_and_pure_requests_need_none(
    client: httpx.AsyncClient, conversation: str, key: dict[str, str], server: Any
) -> None:
    """Requests that change nothing ignore the key."""
    await append(client, conversation, user("hello"))
    before = len(list(server.scan_iter(f"{PREFIX}{{default/request/*")))
    assert (await client.get(f"/conversations/{conversation}", headers=key)).status_code == 200
    for text in ("a", "b"):
        body = {"model": "gpt-4o", "messages": [{"role": "user", "content": text}]}
        assert (await client.post("/count", json=body, headers=key)).status_code == 200
    assert len(list(server.scan_iter(f"{PREFIX}{{default/request/*"))) == before


async def test_too_large(client: httpx.AsyncClient, conversation: str, key: dict[str, str]) -> None:
    """A body over the limit is 413, as without a key."""
    body = b'{"messages": "' + b"x" * (4 * 1024 * 1024) + b'"}'
    headers = key | {"Content-Type": "application/json"}
    answer = await client.post(f"/conversations/{conversation}/messages", content=body, headers=headers)
    problem(answer, 413, "too-large")


async def test_settings_that_were_taken_back(client: httpx.AsyncClient, conversation: str, key: dict[str, str]) -> None:
    """Once settings are removed, a repeat of the creation is 201 and does not show them, nor bring them back."""
    settings = {"id": conversation, "few_shots": [{"role": "user", "content": "strictly-private"}]}
    assert (await client.post("/conversations", json=settings, headers=key)).status_code == 201
    await client.patch(f"/conversations/{conversation}", json={"few_shots": None})

    again = await client.post("/conversations", json=settings, headers=key)

    assert (again.status_code, again.json().get("few_shots")) == (201, None)
