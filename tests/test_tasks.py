"""``end_tasks`` ends tasks that run beside requests."""

import asyncio

from sash.tasks import end_tasks


async def test_a_task_that_loses_its_cancellation_ends() -> None:
    """A task ends although Python 3.11's ``asyncio.wait_for`` swallows a cancellation that comes with its result."""
    sent = asyncio.get_running_loop().create_future()

    async def send_for_ever() -> None:
        await asyncio.wait_for(sent, 5)
        await asyncio.sleep(3600)

    task = asyncio.create_task(send_for_ever())
    await asyncio.sleep(0)
    sent.set_result(None)
    async with asyncio.timeout(5):
        await end_tasks(task)
    assert task.cancelled()


async def test_an_error_while_a_task_ends_is_not_raised() -> None:
    """A task's error is not raised, because the caller of ``end_tasks`` has more to close."""

    async def fails() -> None:
        raise RuntimeError("failed")

    task = asyncio.create_task(fails())
    await end_tasks(task)
    await end_tasks()
    assert task.done()
