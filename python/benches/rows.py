"""Gathers and scatters rows of an array larger than DRAM in several ways, and prints rows a second.

    pip install zarr rocksdict
    python python/benches/rows.py                    # 2 GiB of 512-byte rows, 160 MiB of DRAM

Ways take turns, each in a process and a memory cgroup of its own, which needs root. The limit is the
budget plus the interpreter's memory before. Ebbtide and RocksDB get the budget for their caches: all of
it, and half of it with 32 MiB of write buffers. Every round scatters rows and gathers others, by one
thread or by four that share the rows of a round. The rows of the first gather are compared.
"""

from __future__ import annotations

import argparse
import importlib
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from gather import Cgroup, drop_cached, make, mebibytes

Gather = Callable[[np.ndarray], np.ndarray]
Scatter = Callable[[np.ndarray, np.ndarray], None]


@contextmanager
def ebbtide_way(path: Path, dram: int) -> Iterator[tuple[Gather, Scatter]]:
    import ebbtide

    with ebbtide.open(path, dram, mode="r+") as array:
        yield array.__getitem__, array.__setitem__


@contextmanager
def memmap_way(path: Path, dram: int) -> Iterator[tuple[Gather, Scatter]]:
    data = np.load(path, mmap_mode="r+")
    yield data.__getitem__, data.__setitem__


@contextmanager
def zarr_way(path: Path, dram: int) -> Iterator[tuple[Gather, Scatter]]:
    import zarr

    data = zarr.open_array(str(path), mode="r+")

    def scatter(indices: np.ndarray, rows: np.ndarray) -> None:
        # It takes each index once. All rows of a round are alike.
        each, first = np.unique(indices, return_index=True)
        data.oindex[(each, slice(None))] = rows[first]

    yield lambda indices: data.oindex[(indices, slice(None))], scatter


@contextmanager
def rocksdb_way(path: Path, dram: int) -> Iterator[tuple[Gather, Scatter]]:
    import rocksdict

    options = rocksdict.Options(raw_mode=True)
    options.set_write_buffer_size(16 << 20)
    options.set_max_write_buffer_number(2)
    tables = rocksdict.BlockBasedOptions()
    tables.set_block_cache(rocksdict.Cache(dram // 2))
    tables.set_bloom_filter(10, False)
    options.set_block_based_table_factory(tables)
    store = rocksdict.Rdict(str(path), options)

    def gather(indices: np.ndarray) -> np.ndarray:
        keys = [key.tobytes() for key in indices.astype(">u8")]
        return np.frombuffer(b"".join(store[keys]), np.uint8).reshape(indices.size, -1)

    def scatter(indices: np.ndarray, rows: np.ndarray) -> None:
        batch = rocksdict.WriteBatch(raw_mode=True)
        for key, row in zip(indices.astype(">u8"), rows):
            batch.put(key.tobytes(), row.tobytes())
        store.write(batch)

    yield gather, scatter
    store.close()


WAYS: dict[str, Any] = {
    "ebbtide": ebbtide_way, "memmap": memmap_way, "zarr": zarr_way, "rocksdb": rocksdb_way,
}

#: Ways that are fast enough for all rows of a round.
ALIKE = ("ebbtide", "memmap")

#: What a way imports, which is not part of its budget.
MODULES = {"ebbtide": ["ebbtide"], "zarr": ["zarr"], "rocksdb": ["rocksdict"]}


def place_of(way: str, path: Path) -> Path:
    return path.with_suffix(f".rows-{way}")


def copy(way: str, path: Path) -> None:
    """Makes the data of a way."""
    place, data = place_of(way, path), np.load(path, mmap_mode="r")
    if place.is_dir():
        shutil.rmtree(place)
    if way == "zarr":
        import zarr

        # A chunk is a file. Smaller ones need too many files.
        chunks = (64, data.shape[1])
        array = zarr.create_array(
            str(place), shape=data.shape, dtype=data.dtype, chunks=chunks,
            compressors=None, filters=None,
        )
        for first in range(0, len(data), 1 << 16):
            array[first : first + (1 << 16)] = data[first : first + (1 << 16)]
    elif way == "rocksdb":
        with rocksdb_way(place, 256 << 20) as (_, scatter):
            for first in range(0, len(data), 1 << 14):
                part = data[first : first + (1 << 14)]
                scatter(np.arange(first, first + len(part)), part)
    else:
        shutil.copyfile(path, place)


def child(way: str, path: Path, dram: int, threads: int) -> None:
    for module in MODULES.get(way, []):
        importlib.import_module(module)
    own = int(Path("/proc/self/statm").read_text().split()[1]) * 4096
    group = Cgroup.made(dram + own)
    group.join()
    print(group.path, flush=True)
    with WAYS[way](place_of(way, path), dram) as (gather, scatter), ThreadPoolExecutor(threads) as pool:
        for line in sys.stdin:
            action, name, seed = line.split()
            parts = np.array_split(np.fromfile(name, np.int64), threads)
            rows = [np.full((part.size, 512), int(seed), np.uint8) for part in parts]
            begun = time.perf_counter()
            if action == "scatter":
                list(pool.map(scatter, parts, rows))
                found = 0
            else:
                found = sum(int(part.sum(dtype=np.uint64)) for part in pool.map(gather, parts))
            print(time.perf_counter() - begun, found, flush=True)


class Process:
    """A way, as a process that answers."""

    def __init__(self, way: str, arguments: argparse.Namespace, threads: int) -> None:
        command = [sys.executable, __file__, "--file", arguments.file, "--child", way]
        command += ["--dram", arguments.dram >> 20, "--threads", threads]
        self.process = subprocess.Popen(
            list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.group = Cgroup(Path(self.process.stdout.readline().strip()))
        self.indices = arguments.file.with_suffix(".indices")

    def ask(self, action: str, indices: np.ndarray, seed: int) -> tuple[float, int] | None:
        """Returns the seconds of an action, and the sum of what it has gathered.

        `None` if the process has died, for example of too little memory.
        """
        assert self.process.stdin is not None and self.process.stdout is not None
        indices.astype(np.int64).tofile(self.indices)
        try:
            self.process.stdin.write(f"{action} {self.indices} {seed}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return None
        answer = self.process.stdout.readline().split()
        return (float(answer[0]), int(answer[1])) if answer else None

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()
        self.group.remove()


def compare(draw: Callable[[int], np.ndarray], arguments: argparse.Namespace, threads: int) -> None:
    ways = arguments.ways.split(",")
    for way in ways:
        drop_cached(arguments.file)
    processes = {way: Process(way, arguments, threads) for way in ways}
    rates: dict[tuple[str, str], list[float]] = {}
    try:
        for number in range(arguments.rounds + arguments.warm):
            for action in ("scatter", "gather"):
                answers = {}
                indices = draw(arguments.count)
                for way, process in list(processes.items()):
                    own = indices if way in ALIKE else indices[: arguments.slow_count]
                    answer = process.ask(action, own, number)
                    if answer is None:
                        processes.pop(way).end()
                        print(f"{way}: died, for example of too little memory")
                        continue
                    if number >= arguments.warm:
                        rates.setdefault((way, action), []).append(own.size / answer[0])
                    answers[way] = answer[1]
                # These ways have scattered the same rows.
                assert len({answers[way] for way in ALIKE if way in answers}) <= 1, answers
    finally:
        for process in processes.values():
            process.end()
    for action in ("gather", "scatter"):
        base = rates.get((ways[0], action), [])
        for way in [way for way in ways if (way, action) in rates and base]:
            found = rates[way, action]
            ratio = statistics.median(a / b for a, b in zip(base, found))
            line = f"{statistics.median(found) / 1e3:9.1f} ({min(found) / 1e3:.1f}–{max(found) / 1e3:.1f})"
            print(f"{action:8} {way:8} {line:>28} K rows/s   {ways[0]} {ratio:.2f} ×")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--file", type=Path, default=Path("rows.npy"))
    parser.add_argument("--size", type=mebibytes, default=2048 << 20, help="MiB of data")
    parser.add_argument("--dram", type=mebibytes, default=160 << 20, help="MiB of DRAM")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warm", type=int, default=2, help="rounds that fill the caches first")
    parser.add_argument("--count", type=int, default=40_000, help="rows a round")
    parser.add_argument("--slow-count", type=int, default=2_000, help="rows a round of zarr and rocksdb")
    parser.add_argument("--ways", default=",".join(WAYS), help="some of the ways")
    parser.add_argument("--threads", type=int, help="one number of threads only")
    parser.add_argument("--child")
    arguments = parser.parse_args()
    if arguments.child:
        return child(arguments.child, arguments.file, arguments.dram, arguments.threads)
    rows = arguments.size // 512
    make(arguments.file, rows, 512)
    for way in arguments.ways.split(","):
        # A process of its own, because mapped pages stay in DRAM.
        script = "import sys; from pathlib import Path; import rows; rows.copy(sys.argv[1], Path(sys.argv[2]))"
        command = [sys.executable, "-c", script, way, str(arguments.file.absolute())]
        subprocess.run(command, check=True, cwd=Path(__file__).parent)
    random = np.random.default_rng(2)
    shares = np.cumsum(1 / np.arange(1, rows + 1) ** 0.99)
    shares /= shares[-1]
    order = random.permutation(rows)
    draws: dict[str, Callable[[int], np.ndarray]] = {
        "uniform": lambda count: random.integers(0, rows, count),
        "Zipf 0.99": lambda count: order[np.searchsorted(shares, random.random(count))],
    }
    for threads in [arguments.threads] if arguments.threads else [1, 4]:
        for name, draw in draws.items():
            print(f"\n{name}, {threads} threads: {rows} rows of 512 bytes, "
                  f"{arguments.dram >> 20} MiB of DRAM", flush=True)
            compare(draw, arguments, threads)


if __name__ == "__main__":
    main()
