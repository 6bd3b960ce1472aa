"""A pytest plugin for the Agents SDK's own tests: their ``SQLiteSession`` is a conversation of the server in ``SASH_URL``.

What a file of SQLite was there, one folder of conversations, is a prefix of ids here. Closing is theirs, not the protocol's.
"""

import hashlib
import os
from pathlib import Path
from typing import Any
from uuid import uuid4

import agents

from service.clients.agents import SashSession


class Session(SashSession):
    def __init__(self, session_id: str, db_path: str | Path = ":memory:", session_settings: Any = None) -> None:
        folder = str(db_path) if str(db_path) != ":memory:" else uuid4().hex
        place = hashlib.sha256(f"{folder} {session_id}".encode()).hexdigest()[:32]
        super().__init__(place, url=os.environ["SASH_URL"], session_settings=session_settings)
        self.session_id = session_id

    def close(self) -> None:  # type: ignore[override]
        """Nothing: connections go with their loops."""


agents.SQLiteSession = Session  # type: ignore[misc, assignment]
