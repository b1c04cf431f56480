"""A broker of taskiq in a list, results, and a schedule."""

import asyncio
import datetime
import sys

from taskiq.api import run_receiver_task
from taskiq_redis import ListQueueBroker, ListRedisScheduleSource, RedisAsyncResultBackend

URL = f"redis://127.0.0.1:{sys.argv[1]}"
broker = ListQueueBroker(URL).with_result_backend(RedisAsyncResultBackend(URL))


@broker.task
async def add(one: int, other: int) -> int:
    return one + other


async def main():
    await broker.startup()
    receiver = asyncio.create_task(run_receiver_task(broker))
    task = await add.kiq(2, 3)
    assert (await task.wait_result(timeout=60)).return_value == 5
    source = ListRedisScheduleSource(URL)
    await source.startup()
    at = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(minutes=2)
    await add.schedule_by_time(source, at, 1, 1)
    assert len(await source.get_schedules()) == 1
    receiver.cancel()
    await broker.shutdown()
    print("a task, its result, and a schedule")


asyncio.run(main())
