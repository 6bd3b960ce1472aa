"""Check that the store's user may run the commands that the service sends.

A script is atomic, but it is not undone: where a command in its middle is denied, half of its writes stay. So a server is
asked about every command each second, and scripts that change messages ask again before they write.
``redis.acl_check_cmd`` (Redis 7.0, Valkey 8) answers for a command with its key and runs nothing. It needs no slot, so it
works on every node of a cluster, and on a replica.
"""

import json
import re
from collections.abc import Collection, Sequence
from typing import Any

from redis.exceptions import NoPermissionError, ResponseError

from sash.problems import StorePermissionDenied

_KEY = "sash:{permissions}:key"
_OTHER = "sash:{permissions}:other"
_UNTAGGED = "sash:layout"  # a key without a hash tag

_NEEDED = """
EVAL source 1 KEY; EVALSHA sha 1 KEY; SCRIPT LOAD source; INFO server; TIME; GET UNTAGGED; SET UNTAGGED value NX
APPEND KEY value; GETRANGE KEY 0 1; SETRANGE KEY 0 value; STRLEN KEY; HDEL KEY field; HEXISTS KEY field; HGET KEY field
HGETALL KEY; HINCRBY KEY field 1; HKEYS KEY; HLEN KEY; HMGET KEY field; HRANDFIELD KEY 4 WITHVALUES; HSCAN KEY 0
HSET KEY field value; HSETNX KEY field value; LINDEX KEY 0; LLEN KEY; LPUSH KEY value; LRANGE KEY 0 1; LSET KEY 0 value
LTRIM KEY 0 1; RPUSH KEY value; SADD KEY member; SMEMBERS KEY; SREM KEY member; ZADD KEY 1 member; ZRANGE KEY 0 1
ZREM KEY member; ZSCORE KEY member; EXISTS KEY; PERSIST KEY; PEXPIRE KEY 1; PEXPIRETIME KEY; PTTL KEY
RENAME KEY OTHER; UNLINK KEY; SPUBLISH KEY message; SSUBSCRIBE KEY; SUNSUBSCRIBE KEY
"""
_NAMES = {"KEY": _KEY, "OTHER": _OTHER, "UNTAGGED": _UNTAGGED}
NEEDED = tuple(tuple(_NAMES.get(word, word) for word in words.split()) for words in re.split("; |\n", _NEEDED.strip()))
"""Commands that every deployment needs, each with a key like the service's own."""

OF_READS = frozenset(
    [
        "EVALSHA",
        "EXISTS",
        "GET",
        "GETRANGE",
        "HGET",
        "HKEYS",
        "HLEN",
        "HMGET",
        "LINDEX",
        "LLEN",
        "LRANGE",
        "PEXPIRETIME",
        "STRLEN",
    ]
)
"""The commands of the scripts that read. Where one is denied, a server serves no reads."""

SOMETIMES: tuple[tuple[str, ...], ...] = (("WAIT", "1", "1"), ("WAITAOF", "1", "0", "1"))
"""Commands that make writes safe at some levels, on some servers."""

ELSEWHERE = ("ASKING", "CLUSTER SLOTS", "CONFIG GET", "MEMORY USAGE", "RANDOMKEY", "ROLE", "SCAN")
"""Commands that are not checked here. Without some of them a cluster or a sentinel's primary cannot be reached at all;
CONFIG is checked in ``durability.py``. Only ``sash keys``, ``sash doctor`` and the list of a tenant's conversations
need SCAN, and report when it is denied.
Without MEMORY USAGE and RANDOMKEY there are no metrics of keys by kind."""

_ASKED = (*NEEDED, *SOMETIMES)
_SHOWN = 8
_CHANNELED = frozenset({"SPUBLISH", "SSUBSCRIBE", "SUNSUBSCRIBE"})
"""Commands about a channel, which is called like a key."""
_KEYED = frozenset(words[0] for words in NEEDED if _KEY in words or _UNTAGGED in words) - _CHANNELED
_QUOTED = re.compile(r"'([^']+)'")
_UNNAMED = "The user executing the script can't run this command"
"""Redis 7.0's answer for a command of a script, which it does not name."""
_CHECK = """#!lua flags=no-writes
if not redis.acl_check_cmd then return {} end -- a server of another make: each call finds out for itself
local denied = {}
for index, words in ipairs(cjson.decode(ARGV[1])) do
  local known, allowed = pcall(redis.acl_check_cmd, unpack(words))
  if not (known and allowed) then denied[#denied + 1] = index end
end
return denied
"""

CHECK: tuple[str, ...] = ("EVAL", _CHECK, "0", json.dumps(_ASKED))
"""The command that asks a server which commands it denies; ``denied_commands`` reads the answer."""


def denied_commands(reply: Any, *, sometimes: Collection[str] = ()) -> tuple[str, ...]:
    """Return the needed commands that a server denies, by its answer to CHECK; ``sometimes`` names further needed ones.

    The answer may be an error.
    """
    if isinstance(reply, ResponseError):
        return ("EVAL",) if is_denial(reply) else ()
    needless = {words[0] for words in SOMETIMES} - set(sometimes)
    asked = [_ASKED[index - 1] for index in reply]
    return tuple(command_name(words) for words in asked if words[0] not in needless)


def command_name(words: Sequence[str]) -> str:
    """Return a command's name, with its subcommand where it has one."""
    return " ".join(words[:2]) if words[0] in {"SCRIPT", "CONFIG", "CLUSTER", "MEMORY"} else words[0]


def is_denial(error: Exception) -> bool:
    """Return whether an error says that the user may not run a command, or that the server has no such command."""
    text = str(error)
    return isinstance(error, NoPermissionError) or text.startswith(
        ("NOPERM", "ACL failure", "unknown command", _UNNAMED)
    )


def denial(denied: Collection[str], what: str = "") -> StorePermissionDenied:
    """Return the problem of denied commands; its detail begins with ``what``."""
    user = f"{what}: the store's user" if what else "The store's user"
    if set(denied) >= _KEYED:
        return StorePermissionDenied(f"{user} may not use Sash's keys: allow it ~sash:*.")
    names = sorted(denied)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    rules = " ".join("+" + name.lower().replace(" ", "|") for name in names)
    rules += " ~sash:*" + (" &sash:*" if _CHANNELED & set(denied) else "")
    return StorePermissionDenied(f"{user} may not run {', '.join(names[:_SHOWN])}{more}: allow it {rules}.")


def denied_call(error: Exception) -> StorePermissionDenied:
    """Return the problem of one call that a server denied."""
    if str(error).startswith(_UNNAMED):
        return StorePermissionDenied("The store's user may not run a command of Sash's scripts: GET /readyz names it.")
    found = _QUOTED.search(str(error))
    return denial((found[1].upper().replace("|", " "),) if found else _KEYED)
