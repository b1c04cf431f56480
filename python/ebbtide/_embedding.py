"""Embedding tables on flash, with the state of their optimizer beside each row."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import _array
from ._array import Array, bytes_of, writable
from ._errors import InputError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

#: Rows that a new table sets at once.
INITIAL_ROWS = 1 << 16


class EmbeddingTable:
    """Rows of `float32` weights in a `.npy` file, trained by SGD or Adagrad.

    The file has a structured dtype: `weight`, and with Adagrad `square`, the sums of the squares of
    the gradients. So `numpy.load(path)["weight"]` reads the weights. Gradients of an id that
    occurs twice in a batch are added up first, as PyTorch does for sparse gradients.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        dram: str | int = "1GiB",
        *,
        mode: str = "r+",
        rate: float = 0.01,
        epsilon: float = 1e-10,
        atomic_rows: bool = False,
        cores: int = 1,
    ) -> None:
        """Opens a table that `EmbeddingTable.create` has made.

        Args:
            path: the file.
            dram: the DRAM budget for everything.
            mode: `"r+"`, or `"r"` to gather rows only.
            rate: the learning rate of `step`.
            epsilon: added to the root that Adagrad divides by.
            atomic_rows: as in `ebbtide.open`. A row has its weights and its optimizer state.
            cores: kernel threads that read and write.
        """
        array = _array.open(path, dram, mode=mode, atomic_rows=atomic_rows, cores=cores)
        self._set(array, rate, epsilon)

    def _set(self, array: Array, rate: float, epsilon: float) -> None:
        import numpy as np

        fields: Any = array.dtype.fields or {}
        width: tuple[int, ...] = fields["weight"][0].shape if "weight" in fields else ()
        known = [(name, "<f4", width) for name in ("weight", "square")[: len(fields)]]
        if array.ndim != 1 or len(width) != 1 or array.dtype != np.dtype(known):
            array.close()
            expected = "expected 'weight' and perhaps 'square', of one width of float32"
            raise InputError(f"{array.path}: dtype {array.dtype}: {expected}")
        self._array, self.rate, self.epsilon = array, rate, epsilon
        self.width: int = width[0]
        self._state = len(fields) - 1

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        rows: int,
        width: int,
        dram: str | int = "1GiB",
        *,
        optimizer: str = "sgd",
        initial: Callable[[np.ndarray[Any, Any]], npt.ArrayLike] | None = None,
        rate: float = 0.01,
        epsilon: float = 1e-10,
        atomic_rows: bool = False,
        cores: int = 1,
    ) -> EmbeddingTable:
        """Makes a table of `rows` rows with `width` weights each.

        Args:
            path: the file, which must not exist.
            rows: number of ids.
            width: weights of each.
            dram: the DRAM budget for everything.
            optimizer: `"sgd"` or `"adagrad"`.
            initial: returns the weights of the ids that it is called with; zeros by default.
            rate: as for `EmbeddingTable`.
            epsilon: as for `EmbeddingTable`.
            atomic_rows: as for `EmbeddingTable`.
            cores: as for `EmbeddingTable`.
        """
        import numpy as np

        if optimizer not in ("sgd", "adagrad"):
            raise InputError(f"optimizer: {optimizer!r:.40}: expected 'sgd' or 'adagrad'")
        names = ("weight",) if optimizer == "sgd" else ("weight", "square")
        dtype = np.dtype([(name, "<f4", (width,)) for name in names])
        array = _array.create(path, (rows,), dtype, dram, atomic_rows=atomic_rows, cores=cores)
        table = cls.__new__(cls)
        table._set(array, rate, epsilon)
        for first in range(0, rows if initial is not None else 0, INITIAL_ROWS):
            ids = np.arange(first, min(first + INITIAL_ROWS, rows))
            assert initial is not None
            block = np.zeros(ids.size, dtype)
            block["weight"] = initial(ids)
            array[first : first + ids.size] = block
        return table

    @property
    def optimizer(self) -> str:
        """`"sgd"` or `"adagrad"`."""
        return "adagrad" if self._state else "sgd"

    @property
    def array(self) -> Array:
        """The rows, with the state of the optimizer."""
        return self._array

    def __len__(self) -> int:
        return len(self._array)

    def gather(self, ids: npt.ArrayLike, out: Any = None) -> Any:
        """Returns the weights of `ids`, of any shape, or copies them into `out`.

        `out` is an array or a tensor (DLPack) of `float32`.
        """
        import numpy as np

        places, shape = self._ids(ids)
        into = np.empty((*shape, self.width), np.float32) if out is None else out
        target = writable(into, (*shape, self.width), np.dtype(np.float32))
        self._array._open().gather(places, (0, 4 * self.width), target)
        return into

    def prefetch(self, ids: npt.ArrayLike) -> None:
        """Begins to fetch the rows of the next batch into DRAM, and returns at once."""
        self._array._open().prefetch(self._ids(ids)[0])

    def add(self, ids: npt.ArrayLike, rows: npt.ArrayLike) -> None:
        """Adds `rows` to the weights of `ids`. Rows of an id that occurs twice are all added."""
        places, added = self._summed(ids, rows)
        with self._array._changing():
            weights = self._read(places)[:, : self.width]
            self._write(places, weights + added)

    def step(self, ids: npt.ArrayLike, gradients: npt.ArrayLike, rate: float | None = None) -> None:
        """Applies the gradients of a batch by the optimizer, at `rate` or the table's rate."""
        import numpy as np

        places, gradient = self._summed(ids, gradients)
        factor = np.float32(self.rate if rate is None else rate)
        with self._array._changing():
            rows = self._read(places)
            weights, squares = rows[:, : self.width], rows[:, self.width :]
            if self._state:
                squares += gradient * gradient
                gradient = gradient / (np.sqrt(squares) + np.float32(self.epsilon))
            weights -= factor * gradient
            self._write(places, rows)

    def flush(self) -> None:
        """Writes all changed rows to the file, and returns when they survive a crash."""
        self._array.flush()

    def counters(self) -> dict[str, int]:
        """Accesses to pages so far, and those that found their page on flash."""
        return self._array.counters()

    def close(self) -> None:
        """Flushes changed rows and frees the DRAM."""
        self._array.close()

    def __enter__(self) -> EmbeddingTable:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        name = os.fspath(self._array.path)
        return f"EmbeddingTable({name!r}, {len(self)} x {self.width}, {self.optimizer})"

    def __reduce__(self) -> Any:
        return (_again, (self._array, self.rate, self.epsilon))

    def _ids(self, ids: npt.ArrayLike) -> tuple[Any, tuple[int, ...]]:
        """Returns ids in one dimension, and their shape."""
        import numpy as np

        found = np.asarray(_array.as_numpy(ids))
        return self._array._indices(found.reshape(-1)), found.shape

    def _summed(self, ids: npt.ArrayLike, rows: npt.ArrayLike) -> tuple[Any, Any]:
        """Returns each id once, in order, with the sum of its rows."""
        import numpy as np

        places, shape = self._ids(ids)
        given = np.asarray(_array.as_numpy(rows), np.float32)
        if given.shape != (*shape, self.width):
            expected = (*shape, self.width)
            raise InputError(f"rows: {given.shape}: expected {expected}, a row an id")
        given = given.reshape(-1, self.width)
        # Stable, so that the rows of an id are added in their order.
        order = np.argsort(places, kind="stable")
        places, given = places[order], given[order]
        first = np.flatnonzero(np.diff(places, prepend=places[:1] + np.uint64(1)))
        if first.size == places.size:
            return places, given
        return places[first], np.add.reduceat(given, first, axis=0)

    def _read(self, places: Any) -> Any:
        """Returns the rows with their state, as `float32`."""
        import numpy as np

        rows = np.empty((places.size, self.width * (1 + self._state)), np.float32)
        self._array._open().gather(places, (0, 4 * rows.shape[1]), bytes_of(rows))
        return rows

    def _write(self, places: Any, rows: Any) -> None:
        """Sets the first bytes of each row."""
        if places.size:
            self._array._open().scatter(places, (0, 4 * rows.shape[1]), bytes_of(rows))


def _again(array: Array, rate: float, epsilon: float) -> EmbeddingTable:
    table = EmbeddingTable.__new__(EmbeddingTable)
    table._set(array, rate, epsilon)
    return table
