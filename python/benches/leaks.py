"""Runs simulations, and opens, gathers and closes arrays, many times, and prints what memory and
descriptors became.

    python python/benches/leaks.py --runs 100000 --opens 10000
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import ebbtide

SMALL = {
    "cores.count": 1,
    "llc.size": "64KiB",
    "dataset.size": "1MiB",
    "dram_cache.size": "64KiB",
    "switch.threads": 2,
}


def resident_kib() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4


def repeat(name: str, count: int, work: Callable[[], object]) -> None:
    for _ in range(max(count // 100, 10)):
        work()
    before, files, begun = resident_kib(), len(os.listdir("/proc/self/fd")), time.monotonic()
    for _ in range(count):
        work()
    grown, opened = resident_kib() - before, len(os.listdir("/proc/self/fd")) - files
    seconds = time.monotonic() - begun
    print(f"{name}: {count} rounds in {seconds:.0f} s, {grown} KiB and {opened} descriptors more")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--opens", type=int, default=200)
    arguments = parser.parse_args()
    repeat(
        "simulate",
        arguments.runs,
        lambda: ebbtide.simulate(workload="array-swap", jobs=1, set=SMALL, progress=False).jobs,
    )

    def refused() -> None:
        try:
            ebbtide.simulate("astroflash")
        except ebbtide.InputError:
            pass

    repeat("an error", arguments.runs, refused)
    with tempfile.TemporaryDirectory(dir=".") as folder:
        path = Path(folder) / "rows.npy"
        np.save(path, np.zeros((4096, 64)))

        def gather() -> None:
            with ebbtide.open(path, dram="2MiB") as array:
                _ = array[[1, 2, 4000]]

        repeat("open and gather", arguments.opens, gather)


main()
