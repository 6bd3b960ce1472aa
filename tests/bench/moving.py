"""Import and export of a long conversation, with the worker's memory: ``python -m tests.bench.moving [MESSAGES]``.

Imports a million short messages, exports them, imports the export, and prints the table. Memory is the worker's resident
set: before each step, and its peak during the step, as the kernel reports them.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from sash.store.redis.embedded import EmbeddedStore
from tests.bench.rig import Server, serving, text_of

MESSAGE_BYTES = 100
NDJSON = {"Content-Type": "application/x-ndjson"}
_PIECE_BYTES = 64 * 1024


@dataclass(frozen=True)
class Moved:
    """One import or export: its size, how long it took, and the worker's memory."""

    what: str
    messages: int
    size_bytes: int
    seconds: float
    before_bytes: int
    most_bytes: int

    @property
    def row(self) -> str:
        """A line of the table."""
        rate = self.messages / self.seconds
        return (
            f"| {self.what} | {self.messages:,} | {self.size_bytes / 1e6:,.0f} MB | {self.seconds:.0f} s | {rate:,.0f} "
            f"| {self.before_bytes / 1e6:.1f} MB | {self.most_bytes / 1e6:.1f} MB |"
        )


def lines_of(count: int, message: Callable[[int], bytes]) -> Iterator[bytes]:
    """Yield the body of an import in pieces: empty settings, then messages."""
    piece = bytearray(b"{}\n")
    for n in range(count):
        piece += b'{"message":%b}\n' % message(n)
        if len(piece) >= _PIECE_BYTES:
            yield bytes(piece)
            piece.clear()
    yield bytes(piece)


class Mover:
    """Imports and exports conversations on a server with one worker, and measures the worker's memory."""

    def __init__(self, http: httpx.Client, worker: int) -> None:
        self._http = http
        self._worker = worker

    def take_in(self, what: str, identity: str, pieces: Iterator[bytes]) -> Moved:
        """Import the lines in ``pieces`` as a conversation with this id."""
        size_bytes = 0

        def counted() -> Iterator[bytes]:
            nonlocal size_bytes
            for piece in pieces:
                size_bytes += len(piece)
                yield piece

        def go() -> int:
            path = f"/conversations/import?id={identity}"
            answer = self._http.post(path, content=counted(), headers=NDJSON).raise_for_status()
            count: int = answer.json()["messages"]["count"]
            return count

        messages, seconds, before, most = self._watched(go)
        return Moved(what, messages, size_bytes, seconds, before, most)

    def give_out(self, identity: str, file: Path) -> Moved:
        """Export the conversation into a file."""

        def go() -> int:
            messages = -1  # the first line holds the settings
            with file.open("wb") as out, self._http.stream("GET", f"/conversations/{identity}/export") as answer:
                answer.raise_for_status()
                for piece in answer.iter_bytes():
                    messages += piece.count(b"\n")
                    out.write(piece)
            return messages

        messages, seconds, before, most = self._watched(go)
        return Moved("export", messages, file.stat().st_size, seconds, before, most)

    def erase(self, identity: str) -> None:
        self._http.delete(f"/conversations/{identity}").raise_for_status()

    def _watched(self, go: Callable[[], int]) -> tuple[int, float, int, int]:
        before = self._kept("VmRSS")
        Path(f"/proc/{self._worker}/clear_refs").write_text("5")  # reset the peak (VmHWM)
        started = time.perf_counter()
        messages = go()
        return messages, time.perf_counter() - started, before, self._kept("VmHWM")

    def _kept(self, name: str) -> int:
        lines = Path(f"/proc/{self._worker}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


@contextmanager
def moving(server: Server) -> Iterator[Mover]:
    """Yield a mover for ``server``."""
    (worker,) = server.workers()
    with httpx.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=120) as http:
        yield Mover(http, worker)


def there_and_back(mover: Mover, count: int, folder: Path, message: Callable[[int], bytes], name: str) -> list[Moved]:
    """Import a conversation, export it and import the export; return the three results. Both conversations are erased."""
    file = folder / "exported.ndjson"
    copy = f"{name}-copy"
    moved = [
        mover.take_in("import", name, lines_of(count, message)),
        mover.give_out(name, file),
        mover.take_in("import of the export", copy, _read(file)),
    ]
    for identity in (name, copy):
        mover.erase(identity)
    return moved


def _read(file: Path) -> Iterator[bytes]:
    with file.open("rb") as lines:
        while piece := lines.read(_PIECE_BYTES):
            yield piece


def _message(number: int) -> bytes:
    role = (b"user", b"assistant")[number % 2]
    return b'{"role":"%b","content":"%b"}' % (role, text_of(MESSAGE_BYTES, number).encode())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.moving", description=__doc__)
    parser.add_argument("messages", nargs="?", type=int, default=1_000_000)
    count = parser.parse_args().messages
    said = [_message(n) for n in range(998)]
    with (
        tempfile.TemporaryDirectory() as name,
        EmbeddedStore(Path(name) / "store") as store,
        serving(store.url) as server,
        moving(server) as mover,
    ):
        folder = Path(name)
        there_and_back(mover, 1000, folder, lambda n: said[n % 998], "warm")
        moved = there_and_back(mover, count, folder, lambda n: said[n % 998], "long")
    print("| | messages | bytes | time | messages/s | memory before | most |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for each in moved:
        print(each.row)
    return 0 if all(each.messages == count for each in moved) else 1


if __name__ == "__main__":
    sys.exit(main())
