"""The progress of a long run: one line, shown once the run has taken two seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

_PATIENCE_S = 2.0
_WIDTH = 24


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    return shell is not None and type(shell.get_ipython()).__name__ == "ZMQInteractiveShell"


class Line:
    """Shows the stage and the share done, in a notebook or on a terminal."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._handle: Any = None
        self._shown = False
        self._notebook = _in_notebook()

    def __call__(self, stage: str, share: float) -> None:
        if time.monotonic() - self._begun < _PATIENCE_S:
            return
        done = round(share * _WIDTH)
        text = f"{'█' * done}{'░' * (_WIDTH - done)} {share:4.0%}  {stage}"
        if self._notebook:
            self._in_notebook(text)
        else:
            print(f"\r{text[:100]:<100}", end="", file=sys.stderr, flush=True)
        self._shown = True

    def close(self) -> None:
        """Removes the line."""
        if self._shown and self._notebook:
            self._in_notebook("")
        elif self._shown:
            print(f"\r{'':<100}\r", end="", file=sys.stderr, flush=True)

    def _in_notebook(self, text: str) -> None:
        import IPython.display

        ipython: Any = IPython.display

        class Text(str):
            def __repr__(self) -> str:
                return str(self)

        if self._handle is None:
            self._handle = ipython.display(ipython.Pretty(Text(text)), display_id=True)
        else:
            self._handle.update(ipython.Pretty(Text(text)))


Progress = Callable[[str, float], object] | bool | None
"""`None` shows a line on a terminal and in a notebook, `True` always, `False` never. A function is
called with the stage and the share done, from 0 to 1. If it raises, the run ends."""


class shown:
    """Enters with the function to report progress to. Removes the line on exit."""

    def __init__(self, progress: Progress) -> None:
        wanted = progress is True or (
            progress is None and (_in_notebook() or sys.stderr.isatty())
        )
        self._line = Line() if wanted else None
        self._given = progress if callable(progress) else None

    def __enter__(self) -> Callable[[str, float], object] | None:
        return self._line or self._given

    def __exit__(self, *_: object) -> None:
        if self._line is not None:
            self._line.close()
