"""Try every command that Sash needs on a store: for ``sash doctor --url redis://…``.

A server that is compatible with Redis, or a hosted one, may lack a command, a script's library or a guarantee. The trial
writes only keys that begin with ``sash:{doctor/``, and removes them.
"""

from secrets import token_hex

from sash.problems import Problem
from sash.store.data import tails, write_scripts
from sash.store.data.layout import keys_of
from sash.store.redis.client import Client
from sash.store.redis.findings import Finding
from sash.store.redis.lua import SCRIPTS
from sash.store.redis.permissions import NEEDED, SOMETIMES, command_name

_KNOWN = ("WRONGTYPE", "No matching script", "no such key", "index out of range", "Error compiling", "user_script")
"""Beginnings of errors that prove that the store has the command: only the trial's arguments are wrong."""
_OPTIONAL = {words[0]: "SASH_DURABILITY=assume, if a write is safe before it is acknowledged" for words in SOMETIMES}


async def try_store(client: Client) -> list[Finding]:
    """Return a finding for each command, and one for a conversation that is made, read and erased by Sash's scripts.

    None where a server cannot be reached, which ``check_store`` reports. Raises StoreUnavailable.
    """
    if any(server.found is None for server in await client.connected()):
        return []
    name = f"doctor/{token_hex(4)}"
    names = {f"sash:{{permissions}}:{place}": f"sash:{{{name}}}:{place}" for place in ("key", "other")}
    tried = (*(each for each in NEEDED if each[0] != "SET"), *SOMETIMES)
    found = [await _tried(client, [names.get(word, word) for word in words]) for words in tried]
    await client.attempt(("UNLINK", *names.values()))
    return [*found, await _lived(client, name)]


async def _tried(client: Client, words: list[str]) -> Finding:
    subject, sometimes = f"command {command_name(words)}", _OPTIONAL.get(words[0])
    refusal = await client.attempt(words)
    if refusal and not refusal.startswith(_KNOWN):
        change = sometimes or "Sash cannot do without it: use a store that has it, or allow it"
        return Finding(subject, "advice" if sometimes else "problem", refusal, change)
    return Finding(subject, "good", "works")


async def _lived(client: Client, name: str) -> Finding:
    """Make, read and erase a conversation. Every script was loaded when the client connected."""
    keys = keys_of(name)
    begin = write_scripts.create(keys, name=name, settings=b"{}", now_ms=0, ttl_ms=60_000, token=name, owner="")
    try:
        await client.run(begin)
        await client.run(tails.read_window(keys, tails.Reach()))
        await client.run(write_scripts.erase(keys, life="", if_match=""))
    except Problem as problem:
        return Finding("scripts", "problem", problem.detail, "Sash cannot run on this store")
    return Finding("scripts", "good", f"all {len(SCRIPTS)} load; a conversation was made, read and erased")
