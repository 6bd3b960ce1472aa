"""Applications of FastAPI in processes of their own. FastAPI and uvicorn are in a folder beside the tests' packages."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from readme_blocks import ROOT
from rigs.servers import free_port

PACKAGES = ["fastapi==0.165.0", "uvicorn==0.54.0"]
_START_SECONDS = 60


def install(folder: Path) -> Path:
    """Install FastAPI and uvicorn into a folder, which goes into PYTHONPATH, and return it."""
    pip = [sys.executable, "-m", "pip", "install", "-q", "--target", str(folder), *PACKAGES]
    subprocess.run(pip, check=True, timeout=300)
    return folder


class Application:
    """``uvicorn chat:app`` in a folder with this program, at ``url``."""

    def __init__(self, folder: Path, packages: Path, program: str, **environment: str) -> None:
        (folder / "chat.py").write_text(program)
        self._log, self._folder = folder / "log", folder
        self._path = os.pathsep.join(map(str, (packages, ROOT / "service")))
        self._environment = environment
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self.start()

    def start(self) -> None:
        """Start the process, and wait until it takes requests."""
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "uvicorn", "chat:app", "--port", str(self._port)],
                cwd=self._folder,
                env={**os.environ, "PYTHONPATH": self._path, **self._environment},
                stdout=log,
                stderr=log,
            )
        give_up = time.monotonic() + _START_SECONDS
        while "Uvicorn running" not in self.log:
            assert self._process.poll() is None, self.log
            assert time.monotonic() < give_up, self.log
            time.sleep(0.05)

    @property
    def log(self) -> str:
        """What the process wrote since its start."""
        return self._log.read_text()

    def kill(self) -> None:
        """End the process as a crash does."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(30)

    def stop(self) -> None:
        """End the process, which must shut down cleanly."""
        self._process.terminate()
        self._process.wait(30)
        assert "Application shutdown complete" in self.log


@contextmanager
def running(folder: Path, packages: Path, program: str, **environment: str) -> Iterator[Application]:
    """Yield the running application of a program, which can be killed and started again."""
    application = Application(folder, packages, program, **environment)
    try:
        yield application
    finally:
        application.stop()
