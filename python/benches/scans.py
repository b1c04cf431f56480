"""Reads one column and one slice of an array by np.memmap and by Ebbtide, in turns, from a cold cache.

    python python/benches/scans.py                   # 2 GiB of rows of 128 float32, a slice of 256 MiB

Before each read the file leaves the page cache, and Ebbtide opens it again. The numbers are seconds. A
ratio above 1 means that Ebbtide is faster.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from gather import drop_cached, make, mebibytes

import ebbtide


def seconds(path: Path, read: Callable[[Any], Any], dram: int | None) -> tuple[float, Any]:
    """Returns the time of a read, without opening the array, and its sum."""
    drop_cached(path)
    if dram is None:
        array = np.load(path, mmap_mode="r").view("f4")
        begun = time.perf_counter()
        found = np.array(read(array))
        return time.perf_counter() - begun, found
    layout = np.load(path, mmap_mode="r").view("f4").shape
    header = path.stat().st_size - layout[0] * layout[1] * 4
    with ebbtide.open(path, dram, dtype="f4", shape=layout, offset=header) as array:
        begun = time.perf_counter()
        found = read(array)
        return time.perf_counter() - begun, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--file", type=Path, default=Path("rows.npy"))
    parser.add_argument("--size", type=mebibytes, default=2048 << 20, help="MiB of data")
    parser.add_argument("--dram", type=mebibytes, default=64 << 20, help="MiB of DRAM of Ebbtide")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    rows = arguments.size // 512
    make(arguments.file, rows, 512)
    part = min((256 << 20) // 512, rows // 2)
    reads: dict[str, Callable[[Any], Any]] = {
        "one column": lambda array: array[:, 3],
        "a slice": lambda array: array[part : 2 * part],
    }
    for name, read in reads.items():
        pairs = []
        for _ in range(arguments.rounds):
            (memmap, expected), (own, found) = (
                seconds(arguments.file, read, dram) for dram in (None, arguments.dram)
            )
            assert np.array_equal(found.view("u4"), expected.view("u4"))
            pairs.append((memmap, own))
        ratios = sorted(memmap / own for memmap, own in pairs)
        times = [statistics.median(pair[side] for pair in pairs) for side in (0, 1)]
        print(f"{name:10} np.memmap {times[0]:.2f} s, Ebbtide {times[1]:.2f} s, ratio "
              f"{statistics.median(ratios):.2f} ({ratios[0]:.2f}–{ratios[-1]:.2f})")


if __name__ == "__main__":
    main()
