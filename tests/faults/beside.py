"""Who keeps others waiting beside 1,000 slow clients, the service or the machine: ``python -m tests.faults.beside``.

The p99 of a service's other clients, with the slow ones at that service, and with the same slow ones at another service on
the same machine: what both have in common is the machine's. Three of each in turn, in a minute and a half.
"""

import asyncio
import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from faults.dawdlers import LARGE, LARGE_BYTES
from faults.hostile import _p99
from faults.ledger import Ledger
from faults.processes import Service
from faults.runs import default_binary, running
from faults.wire import Wire
from faults.writers import Writers
from store.servers import Server

_PATIENCE = {"SASH_REQUEST_TIMEOUT_SECONDS": "4", "SASH_STORE_TIMEOUT_SECONDS": "2"}
_SLOW = 1000


async def main() -> None:
    """Print both, three times."""
    for place in ("at this service", "at another service") * 3:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            one, two = [Server(default_binary(), folder / part / "store") for part in ("one", "two")]
            async with (
                running(one, folder / "one", **_PATIENCE) as service,
                running(two, folder / "two", **_PATIENCE) as other,
            ):
                alone, beside = await _measure(service, other if place == "at another service" else service)
            print(f"1,000 slow clients {place}: p99 {alone * 1e3:.1f} ms alone, {beside * 1e3:.1f} ms beside them")


async def _measure(service: Service, target: Service) -> tuple[float, float]:
    """Seconds of ``service``'s p99 before the slow ones come to ``target``, and while they are there."""
    entries = [{"message": {"role": "user", "content": "large " * (LARGE_BYTES // 600)}}] * 100
    body = json.dumps({"messages": entries}).encode()
    assert (await Wire(target.port).ask("POST", f"/conversations/{LARGE}/messages", body)).status == 201
    writers = Writers(Ledger(), lambda _: service.port, number=4, conversations=4, pause_seconds=0.02).start()
    alone = await _p99(service.port)
    slow = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "faults.dawdlers", str(target.port), str(_SLOW), "8"),
        cwd=Path(__file__).parent.parent,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert slow.stdin is not None
    assert slow.stdout is not None
    await asyncio.sleep(0.3)
    beside = await _p99(service.port, 5)
    await slow.stdout.readline()
    slow.stdin.close()
    await slow.wait()
    await writers.stop()
    return alone, beside


if __name__ == "__main__":
    asyncio.run(main())
