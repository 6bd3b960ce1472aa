"""The processor's work in turns: one long job at a time, in turns of the tenants, and little in a tick."""

import asyncio
import threading
import time

import pytest

from sash.problems import DeadlineExceeded
from sash.processor import TENANT, Processor, Turns


async def test_jobs_run_one_at_a_time_and_not_on_the_event_loop() -> None:
    """Of many jobs at once, one runs at a time, in another thread than the event loop's, and each gets its own result."""
    processor, running, most = Processor(), 0, 0

    def job(number: int) -> tuple[int, int]:
        nonlocal running, most
        running += 1
        most = max(most, running)
        time.sleep(0.001)
        running -= 1
        return number, threading.get_ident()

    found = await asyncio.gather(*(processor.run(job, number) for number in range(20)))

    assert most == 1
    assert [number for number, _ in found] == list(range(20))
    assert {thread for _, thread in found} != {threading.get_ident()}


async def test_tenants_take_turns() -> None:
    """A tenant with one job does not wait for all the jobs that another sent before."""
    processor, order = Processor(), []
    gate = threading.Event()

    def job(name: str) -> None:
        gate.wait(10)
        order.append(name)
        time.sleep(0.002)

    async def sent(tenant: str, name: str) -> None:
        TENANT.set(tenant)
        await processor.run(job, name)

    many = [asyncio.create_task(sent("many", f"m{number}")) for number in range(10)]
    await asyncio.sleep(0)
    one = asyncio.create_task(sent("one", "o"))
    await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(*many, one)

    assert order.index("o") <= 2
    assert [name for name in order if name != "o"] == [f"m{number}" for number in range(10)]


async def test_an_error_is_the_callers() -> None:
    """What a job raises is raised where it was waited for, and the next job runs."""
    processor = Processor()
    with pytest.raises(ZeroDivisionError):
        await processor.run(lambda: 1 / 0)
    assert await processor.run(lambda: "next") == "next"


async def test_a_job_that_nobody_waits_for_is_left_out() -> None:
    """A request that is cancelled while its job waits costs the processor nothing."""
    processor, gate, ran = Processor(), threading.Event(), []
    first = asyncio.create_task(processor.run(gate.wait, 10))
    await asyncio.sleep(0)
    second = asyncio.create_task(processor.run(ran.append, "second"))
    await asyncio.sleep(0)
    second.cancel()
    gate.set()
    await first
    assert await processor.run(lambda: "third") == "third"
    assert (ran, processor.waiting) == ([], 0)


async def test_a_queue_that_is_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where more jobs wait than can be done in time, the next is 503, and nothing of it is done."""
    monkeypatch.setattr("sash.processor._MOST", 2)
    processor, began, gate, ran = Processor(), asyncio.Event(), threading.Event(), []
    loop = asyncio.get_running_loop()

    def hold() -> None:
        loop.call_soon_threadsafe(began.set)
        gate.wait(10)

    first = asyncio.create_task(processor.run(hold))
    await began.wait()
    waiting = [asyncio.create_task(processor.run(ran.append, number)) for number in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(DeadlineExceeded):
        await processor.run(ran.append, 3)
    gate.set()
    await asyncio.gather(first, *waiting)
    assert ran == [0, 1]


async def _took(turns: Turns, done: list[str], name: str, work: int) -> None:
    await turns.take(work)
    done.append(name)


async def test_work_on_the_loop_takes_turns() -> None:
    """Of pieces of work that come together, each has its turn, in their order."""
    turns, done = Turns(), []
    pieces = [asyncio.create_task(_took(turns, done, f"long{number}", 600)) for number in range(5)]
    await asyncio.sleep(0)
    assert done == ["long0"]
    await asyncio.gather(*pieces)
    assert done == [f"long{number}" for number in range(5)]


async def test_small_pieces_of_work_share_a_turn() -> None:
    """Pieces of work that are little together are done in one tick of the loop."""
    turns, done = Turns(), []
    pieces = [asyncio.create_task(_took(turns, done, "small", 200)) for _ in range(4)]
    await asyncio.sleep(0)
    assert len(done) == 2
    await asyncio.gather(*pieces)


async def test_a_turn_that_nobody_waits_for_goes_to_the_next() -> None:
    """A request that is cancelled while it waits for its turn keeps nobody else waiting, and later work has turns again."""
    turns, done = Turns(), []
    pieces = [asyncio.create_task(_took(turns, done, f"long{number}", 600)) for number in range(3)]
    await asyncio.sleep(0)
    pieces[1].cancel()
    await asyncio.gather(*pieces, return_exceptions=True)
    await _took(turns, done, "later", 600)
    assert done == ["long0", "long2", "later"]
