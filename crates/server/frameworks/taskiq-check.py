"""Brokers of taskiq in a list and in a stream with a consumer group, results, and a schedule."""

import asyncio
import datetime
import sys

from taskiq.api import run_receiver_task
from taskiq_redis import (
    ListQueueBroker,
    ListRedisScheduleSource,
    RedisAsyncResultBackend,
    RedisStreamBroker,
)

URL = f"redis://127.0.0.1:{sys.argv[1]}"
broker = ListQueueBroker(URL).with_result_backend(RedisAsyncResultBackend(URL))


@broker.task
async def add(one: int, other: int) -> int:
    return one + other


streamed = RedisStreamBroker(URL, queue_name="streamed", idle_timeout=500)
streamed = streamed.with_result_backend(RedisAsyncResultBackend(URL))


@streamed.task
async def double(one: int) -> int:
    return 2 * one


async def through_a_stream():
    await streamed.startup()
    receivers = [asyncio.create_task(run_receiver_task(streamed)) for _ in range(2)]
    tasks = [await double.kiq(number) for number in range(200)]
    for number, task in enumerate(tasks):
        assert (await task.wait_result(timeout=60)).return_value == 2 * number
    for receiver in receivers:
        receiver.cancel()
    await streamed.shutdown()


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
    await through_a_stream()
    print("tasks in a list and in a stream, their results, and a schedule")


asyncio.run(main())
