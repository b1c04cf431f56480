"""Arrays on flash, far larger than DRAM, whose rows are gathered and changed at random."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

from . import _array_file as _file
from . import _native
from ._array_file import Layout
from ._errors import IndexingError, InputError, count, size

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Into = TypeVar("Into")

#: Bytes of new values that are converted and handed over together.
CHUNK_BYTES = 16 << 20


class Array:
    """An array in a file, with a DRAM cache.

    `array[indices]` gathers rows, as NumPy's `array[indices]` does. `take` gathers them into an
    existing array. An array that was opened with `mode="r+"` or made by `ebbtide.create` is changed
    by `array[indices] = rows`. Any number of threads may gather at once; changes run one after the
    other. A forked or unpickled array opens the file again to read it, with a separate DRAM budget.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        layout: Layout,
        dram: str | int,
        cores: int,
        threads: int | None,
        mode: str = "r",
        atomic_rows: bool = False,
    ) -> None:
        self.path = Path(path)
        self.shape = layout.shape
        self.dtype = layout.dtype
        self.mode = mode
        self._row_bytes = layout.dtype.itemsize
        for length in layout.shape[1:]:
            self._row_bytes *= length
        self._layout = layout
        threads = None if threads is None else count("threads", threads)
        self._options = (size("dram", dram), count("cores", cores), threads)
        self._process = os.getpid()
        #: Held during a change.
        self._turn = threading.RLock()
        self._rows: _native.RowFile | None = self._opened(atomic_rows if mode == "r+" else None)
        # The interpreter drops no array at its end.
        self._at_exit: weakref.finalize[[_native.RowFile, int], Array] | None = None
        if mode == "r+":
            self._at_exit = weakref.finalize(self, _flush, self._rows, self._process)
            _writers.add(self)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the whole array."""
        return self.shape[0] * self._row_bytes

    def __len__(self) -> int:
        return self.shape[0]

    @overload
    def take(self, indices: npt.ArrayLike, out: None = None) -> np.ndarray[Any, Any]: ...
    @overload
    def take(self, indices: npt.ArrayLike, out: Into) -> Into: ...
    def take(self, indices: npt.ArrayLike, out: Any = None) -> Any:
        """Gathers the rows at `indices`, of one dimension, into `out` or a new array.

        `out` is an array or a tensor (DLPack) with the same number of rows and the same dtype, or
        another writable buffer with the same number of bytes.
        """
        return self._gather(self._indices(indices), self.shape[1:], (0, self._row_bytes), out)

    def _gather(
        self, places: Any, row: tuple[int, ...], columns: tuple[int, int], out: Any = None
    ) -> Any:
        """Returns the bytes `columns` of the rows at `places`, as rows of the shape `row`."""
        import numpy as np

        expected = (places.size, *row)
        into = np.empty(expected, self.dtype) if out is None else out
        self._open().gather(places, columns, writable(into, expected, self.dtype))
        return into

    def _columns(self, places: Any, rest: tuple[Any, ...]) -> Any:
        """Returns `rows[:, *rest]` of the rows at `places`. Reads only what `rest` needs."""
        import numpy as np

        part = self._part(rest[0])
        if part is None:
            # An empty part of a row, or an index out of range: NumPy returns or raises.
            return np.empty((places.size, *self.shape[1:]), self.dtype)[(slice(None), *rest)]
        row, columns, inner = part
        return self._gather(places, row, columns)[(slice(None), inner, *rest[1:])]

    def _part(self, first: Any) -> tuple[tuple[int, ...], tuple[int, int], Any] | None:
        """Returns the part of a row that `first` needs, and what `first` is in it.

        The part is a shape and the first and last byte. `None` if it is empty or does not exist.
        """
        length = self.shape[1] if self.ndim > 1 else 0
        inner: Any = 0
        if isinstance(first, slice):
            reach = range(*first.indices(length))
            if len(reach) == 0:
                return None
            low, high = min(reach[0], reach[-1]), max(reach[0], reach[-1]) + 1
            inner = slice(None, None, reach.step)
        else:
            low = int(first) + (length if int(first) < 0 else 0)
            high = low + 1
        if not 0 <= low < high <= length:
            return None
        width = self._row_bytes // length
        return (high - low, *self.shape[2:]), (low * width, high * width), inner

    def prefetch(self, indices: npt.ArrayLike) -> None:
        """Begins to fetch the rows at `indices` into DRAM, and returns at once."""
        self._open().prefetch(self._indices(indices))

    def __getitem__(self, key: Any) -> Any:
        with _indexing_errors():
            lead, rows, rest = self._selected(key)
            places = self._places(rows, 0, len(rows))
            if not lead and rest:
                return self._gather(places, self.shape[1:], (0, self._row_bytes))[(0, *rest)]
            found = self._columns(places, rest) if rest else self.take(places)
            return found[0] if not lead and not rest else found.reshape(*lead, *found.shape[1:])

    def __setitem__(self, key: Any, value: Any) -> None:
        with _indexing_errors():
            lead, rows, rest = self._selected(key)
            with self._changing():
                self._change(lead, rows, rest, as_numpy(value))

    def _change(
        self, lead: tuple[int, ...], rows: Any, rest: tuple[Any, ...], value: Any
    ) -> None:
        """Sets what `_selected` has found to `value`."""
        import numpy as np

        if not lead:
            # One row, by its number: any key and value of NumPy's.
            row = self.take(rows) if rest else np.zeros((1, *self.shape[1:]), self.dtype)
            row[(0, *rest)] = value
            self._open().scatter(rows, (0, self._row_bytes), bytes_of(row))
            return
        if not isinstance(value, np.ndarray):
            value = converted(value, self.dtype, by_slice=isinstance(rows, range))
        if not rest:
            whole = _Change(self, rows, self.shape[1:], (0, self._row_bytes), ())
            whole.make(lead, value)
        elif (part := self._part(rest[0])) is not None:
            _Change(self, rows, *part[:2], (part[2], *rest[1:])).make(lead, value)
        else:
            # NumPy raises, or there is nothing to do.
            one = np.empty((1, *self.shape[1:]), self.dtype)[(slice(None), *rest)]
            target = (*lead, *one.shape[1:])
            np.empty(target, self.dtype)[...] = broadcast(value, target)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """The turn of a change, which may read what it does not replace."""
        self._open_to_write()
        with self._turn:
            yield

    def _selected(self, key: Any) -> tuple[tuple[int, ...], Any, tuple[Any, ...]]:
        """Returns the shape of the selected rows, the rows, and the key behind them.

        The rows are a range or an array of indices, of one dimension. The shape is empty for one
        row by its number.
        """
        import numpy as np

        first, *others = self._without_ellipsis(key if isinstance(key, tuple) else (key,))
        rest = tuple(others)
        if first is None:
            raise InputError(f"[{key!r:.40}]: expected indices of rows first")
        if isinstance(first, slice):
            rows = range(*first.indices(len(self)))
            self._check(rest)
            return (len(rows),), rows, rest
        if is_number(first):
            return (), self._indices([int(first)]), rest
        indices = index_array(first)
        if indices.dtype == bool:
            self._check_mask(indices.shape)
            indices = np.flatnonzero(indices)
        self._check(rest)
        return indices.shape, self._indices(indices.reshape(-1)), rest

    def _without_ellipsis(self, key: tuple[Any, ...]) -> tuple[Any, ...]:
        """Returns `key` with slices of everything in the place of `...`, and at least one part."""
        found = [place for place, part in enumerate(key) if part is Ellipsis]
        if len(found) > 1:
            raise IndexingError("an index can only have a single ellipsis ('...')")
        if not found:
            return key or (slice(None),)
        whole = (slice(None),) * (self.ndim - len(key) + 1)
        return (*key[: found[0]], *whole, *key[found[0] + 1 :]) or (slice(None),)

    @staticmethod
    def _places(rows: Any, start: int, stop: int) -> np.ndarray[Any, Any]:
        """Returns some of the selected rows as indices that are not negative."""
        import numpy as np

        if not isinstance(rows, range):
            return rows[start:stop]  # type: ignore[no-any-return]
        part = rows[start:stop]
        return np.arange(part.start, part.stop, part.step, dtype=np.int64).view(np.uint64)

    def _check_mask(self, shape: tuple[int, ...]) -> None:
        if shape == (len(self),):
            return
        found = "x".join(map(str, shape)) or "one value"
        # A mask of elements is one of NumPy's.
        kind = InputError if shape == self.shape[: len(shape)] else IndexingError
        raise kind(f"a mask of {found}: expected one of {len(self)}, a row each")

    def _check(self, rest: tuple[Any, ...]) -> None:
        """Refuses what is no slice or number. NumPy takes arrays too."""
        for part in rest:
            if isinstance(part, slice) or is_number(part):
                continue
            is_numpys = part is None or index_array(part).dtype.kind in "biu"
            kind = InputError if is_numpys else IndexingError
            raise kind("expected slices and numbers behind the indices of rows")
        count = len([part for part in rest if part is not None])
        if count >= self.ndim:
            found = f"{count + 1} indices of {self.ndim} dimensions"
            raise IndexingError(f"too many indices: {found}")

    def flush(self) -> None:
        """Writes all changed rows to the file, and returns when they survive a crash.

        Raises:
            InputError: the array was opened to be read.
            RunError: the file cannot be written.
        """
        self._open_to_write().flush()

    def counters(self) -> dict[str, int]:
        """Accesses to pages so far, and those that found their page on flash."""
        accesses, misses = self._open().counters()
        return {"accesses": accesses, "misses": misses}

    def close(self) -> None:
        """Frees its DRAM after all running gathers have ended. Changed rows are flushed before."""
        if self._process != os.getpid():
            self._turn = threading.RLock()
        with self._turn:
            rows, self._rows = self._rows, None
            flushes, self._at_exit = self._at_exit, None
            if flushes is not None and flushes.detach() and rows is not None:
                _flush(rows, self._process)

    def __enter__(self) -> Array:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "" if self._rows else ", closed"
        writes = ", mode='r+'" if self.mode == "r+" else ""
        name = os.fspath(self.path)
        return f"Array({name!r}, shape={self.shape}, dtype={self.dtype}{writes}{state})"

    def __reduce__(self) -> Any:
        self._flush_for_readers()
        return (Array, (self.path.absolute(), self._layout, *self._options))

    def _flush_for_readers(self) -> None:
        """Flushes what this process has changed: copies and forked children read the file."""
        if self.mode == "r+" and self._rows is not None and self._process == os.getpid():
            self.flush()

    def _opened(self, writes: bool | None) -> _native.RowFile:
        name, runs = os.fspath(self.path), self._layout.runs
        return _native.RowFile(name, runs, self._row_bytes, self._options, writes)

    def _open(self) -> _native.RowFile:
        if self._rows is None:
            raise InputError(f"{self.path}: closed; expected an open array")
        if self._process != os.getpid():
            # A forked child has none of its parent's threads.
            self._rows, self._process = self._opened(None), os.getpid()
            self._turn = threading.RLock()
            self.mode = "r"
        return self._rows

    def _open_to_write(self) -> _native.RowFile:
        rows = self._open()
        if self.mode != "r+":
            raise InputError(f"{self.path}: opened to be read; expected mode='r+'")
        return rows

    def _indices(self, indices: npt.ArrayLike) -> np.ndarray[Any, Any]:
        import numpy as np

        array = index_array(indices)
        if array.size == 0 and array.dtype.kind in "iu":
            return np.empty(0, np.uint64)
        if array.ndim != 1 or array.dtype.kind not in "iu":
            found = f"{array.ndim} dimensions of {array.dtype}"
            # NumPy takes indices of any shape, and names of fields.
            known = "iuU" if self.dtype.names else "iu"
            kind = InputError if array.dtype.kind in known else IndexingError
            raise kind(f"indices: {found}: expected one dimension of whole numbers")
        low, high = int(array.min()), int(array.max())
        if low < -len(self) or high >= len(self):
            wrong = low if low < -len(self) else high
            raise IndexingError(
                f"index {wrong} is out of bounds: expected {-len(self)} to {len(self) - 1}"
            )
        if low < 0:
            # A narrow dtype may not hold the number of rows.
            array = array.astype(np.int64)
            array = np.where(array < 0, array + len(self), array)
        return np.ascontiguousarray(array, dtype=np.uint64)


#: Arrays that are changed.
_writers: weakref.WeakSet[Array] = weakref.WeakSet()


def _before_fork() -> None:
    for array in list(_writers):
        array._flush_for_readers()


os.register_at_fork(before=_before_fork)


class _Change:
    """A change of selected rows: of the bytes `columns`, which have the shape `row` in each.

    `rest` is the key of what changes in that part of a row. The rest of the part is read first.
    """

    def __init__(
        self,
        array: Array,
        rows: Any,
        row: tuple[int, ...],
        columns: tuple[int, int],
        rest: tuple[Any, ...],
    ) -> None:
        self.array, self.rows, self.row, self.columns = array, rows, row, columns
        self.rest = rest

    def make(self, lead: tuple[int, ...], value: np.ndarray[Any, Any]) -> None:
        """Sets the rows, which have the shape `lead`, to `value`, which NumPy broadcasts."""
        import numpy as np

        example = np.empty((1, *self.row), self.array.dtype)[(slice(None), *self.rest)]
        value = broadcast(value, (*lead, *example.shape[1:]))
        value = value.reshape(len(self.rows), *example.shape[1:])
        whole = example.shape == (1, *self.row) and not self._steps_back()
        rows = self.array._open_to_write()
        for places, part in self._chunks(value):
            if whole and part.dtype == self.array.dtype:
                block = np.ascontiguousarray(part)
            elif whole:
                block = np.empty((places.size, *self.row), self.array.dtype)
                block[...] = part
            else:
                block = self.array._gather(places, self.row, self.columns)
                block[(slice(None), *self.rest)] = part
            if places.size:
                rows.scatter(places, self.columns, bytes_of(block))

    def _steps_back(self) -> bool:
        return any(isinstance(part, slice) and (part.step or 1) < 0 for part in self.rest)

    def _chunks(self, value: np.ndarray[Any, Any]) -> Iterator[tuple[Any, Any]]:
        """The selected rows with their values, some at a time."""
        width = self.columns[1] - self.columns[0]
        count = max(1, CHUNK_BYTES // width)
        # Without rows there is one part as well: NumPy may refuse its dtype.
        for start in range(0, max(1, len(self.rows)), count):
            stop = min(start + count, len(self.rows))
            yield self.array._places(self.rows, start, stop), value[start:stop]


def _flush(rows: _native.RowFile, process: int) -> None:
    """Flushes changed rows, in the process that has changed them."""
    if process == os.getpid():
        rows.flush()


def create(
    path: str | os.PathLike[str],
    shape: tuple[int, ...],
    dtype: npt.DTypeLike = "f8",
    dram: str | int = "1GiB",
    *,
    atomic_rows: bool = False,
    cores: int = 1,
    threads: int | None = None,
) -> Array:
    """Makes a `.npy` file of zeros, and opens it to change it.

    Space for the whole file is reserved. `atomic_rows`, `dram`, `cores` and `threads` are as in
    `ebbtide.open`.

    Args:
        path: the file, which must not exist.
        shape: the first dimension counts rows.
        dtype: of a fixed width, also a structured one.

    Raises:
        InputError: the file is there already, the dtype or shape cannot be, or the budget is too
            small.
        MissingFileError: its folder does not exist.
    """
    layout = _file.create(os.fspath(path), dtype, shape)
    try:
        return Array(path, layout, dram, cores, threads, "r+", atomic_rows)
    except BaseException:
        Path(path).unlink()
        raise


def open(
    path: str | os.PathLike[str],
    dram: str | int = "1GiB",
    *,
    mode: str = "r",
    dtype: npt.DTypeLike | None = None,
    shape: tuple[int, ...] | None = None,
    offset: int = 0,
    column: str | None = None,
    atomic_rows: bool = False,
    cores: int = 1,
    threads: int | None = None,
) -> Array:
    """Opens an array on flash to gather rows of it, or to change it.

    The file is a `.npy` file, a raw file, or an Arrow file without compression. A raw file needs
    `dtype` and `shape`. An Arrow file needs a `column` of fixed width without nulls.

    Args:
        path: the file.
        dram: the DRAM budget for everything, such as `"1GiB"`.
        mode: `"r"`, or `"r+"` to change rows as well. One array at a time has a file open so.
        dtype: of a raw file.
        shape: of a raw file; the first dimension counts rows.
        offset: offset of a raw file's first row in bytes.
        column: the name of an Arrow file's column.
        atomic_rows: after a crash, each row that was changed since the last flush is old or new.
            Changes are then also written to a log beside the file.
        cores: kernel threads that read.
        threads: user-level threads of each core, and so its most reads in flight. The default
            depends on the budget.

    Raises:
        InputError: the file is no such array, is in use, or the budget is too small.
        MissingFileError: there is no such file; also a `FileNotFoundError`.
    """
    name = os.fspath(path)
    if mode not in ("r", "r+"):
        raise InputError(f"mode: {mode!r:.40}: expected 'r' or 'r+'")
    if column is not None:
        if mode == "r+":
            raise InputError(f"{name}: a column of an Arrow file: expected mode='r'")
        layout = _file.arrow(name, column)
    elif dtype is not None or shape is not None:
        if dtype is None or shape is None:
            raise InputError(f"{name}: expected both dtype and shape for a raw file")
        layout = _file.raw(name, dtype, shape, offset)
    else:
        layout = _file.npy(name)
    return Array(path, layout, dram, cores, threads, mode, atomic_rows)


def writable(out: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Returns the bytes of `out`, an array, a tensor or a buffer that can hold such an array."""
    import numpy as np

    array = as_numpy(out)
    into: np.ndarray[Any, Any] | memoryview | None
    if isinstance(array, np.ndarray):
        if array.dtype != dtype or array.shape != shape:
            found = f"{array.shape} of {array.dtype}"
            raise InputError(f"out: {found}: expected {shape} of {dtype}")
        can_be = array.flags.c_contiguous and array.flags.writeable
        into = bytes_of(array) if can_be else None
    else:
        size = dtype.itemsize
        for length in shape:
            size *= length
        into = _bytes_of_buffer(out, size)
    if into is None:
        raise InputError("out: expected a contiguous array that can be written")
    return into


@contextmanager
def _indexing_errors() -> Iterator[None]:
    """Turns an `IndexError` of NumPy's into an `IndexingError`."""
    try:
        yield
    except IndexingError:
        raise
    except IndexError as error:
        raise IndexingError(str(error)) from error


def is_number(part: Any) -> bool:
    """True if `part` of a key is a whole number."""
    import numpy as np

    return isinstance(part, (int, np.integer)) and not isinstance(part, bool)


def index_array(indices: Any) -> np.ndarray[Any, Any]:
    """Returns indices as an array. Those of an empty list are whole numbers, as in NumPy."""
    import numpy as np

    try:
        array = np.asarray(as_numpy(indices))
    except ValueError as error:
        line = str(error).splitlines()[0]
        raise InputError(f"indices: {line}") from error
    is_list = not hasattr(indices, "dtype")
    return array.astype(np.int64) if is_list and array.size == 0 else array


def converted(value: Any, dtype: np.dtype[Any], by_slice: bool) -> np.ndarray[Any, Any]:
    """Returns what is no array as one, or raises NumPy's error if the dtype cannot hold it."""
    import numpy as np

    # NumPy checks a scalar of its own in an assignment to a slice only.
    if not (by_slice and isinstance(value, np.generic)):
        return np.array(value, dtype)
    one = np.empty((), dtype)
    one[...] = value
    return one


def broadcast(value: np.ndarray[Any, Any], target: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Returns `value` as NumPy broadcasts it in an assignment, or raises NumPy's error."""
    import numpy as np

    while value.ndim > len(target) and value.shape[0] == 1:
        value = value[0]
    return np.broadcast_to(value, target)


def bytes_of(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns the bytes of a contiguous array, without a copy."""
    import numpy as np

    return array.reshape(-1).view(np.uint8)


def as_numpy(value: Any) -> Any:
    """Returns a tensor of another library as an array without a copy (DLPack), and else `value`."""
    import numpy as np

    if hasattr(value, "__dlpack__") and not isinstance(value, (np.ndarray, np.generic)):
        return np.from_dlpack(value)
    return value


def _bytes_of_buffer(out: object, size: int) -> memoryview | None:
    """Returns the bytes of a buffer of `size` bytes; `None` if not contiguous and writable."""
    try:
        view = memoryview(out)  # type: ignore[arg-type]
    except TypeError as error:
        raise InputError(f"out: {type(out).__name__}: expected an array or a buffer") from error
    if view.nbytes != size:
        raise InputError(f"out: {view.nbytes} bytes: expected {size}")
    return view.cast("B") if view.c_contiguous and not view.readonly else None
