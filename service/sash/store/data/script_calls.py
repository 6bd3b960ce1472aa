"""The store's Lua scripts as functions: each takes named arguments and returns a call, which can read its reply.

::

    call = write_scripts.erase(keys, life=state.life, if_match="")   a ScriptCall[Written]: nothing is sent yet
    written = await client.run(call)                               a Written, or a problem raised

A script's arguments are a Struct, whose fields are in the order of ARGV. Many scripts have some of these: ``life`` and
``if_match`` must stand (the conversation's life, and an entity tag, ``*`` or ''); ``token`` is the request's, under which a
repeated call changes nothing more; ``change`` is a random name for this write. Scripts about one conversation take all of
its keys, in the order of ``layout.Keys``.
"""

from collections.abc import Callable, Iterable
from typing import Any, Concatenate, ParamSpec, TypeVar

import msgspec

from sash.problems import (
    ConversationDamaged,
    Internal,
    NotFound,
    PreconditionFailed,
)
from sash.store.data.layout import new_name
from sash.store.redis.lua import SCRIPTS, ScriptCall, keys_as_sent

T = TypeVar("T")
P = ParamSpec("P")


def script(
    name: str, arguments: Callable[P, msgspec.Struct], read: Callable[[Any], T]
) -> Callable[Concatenate[Iterable[str], P], ScriptCall[T]]:
    """Return the function that makes a script's calls, of its keys and of its ``arguments``."""

    def call(keys: Iterable[str], /, *values: P.args, **named: P.kwargs) -> ScriptCall[T]:
        return ScriptCall(SCRIPTS[name], keys_as_sent(keys), argv(arguments(*values, **named)), read)

    return call


def argv(arguments: msgspec.Struct) -> list[Any]:
    """Return the arguments as the store takes them: a list's values in its place, '' for None, '1' or '' for a boolean."""
    found: list[Any] = []
    for value in msgspec.structs.astuple(arguments):
        match value:
            case list() | tuple():
                found += value
            case None | False:
                found.append("")
            case True:
                found.append("1")
            case _:
                found.append(value)
    return found


def random_name() -> Any:
    """Return the field of a Struct that is a new random name in each of them."""
    return msgspec.field(default_factory=new_name)


def if_ok(make: Callable[..., T]) -> Callable[[Any], T]:
    """Return a reader of replies: ``make`` gets the values after ``ok``, and every other reply is a problem."""

    def read(reply: Any) -> T:
        if reply[:1] != [b"ok"]:
            raise refusal(reply)
        return make(*reply[1:])

    return read


class MediaMoved(Exception):  # noqa: N818 - it reads as what happened
    """A medium of an append is neither given nor in its conversation any more; nothing was stored."""


class HistoryEdited(Exception):  # noqa: N818 - it reads as what happened
    """A history was rewound, redacted or erased between two reads, so they do not match and must be repeated."""


def refusal(reply: list[Any]) -> Exception:
    """Return the problem in a script's reply."""
    match reply:
        case []:
            return no_conversation()
        case [b"moved", version, etag]:
            return moved(int(version), etag.decode())
        case [b"damaged", part]:
            return damaged(part.decode())
        case [b"media"]:
            return MediaMoved()
        case _:
            return Internal("The store answered what no script answers.")


def no_conversation() -> NotFound:
    """Return the problem of a missing conversation."""
    return NotFound(
        "There is no such conversation: it was never created, was erased, has expired, or is another tenant's. A first "
        "message creates it: POST /conversations/{id}/messages. GET /conversations lists all."
    )


def moved(version: int, etag: str) -> PreconditionFailed:
    """Return the problem of an If-Match that names another state."""
    said = f"The conversation is at version {version} now" if version else "There is no such conversation now"
    return PreconditionFailed(f"{said}: read it again, then decide.", members={"version": version, "etag": f'"{etag}"'})


def damaged(part: str) -> ConversationDamaged:
    """Return the problem of a conversation without one of its keys."""
    return ConversationDamaged(
        f"The store lost a part of this conversation ({part}). Restore it from a backup, or erase it and begin anew; "
        "a store that evicts keys (maxmemory-policy) does this.",
        members={"part": part},
    )
