"""Tasks of huey, also with a priority and a delay."""

import sys

from huey import PriorityRedisHuey, RedisHuey

for kind in (RedisHuey, PriorityRedisHuey):
    huey = kind(kind.__name__, port=int(sys.argv[1]))

    @huey.task()
    def add(one, other):
        return one + other

    @huey.task()
    def fail():
        raise ValueError("on purpose")

    consumer = huey.create_consumer(workers=1, periodic=False, initial_delay=0.05, max_delay=0.2)
    consumer.start()
    result, later = add(2, 3), add.schedule((4, 5), delay=1)
    with huey.lock_task("door"):
        assert result.get(blocking=True, timeout=60) == 5
    assert later.get(blocking=True, timeout=60) == 9
    consumer.stop(graceful=True)
print("tasks in a list and in a sorted set, a delayed one, a lock, and results")
