"""Play a script on both deployments, and judge every answer."""

import asyncio
import itertools
import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from faults.fuzz.judge import Wrong, can_be_sent, difference, messages_in, plain, refused, words_in
from faults.fuzz.logs import joined
from faults.fuzz.scripts import Object, Script, Sent
from faults.fuzz.stage import HangError, Place, RestartedError, told
from faults.wire import Reply
from validators.conversations import but_for_shots

ALIKE = "one picture"
"""The feature whose requests all mean the same."""
_RECEIPTS = 4
"""One window in so many is asked for again by its receipt."""
_TRIES = 20
_numbers = itertools.count(1)


@dataclass
class Played:
    """What came of a script."""

    windows: int = 0
    """Answers with a window or a reason why there is none, from both deployments together."""
    answered: Counter[int] = field(default_factory=Counter)
    """Windows by status."""
    taken: int = 0
    refused: int = 0
    """Messages that the first deployment took, and those that it refused."""
    wrong: list[Wrong] = field(default_factory=list)
    otherwise: bool = False
    """Whether messages were refused that are taken in one request with others, or the other way round."""


@dataclass
class Told:
    """A conversation on one deployment, after all appends."""

    place: Place
    path: str
    statuses: list[int] = field(default_factory=list)
    """Of each message, by the request that took or refused it."""
    whole: bool = True
    """Whether all requests were taken as they were sent."""
    last: int = 0


async def play(script: Script, places: tuple[Place, Place]) -> Played:
    """Play the script: on the first deployment in as few requests as possible, on the second one by one.

    Raises HangError and RestartedError.
    """
    found, name = Played(), f"f-{next(_numbers)}"
    one, other = await asyncio.gather(_told(script, places[0], name, found), _told(script, places[1], name, found))
    found.taken, found.refused = (sum((each < 300) is taken for each in one.statuses) for taken in (True, False))
    found.otherwise = one.whole != other.whole
    for number, query in enumerate(script.windows):
        await _window(script, query, (one, other), found, again=number % _RECEIPTS == 0)
    if script.feature == ALIKE:
        await _alike(script, places[0], found)
    await asyncio.gather(*(each.place.ask("DELETE", each.path) for each in (one, other)))
    return found


async def _told(script: Script, place: Place, name: str, found: Played, *, apart: bool | None = None) -> Told:
    """Append all that the script says. What is refused as a whole is sent one by one."""
    told_ = Told(place, f"/conversations/{name}")
    apart = place.name == "redis" if apart is None else apart
    made = await place.ask("POST", "/conversations", {"id": name, **script.settings})
    _judge_status(made, "POST /conversations", found)
    for form, messages in joined(script.sent):
        if apart or not await _append(told_, form, messages, found):
            for message in messages:
                await _append(told_, form, [message], found, counts=True)
    for method, path, body in script.changes:
        _judge_status(await place.ask(method, f"{told_.path}{path}", body), f"{method} {path}", found)
    return told_


async def _append(told_: Told, form: str, messages: list[Any], found: Played, *, counts: bool = False) -> bool:
    """Append messages; return whether they were taken. What is refused counts only with ``counts``."""
    reply = await told_.place.ask("POST", f"{told_.path}/messages?format={form}", {"messages": messages})
    _judge_status(reply, f"POST …/messages?format={form}", found)
    taken = reply.status < 300
    if taken or counts:
        told_.statuses += [reply.status] * len(messages)
    if taken:
        told_.last = told(reply)["last_seq"]
    told_.whole &= taken
    return taken


def _judge_status(reply: Reply, what: str, found: Played, query: Object | None = None) -> None:
    if reply.status >= 500:
        found.wrong.append(Wrong("5xx", f"{reply.status} to {what}: {reply.body.decode()[:300]}", query))


async def _window(script: Script, query: Object, talks: tuple[Told, Told], found: Played, *, again: bool) -> None:
    """Ask both deployments for one window, and judge the answers."""
    replies = await asyncio.gather(*(_read(each, query) for each in talks))
    for reply in replies:
        found.windows += 1
        found.answered[reply.status] += 1
        _judge_status(reply, "GET …/window", found, query)
    reply, talk = replies[0], talks[0]
    if reply.status == 200:
        await _judge_window(told(reply), query, talk, found, again=again)
        kept = {line["seq"] for line in told(reply).get("explain") or () if line["kept"]}
        if kept & set(script.unsent):
            found.wrong.append(Wrong("wordless", f"message {min(kept & set(script.unsent))} is kept", query))
    elif reply.status == 422 and "shortfall" in told(reply):
        await _judge_shortfall(told(reply), query, talk, found)
    if max(each.status for each in replies) < 500 and not found.otherwise:
        await _compare(script, query, talks, replies, found)


async def _read(talk: Told, query: Object) -> Reply:
    return await talk.place.ask("GET", f"{talk.path}/window?{urlencode(query)}")


async def _judge_window(window: Object, query: Object, talk: Told, found: Played, *, again: bool) -> None:
    form, model, request = query["format"], query["model"], window["request"]
    total, budget = window["tokens"]["total"], window["budget"]
    if total > budget:
        found.wrong.append(Wrong("over", f"total {total} of {budget}", query))
    at = "/count" if form == "openai" else f"/count?format={form}"
    counted = await talk.place.ask("POST", at, {"model": model, **request})
    _judge_status(counted, f"POST {at}", found, query)
    if counted.status == 200 and told(counted)["tokens"] > total:
        found.wrong.append(Wrong("over", f"counted {told(counted)['tokens']}, told {total} of {budget}", query))
    elif 400 <= counted.status < 500:
        found.wrong.append(Wrong("refused", f"POST {at}: {told(counted)['detail']}", query))
    if not (messages_in(form, request) or window["summary_used"]) and await _has_question(talk, query):
        found.wrong.append(Wrong("empty", f"kept {window['kept']}, stop_reason {window['stop_reason']}", query))
    waits = not (
        window["kept"]["messages"] or window["summary_used"]
    )  # few-shots alone wait for the client's next turn
    refusals = but_for_shots(refused(form, model, request), messages_in(form, request))
    for why in refusals[:1] if not waits else ():
        found.wrong.append(Wrong("refused", why, query))
    if again and "receipt" in window:
        same = await _by_receipt(talk, window["receipt"], query)
        if same.status != 200 or (why := difference(plain(window), plain(told(same)))):
            found.wrong.append(
                Wrong("receipt", f"{same.status} {why if same.status == 200 else same.body[:200]!r}", query)
            )


async def _by_receipt(talk: Told, receipt: str, query: Object) -> Reply:
    """Ask for a window by its receipt; with the parameters beside it, if it has none."""
    at = f"{talk.path}/window?receipt={receipt}"
    reply = await talk.place.ask("GET", at)
    has_none = reply.status == 422 and "The receipt has no parameters" in told(reply)["detail"]
    return await talk.place.ask("GET", f"{at}&{urlencode(query)}") if has_none else reply


async def _has_question(talk: Told, query: Object) -> bool:
    view = f"&view={query['view']}" if "view" in query else ""
    page = await talk.place.ask("GET", f"{talk.path}/messages?limit=1000{view}")
    return page.status == 200 and any(map(can_be_sent, told(page)["messages"]))


async def _judge_shortfall(problem: Object, query: Object, talk: Told, found: Played) -> None:
    """Ask again with as many tokens more as were told to be missing."""
    if "max_tokens" not in query or problem["budget"] + query["reserve"] < query["max_tokens"]:
        return  # another limit than this one binds
    wider = query | {"max_tokens": query["max_tokens"] + problem["shortfall"]}
    reply = await _read(talk, wider)
    found.windows += 1
    found.answered[reply.status] += 1
    if reply.status == 200:
        await _judge_window(told(reply), wider, talk, found, again=False)
    elif reply.status == 422 and "shortfall" in told(reply):
        if told(reply)["budget"] < problem["budget"] + problem["shortfall"]:
            return  # the model's own limit binds now
        found.wrong.append(
            Wrong("short", f"{problem['shortfall']} more, and {told(reply)['shortfall']} are missing", query)
        )


async def _compare(
    script: Script, query: Object, talks: tuple[Told, Told], replies: list[Reply], found: Played
) -> None:
    """Compare the windows of both deployments. Where they differ, the second one says why, with another conversation."""
    one, other = ({"status": each.status, **plain(told(each))} for each in replies)
    why = difference(one, other)
    if not why:
        return
    if talks[0].last != talks[1].last:  # some forms join neighbouring items of a request to one message
        complete = all(
            each.get("stop_reason") == "complete" and not (each["dropped"]["messages"] or _is_cut(each))
            for each in (one, other)
        )
        if script.changes or not complete:  # a seq names another message
            return
        why = difference(words_in(one["request"]), words_in(other["request"]))
        if not why:
            return
    again = await _told(script, talks[1].place, f"g-{next(_numbers)}", Played(), apart=False)
    third = await _read(again, query)
    await again.place.ask("DELETE", again.path)
    name, of = again.path.rpartition("/")[2], talks[0].path.rpartition("/")[2]
    same = plain(told(Reply(third.status, {}, third.body.replace(name.encode(), of.encode()))))
    is_way = not difference(one, {"status": third.status, **same})
    found.wrong.append(Wrong("bulk" if is_way else "stores", why, query))


def _is_cut(window: Object) -> bool:
    """Whether a result was cut to the room of its group: calls of one reply that are messages of their own have more."""
    return "of this tool result left out" in json.dumps(window["request"], ensure_ascii=False)


async def _alike(script: Script, place: Place, found: Played) -> None:
    """Ask for the window of each request alone, without storing it: all are taken, or all are refused."""
    for query in script.windows:
        asked = {name: _typed(value) for name, value in query.items() if name != "history_tools"}
        answers: list[tuple[str, Reply]] = []
        for form, messages in script.sent:
            answers.append((form, await place.ask("POST", f"/window?format={form}", {**asked, "messages": messages})))
            _judge_status(answers[-1][1], "POST /window", found, query)
        if len({reply.status for _, reply in answers}) > 1:
            said = ", ".join(f"{form} {reply.status} {told(reply).get('detail', '')[:90]}" for form, reply in answers)
            found.wrong.append(Wrong("alike", said, query))


def _typed(value: Any) -> Any:
    return {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value


def alone(sent: list[Sent]) -> list[Sent]:
    """Return the same messages, each in a request of its own."""
    return [(form, [message]) for form, messages in sent for message in messages]


async def hangs(script: Script, places: tuple[Place, Place]) -> str:
    """Play a suspect alone; return what it hangs at, or an empty text. A service that does not answer is restarted."""
    for _ in range(_TRIES):
        restarts = [place.restarts for place in places]
        try:
            await play(script, places)
        except HangError as late:
            dead = [place.name for place, before in zip(places, restarts, strict=True) if await place.mend(before)]
            return f"{late}; /livez is dead at {dead}" if dead else f"{late}; /livez answers"
        except RestartedError:
            continue  # an idle connection to a service that was restarted meanwhile
        break
    return ""
