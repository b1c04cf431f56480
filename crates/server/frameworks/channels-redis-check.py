"""Both channel layers of channels-redis."""

import asyncio
import sys

from channels_redis.core import RedisChannelLayer
from channels_redis.pubsub import RedisPubSubChannelLayer

HOSTS = [f"redis://127.0.0.1:{sys.argv[1]}"]


async def check(layer):
    first, second = await layer.new_channel(), await layer.new_channel()
    await layer.send(first, {"type": "one"})
    assert await asyncio.wait_for(layer.receive(first), 60) == {"type": "one"}
    await layer.group_add("group", first)
    await layer.group_add("group", second)
    await layer.group_send("group", {"type": "all", "text": "x" * 5_000})
    for channel in (first, second):
        assert (await asyncio.wait_for(layer.receive(channel), 60))["type"] == "all"
    await layer.group_discard("group", second)
    await layer.flush()


async def main():
    await check(RedisChannelLayer(HOSTS))
    await check(RedisPubSubChannelLayer(HOSTS))
    print("messages to a channel and a group, by sorted sets and by pub/sub")


asyncio.run(main())
