"""A worker of arq: a job, a retry, and a job that is put off."""

import asyncio
import sys

from arq import Retry, create_pool
from arq.connections import RedisSettings
from arq.worker import Worker


async def add(context, one, other):
    if context["job_try"] == 1:
        raise Retry(defer=0.1)
    return one + other


async def main():
    settings = RedisSettings(port=int(sys.argv[1]))
    pool = await create_pool(settings)
    job = await pool.enqueue_job("add", 2, 3)
    later = await pool.enqueue_job("add", 4, 5, _defer_by=0.5)
    assert await pool.enqueue_job("add", 2, 3, _job_id=job.job_id) is None
    worker = Worker([add], redis_settings=settings, burst=True, poll_delay=0.1)
    await worker.main()
    assert await job.result(timeout=60) == 5 and await later.result(timeout=60) == 9
    await worker.close()
    print("jobs, retries, one that is put off, and results")


asyncio.run(main())
