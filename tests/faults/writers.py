"""Writers that send turn after turn and repeat each, with the same id, until it is acknowledged."""

import asyncio
import json
import random
import time
from collections.abc import Callable

from faults.ledger import Ledger
from faults.wire import Wire

RETRY_SECONDS = 0.05


class Writers:
    """``number`` writers over ``conversations`` conversations, until ``stop`` is called."""

    def __init__(
        self,
        ledger: Ledger,
        ports: Callable[[int], int],
        *,
        number: int,
        conversations: int,
        seed: int = 1,
        prefix: str = "f",
        cancel: float = 0.0,
        pause_seconds: float = 0.0,
    ) -> None:
        self.ledger = ledger
        self._ports = ports
        self._number = number
        self.conversations = [f"{prefix}-{i}" for i in range(conversations)]
        self._cancel = cancel
        self._pause_seconds = pause_seconds
        self._random = random.Random(seed)
        self._stopping = False
        self._tasks: list[asyncio.Task[None]] = []
        self.slowest_seconds = 0.0

    def start(self) -> "Writers":
        self._tasks = [asyncio.ensure_future(self._write(writer)) for writer in range(self._number)]
        return self

    async def stop(self, seconds: float = 30) -> None:
        """Let every writer finish its turn; cancel those that still run after ``seconds``."""
        self._stopping = True
        done, pending = await asyncio.wait(self._tasks, timeout=seconds)
        for task in pending:
            task.cancel()
        for task in done:
            task.result()

    async def _write(self, writer: int) -> None:
        conversation = self.conversations[writer % len(self.conversations)]
        number, wire = 0, Wire(self._ports(0))
        while not self._stopping:
            number += 1
            self._follow(wire)
            turn = (conversation, writer, number)
            self.ledger.attempted.add(turn)
            started = time.monotonic()
            while not await self._send(wire, turn):
                if self._stopping and time.monotonic() - started > 15:
                    return
                await asyncio.sleep(RETRY_SECONDS)
                self._follow(wire)
            self.slowest_seconds = max(self.slowest_seconds, time.monotonic() - started)
            if self._pause_seconds:
                await asyncio.sleep(self._pause_seconds)
        wire.close()

    def _follow(self, wire: Wire) -> None:
        """Move to the port that a load balancer chooses for the next request, given the present port."""
        port = self._ports(wire.port)
        if port != wire.port:
            wire.close()
            wire.port = port

    async def _send(self, wire: Wire, turn: tuple[str, int, int]) -> bool:
        """Send one turn once, and return whether it was acknowledged."""
        conversation, writer, number = turn
        text = f"{conversation} {writer} {number}"
        entry = {"id": f"{writer}-{number}", "message": {"role": "user", "content": text}}
        path = f"/conversations/{conversation}/messages?model=gpt-4o-mini&limit=5"
        self.ledger.requests += 1
        asking = asyncio.ensure_future(wire.ask("POST", path, json.dumps({"messages": [entry]}).encode()))
        if self._random.random() < self._cancel:
            await asyncio.sleep(self._random.random() * 0.02)
            asking.cancel()
        try:
            reply = await asking
        except OSError as error:
            self.ledger.fail(conversation, str(error)[:40])
            return False
        except asyncio.CancelledError:
            return False
        if reply.status not in {200, 201}:
            self.ledger.fail(conversation, str(reply.status))
            return False
        answer = json.loads(reply.body)
        said = [message["content"] for message in answer["window"]["request"]["messages"]]
        ours = all(each.startswith(f"{conversation} ") for each in said) and answer["conversation_id"] == conversation
        self.ledger.foreign += not ours
        self.ledger.acknowledged.add(turn)
        return True
