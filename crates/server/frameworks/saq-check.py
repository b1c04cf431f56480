"""A queue of SAQ: a job now and one later."""

import asyncio
import sys
import time

from saq import Queue, Worker


async def add(context, *, one, other):
    return one + other


async def main():
    queue = Queue.from_url(f"redis://127.0.0.1:{sys.argv[1]}")
    await queue.connect()
    worker = Worker(queue, functions=[add])
    running = asyncio.create_task(worker.start())
    assert await queue.apply("add", one=2, other=3, timeout=60) == 5
    job = await queue.enqueue("add", one=4, other=5, scheduled=int(time.time()) + 1)
    await job.refresh(until_complete=60)
    assert job.result == 9
    await worker.stop()
    running.cancel()
    await queue.disconnect()
    print("a job, a job that is scheduled, and their results")


asyncio.run(main())
