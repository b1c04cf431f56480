"""The C interface by `ctypes`: opening and making stores, and what is said when that fails."""

import ctypes
from pathlib import Path


class Options(ctypes.Structure):
    """`EbbtideOptions`."""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("dram_bytes", ctypes.c_uint64),
        ("cores", ctypes.c_uint32),
        ("threads", ctypes.c_uint32),
        ("stack_bytes", ctypes.c_uint64),
        ("durability", ctypes.c_char_p),
    ]


class NewStore(ctypes.Structure):
    """`EbbtideNewStore`."""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("bytes", ctypes.c_uint64),
        ("log_bytes", ctypes.c_uint64),
        ("force", ctypes.c_uint32),
    ]


class Library:
    """`libebbtide`. A call gives its code, and the text of the failure or an empty one."""

    def __init__(self, path: Path) -> None:
        self._calls = ctypes.CDLL(str(path))
        self._calls.ebbtide_error.restype = ctypes.c_char_p

    def open(
        self, path: Path, dram_bytes: int = 4 << 20, durability: str = "always"
    ) -> tuple[int, str]:
        """Opens and closes a store."""
        options = self._options(dram_bytes, durability)
        engine = ctypes.c_void_p()
        arguments = (str(path).encode(), ctypes.byref(options), ctypes.byref(engine))
        return self._ended(self._calls.ebbtide_open(*arguments), engine)

    def create(
        self, path: Path, size: int = 4 << 20, log_bytes: int = 1 << 20, dram_bytes: int = 4 << 20
    ) -> tuple[int, str]:
        """Makes and closes a store."""
        options = self._options(dram_bytes, "always")
        store = NewStore(ctypes.sizeof(NewStore), size, log_bytes, 0)
        engine = ctypes.c_void_p()
        given = (ctypes.byref(store), ctypes.byref(options), ctypes.byref(engine))
        return self._ended(self._calls.ebbtide_create(str(path).encode(), *given), engine)

    @staticmethod
    def _options(dram_bytes: int, durability: str) -> Options:
        return Options(ctypes.sizeof(Options), dram_bytes, 0, 0, 0, durability.encode())

    def _ended(self, code: int, engine: ctypes.c_void_p) -> tuple[int, str]:
        if code == 0:
            code = self._calls.ebbtide_close(engine)
        return code, self._calls.ebbtide_error().decode() if code else ""
