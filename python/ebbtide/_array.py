"""Arrays on flash, far larger than DRAM, whose rows are gathered at random."""

from __future__ import annotations

import ast
import math
import operator
import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

from . import _native
from ._errors import InputError, MissingFileError, size

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Into = TypeVar("Into")


class Array:
    """A read-only array in a file, with a DRAM cache.

    `array[indices]` gathers rows, as NumPy's `array[indices]` does. `take` gathers them into an
    existing array. Any number of threads may gather at once. A forked or unpickled array opens the
    file again, with a separate DRAM budget.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        runs: list[tuple[int, int]],
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        dram: str | int,
        cores: int,
        threads: int | None,
    ) -> None:
        self.path = Path(path)
        self.shape = shape
        self.dtype = dtype
        self._row_bytes = dtype.itemsize
        for length in shape[1:]:
            self._row_bytes *= length
        self._runs = runs
        self._options = (size("dram", dram), cores, threads)
        self._process = os.getpid()
        self._rows: _native.RowFile | None = self._opened()

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

        `out` is an array with the same number of rows and the same dtype, or another writable
        buffer with the same number of bytes.
        """
        return self._gather(self._indices(indices), self.shape[1:], (0, self._row_bytes), out)

    def _gather(
        self, places: Any, row: tuple[int, ...], columns: tuple[int, int], out: Any = None
    ) -> Any:
        """Returns the bytes `columns` of the rows at `places`, as rows of the shape `row`."""
        import numpy as np

        expected = (places.size, *row)
        if out is None:
            out = np.empty(expected, self.dtype)
        into: np.ndarray[Any, Any] | memoryview | None
        if isinstance(out, np.ndarray):
            if out.dtype != self.dtype or out.shape != expected:
                found = f"{out.shape} of {out.dtype}"
                raise InputError(f"out: {found}: expected {expected} of {self.dtype}")
            writable = out.flags.c_contiguous and out.flags.writeable
            into = out.reshape(-1).view(np.uint8) if writable else None
        else:
            into = _bytes_of(out, places.size * self._row_bytes)
        if into is None:
            raise InputError("out: expected a contiguous array that can be written")
        self._open().gather(places, columns, into)
        return out

    def _columns(self, places: Any, rest: tuple[Any, ...]) -> Any:
        """Returns `rows[:, *rest]` of the rows at `places`. Reads only what `rest` needs."""
        import numpy as np

        first = rest[0]
        length = self.shape[1] if self.ndim > 1 else 0
        if isinstance(first, slice):
            reach = range(*first.indices(length))
            inner: Any = slice(None, None, 1 if reach.step > 0 else -1)
            if len(reach) > 0:
                low, high = min(reach[0], reach[-1]), max(reach[0], reach[-1]) + 1
                inner = slice(None, None, reach.step)
        else:
            low = int(first) + (length if int(first) < 0 else 0)
            reach, high, inner = range(low, low + 1), low + 1, 0
        if len(reach) == 0 or not 0 <= low < high <= length:
            # An empty part of a row, or an index out of range: NumPy returns or raises.
            return np.empty((places.size, *self.shape[1:]), self.dtype)[(slice(None), *rest)]
        width = self._row_bytes // length
        row = (high - low, *self.shape[2:])
        return self._gather(places, row, (low * width, high * width))[(slice(None), inner, *rest[1:])]

    def prefetch(self, indices: npt.ArrayLike) -> None:
        """Begins to fetch the rows at `indices` into DRAM, and returns at once."""
        self._open().prefetch(self._indices(indices))

    def __getitem__(self, key: Any) -> Any:
        import numpy as np

        first, rest = (key[0], key[1:]) if isinstance(key, tuple) and key else (key, ())
        if first is None or first is Ellipsis or isinstance(key, tuple) and not key:
            raise InputError(f"[{key!r:.40}]: expected indices of rows first")
        if isinstance(first, slice):
            rows = np.arange(*first.indices(len(self)), dtype=np.int64)
            self._check(rest)
            return self._columns(self._indices(rows), rest) if rest else self.take(rows)
        if isinstance(first, (int, np.integer)) and not isinstance(first, (bool, np.bool_)):
            return self.take([int(first)])[(0, *rest)]
        indices = np.asarray(first)
        if indices.dtype == bool:
            if indices.shape != (len(self),):
                found = "x".join(map(str, indices.shape))
                raise InputError(f"a mask of {found}: expected one of {len(self)}, a row each")
            indices = np.flatnonzero(indices)
        self._check(rest)
        if rest:
            found = self._columns(self._indices(indices.reshape(-1)), rest)
            return found.reshape(*indices.shape, *found.shape[1:])
        return self.take(indices.reshape(-1)).reshape(*indices.shape, *self.shape[1:])

    def _check(self, rest: tuple[Any, ...]) -> None:
        import numpy as np

        if any(not isinstance(part, (slice, int, np.integer)) for part in rest):
            raise InputError("expected slices and numbers behind the indices of rows")

    def counters(self) -> dict[str, int]:
        """Accesses to pages so far, and those that found their page on flash."""
        accesses, misses = self._open().counters()
        return {"accesses": accesses, "misses": misses}

    def close(self) -> None:
        """Frees its DRAM after all running gathers have ended."""
        self._rows = None

    def __enter__(self) -> Array:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "" if self._rows else ", closed"
        return f"Array({os.fspath(self.path)!r}, shape={self.shape}, dtype={self.dtype}{state})"

    def __reduce__(self) -> Any:
        path = self.path.absolute()
        return (Array, (path, self._runs, self.shape, self.dtype, *self._options))

    def _opened(self) -> _native.RowFile:
        return _native.RowFile(os.fspath(self.path), self._runs, self._row_bytes, *self._options)

    def _open(self) -> _native.RowFile:
        if self._rows is None:
            raise InputError(f"{self.path}: closed; expected an open array")
        if self._process != os.getpid():
            # A forked child has none of its parent's threads.
            self._rows, self._process = self._opened(), os.getpid()
        return self._rows

    def _indices(self, indices: npt.ArrayLike) -> np.ndarray[Any, Any]:
        import numpy as np

        array = np.asarray(indices)
        if array.size == 0:
            return np.empty(0, np.uint64)
        if array.ndim != 1 or array.dtype.kind not in "iu":
            found = f"{array.ndim} dimensions of {array.dtype}"
            raise InputError(f"indices: {found}: expected one dimension of whole numbers")
        if array.dtype.kind == "i":
            low, high = int(array.min()), int(array.max())
            if low < -len(self) or high >= len(self):
                wrong = low if low < -len(self) else high
                raise IndexError(
                    f"index {wrong} is out of bounds: expected {-len(self)} to {len(self) - 1}"
                )
            if low < 0:
                # A narrow dtype may not hold the number of rows.
                array = array.astype(np.int64)
                array = np.where(array < 0, array + len(self), array)
        return np.ascontiguousarray(array, dtype=np.uint64)


def open(
    path: str | os.PathLike[str],
    dram: str | int = "1GiB",
    *,
    dtype: npt.DTypeLike | None = None,
    shape: tuple[int, ...] | None = None,
    offset: int = 0,
    column: str | None = None,
    cores: int = 1,
    threads: int | None = None,
) -> Array:
    """Opens an array on flash to gather rows of it.

    The file is a `.npy` file, a raw file, or an Arrow file without compression. A raw file needs
    `dtype` and `shape`. An Arrow file needs a `column` of fixed width without nulls.

    Args:
        path: the file.
        dram: the DRAM budget for everything, such as `"1GiB"`.
        dtype: of a raw file.
        shape: of a raw file; the first dimension counts rows.
        offset: offset of a raw file's first row in bytes.
        column: the name of an Arrow file's column.
        cores: kernel threads that read.
        threads: user-level threads of each core, and so its most reads in flight. The default
            depends on the budget.

    Raises:
        InputError: the file is no such array, or the budget is too small.
        MissingFileError: there is no such file; also a `FileNotFoundError`.
    """
    import numpy as np

    name = os.fspath(path)
    if column is not None:
        runs, shape, kind = _arrow_column(name, column)
    elif dtype is not None or shape is not None:
        if dtype is None or shape is None:
            raise InputError(f"{name}: expected both dtype and shape for a raw file")
        kind, shape = _raw(name, dtype, shape)
        runs = [(offset, shape[0] if shape else 0)]
    else:
        offset, shape, kind = _npy_header(name)
        runs = [(offset, shape[0] if shape else 0)]
    if not shape or any(length <= 0 for length in shape) or offset < 0:
        raise InputError(f"{name}: shape {shape}: expected at least one row, and no empty dimension")
    if kind.hasobject or kind.itemsize == 0:
        raise InputError(f"{name}: dtype {kind}: expected a fixed width without objects")
    if offset + math.prod(shape) * kind.itemsize >= 1 << 63:
        raise InputError(f"{name}: shape {shape} of {kind}: expected fewer bytes than a file may have")
    return Array(path, runs, shape, kind, dram, cores, threads)


def _bytes_of(out: object, size: int) -> memoryview | None:
    """Returns the bytes of a buffer of `size` bytes; `None` if not contiguous and writable."""
    try:
        view = memoryview(out)  # type: ignore[arg-type]
    except TypeError as error:
        raise InputError(f"out: {type(out).__name__}: expected an array or a buffer") from error
    if view.nbytes != size:
        raise InputError(f"out: {view.nbytes} bytes: expected {size}")
    return view.cast("B") if view.c_contiguous and not view.readonly else None


def _raw(name: str, dtype: Any, shape: Any) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Checks the description of a raw file."""
    import numpy as np

    try:
        kind = np.dtype(dtype)
    except Exception as error:  # NumPy has many kinds.
        raise InputError(f"{name}: dtype {dtype!r:.40}: expected one of NumPy's") from error
    try:
        return kind, tuple(map(operator.index, shape))
    except TypeError as error:
        raise InputError(f"{name}: shape {shape!r:.40}: expected a tuple of whole numbers") from error


def _npy_header(name: str) -> tuple[int, tuple[int, ...], np.dtype[Any]]:
    import numpy as np

    try:
        with Path(name).open("rb") as file:
            version = np.lib.format.read_magic(file)
            if version == (1, 0):
                shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
            elif version == (2, 0):
                shape, fortran, dtype = np.lib.format.read_array_header_2_0(file)
            elif version == (3, 0):
                shape, fortran, dtype = _header_3_0(file)
            else:
                found = ".".join(map(str, version))
                raise InputError(f"{name}: version {found} of .npy: expected 1.0 to 3.0")
            offset = file.tell()
    except FileNotFoundError as error:
        raise MissingFileError(f"{name}: {error.strerror or error}") from error
    except OSError as error:
        raise InputError(f"{name}: {error.strerror or error}") from error
    except InputError:
        raise
    except Exception as error:  # NumPy raises many kinds for a damaged header.
        line = (str(error) or type(error).__name__).splitlines()[0]
        raise InputError(f"{name}: {line}; expected a .npy file, or dtype and shape") from error
    if fortran and len(shape) > 1:
        raise InputError(f"{name}: column-major order: expected rows that lie together (order='C')")
    return offset, tuple(shape), dtype


def _header_3_0(file: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Reads a header of version 3.0, which is a header of version 2.0 in UTF-8."""
    import numpy as np

    (length,) = struct.unpack("<I", file.read(4))
    header = ast.literal_eval(file.read(length).decode("utf-8"))
    dtype = np.lib.format.descr_to_dtype(header["descr"])
    return tuple(map(operator.index, header["shape"])), bool(header["fortran_order"]), dtype


def _arrow_column(
    name: str, column: str
) -> tuple[list[tuple[int, int]], tuple[int, ...], np.dtype[Any]]:
    import numpy as np
    import pyarrow as pa

    try:
        mapped = pa.memory_map(name)
        whole = mapped.read_buffer()
        table = pa.ipc.open_file(whole).read_all()
    except FileNotFoundError as error:
        raise MissingFileError(f"{name}: No such file or directory") from error
    except (OSError, pa.ArrowException) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise InputError(f"{name}: {reason}; expected an Arrow file") from error
    if table.schema.get_field_index(column) < 0:
        known = ", ".join(table.column_names)
        raise InputError(f"{name}: no column '{column}' (known: {known})")
    data = table.column(column)
    kind = data.type
    row: tuple[int, ...] = ()
    if pa.types.is_fixed_size_list(kind):
        kind, row = kind.value_type, (kind.list_size,)
    try:
        dtype = np.dtype(kind.to_pandas_dtype())
    except NotImplementedError:
        dtype = np.dtype(object)
    fits = pa.types.is_primitive(kind) and not pa.types.is_boolean(kind)
    if not fits or dtype.itemsize * 8 != kind.bit_width:
        raise InputError(f"{name}: column '{column}' of {data.type}: expected numbers of fixed width")
    runs = []
    for chunk in data.chunks:
        if chunk.null_count:
            raise InputError(f"{name}: column '{column}' has nulls: expected none")
        values = chunk.flatten() if row else chunk
        if values.null_count:
            raise InputError(f"{name}: column '{column}' has nulls: expected none")
        buffer = values.buffers()[1]
        if len(chunk) == 0 or buffer is None:
            continue
        place = buffer.address - whole.address + values.offset * dtype.itemsize
        if not 0 <= place < whole.size:
            raise InputError(f"{name}: compressed: expected an Arrow file without compression")
        runs.append((place, len(chunk)))
    return runs, (len(table), *row), dtype
