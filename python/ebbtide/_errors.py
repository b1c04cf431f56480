"""The exceptions of this package. Their text is the line that the `ebbtide` command prints."""

from __future__ import annotations

import operator


class Error(Exception):
    """A failure. Its text names the failure, its place, and the expected value."""


class InputError(Error, ValueError):
    """The arguments or the input are wrong (exit status 2 of the command)."""


class IndexingError(InputError, IndexError):
    """A key selects what an array does not have. NumPy raises an `IndexError` for it too."""


class MissingFileError(InputError, FileNotFoundError):
    """A file does not exist."""


class RunError(Error, RuntimeError):
    """A run failed (exit status 1 of the command)."""


def size(name: str, value: object) -> str:
    """Returns a size as text. It may be a text such as `"1GiB"`, or a whole number of bytes."""
    if isinstance(value, str):
        return value
    try:
        if isinstance(value, bool):
            raise TypeError
        return str(operator.index(value))  # type: ignore[arg-type]
    except TypeError:
        expected = "expected a size such as '1GiB', or a whole number of bytes"
        raise InputError(f"{name}: {value!r:.40}: {expected}") from None


def count(name: str, value: object) -> int:
    """Returns a whole number from 0 on, below 2⁶³."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = -1
    if not 0 <= number < 1 << 63:
        raise InputError(f"{name}: {value!r:.40}: expected a whole number from 0 on")
    return number
