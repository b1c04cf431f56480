"""Locks of `python-redis-lock`: taken, refused, waited for, extended and released by scripts."""

import sys
import threading

import redis
import redis_lock

connection = redis.Redis(port=int(sys.argv[1]))
first = redis_lock.Lock(connection, "door", expire=20, auto_renewal=True)
assert first.acquire(blocking=False)
second = redis_lock.Lock(connection, "door", expire=20)
assert not second.acquire(blocking=False)
first.extend(30)
threading.Timer(0.3, first.release).start()
assert second.acquire(timeout=20), "a waiting lock is woken"
second.release()
redis_lock.reset_all(connection)
print("a lock is taken, refused, extended, waited for and released")
