"""Stores on flash that survive crashes, with dictionaries by name."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from . import _native
from ._errors import InputError, size

Key = str | bytes

#: The map that a store is itself.
_OWN = "store"


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


class Map(MutableMapping[Key, bytes]):
    """A dictionary in a store. Keys and values are bytes; a `str` key is encoded in UTF-8.

    A change that has returned survives a crash (`durability`). Any number of threads may use it.
    """

    def __init__(self, store: Store, name: str, native: _native.Map) -> None:
        self._store = store
        self._name = name
        self._native: _native.Map | None = native
        self._changing = threading.RLock()
        self._transaction: Transaction | None = None

    def __getitem__(self, key: Key) -> bytes:
        value = self._open().get(_key(key))
        if value is None:
            raise KeyError(key)
        return value

    def __contains__(self, key: object) -> bool:
        return isinstance(key, (str, bytes)) and self._open().contains(_key(key))

    def __setitem__(self, key: Key, value: bytes) -> None:
        with self._lock():
            self._open().apply([(_key(key), _bytes("a value", value))])

    def __delitem__(self, key: Key) -> None:
        with self._lock():
            if key not in self:
                raise KeyError(key)
            self._open().apply([(_key(key), None)])

    def change(self, key: Key, change: Callable[[bytes | None], bytes | None]) -> bytes | None:
        """Replaces a value by `change` of it, and returns the new one. `None` stands for no value.

        No other change comes between.
        """
        with self._lock():
            new = change(self._open().get(_key(key)))
            value = None if new is None else _bytes("a value", new)
            self._open().apply([(_key(key), value)])
            return value

    def update(self, *others: Any, **values: bytes) -> None:
        """Sets all keys in one step."""
        changes = dict[Key, bytes]()
        changes.update(*others, **values)
        with self._lock():
            self._open().apply(
                [(_key(key), _bytes("a value", value)) for key, value in changes.items()]
            )

    def __len__(self) -> int:
        return self._open().len()

    def __iter__(self) -> Iterator[bytes]:
        """Iterates over all keys, in no order. A key that exists throughout comes exactly once."""
        return self._open().keys()

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
                self._open().apply(list(self._transaction._changes.items()))
            finally:
                self._transaction._over = True
                self._transaction = None

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r} of {self._store!r})"

    def __reduce__(self) -> Any:
        return (type(self)._of, (self._store, self._name))

    @classmethod
    def _of(cls, store: Store, name: str) -> Map:
        return store.map(name)

    def _open(self) -> _native.Map:
        self._store._check()
        assert self._native is not None
        return self._native

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """Keeps other threads from changing the map."""
        # Fails in a forked child, which would wait for a thread that it does not have.
        self._store._check()
        with self._changing:
            if self._transaction is not None:
                raise InputError("a change beside the transaction: expected one of the transaction")
            yield


class OrderedMap(Map):
    """A `Map` whose keys are in order, which makes ranges fast."""

    def range(
        self, start: Key | None = None, end: Key | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        """The keys from `start` on, to before `end`, with their values, in order."""
        low = None if start is None else _key(start)
        return self._open().range(low, None if end is None else _key(end))

    @classmethod
    def _of(cls, store: Store, name: str) -> Map:
        return store.ordered_map(name)


class Store(Map):
    """A file with dictionaries by name (`map`, `ordered_map`). The store is one of its own.

    After a fork, open it again.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        size: str | int | None = None,
        dram: str | int = "64MiB",
        durability: str = "always",
    ) -> None:
        """Opens and recovers the store in a file, or creates one.

        `size` is the room for keys and values; a new store has 1 GiB by default.
        `dram` is the budget for everything. `durability` is `always`, `every:TIME` (a
        crash loses at most that time) or `none`.
        """
        self.path = Path(path)
        self._options = (_size("size", size), _size("dram", dram), durability)
        self._maps: dict[tuple[str, bool], Map] = {}
        self._making = threading.Lock()
        opened = _native.Store(os.fspath(path), *self._options)
        self._opened: _native.Store | None = opened
        super().__init__(self, _OWN, opened.map(_OWN))

    def map(self, name: str) -> Map:
        """The dictionary of that name, which is made empty if there is none."""
        return self._made(name, False)

    def ordered_map(self, name: str) -> OrderedMap:
        """As `map`, with keys in order."""
        made = self._made(name, True)
        assert isinstance(made, OrderedMap)
        return made

    def names(self) -> list[str]:
        """The names of all dictionaries but the store's own."""
        return [name for name in self._check().names() if name != _OWN]

    def grow(self, size: str | int) -> None:
        """Raises the room for keys and values. Other calls wait meanwhile.

        The store is copied to a larger file, so the folder needs room for both.
        """
        self._check().grow(_size("size", size))

    def counters(self) -> dict[str, int]:
        """Accesses to pages so far, and how many of them found their page on flash."""
        accesses, misses = self._check().counters()
        return {"accesses": accesses, "misses": misses}

    def close(self) -> None:
        """Makes everything durable and gives its DRAM back."""
        try:
            opened = self._check()
        except InputError:  # It is closed, or this is a forked child, which waits for no thread.
            self._opened = None
        else:
            with self._changing:
                self._opened = None
                opened.stop()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Store({os.fspath(self.path)!r}{'' if self._opened else ', closed'})"

    def __reduce__(self) -> Any:
        # Unpickling opens the path with the same options. Only one process may have it open.
        return (Store, (self.path.absolute(), *self._options))

    def _made(self, name: str, ordered: bool) -> Map:
        opened = self._check()
        with self._making:
            made = self._maps.get((name, ordered))
            if made is None:
                native = opened.ordered_map(name) if ordered else opened.map(name)
                made = (OrderedMap if ordered else Map)(self, name, native)
                self._maps[name, ordered] = made
            return made

    def _check(self) -> _native.Store:
        """The open store. Fails in a forked child."""
        if self._opened is None:
            raise InputError(f"{self.path}: closed; expected an open store")
        self._opened.check()
        return self._opened


def _size(option: str, given: str | int | None) -> Any:
    return None if given is None else size(option, given)


class Transaction(MutableMapping[Key, bytes]):
    """A dictionary as it will be after the transaction."""

    def __init__(self, map: Map) -> None:
        self._map = map
        self._changes: dict[bytes, bytes | None] = {}
        self._over = False

    def __getitem__(self, key: Key) -> bytes:
        self._check()
        plain = _key(key)
        if plain not in self._changes:
            return self._map[plain]
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
        for key in self._map:
            if key not in self._changes:
                yield key
        yield from [key for key, value in self._changes.items() if value is not None]

    def _check(self) -> None:
        if self._over:
            raise InputError("the transaction is over: expected use within its block")
