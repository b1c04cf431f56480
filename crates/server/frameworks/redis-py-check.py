"""`Lock` of redis-py and its default pipeline."""

import sys

import redis

connection = redis.Redis(port=int(sys.argv[1]))
lock = connection.lock("door", timeout=20)
assert lock.acquire(blocking=False)
assert not connection.lock("door", timeout=20).acquire(blocking=False)
lock.extend(10)
lock.reacquire()
lock.release()
lock.acquire()
connection.set("door", "another owner")
try:
    lock.release()
    raise AssertionError("a lost lock is released")
except redis.exceptions.LockError:
    connection.delete("door")
with connection.pipeline() as pipeline:
    for number in range(200):
        pipeline.set(f"key:{number}", "v" * 1_000)
    assert pipeline.execute() == [True] * 200
print("a lock is taken, refused, extended, released and lost; 200 SETs in a transaction")
