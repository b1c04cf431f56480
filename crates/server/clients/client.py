"""redis-py at work with a server: what it does is printed, and anything else than expected ends it."""

import sys

import redis

for protocol in (2, 3):
    client = redis.Redis(port=int(sys.argv[1]), protocol=protocol)
    client.flushdb()
    assert client.set("py:a", 1) and client.incr("py:a", 4) == 5
    assert client.set("py:b", "x", nx=True, ex=100) and client.ttl("py:b") == 100
    large = bytes(range(256)) * 8000
    assert client.set("py:large", large) and client.get("py:large") == large
    with client.pipeline(transaction=True) as batch:
        batch.watch("py:a")
        batch.multi()
        batch.incr("py:a").append("py:b", "y").mget("py:a", "py:none")
        assert batch.execute() == [6, 2, [b"6", None]]
    assert sorted(client.scan_iter(match="py:*", count=2)) == [b"py:a", b"py:b", b"py:large"]
    messages = client.pubsub(ignore_subscribe_messages=True)
    messages.subscribe("news")
    messages.get_message(timeout=1)
    assert client.publish("news", "hello") == 1
    message = None
    while message is None:
        message = messages.get_message(timeout=1)
    assert message["data"] == b"hello"
    assert client.info("server")["redis_version"] and client.command_count() > 50
    assert client.client_list()[0]["id"] and client.memory_usage("py:a") > 0
    assert client.bitcount("py:large") > 0 and client.getrange("py:large", 254, 257) == b"\xfe\xff\x00\x01"
    assert client.restore("py:copy", 0, client.dump("py:a")) and client.get("py:copy") == b"6"
    try:
        client.execute_command("INCR", "py:large")
        raise AssertionError("a large value is no number")
    except redis.ResponseError:
        pass
print(f"redis-py {redis.__version__}: RESP2 and RESP3, pipelines, WATCH, pub/sub, scan_iter, DUMP, 2 MB values, INFO")
