"""Durable dictionaries, against `dict` as the model."""

import os
import pickle
import signal
import subprocess
import sys
import threading
from pathlib import Path

import ebbtide
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

SMALL = {"size": "4MiB", "dram": "4MiB"}


@pytest.fixture
def store(tmp_path: Path) -> ebbtide.Store:
    return ebbtide.Store(tmp_path / "store", **SMALL)


def test_keys_and_values_are_bytes_and_a_str_is_its_utf8(store: ebbtide.Store) -> None:
    store["ключ"] = b"value"
    assert store["ключ".encode()] == b"value"
    store[b""] = b""
    assert sorted(store) == [b"", "ключ".encode()]
    assert len(store) == 2 and "ключ" in store and "no" not in store and 3 not in store
    del store["ключ"]
    assert store.get("ключ") is None and store.pop(b"") == b"" and len(store) == 0
    with pytest.raises(KeyError):
        store["ключ"]
    with pytest.raises(KeyError):
        del store["ключ"]


KEYS = st.sampled_from([b"", b"a", b"b", b"\0\xff", b"a" * 1024, b"{x}1", b"{x}2"])
VALUES = st.binary(max_size=64) | st.integers(0, 30_000).map(lambda size: b"v" * size)
CHANGES = st.lists(st.tuples(KEYS, VALUES | st.none()), max_size=3)
STEPS = st.lists(
    st.tuples(st.sampled_from(["change", "transaction", "abandoned", "again"]), CHANGES),
    max_size=8,
)


def make(target: object, changes: list[tuple[bytes, bytes | None]]) -> None:
    """Makes changes to anything like a dictionary."""
    for key, value in changes:
        if value is None:
            target.pop(key, None)  # type: ignore[attr-defined]
        else:
            target[key] = value  # type: ignore[index]


@settings(max_examples=30, deadline=None)
@given(STEPS)
def test_it_is_a_dictionary_also_after_it_was_opened_again(steps: list) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store"
        store, model = ebbtide.Store(path, **SMALL, durability="none"), dict[bytes, bytes]()
        for step, changes in steps:
            if step == "change":
                make(store, changes)
                make(model, changes)
            elif step == "transaction":
                with store.transaction() as transaction:
                    make(transaction, changes)
                    after = dict(model)
                    make(after, changes)
                    assert dict(transaction) == after and len(transaction) == len(after)
                    assert dict(store) == model, "nothing is seen before the end"
                model = after
            elif step == "abandoned":
                with pytest.raises(ZeroDivisionError), store.transaction() as transaction:
                    make(transaction, changes)
                    raise ZeroDivisionError
            else:
                store.close()
                store = ebbtide.Store(path, dram="4MiB", durability="none")
            assert dict(store) == model and len(store) == len(model)
        store.close()


def test_a_full_or_too_large_change_leaves_everything_as_it_was(store: ebbtide.Store) -> None:
    store["a"] = b"old"
    with pytest.raises(ebbtide.InputError, match="stores to|stores more than|expected at most"):
        store.update({"a": b"new"}, **{str(number): b"x" * 3_000 for number in range(1_000)})
    assert dict(store) == {b"a": b"old"}
    with pytest.raises(ebbtide.InputError, match="the store is full"):
        for number in range(10_000):
            with store.transaction() as transaction:
                transaction["last"] = str(number).encode()
                transaction[str(number)] = b"x" * 20_000
    last = int(store["last"])
    assert str(last) in store and str(last + 1) not in store
    del store["0"]
    store["again"] = b"there is room"


def test_wrong_uses_are_errors_that_say_why(tmp_path: Path) -> None:
    path = tmp_path / "store"
    wrong = ebbtide.InputError
    with pytest.raises(wrong, match="size: 'much' is not a size"):
        ebbtide.Store(path, size="much")
    with pytest.raises(wrong, match="size: 4KiB, expected 512KiB to"):
        ebbtide.Store(path, size="4KiB")
    with pytest.raises(wrong, match="'seldom' is no durability policy"):
        ebbtide.Store(path, durability="seldom")
    with pytest.raises(wrong, match="a DRAM budget of 1000 bytes is too small"):
        ebbtide.Store(path, dram=1000)
    assert not path.exists()
    path.write_bytes(b"a diary\n" * 3000)
    with pytest.raises(wrong, match="not an Ebbtide data file"):
        ebbtide.Store(path)
    path.unlink()
    store = ebbtide.Store(path, **SMALL)
    with pytest.raises(wrong, match="in use"):
        ebbtide.Store(path, **SMALL)
    for key, value in [(1, b""), ("a", "text"), ("a", None), (None, b"")]:
        with pytest.raises(wrong, match="expected"):
            store[key] = value  # type: ignore[index,assignment]
    with pytest.raises(wrong, match="a key of 1025 bytes"):
        store["x" * 1025] = b""
    with store.transaction() as transaction:
        transaction["a"] = b"1"
        with pytest.raises(wrong, match="beside the transaction"):
            store["b"] = b"2"
        with pytest.raises(wrong, match="beside the transaction"), store.transaction():
            pass
    with pytest.raises(wrong, match="the transaction is over"):
        transaction["c"] = b"3"
    assert dict(store) == {b"a": b"1"}
    with pytest.raises(wrong, match="dram: 0.5: expected a size"):
        ebbtide.Store(path, dram=0.5)  # type: ignore[arg-type]
    with pytest.raises(wrong, match="in use"):
        pickle.loads(pickle.dumps(store))
    store.close()
    with pickle.loads(pickle.dumps(store)) as again:
        assert again["a"] == b"1"
    with pytest.raises(wrong, match="closed; expected an open store"):
        store["a"]
    with pytest.raises(wrong, match="size: 8MiB, expected 4MiB, which the store has"):
        ebbtide.Store(path, size="8MiB", dram="4MiB")
    raw = bytearray(path.read_bytes()[:4096])
    raw[8] = 99
    with path.open("r+b") as file:
        file.write(raw)
    with pytest.raises(wrong, match="of version 99, expected"):
        ebbtide.Store(path, dram="4MiB")


def test_a_store_has_dictionaries_by_name_and_grows(tmp_path: Path) -> None:
    path = tmp_path / "store"
    store = ebbtide.Store(path, **SMALL, durability="none")
    users, days = store.map("users"), store.ordered_map("days")
    assert store.map("users") is users and store.names() == ["days", "users"]
    users["ada"] = b"x" * 1_000_000
    assert users.change("visits", lambda old: b"1" if old is None else old + b"1") == b"1"
    assert users.change("visits", lambda old: b"1" if old is None else old + b"1") == b"11"
    assert users.change("visits", lambda old: None) is None and "visits" not in users
    days.update({f"2026-{month:02}": str(month).encode() for month in range(1, 13)})
    assert list(days.range("2026-03", "2026-05")) == [(b"2026-03", b"3"), (b"2026-04", b"4")]
    assert [key for key, _ in days.range("2026-12")] == [b"2026-12"] == list(days)[-1:]
    with pytest.raises(ebbtide.InputError, match="'users' is a map, expected an ordered map"):
        store.ordered_map("users")
    with pytest.raises(ebbtide.InputError, match="size: 1MiB, expected more than 4MiB"):
        store.grow("1MiB")
    store.grow("16MiB")
    users["grace"] = b"y" * 6_000_000
    assert dict(users) == {b"ada": b"x" * 1_000_000, b"grace": b"y" * 6_000_000}
    assert len(store) == 0 and len(pickle.dumps(store)) < 1_000
    store.close()
    with pytest.raises(ebbtide.InputError, match="closed"):
        users["ada"]
    with ebbtide.Store(path, dram="4MiB") as again:
        assert len(again.map("users")) == 2 and len(again.ordered_map("days")) == 12


def test_a_forked_child_is_told_to_open_it_again(store: ebbtide.Store) -> None:
    store["a"] = b"1"
    child = os.fork()
    if child == 0:
        status = 1
        try:
            store["a"]
        except ebbtide.InputError as error:
            status = 0 if "before a fork" in str(error) else 2
        os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert store["a"] == b"1"


def test_a_child_forked_during_another_threads_change_does_not_wait_for_it(
    store: ebbtide.Store,
) -> None:
    begun, forked = threading.Event(), threading.Event()

    def change() -> None:
        with store.transaction() as transaction:
            transaction["a"] = b"1"
            begun.set()
            forked.wait()

    thread = threading.Thread(target=change)
    thread.start()
    begun.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(10)  # A child that waits is killed.
        status = 1
        try:
            store["b"] = b"2"
        except ebbtide.InputError as error:
            status = 0 if "before a fork" in str(error) else 2
        store.close()
        os._exit(status)
    forked.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert dict(store) == {b"a": b"1"}


def test_threads_do_not_lose_each_others_changes(store: ebbtide.Store) -> None:
    store["sum"] = b"0"

    def add() -> None:
        for _ in range(50):
            with store.transaction() as transaction:
                transaction["sum"] = str(int(transaction["sum"]) + 1).encode()

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store["sum"] == b"200"


KILLED = """
import sys, ebbtide
store = ebbtide.Store(sys.argv[1], size="4MiB", dram="4MiB")
for number in range(10**9):
    with store.transaction() as transaction:
        transaction["number"] = transaction["same"] = str(number).encode()
        transaction[str(number % 50)] = b"x" * (number % 3000)
    print(number, flush=True)
"""


def test_what_was_acknowledged_is_there_after_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "store"
    for acknowledged in (3, 40, 10):
        child = subprocess.Popen([sys.executable, "-c", KILLED, path], stdout=subprocess.PIPE)
        assert child.stdout is not None
        lines = [int(child.stdout.readline()) for _ in range(acknowledged)]
        child.send_signal(signal.SIGKILL)
        lines += [int(line) for line in child.stdout.read().split()]
        child.wait()
        with ebbtide.Store(path, dram="4MiB") as store:
            number = int(store["number"])
            assert number in (lines[-1], lines[-1] + 1), "what was acknowledged, or one more"
            assert store["same"] == store["number"]
            assert len(store[str(number % 50)]) == number % 3000
