"""Try every command that Sash needs on a store: for ``sash doctor --url redis://…``.

A server that is compatible with Redis, or a hosted one, may lack a command, a script's library or a guarantee. The trial
writes only keys that begin with ``sash:{doctor/``, and removes them.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from secrets import token_hex
from typing import Any

from redis import Redis
from redis.exceptions import MovedError, RedisClusterException, RedisError, ResponseError

from sash.problems import Problem
from sash.store.data import scripts
from sash.store.data.layout import keys_of
from sash.store.redis.checks import clients_of
from sash.store.redis.findings import Finding
from sash.store.redis.lua import SCRIPTS, ScriptCall
from sash.store.redis.permissions import NEEDED, SOMETIMES, command_name

_KNOWN = ("WRONGTYPE", "No matching script", "no such key", "index out of range", "Error compiling", "user_script")
"""Beginnings of errors that prove that the store has the command: only the trial's arguments are wrong."""
_OPTIONAL = {words[0]: "SASH_DURABILITY=assume, if a write is safe before it is acknowledged" for words in SOMETIMES}


def try_store(url: str) -> Iterator[Finding]:
    """Yield a finding for each command, and one for a conversation that is made, read and erased by Sash's scripts."""
    try:
        with ExitStack() as stack:
            for client in clients_of(url, stack):
                try:
                    yield from _try(client)
                except MovedError:  # another node of the cluster has the keys
                    continue
    except (RedisError, RedisClusterException, OSError, ValueError):
        return  # ``check_store`` says why


def _try(client: "Redis") -> Iterator[Finding]:
    name = f"doctor/{token_hex(4)}"
    names = {f"sash:{{permissions}}:{place}": f"sash:{{{name}}}:{place}" for place in ("key", "other")}
    client.exists(*names.values())  # raises MovedError before the first finding
    for words in (*(each for each in NEEDED if each[0] != "SET"), *SOMETIMES):
        yield _tried(client, [names.get(word, word) for word in words])
    client.unlink(*names.values())
    yield _lived(client, name)


def _tried(client: "Redis", words: list[str]) -> Finding:
    subject, sometimes = f"command {command_name(words)}", _OPTIONAL.get(words[0])
    try:
        client.execute_command(*words)  # type: ignore[no-untyped-call]
    except ResponseError as error:
        if not str(error).startswith(_KNOWN):
            change = sometimes or "Sash cannot do without it: use a store that has it, or allow it"
            return Finding(subject, "advice" if sometimes else "problem", str(error), change)
    return Finding(subject, "good", "works")


def _lived(client: "Redis", name: str) -> Finding:
    """Load every script, then make, read and erase a conversation."""
    keys = keys_of(name)
    begin = scripts.create(keys, name=name, settings=b"{}", now_ms=0, ttl_ms=60_000, token=name, owner="")
    read = scripts.read_window(keys, scripts.Reach())
    try:
        for script in SCRIPTS.values():
            client.script_load(script.source)
        for call in (begin, read, scripts.erase(keys, life="", if_match="")):
            _run(client, call)
    except (RedisError, Problem) as error:
        return Finding("scripts", "problem", str(error), "Sash cannot run on this store")
    return Finding("scripts", "good", f"all {len(SCRIPTS)} load; a conversation was made, read and erased")


def _run(client: "Redis", call: ScriptCall[Any]) -> Any:
    reply = client.evalsha(call.script.sha, len(call.keys), *call.keys, *call.arguments)
    return call.read(reply)
