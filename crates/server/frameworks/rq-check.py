"""A queue of RQ: jobs that depend on each other, one that fails, and a scheduled one."""

import datetime
import sys
from operator import add, truediv

import redis
from rq import Queue, SimpleWorker

connection = redis.Redis(port=int(sys.argv[1]))
queue = Queue(connection=connection)
first = queue.enqueue(add, 2, 3)
second = queue.enqueue(add, 4, 5, depends_on=first)
fails = queue.enqueue(truediv, 1, 0)
later = queue.enqueue_in(datetime.timedelta(seconds=1), add, 6, 7)
worker = SimpleWorker([queue], connection=connection)
worker.work(burst=True, with_scheduler=False, logging_level="ERROR")
assert first.return_value() == 5 and second.return_value() == 9
assert fails.get_status() == "failed" and len(queue.failed_job_registry) == 1
assert len(queue.scheduled_job_registry) == 1 and later.get_status() == "scheduled"
print("jobs, one that depends on another, one that fails, and one that is scheduled")
