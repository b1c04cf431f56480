"""What the file of an array says about it: `.npy` files, raw files and columns of Arrow files."""

from __future__ import annotations

import ast
import math
import operator
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._errors import InputError, MissingFileError, count

if TYPE_CHECKING:
    import numpy as np

#: Where the rows of a created file begin: rows whose size divides a page lie in one page each.
FIRST_ROW = 4096


@dataclass(frozen=True)
class Layout:
    """Where the rows of an array lie in its file: runs of an offset and a number of rows."""

    runs: list[tuple[int, int]]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def checked(self, name: str) -> Layout:
        """Returns itself if an array can have it."""
        shape, dtype = self.shape, self.dtype
        if dtype.subdtype is not None:
            # Each value is an array itself, whose dimensions come last.
            kind, inner = dtype.subdtype
            return Layout(self.runs, (*shape, *inner), kind).checked(name)
        offsets = [offset for offset, _ in self.runs]
        if not shape or any(length <= 0 for length in shape) or min(offsets, default=0) < 0:
            expected = "expected at least one row, and no empty dimension"
            raise InputError(f"{name}: shape {shape}: {expected}")
        if dtype.hasobject or dtype.itemsize == 0:
            raise InputError(f"{name}: dtype {dtype}: expected a fixed width without objects")
        if max(offsets, default=0) + math.prod(shape) * dtype.itemsize >= 1 << 63:
            expected = "expected fewer bytes than a file may have"
            raise InputError(f"{name}: shape {shape} of {dtype}: {expected}")
        return self


def described(name: str, dtype: Any, shape: Any) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Checks a dtype and a shape."""
    import numpy as np

    try:
        kind = np.dtype(dtype)
    except Exception as error:  # NumPy has many kinds.
        raise InputError(f"{name}: dtype {dtype!r:.40}: expected one of NumPy's") from error
    try:
        return kind, tuple(map(operator.index, shape))
    except TypeError as error:
        raise InputError(f"{name}: shape {shape!r:.40}: expected a tuple of whole numbers") from error


def raw(name: str, dtype: Any, shape: Any, offset: int) -> Layout:
    """Returns the layout of a raw file."""
    kind, shape = described(name, dtype, shape)
    offset = count("offset", offset)
    return Layout([(offset, shape[0] if shape else 0)], shape, kind).checked(name)


def npy(name: str) -> Layout:
    """Returns the layout of a `.npy` file."""
    offset, shape, kind = _npy_header(name)
    return Layout([(offset, shape[0] if shape else 0)], shape, kind).checked(name)


def arrow(name: str, column: str) -> Layout:
    """Returns the layout of a column of an Arrow file."""
    return Layout(*_arrow_column(name, column)).checked(name)


def create(name: str, dtype: Any, shape: Any) -> Layout:
    """Makes a `.npy` file of zeros, with room for all of it, and returns its layout."""
    kind, shape = described(name, dtype, shape)
    layout = Layout([(FIRST_ROW, shape[0] if shape else 0)], shape, kind).checked(name)
    header = _header(name, layout.dtype, layout.shape)
    begun = Path(f"{name}.{os.getpid()}.new")
    try:
        with begun.open("xb") as file:
            try:
                file.write(header)
                bytes_of_rows = math.prod(layout.shape) * layout.dtype.itemsize
                os.posix_fallocate(file.fileno(), 0, FIRST_ROW + bytes_of_rows)
                os.fsync(file.fileno())
                # Another program sees the whole file or none, and a file that is there stays.
                os.link(begun, name)
            finally:
                begun.unlink()
        _sync_folder(name)
    except FileExistsError as error:
        raise InputError(f"{name}: is there already, expected a name that is free") from error
    except FileNotFoundError as error:
        raise MissingFileError(f"{name}: {error.strerror or error}") from error
    except OSError as error:
        raise InputError(f"{name}: {error.strerror or error}") from error
    return layout


def _header(name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """Returns the header of a `.npy` file whose rows begin at `FIRST_ROW`."""
    import numpy as np

    descr = np.lib.format.dtype_to_descr(dtype)
    text = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape!r}, }}"
    # Names outside of ASCII need version 3.0.
    version, width = (1, 2) if text.isascii() else (3, 4)
    begin = b"\x93NUMPY" + bytes([version, 0])
    body = text.encode("utf-8").ljust(FIRST_ROW - len(begin) - width - 1) + b"\n"
    if len(begin) + width + len(body) > FIRST_ROW:
        raise InputError(f"{name}: dtype {dtype!r:.40}: expected a shorter description")
    return begin + len(body).to_bytes(width, "little") + body


def _sync_folder(name: str) -> None:
    folder = os.open(Path(name).parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


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
