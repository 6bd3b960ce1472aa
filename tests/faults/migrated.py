"""``sash migrate``, also killed and run again: ``python -m tests.faults migrate [COMMIT]``.

A data folder is filled by the version of COMMIT, or by this one: two tenants' conversations with tools, documents, pins,
pictures, owners, forks, summaries and redactions. It is migrated; a migration is killed (-9) in the middle, and run again.
The members in which exports differ are named. Windows of this version's own data must be the same; those of another's may
be written otherwise now. About a minute for a hundred conversations.
"""

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
from conftest import Served
from rigs.everything import EVERYTHING, said
from rigs.pictures import picture_part

from tests.bench.versions import checked_out

KEYS = {"default": "k" * 20, "acme": "a" * 20}
WINDOWS = (
    "model=gpt-4o-mini&max_tokens=4000&summary=always",
    "model=claude-sonnet-4-5&format=anthropic&max_tokens=4000",
)
Told = dict[tuple[str, str], tuple[list[Any], list[Any]]]
"""By tenant and conversation: the lines of its export, and the requests of its windows; None for one that was refused."""


@contextmanager
def clients(folder: Path, command: Sequence[str] = ()) -> Iterator[dict[str, httpx.Client]]:
    """Serve a data folder, and yield a client for each tenant."""
    served = Served(folder, SASH_API_KEYS=",".join(f"{tenant}:{key}" for tenant, key in KEYS.items()))
    served.command = list(command)
    served.start()
    with ExitStack() as stack:
        stack.callback(served.stop)
        yield {
            tenant: stack.enter_context(
                httpx.Client(base_url=served.url, headers={"Authorization": f"Bearer {key}"}, timeout=60)
            )
            for tenant, key in KEYS.items()
        }


def fill(client: httpx.Client, tenant: str, conversations: int) -> None:
    """Make conversations of all kinds."""
    for number in range(conversations):
        name = f"{tenant}-{number}"
        made = {"id": name, "owner": f"owner-{number % 7}", "system": "Be brief.", "metadata": {"number": number}}
        client.post("/conversations", json=made).raise_for_status()
        path = f"/conversations/{name}"
        for start in range(number % 12):
            for entry in (said(f"{number} {start} words " * 20), said("yes", role="assistant")):
                client.post(f"{path}/messages", json={"messages": [entry]}).raise_for_status()
        if number % 2:
            client.post(f"{path}/messages", json={"messages": list(EVERYTHING[1:])}).raise_for_status()
        if number % 3 == 0:
            pictured = {"message": {"role": "user", "content": [picture_part(number)]}}
            client.post(
                f"{path}/messages", json={"messages": [pictured, said("a cat", role="assistant")]}
            ).raise_for_status()
        if number % 4 == 3:
            client.put(f"{path}/summary", json={"text": "Greetings.", "through_seq": 1}).raise_for_status()
        if number % 5 == 3:
            client.delete(f"{path}/messages/2").raise_for_status()
        if number % 6 == 5:
            client.post(f"{path}/fork", json={"id": f"{name}-fork"}).raise_for_status()


def told(tenants: dict[str, httpx.Client]) -> Told:
    """Read each conversation's export and windows."""
    found: Told = {}
    for tenant, client in tenants.items():
        cursor: str | None = ""
        while cursor is not None:
            page = client.get("/conversations", params={"cursor": cursor} if cursor else {}).raise_for_status().json()
            for each in page["conversations"]:
                path = f"/conversations/{each['id']}"
                lines = client.get(f"{path}/export").raise_for_status().text.splitlines()
                windows = [client.get(f"{path}/window?{query}").json().get("request") for query in WINDOWS]
                found[tenant, each["id"]] = list(map(json.loads, lines)), windows
            cursor = page["next_cursor"]
    return found


def migrate(old: Path, new: Path, command: str, *, killed: bool = False) -> dict[str, Any]:
    """Run ``sash migrate`` and return what it printed; kill it once NEW has half of its conversations, if ``killed``."""
    words = [
        sys.executable,
        "-m",
        "sash",
        "migrate",
        str(old),
        str(new),
        "--json",
        *(("--old-sash", command) if command else ()),
    ]
    with tempfile.TemporaryFile("w+") as out, subprocess.Popen(words, stdout=out) as process:
        if killed:
            size, wanted = new / "appendonlydir", sum(each.stat().st_size for each in old.rglob("*.aof")) // 4
            while process.poll() is None and sum(each.stat().st_size for each in size.rglob("*.aof")) < wanted:
                time.sleep(0.05)
            process.kill()
            return {}
        if process.wait():
            raise SystemExit("the migration failed")
        out.seek(0)
        found: dict[str, Any] = json.load(out)
        return found


def differing(before: Any, after: Any, place: str = "") -> Iterator[str]:
    """Yield the names of members in which two values differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in before.keys() | after.keys():
            yield from differing(before.get(name), after.get(name), name)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for one, other in zip(before, after, strict=True):
            yield from differing(one, other, place)
    elif before != after:
        yield place


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults migrate", description=__doc__)
    parser.add_argument("commit", nargs="?", help="the version that writes the data; this one if left out")
    parser.add_argument("--conversations", type=int, default=100)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        command = ""
        if options.commit:
            tree = stack.enter_context(checked_out(options.commit, folder))
            command = shlex.join(["env", f"PYTHONPATH={tree / 'service'}", sys.executable, "-m", "sash"])
        old, whole, again = [folder / name / "data" for name in ("old", "whole", "again")]
        for each in (old, whole, again):
            each.parent.mkdir()
        with clients(old, shlex.split(command)) as tenants:
            for tenant, client in tenants.items():
                fill(client, tenant, options.conversations // len(tenants))
            before = told(tenants)
        started = time.monotonic()
        migrate(old, whole, command)
        seconds = time.monotonic() - started
        migrate(old, again, command, killed=True)
        resumed = migrate(old, again, command)
        with clients(old, shlex.split(command)) as tenants:
            kept = told(tenants) == before
        bad = not kept
        print(
            "| from | conversations | seconds | exports differ in | windows the same |\n| --- | ---: | ---: | --- | ---: |"
        )
        for how, new, took in (
            ("", whole, f"{seconds:.0f}"),
            (f", killed (-9) with {resumed['present']} there", again, ""),
        ):
            with clients(new) as tenants:
                after = told(tenants)
            members = sorted(
                {each for key in before for each in differing(before[key][0], after.get(key, ([], []))[0])}
            )
            same = sum(
                all(one in (None, other) for one, other in zip(windows, after.get(key, ([], ["", ""]))[1], strict=True))
                for key, (_, windows) in before.items()
            )
            bad |= before.keys() != after.keys() or (same < len(before) and not options.commit)
            told_members = ", ".join(members) or "nothing"
            print(f"| {options.commit or 'this version'}{how} | {len(after)} | {took} | {told_members} | {same} |")
    print(f"The old folder's exports {'are as before' if kept else 'CHANGED'}.")
    return 1 if bad else 0
