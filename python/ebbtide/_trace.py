"""Traces of memory accesses: read, write, convert, from and to arrays."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _native
from ._errors import InputError
from ._result import Record

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class Trace:
    """A trace in a file of any format that `ebbtide trace convert` reads.

    A path may be an fsspec URL, such as `s3://bucket/accesses.ebt`; the file is then copied to this
    machine once. Every function that takes a trace takes a path as well.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(local(os.fspath(path)))
        self._owned: Any = None

    @classmethod
    def from_arrays(
        cls,
        addresses: npt.ArrayLike,
        writes: npt.ArrayLike | None = None,
        times_ns: npt.ArrayLike | None = None,
        *,
        access_bytes: int = 64,
        interval_ns: int = 100,
        path: str | os.PathLike[str] | None = None,
    ) -> Trace:
        """A trace of accesses that arrays list.

        Args:
            addresses: byte addresses, whole numbers.
            writes: which accesses write; none without.
            times_ns: when they are made, in order; `interval_ns` apart without.
            access_bytes: bytes of an access.
            interval_ns: time between two accesses where no times are given.
            path: the file to write, whose name says the format; a temporary one without, which
                lives as long as the trace.
        """
        import numpy as np

        def column(name: str, values: npt.ArrayLike) -> np.ndarray[Any, Any]:
            array = np.asarray(values)
            whole = array.dtype.kind in "iub" or array.size == 0
            if array.ndim != 1 or not whole:
                found = f"{array.ndim} dimensions of {array.dtype}"
                raise InputError(f"{name}: {found}: expected one dimension of whole numbers")
            if array.dtype.kind == "i" and array.size and int(array.min()) < 0:
                raise InputError(f"{name}: {array.min()}: expected no negative number")
            return np.ascontiguousarray(array, dtype=np.uint64)

        places = column("addresses", addresses)
        if writes is None:
            writes = np.zeros(places.size, dtype=np.uint64)
        if times_ns is None:
            times_ns = np.arange(places.size, dtype=np.uint64) * np.uint64(interval_ns)
        if not 1 <= access_bytes < 1 << 32:
            raise InputError(f"access_bytes: {access_bytes}: expected 1 to {(1 << 32) - 1}")
        owned = None
        if path is None:
            owned = tempfile.TemporaryDirectory(prefix="ebbtide-")
            path = Path(owned.name) / "trace.ebt"
        columns = (column("writes", writes), column("times_ns", times_ns))
        _native.write_trace(os.fspath(path), places, *columns, access_bytes)
        trace = cls(path)
        trace._owned = owned
        return trace

    def to_arrays(
        self,
    ) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.bool_], npt.NDArray[np.uint64]]:
        """Addresses, which accesses write, and times in nanoseconds. Hints are left out."""
        import numpy as np

        columns = _native.read_trace(os.fspath(self.path))
        addresses, writes, times = (np.frombuffer(bytes(each), np.uint64) for each in columns)
        return addresses, writes.astype(bool), times

    def convert(self, path: str | os.PathLike[str]) -> Trace:
        """Writes the trace to another file, whose name says the format. Returns that trace."""
        _native.convert_trace(os.fspath(self.path), os.fspath(path))
        return Trace(path)

    def info(self) -> Record:
        """Properties of the trace: accesses, footprint, locality."""
        record: Record = json.loads(
            _native.trace_info(os.fspath(self.path)), object_hook=Record
        )
        return record

    def __fspath__(self) -> str:
        return os.fspath(self.path)

    def __repr__(self) -> str:
        return f"Trace({os.fspath(self.path)!r})"


def local(path: str) -> str:
    """The path of a file on this machine: `path`, or a copy of what a URL names."""
    if "://" not in path:
        return path
    try:
        import fsspec
    except ImportError:
        raise InputError(f"{path}: expected a path, or fsspec to be installed") from None
    try:
        return str(fsspec.open_local(f"simplecache::{path}"))
    except (OSError, ValueError, ImportError) as error:
        raise InputError(f"{path}: {error}") from error


def path_of(trace: Trace | str | os.PathLike[str]) -> str:
    """The path of a trace on this machine."""
    return local(os.fspath(trace))
