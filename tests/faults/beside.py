"""How much of the delay beside 1,000 slow clients the machine causes: ``python -m tests.faults.beside``.

Measures the p99 of a service's other clients while the slow clients are at that service, and while they are at another
service on the same machine. The delay that both cases have is the machine's. Three of each in turn, in a minute and a half.
"""

import asyncio
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from faults.hostile import dawdling, p99, prepare
from faults.ledger import Ledger
from faults.processes import Service
from faults.runs import default_binary, running
from faults.writers import Writers
from rigs.servers import Server

_SLOW, _DEADLINE_SECONDS = 1000, 10.0


async def main() -> None:
    """Print the p99 for both cases, three times each."""
    for place in ("at this service", "at another service") * 3:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            one, two = [Server(default_binary(), folder / part / "store") for part in ("one", "two")]
            async with (
                running(one, folder / "one") as service,
                running(two, folder / "two") as other,
            ):
                alone, beside = await _measure(service, other if place == "at another service" else service)
            print(f"1,000 slow clients {place}: p99 {alone * 1e3:.1f} ms alone, {beside * 1e3:.1f} ms beside them")


async def _measure(service: Service, target: Service) -> tuple[float, float]:
    """Return ``service``'s p99 in seconds before slow clients connect to ``target``, and while they are connected."""
    await prepare(target.port)
    writers = Writers(Ledger(), lambda _: service.port, number=4, conversations=4, pause_seconds=0.02).start()
    alone = await p99(service.port)
    async with dawdling(target.port, _SLOW, _DEADLINE_SECONDS) as told:
        await asyncio.sleep(0.3)
        beside = await p99(service.port, 1.2 * _DEADLINE_SECONDS)
        await told.readline()
    await writers.stop()
    return alone, beside


if __name__ == "__main__":
    asyncio.run(main())
