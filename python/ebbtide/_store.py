"""Dictionaries on flash that survive crashes."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from . import _native
from ._errors import InputError, size

Key = str | bytes


def _bytes(what: str, value: object) -> bytes:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise InputError(f"{what}: {type(value).__name__}: expected bytes")


def _key(key: object) -> bytes:
    if isinstance(key, str):
        return key.encode()
    if isinstance(key, bytes):
        return key
    raise InputError(f"a key: {type(key).__name__}: expected str or bytes")


class Store(MutableMapping[Key, bytes]):
    """A dictionary in a file. Keys and values are bytes; a `str` key is encoded in UTF-8.

    A change that has returned survives a crash (`durability`). Any number of threads may use it.
    After a fork, open it again.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        capacity: str | int | None = None,
        dram: str | int = "64MiB",
        durability: str = "always",
    ) -> None:
        """Opens and recovers the store in a file, or creates one.

        `capacity` is the size of keys, values and index; a new store has 1 GiB by default.
        `dram` is the budget for everything. `durability` is `always`, `every:TIME` (a
        crash loses at most that time) or `none`.
        """
        self.path = Path(path)
        self._changing = threading.RLock()
        self._transaction: Transaction | None = None
        room = None if capacity is None else size("capacity", capacity)
        self._options = (room, size("dram", dram), durability)
        self._native: _native.Dictionary | None = _native.Dictionary(
            os.fspath(path), *self._options
        )

    def __getitem__(self, key: Key) -> bytes:
        value = self._open().get(_key(key))
        if value is None:
            raise KeyError(key)
        return value

    def __contains__(self, key: object) -> bool:
        return isinstance(key, (str, bytes)) and self._open().contains(_key(key))

    def __setitem__(self, key: Key, value: bytes) -> None:
        with self._lock():
            self._open().change([(_key(key), _bytes("a value", value))])

    def __delitem__(self, key: Key) -> None:
        with self._lock():
            if key not in self:
                raise KeyError(key)
            self._open().change([(_key(key), None)])

    def update(self, *others: Any, **values: bytes) -> None:
        """Sets all keys in one step."""
        changes = dict[Key, bytes]()
        changes.update(*others, **values)
        with self._lock():
            self._open().change(
                [(_key(key), _bytes("a value", value)) for key, value in changes.items()]
            )

    def __len__(self) -> int:
        return self._open().len()

    def __iter__(self) -> Iterator[bytes]:
        """Iterates over all keys, in no order. A key that exists throughout comes exactly once."""
        place: int | None = 0
        while place is not None:
            keys, place = self._open().keys(place)
            yield from keys

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Changes that take effect in one step at the end of the block, or not at all if it raises.

        Change keys through the `Transaction`. Changes of other threads wait; reads do not. The
        size of a transaction is limited; an error names the limit.
        """
        with self._lock():
            self._transaction = Transaction(self)
            try:
                yield self._transaction
                self._open().change(list(self._transaction._changes.items()))
            finally:
                self._transaction._over = True
                self._transaction = None

    def counters(self) -> dict[str, int]:
        """Accesses to pages so far, and how many of them found their page on flash."""
        accesses, misses = self._open().counters()
        return {"accesses": accesses, "misses": misses}

    def close(self) -> None:
        """Makes everything durable and gives its DRAM back."""
        try:
            self._open().check_process()
        except InputError:  # It is closed, or this is a forked child, which waits for no thread.
            self._native = None
        else:
            with self._changing:
                self._native = None

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"Store({os.fspath(self.path)!r}{'' if self._native else ', closed'})"

    def __reduce__(self) -> Any:
        # Unpickling opens the path with the same options. Only one process may have it open.
        return (Store, (self.path.absolute(), *self._options))

    def _open(self) -> _native.Dictionary:
        if self._native is None:
            raise InputError(f"{self.path}: closed; expected an open store")
        return self._native

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """Keeps other threads from changing the store."""
        # Fails in a forked child, which would wait for a thread that it does not have.
        self._open().check_process()
        with self._changing:
            if self._transaction is not None:
                raise InputError("a change beside the transaction: expected one of the transaction")
            yield


class Transaction(MutableMapping[Key, bytes]):
    """The store as it will be after the transaction."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._changes: dict[bytes, bytes | None] = {}
        self._over = False

    def __getitem__(self, key: Key) -> bytes:
        self._check()
        plain = _key(key)
        if plain not in self._changes:
            return self._store[plain]
        value = self._changes[plain]
        if value is None:
            raise KeyError(key)
        return value

    def __setitem__(self, key: Key, value: bytes) -> None:
        self._check()
        self._changes[_key(key)] = _bytes("a value", value)

    def __delitem__(self, key: Key) -> None:
        if key not in self:
            raise KeyError(key)
        self._changes[_key(key)] = None

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[bytes]:
        self._check()
        for key in self._store:
            if key not in self._changes:
                yield key
        yield from [key for key, value in self._changes.items() if value is not None]

    def _check(self) -> None:
        if self._over:
            raise InputError("the transaction is over: expected use within its block")
