"""The first program of the embedded store's process: it makes sure that it ends with its parent, and becomes the server.

The server has this process's pid. Only the standard library is here: the program runs with ``-I -S``.
"""

import fcntl
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # <sys/prctl.h>


def become_server(
    parent_pid: int, lock_path: str, lock_fd: int, pipe_fd: int, command: list[str]
) -> None:  # pragma: no cover
    """Run as the child's first program: write both pids to the lock file, arrange to end with the parent, become the server.

    Tests run this, but coverage does not measure it.
    """
    server_pid = os.getpid()
    os.ftruncate(lock_fd, 0)
    os.pwrite(lock_fd, f"process {parent_pid} (its server is process {server_pid})\n".encode(), 0)
    if pipe_fd < 0:
        import ctypes  # noqa: PLC0415 - for this process alone

        if ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0):
            sys.exit("the kernel refuses PR_SET_PDEATHSIG")
        if os.getppid() != parent_pid:  # the parent died before this process asked for the signal
            sys.exit("the starting process is gone")
    elif os.fork() == 0:
        if os.fork() == 0:  # a grandchild, so that the server has no unknown child
            os.close(lock_fd)
            watch(pipe_fd, lock_path, server_pid)
        os._exit(0)
    else:
        os.close(pipe_fd)
        os.wait()
    try:
        os.execv(command[0], command)  # noqa: S606 - no shell is what we want
    except OSError as error:
        sys.exit(f"{command[0]} cannot be run: {error.strerror}")


def watch(pipe_fd: int, lock_path: str, server_pid: int) -> None:  # pragma: no cover - as above
    """Wait until the parent stops the server itself, or is gone; then end the server if it still has the lock."""
    if os.read(pipe_fd, 1):
        return
    lock_fd = os.open(lock_path, os.O_RDWR)
    try:
        fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.kill(server_pid, signal.SIGTERM)


if __name__ == "__main__":  # pragma: no cover - as above
    become_server(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5:])
