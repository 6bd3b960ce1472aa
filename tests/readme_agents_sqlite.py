"""A pytest plugin for the Agents SDK's own tests: their ``SQLiteSession`` becomes a conversation on the server ``SASH_URL``.

The path of the SQLite file becomes part of the conversation's id. Only SQLiteSession, not the protocol, has ``close``.
"""

import hashlib
import os
from pathlib import Path
from typing import Any
from uuid import uuid4

import agents

from sash_client.agents import SashSession


class SQLiteSession(SashSession):
    def __init__(self, session_id: str, db_path: str | Path = ":memory:", session_settings: Any = None) -> None:
        folder = str(db_path) if str(db_path) != ":memory:" else uuid4().hex
        place = hashlib.sha256(f"{folder} {session_id}".encode()).hexdigest()[:32]
        super().__init__(place, url=os.environ["SASH_URL"], session_settings=session_settings)
        self.session_id = session_id

    def close(self) -> None:  # type: ignore[override]
        """Take no more calls. Each connection ends with its event loop."""
        self._is_closed = True


agents.SQLiteSession = SQLiteSession  # type: ignore[misc, assignment]
