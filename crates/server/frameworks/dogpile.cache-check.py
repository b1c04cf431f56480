"""A region of `dogpile.cache` with a distributed lock."""

import sys

from dogpile.cache import make_region

region = make_region().configure(
    "dogpile.cache.redis",
    expiration_time=60,
    arguments={"port": int(sys.argv[1]), "distributed_lock": True, "redis_expiration_time": 120},
)
made = []


@region.cache_on_arguments()
def double(number):
    made.append(number)
    return number * 2


assert [double(4), double(4), double(5)] == [8, 8, 10] and made == [4, 5]
region.set_multi({"a": 1, "b": {"c": 2}})
assert region.get_multi(["a", "b"]) == [1, {"c": 2}]
double.invalidate(4)
assert double(4) == 8 and made == [4, 5, 4]
print("values are made once under a lock, and made again once invalid")
