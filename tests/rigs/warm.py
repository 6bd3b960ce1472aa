"""A warm start of ``sash serve``: forked from a process that has imported it, in a fifth of a second in place of four.

``sash serve`` itself forks its workers after it has imported all and loaded the vocabularies. Here that process is forked
once more, before it reads its arguments and its environment, so a test's server runs the same code from there on.
"""

import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from multiprocessing import forkserver
from pathlib import Path

__all__ = ["Forked", "started"]

_ROOT = Path(__file__).resolve().parent.parent.parent
_CONTEXT = multiprocessing.get_context("forkserver")
_STARTING = threading.Lock()
_COLD = ("PYTHONPATH", "PYTHONOPTIMIZE", "PYTHONDEVMODE")
"""Variables that Python reads when it starts."""


class Forked:
    """A process that was forked, with the members of ``subprocess.Popen`` that tests use."""

    def __init__(self, process: multiprocessing.process.BaseProcess) -> None:
        self._process = process
        self.pid: int = process.pid or 0

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(["sash", "serve"], timeout or 0)
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def started(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    log: Path,
    *,
    command: Sequence[str] = (),
    own_session: bool = False,
) -> "Forked | subprocess.Popen[bytes]":
    """Start ``sash`` with these arguments and this environment alone. What it prints is added to ``log``.

    It is not forked, but run by the ``command``, if there is one, and where the environment has what Python reads when it
    starts.
    """
    with _STARTING:
        is_cold = any(environment.get(name) != os.environ.get(name) for name in _COLD)
    if command or is_cold:
        with log.open("ab") as file:
            return subprocess.Popen(
                [*(command or (sys.executable, "-m", "sash")), *arguments],
                cwd=_ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=own_session,
            )
    _warm()
    files = resource.getrlimit(resource.RLIMIT_NOFILE)  # the process that is forked has that of its own start
    process = _CONTEXT.Process(
        target=_run, args=([*arguments], dict(environment), log, files, own_session), daemon=True
    )
    process.start()
    return Forked(process)


def _warm() -> None:
    """Start the process that is forked, unless it runs. It finds this module by its path, and coverage does not trace it."""
    with _STARTING:
        before = os.environ.get("PYTHONPATH")
        told = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("COVERAGE_PROCESS_")}
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_ROOT / "tests"), before)))
        try:
            _CONTEXT.set_forkserver_preload(["rigs.warm_modules"])
            forkserver.ensure_running()
        finally:
            del os.environ["PYTHONPATH"]
            os.environ |= told | ({"PYTHONPATH": before} if before is not None else {})


def _run(
    arguments: list[str],
    environment: dict[str, str],
    log: Path,
    files: tuple[int, int],
    own_session: bool,  # noqa: FBT001 - sent by place
) -> None:
    from rigs import recorder  # noqa: PLC0415

    from sash.__main__ import main  # noqa: PLC0415 - in the child

    if own_session:
        os.setsid()
    resource.setrlimit(resource.RLIMIT_NOFILE, files)
    os.environ.clear()
    os.environ |= environment
    os.chdir(_ROOT)
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for stream in (1, 2):
        os.dup2(output, stream)
    multiprocessing.set_start_method("fork", force=True)
    multiprocessing.process.current_process()._config.pop("daemon", None)  # else it may have no workers
    sys.argv = ["sash", *arguments]
    if recorder.VARIABLE in environment:
        recorder.install(Path(environment[recorder.VARIABLE]))
    main()
