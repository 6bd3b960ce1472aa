"""The store's Lua scripts: loaded once from ``store/data/scripts``, and called by the SHA-1 of their source.

The head of each script lists its arguments in order, and its replies; its ``include`` names the files of
``scripts/parts/`` that it shares with others.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha1
from importlib.resources import files
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import msgspec
from hiredis import pack_command

T = TypeVar("T")

Effect = Literal["reads", "erases", "adds"]
"""What a call does to the store. A full store or disk refuses what adds; ``erases`` also stands for small writes that an
erasure needs."""

_FOLDER = files("sash.store") / "data" / "scripts"
_INCLUDE = re.compile(rb"^-- include (.+)\n", re.MULTILINE)


class Script(NamedTuple):
    """A Lua script, called by the SHA-1 of its source; its first line says what it does to the store."""

    name: str
    source: bytes
    sha: str
    effect: Effect


def _load(name: str) -> Script:
    return _script(name.removesuffix(".lua"), _INCLUDE.sub(_included, (_FOLDER / name).read_bytes()))


def _included(line: re.Match[bytes]) -> bytes:
    """Return the parts that a script includes. It includes what it uses only: each call makes their functions anew."""
    parts = ((_FOLDER / "parts" / f"{part}.lua").read_bytes() for part in line[1].decode().split(", "))
    return b"".join(_INCLUDE.sub(_included, part) for part in parts)


def _script(name: str, source: bytes) -> Script:
    sha = sha1(source, usedforsecurity=False).hexdigest()
    head = source.partition(b"\n")[0]
    effect: Effect = "reads" if b"no-writes" in head else "erases" if b"allow-oom" in head else "adds"
    return Script(name, source, sha, effect)


SCRIPTS = {
    script.name: script for script in (_load(file.name) for file in _FOLDER.iterdir() if file.name.endswith(".lua"))
}
# A full store refuses the keys of other requests, which it would hold for a day.
SCRIPTS["claim_erasure"] = _script(
    "claim_erasure", SCRIPTS["claim"].source.replace(b"#!lua\n", b"#!lua flags=allow-oom\n", 1)
)
# Buckets of rate limits are written with each request: a full disk does without them.
SCRIPTS["take"] = SCRIPTS["take"]._replace(effect="adds")


class CallKeys(NamedTuple):
    """The keys of a call, which share a slot."""

    number: int
    packed: bytes
    """The keys as the socket takes them."""


def keys_as_sent(keys: Iterable[str]) -> CallKeys:
    """Return these keys as a call has them."""
    named: tuple[Any, ...] = tuple(keys)
    _, _, packed = pack_command(named).partition(b"\r\n")
    return CallKeys(len(named), packed)


class ScriptCall(msgspec.Struct, Generic[T], frozen=True):
    """A script with its keys and its arguments; ``read`` turns the reply into the result."""

    script: Script
    keys: CallKeys
    arguments: Sequence[Any]
    read: Callable[[Any], T]
    by_source: bool = False
    """Whether the server is given the source, as its scripts were flushed."""

    @property
    def key(self) -> str:
        """The first key, whose slot is that of all."""
        return self.keys.packed.split(b"\r\n", 2)[1].decode()
