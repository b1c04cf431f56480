"""redis-py at work with a cluster of three: what it does is printed, and anything else than expected ends it."""

import sys

import redis

ports = [int(port) for port in sys.argv[1:]]
for protocol in (2, 3):
    client = redis.RedisCluster(host="127.0.0.1", port=ports[0], protocol=protocol)
    client.flushall()
    assert sorted(node.port for node in client.get_primaries()) == sorted(ports)
    for number in range(300):
        assert client.set(f"py:{number}", number)
    assert all(client.get(f"py:{number}") == b"%d" % number for number in range(300))
    held = [client.dbsize(target_nodes=node) for node in client.get_primaries()]
    assert sum(held) == 300 and min(held) > 60, held
    assert client.mset_nonatomic({"py:a": 1, "py:b": 2, "py:c": 3})
    assert client.mget_nonatomic("py:a", "py:b", "py:c") == [b"1", b"2", b"3"]
    with client.pipeline() as batch:
        for number in range(300):
            batch.incr(f"py:{number}")
        assert batch.execute() == list(range(1, 301))
    assert len(list(client.scan_iter(match="py:*", count=100))) == 303
    slot = client.keyslot("{py}x")
    assert client.mset({"{py}x": 1, "{py}y": 2}) and client.cluster_countkeysinslot(slot) == 2
    found = client.cluster_get_keys_in_slot(slot, 10)
    assert sorted(redis.utils.str_if_bytes(key) for key in found) == ["{py}x", "{py}y"]
    assert client.eval("return redis.call('incrby', KEYS[1], ARGV[1])", 1, "{py}x", 5) == 6
    try:
        client.mget("py:1", "py:2")
        raise AssertionError("keys of two slots")
    except redis.RedisClusterException:
        pass
    assert client.cluster_info(target_nodes=redis.RedisCluster.RANDOM)["cluster_state"] == "ok"
    assert len(client.cluster_nodes()) == 3 and client.cluster_shards()
print("RedisCluster: RESP2 and RESP3, redirection, pipelines, MGET, scan_iter, keys of a slot, scripts")
