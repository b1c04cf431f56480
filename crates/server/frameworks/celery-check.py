"""A worker of Celery with its broker and its results here: tasks, a chain, a chord and a delay."""

import sys

from celery import Celery, chain, chord
from celery.contrib.testing.worker import start_worker

URL = f"redis://127.0.0.1:{sys.argv[1]}"
app = Celery("check", broker=URL, backend=URL)


@app.task
def add(one, other):
    return one + other


@app.task
def total(numbers):
    return sum(numbers)


with start_worker(app, pool="threads", concurrency=2, perform_ping_check=False):
    assert add.delay(2, 3).get(timeout=60) == 5
    assert chain(add.s(1, 2), add.s(3))().get(timeout=60) == 6
    assert chord([add.s(number, 1) for number in range(5)])(total.s()).get(timeout=60) == 15
    assert add.apply_async((4, 5), countdown=1).get(timeout=60) == 9
print("tasks, a chain, a chord, a delayed task, and results")
