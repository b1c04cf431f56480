"""Runs simulations, and opens, uses and closes arrays and stores, many times, and prints what memory
and descriptors became.

    python python/benches/leaks.py --runs 100000 --opens 1000000 --stores 1000000 --folder /dev/shm
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
    """Counts from the end of the first tenth of the rounds on, when caches and arenas are filled."""
    for _ in range(count // 10):
        work()
    before, files, begun = resident_kib(), len(os.listdir("/proc/self/fd")), time.monotonic()
    grown = []
    for tenth in range(1, 10):
        for _ in range(count * tenth // 10, count * (tenth + 1) // 10):
            work()
        grown.append(resident_kib() - before)
    opened, seconds = len(os.listdir("/proc/self/fd")) - files, time.monotonic() - begun
    each = seconds / (count - count // 10) * 1e3
    print(
        f"{name}: {count} rounds, {each:.2f} ms each, {opened} descriptors more, KiB more after each"
        f" tenth: {' '.join(map(str, grown))}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--opens", type=int, default=200)
    parser.add_argument("--stores", type=int, default=200)
    parser.add_argument("--folder", default=".", help="where the files are")
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
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        path = Path(folder) / "rows.npy"
        np.save(path, np.zeros((4096, 64)))

        def gather() -> None:
            with ebbtide.open(path, dram="2MiB") as array:
                _ = array[[1, 2, 4000]]

        repeat("open and gather", arguments.opens, gather)

        def put() -> None:
            with ebbtide.Store(Path(folder) / "store", "1MiB", "1536KiB") as store:
                store["key"] = b"value"

        repeat("open a store and put", arguments.stores, put)


main()
