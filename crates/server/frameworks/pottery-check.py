"""Containers and locks of pottery."""

import sys

import pottery
from redis import Redis

connection = Redis(port=int(sys.argv[1]))
values = pottery.RedisDict({"a": 1, "b": [2]}, redis=connection, key="dict")
values["c"] = "three"
assert dict(values) == {"a": 1, "b": [2], "c": "three"}
names = pottery.RedisSet({"x", "y"}, redis=connection, key="set")
names.add("z")
names.discard("x")
assert set(names) == {"y", "z"} and "y" in names
numbers = pottery.RedisList([3, 1, 2], redis=connection, key="list")
numbers.append(4)
assert list(numbers) == [3, 1, 2, 4] and numbers[1:3] == [1, 2]
numbers.sort(reverse=True)
assert list(numbers) == [4, 3, 2, 1]
queue = pottery.RedisDeque(range(3), redis=connection, key="deque", maxlen=3)
queue.append(9)
assert list(queue) == [1, 2, 9]
counts = pottery.RedisCounter("abca", redis=connection, key="counter")
assert counts["a"] == 2
simple = pottery.RedisSimpleQueue(redis=connection, key="queue")
ids = pottery.NextID(key="ids", masters={connection})
assert [next(ids), next(ids)] == [1, 2]
with pottery.Redlock(key="door", masters={connection}, auto_release_time=20):
    assert connection.exists("redlock:door")


@pottery.redis_cache(redis=connection, key="cache")
def double(number):
    return number * 2


assert double(4) == 8 and double(4) == 8 and double.cache_info().hits == 1
print("a dict, set, list, deque and counter, identities, Redlock, and a cache")
