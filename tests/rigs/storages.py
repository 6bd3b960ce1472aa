"""Object storage for tests: a folder, and an S3 server that is started from a package (moto).

No emulator in a package has the XML interface of Google Cloud Storage. That of S3 has the same paths and bodies for what
pictures need (cloud.google.com/storage/docs/interoperability), so Google's client is tried on the S3 server.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from rigs.servers import free_port

BUCKET = "pictures"
MARKED = "sash-store/"
"""The beginning of the object that names a store."""
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}


class S3:
    """An S3 server on a port of its own, with one bucket. It keeps objects in memory, until it is stopped."""

    def __init__(self) -> None:
        self.port = free_port()
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        return {**CREDENTIALS, "AWS_ENDPOINT_URL": self.endpoint}

    def start(self) -> None:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        give_up = time.monotonic() + 60
        while time.monotonic() < give_up:
            try:
                made = httpx.put(f"{self.endpoint}/{BUCKET}", timeout=10)
            except httpx.TransportError:
                time.sleep(0.05)
            else:
                assert made.status_code == 200
                return
        raise AssertionError("the S3 server did not start")

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def put(self, name: str) -> None:
        """Write an empty object under this key."""
        assert httpx.put(f"{self.endpoint}/{BUCKET}/{name}", content=b"", timeout=10).status_code == 200

    def names(self) -> list[str]:
        """Return the keys of all objects."""
        found: list[str] = []
        more: dict[str, str] = {}
        while True:
            text = httpx.get(f"{self.endpoint}/{BUCKET}", params={"list-type": "2", **more}, timeout=30).text
            found += [part.partition("</Key>")[0] for part in text.split("<Key>")[1:]]
            token = text.partition("<NextContinuationToken>")[2].partition("<")[0]
            if not token:
                return sorted(found)
            more = {"continuation-token": token}


@contextmanager
def s3() -> Iterator[S3]:
    """Yield a running S3 server, which this process's settings name."""
    server = S3()
    server.start()
    before = {name: os.environ.get(name) for name in server.environment}
    os.environ |= server.environment
    try:
        yield server
    finally:
        server.stop()
        for name, value in before.items():
            if value is None:
                os.environ.pop(name)
            else:
                os.environ[name] = value


def google_account(server: S3, folder: Path) -> Path:
    """Return the file of a service account, whose Google Cloud Storage is the S3 server."""
    key = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    account = {"client_email": "sash@example.com", "private_key_id": "1", "private_key": key.decode()}
    (folder / "account.json").write_text(json.dumps({**account, "gcs_base_url": server.endpoint}))
    return folder / "account.json"


def files_in(folder: Path) -> list[str]:
    """Return the paths of a folder's files."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
