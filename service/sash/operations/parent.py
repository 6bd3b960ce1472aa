"""Ends a process with its parent."""

import contextlib
import os
import select
import time

_POLL_SECONDS = 0.02


def end_with_parent(parent: int) -> None:
    """End this process at once when its parent has ended for any reason. Blocks: it is for a thread of its own."""
    with contextlib.suppress(AttributeError, OSError):  # pidfd exists on Linux only; elsewhere the loop below polls
        ended = os.pidfd_open(parent)
        if os.getppid() == parent:  # else the id may belong to another process by now
            select.select([ended], [], [])
    while os.getppid() == parent:
        time.sleep(_POLL_SECONDS)
    os._exit(1)
