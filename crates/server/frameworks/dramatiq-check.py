"""An actor of Dramatiq with a result and a retry."""

import sys

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

port = int(sys.argv[1])
broker = RedisBroker(host="127.0.0.1", port=port)
broker.add_middleware(Results(backend=RedisBackend(host="127.0.0.1", port=port)))
dramatiq.set_broker(broker)
tries = []


@dramatiq.actor(store_results=True, min_backoff=10, max_backoff=20)
def add(one, other):
    tries.append(one)
    if len(tries) == 1:
        raise ValueError("the first try fails")
    return one + other


worker = dramatiq.Worker(broker, worker_timeout=100)
message = add.send(2, 3)
later = add.send_with_options(args=(4, 5), delay=200)
worker.start()
assert message.get_result(block=True, timeout=60_000) == 5
assert later.get_result(block=True, timeout=60_000) == 9
broker.join(add.queue_name)
worker.stop()
assert len(tries) == 3
print("two messages, one of them delayed, a retry, and results")
