"""Sweeps: all combinations of designs, programs and parameters, here or on a cluster."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from . import _native
from ._errors import InputError
from ._progress import Progress, shown
from ._result import Result

Point = dict[str, Any]
"""A point of a sweep: plain data, which any engine can send to another machine."""

Outcome = dict[str, Any]
"""What `run_point` gives back: the point's number, and its outcome."""


class Swept(Result):
    """The results of a sweep: one row of the table a point."""

    axes: list[Any]
    points: list[Any]


class Sweep:
    """Every combination of the values of some axes, as `ebbtide sweep` runs them.

        sweep = ebbtide.Sweep(designs=["astriflash", "os-swap"], scale="1/64", seeds=[1, 2],
                              set={"dram_cache.mshr": [64, 128]})
        sweep = ebbtide.Sweep.read("sweep.toml")
        sweep.run()

    Or by an engine that runs `run_point` elsewhere, in any order:

        sweep.collect(map(ebbtide.run_point, sweep.points()))
    """

    def __init__(self, *, set: Mapping[str, Any] | None = None, **axes: Any) -> None:
        lines = [f"{key} = {_toml(value)}" for key, value in axes.items()]
        lines.append("[set]")
        lines += [f"{key} = {_toml(value)}" for key, value in (set or {}).items()]
        self._name, self._text = "Sweep", "\n".join(lines)
        self._native = _native.Sweep(self._name, self._text)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Sweep:
        """The sweep that a TOML file describes."""
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
            raise InputError(f"{path}: {reason}") from error
        return cls._of(str(path), text)

    @classmethod
    def _of(cls, name: str, text: str) -> Sweep:
        sweep = cls.__new__(cls)
        sweep._name, sweep._text = name, text
        sweep._native = _native.Sweep(name, text)
        return sweep

    @property
    def axes(self) -> dict[str, list[str]]:
        """The axes with their values. The last changes from point to point."""
        return dict(self._native.axes())

    def __len__(self) -> int:
        return len(self._native)

    def check(self) -> None:
        """Checks that every machine can be built.

        Raises:
            InputError: one cannot; the text says which.
        """
        self._native.check()

    def points(self) -> list[Point]:
        """The points as plain dictionaries, for `run_point`."""
        return [
            {"number": number, "values": dict(self._native.point(number))}
            for number in range(len(self))
        ]

    def run(
        self,
        folder: str | os.PathLike[str] | None = None,
        *,
        threads: int | None = None,
        force: bool = False,
        progress: Progress = None,
    ) -> Swept:
        """Runs all points on this machine's cores.

        Args:
            folder: where finished runs are kept; the same call goes on from there. Without one,
                they are kept only while it runs.
            threads: number of concurrent runs, which does not change the results.
            force: discard runs of another sweep in the folder.
            progress: see `ebbtide.Progress`.
        """
        if folder is None:
            with tempfile.TemporaryDirectory(prefix="ebbtide-") as kept:
                return self.run(kept, threads=threads, progress=progress)
        with shown(progress) as tell:
            return Swept(self._native.run(os.fspath(folder), threads, force, tell))

    def collect(self, outcomes: Iterable[Outcome]) -> Swept:
        """The results of points that ran anywhere, in any order: the same tables as `run` gives.

        Raises:
            InputError: a point is missing, or an outcome is none of this sweep.
        """
        by_number: dict[int, str] = {}
        for outcome in outcomes:
            try:
                number, values = outcome["number"], outcome["values"]
                text = json.dumps(outcome["outcome"], allow_nan=False)
            except (KeyError, TypeError, ValueError):
                raise InputError(f"expected what run_point gives, not {outcome!r:.80}") from None
            if not 0 <= number < len(self) or dict(self._native.point(number)) != values:
                raise InputError(f"point {number}: expected a point of this sweep")
            by_number[number] = text
        missing = [number for number in range(len(self)) if number not in by_number]
        if missing:
            raise InputError(f"{len(missing)} of {len(self)} points have no outcome: {missing[:10]}")
        return Swept(self._native.collect([by_number[number] for number in sorted(by_number)]))

    def __reduce__(self) -> tuple[Any, ...]:
        return (Sweep._of, (self._name, self._text))

    def __repr__(self) -> str:
        axes = ", ".join(f"{key}={values}" for key, values in self.axes.items())
        return f"Sweep({axes})"


def run_point(point: Point) -> Outcome:
    """Runs one point of a sweep on one core. Returns plain data for `Sweep.collect`."""
    try:
        values = [(str(key), str(value)) for key, value in point["values"].items()]
        number = point["number"]
    except (KeyError, TypeError, AttributeError):
        raise InputError(f"expected a point of Sweep.points(), not {point!r:.80}") from None
    outcome = json.loads(_native.run_point(values, None))
    return {"number": number, "values": dict(values), "outcome": outcome}


def _toml(value: object) -> str:
    # Texts, numbers and lists of JSON are also TOML.
    if isinstance(value, (str, bool, int, float)):
        return json.dumps(value)
    if isinstance(value, Iterable) and not isinstance(value, Mapping):
        return f"[{', '.join(_toml(item) for item in value)}]"
    return json.dumps(str(value))
