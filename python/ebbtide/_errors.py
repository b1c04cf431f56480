"""The exceptions of this package. Their text is the line that the `ebbtide` command prints."""


class Error(Exception):
    """Something failed; the text says what, where, and what was expected."""


class InputError(Error, ValueError):
    """The arguments or the input are at fault (exit status 2 of the command)."""


class RunError(Error, RuntimeError):
    """A run failed (exit status 1 of the command)."""
