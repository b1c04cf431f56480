"""LangChain's cache of answers, which is a hash for each prompt."""

import sys

from langchain_community.cache import RedisCache
from langchain_core.outputs import Generation
from redis import Redis

cache = RedisCache(Redis(port=int(sys.argv[1])), ttl=100)
assert cache.lookup("prompt", "model") is None
cache.update("prompt", "model", [Generation(text="one"), Generation(text="two")])
found = [answer.text for answer in cache.lookup("prompt", "model")]
assert sorted(found) == ["one", "two"], found
cache.clear()
assert cache.lookup("prompt", "model") is None
print("answers are stored, found and cleared")
