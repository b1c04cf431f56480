"""Gathers rows of an array larger than DRAM in several ways, in turns, and prints rows a second.

    python python/benches/gather.py                  # 2 GiB of 512-byte rows, 192 MiB of DRAM

Each way runs in a separate process and memory cgroup, which needs root. The limit of ways that use the
page cache and of Ebbtide is the budget plus the interpreter's memory before. The peak of a group is
printed: memory of the process with the rows of a gather and the page cache, less the interpreter's
memory before. The rows of the first gather are compared with the expected ones.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import shutil
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
THREADS = 32
OF_PAGE_CACHE = ("memmap", "memmap, random advice", f"memmap, {THREADS} threads", "arrow", "lance")


def built(bench: str) -> str:
    """Builds a bench of the engine and returns its path."""
    build = ["cargo", "bench", "--no-run", "-p", "ebbtide-engine", "--bench", bench]
    build += ["--message-format", "json"]
    said = subprocess.run(build, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    messages = (json.loads(line) for line in said.splitlines())
    return next(path for message in messages if (path := message.get("executable")))


def mebibytes(text: str) -> int:
    return int(text) << 20


def make(path: Path, rows: int, row_bytes: int) -> None:
    """Rows of random bytes, unless they are there already."""
    header = np.lib.format.open_memmap
    if path.exists() and path.stat().st_size > rows * row_bytes:
        return
    data = header(path, mode="w+", dtype=np.uint8, shape=(rows, row_bytes))
    random, step = np.random.default_rng(1), 1 << 14
    for first in range(0, rows, step):
        data[first : first + step] = random.integers(
            0, 256, (min(step, rows - first), row_bytes), dtype=np.uint8
        )
    data.flush()


def copied(path: Path, way: str) -> Path:
    """The copy of the rows at `path` for `way`."""
    return path.with_suffix(f".{way.replace(', ', '-').replace(' ', '-')}.npy")


def drop_cached(path: Path) -> None:
    """Takes the files of all ways out of the page cache, where a process before has left them."""
    beside = [*path.parent.glob(f"{path.stem}.*"), *path.with_suffix(".lance").rglob("*")]
    for one in filter(Path.is_file, beside):
        with one.open("rb") as file:
            os.fdatasync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class Cgroup:
    """A memory cgroup of version 1 or 2."""

    ONE = Path("/sys/fs/cgroup/memory")

    def __init__(self, path: Path) -> None:
        self.two = not Cgroup.ONE.exists()
        self.path = path

    @staticmethod
    def made(limit: int | None) -> Cgroup:
        root = Cgroup.ONE if Cgroup.ONE.exists() else Path("/sys/fs/cgroup")
        group = Cgroup(root / f"ebbtide-gather-{os.getpid()}")
        group.path.mkdir()
        if limit is not None:
            name = "memory.max" if group.two else "memory.limit_in_bytes"
            (group.path / name).write_text(str(limit))
        return group

    def join(self) -> None:
        (self.path / "cgroup.procs").write_text("0")

    def peak_bytes(self) -> int:
        """Returns the most bytes that the group was charged."""
        name = "memory.peak" if self.two else "memory.max_usage_in_bytes"
        return int((self.path / name).read_text())

    def remove(self) -> None:
        for _ in range(50):
            try:
                return self.path.rmdir()
            except OSError:
                time.sleep(0.1)


def gatherer(way: str, path: Path, dram: int):
    """A function that gathers indices by `way`."""
    if way == "ebbtide":
        import ebbtide

        array = ebbtide.open(path, dram=dram)
        return lambda indices: array[indices]
    if way in ("arrow", "lance"):
        return table_gatherer(way, path)
    data = np.load(copied(path, way), mmap_mode="r")
    if way == "memmap":
        return lambda indices: data[indices]
    data._mmap.madvise(mmap.MADV_RANDOM)
    if "threads" not in way:
        return lambda indices: data[indices]
    pool = ThreadPoolExecutor(THREADS)

    def gather(indices):
        out = np.empty((indices.size, data.shape[1]), np.uint8)
        places = np.linspace(0, indices.size, THREADS + 1, dtype=int)

        def some(number: int) -> None:
            part = slice(places[number], places[number + 1])
            # Faults of different threads overlap: `take` releases the interpreter's lock.
            np.take(data, indices[part].astype(np.int64), axis=0, out=out[part], mode="clip")

        list(pool.map(some, range(THREADS)))
        return out

    return gather


def table_gatherer(way: str, path: Path):
    import pyarrow as pa

    data = np.load(path, mmap_mode="r")
    kind = pa.binary(data.shape[1])
    beside = path.with_suffix(f".{way}")
    if way == "lance":
        import lance

        if not beside.exists():
            schema = pa.schema({"row": kind})
            lance.write_dataset(batches(data, schema), beside, schema=schema)
        dataset = lance.dataset(str(beside))
        return lambda indices: rows_of(dataset.take(indices)["row"], data.shape[1])
    if not beside.exists():
        schema = pa.schema({"row": kind})
        with pa.ipc.new_file(str(beside), schema) as writer:
            # One batch: `take` of several copies all of them together first.
            for batch in batches(data, schema, len(data)):
                writer.write(batch)
    column = pa.ipc.open_file(pa.memory_map(str(beside))).get_batch(0).column(0)
    return lambda indices: rows_of(column.take(pa.array(indices)), data.shape[1])


def batches(data, schema, rows: int = 1 << 16):
    import pyarrow as pa

    for first in range(0, len(data), rows):
        part = np.ascontiguousarray(data[first : first + rows])
        buffers = [None, pa.py_buffer(part)]
        array = pa.FixedSizeBinaryArray.from_buffers(schema[0].type, len(part), buffers)
        yield pa.record_batch([array], schema=schema)


def rows_of(column, row_bytes: int):
    joined = column.combine_chunks() if hasattr(column, "chunks") else column
    buffer = np.frombuffer(joined.buffers()[1], np.uint8)
    return buffer[joined.offset * row_bytes :][: len(joined) * row_bytes]


def child(way: str, path: Path, dram: int) -> None:
    if way == "ebbtide":
        import ebbtide  # noqa: F401
    # This only maps files. Ebbtide allocates its budget in the group.
    gather = None if way == "ebbtide" else gatherer(way, path, dram)
    # The interpreter itself is not part of the budget.
    own = int(Path("/proc/self/statm").read_text().split()[1]) * 4096
    group = Cgroup.made(dram + own)
    group.join()
    gather = gather or gatherer(way, path, dram)
    print(group.path, flush=True)
    for line in sys.stdin:
        indices = np.fromfile(line.strip(), np.uint64)
        begun, cpu = time.perf_counter(), time.process_time()
        rows = gather(indices)
        seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
        print(seconds, cpu, int(rows.sum(dtype=np.uint64)), flush=True)
        # Frees the rows before the next gather.
        del rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--file", type=Path, default=Path("gather.npy"))
    parser.add_argument("--size", type=mebibytes, default=2048 << 20, help="MiB of data")
    parser.add_argument("--dram", type=mebibytes, default=192 << 20, help="MiB of DRAM")
    parser.add_argument("--row-bytes", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=40_000, help="rows a gather")
    parser.add_argument("--slow-count", type=int, default=2_000, help="rows of the slow ways")
    parser.add_argument("--ways", default="", help="some of the ways, with ';' between them")
    parser.add_argument("--draw", choices=["uniform", "Zipf 0.99"], help="one draw only")
    parser.add_argument("--child")
    arguments = parser.parse_args()
    if arguments.child:
        return child(arguments.child, arguments.file, arguments.dram)
    rows = arguments.size // arguments.row_bytes
    make(arguments.file, rows, arguments.row_bytes)
    plain = built("plain_gather")
    own = [sys.executable, __file__, "--file", arguments.file, "--dram", arguments.dram >> 20]
    own = [str(part) for part in own]
    ways = {
        "io_uring alone": [plain, arguments.file, 128, arguments.row_bytes, 128],
        **{way: [*own, "--child", way] for way in ("ebbtide", *OF_PAGE_CACHE)},
    }
    if arguments.ways:
        ways = {way: ways[way] for way in arguments.ways.split(";")}
    for way in filter(lambda way: way.startswith("memmap"), ways):
        # A separate file, because a mapping can use pages that another mapping has fetched.
        if not copied(arguments.file, way).exists():
            shutil.copyfile(arguments.file, copied(arguments.file, way))
    for way in ("arrow", "lance"):
        # A separate process writes the file, because mapped pages stay in DRAM.
        if way in ways and not arguments.file.with_suffix(f".{way}").exists():
            making = [*own, "--child", way]
            subprocess.run(
                making, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False
            )
    random, data = np.random.default_rng(2), np.load(arguments.file, mmap_mode="r")
    ranks = 1 / np.arange(1, rows + 1) ** 0.99
    shares = np.cumsum(ranks) / ranks.sum()
    order = random.permutation(rows)
    draws = {
        "uniform": lambda count: random.integers(0, rows, count),
        "Zipf 0.99": lambda count: order[np.searchsorted(shares, random.random(count))],
    }
    for name, draw in draws.items():
        if arguments.draw not in (None, name):
            continue
        print(f"\n{name}: {rows} rows of {arguments.row_bytes} bytes, "
              f"{arguments.dram >> 20} MiB of DRAM, {arguments.count} rows a gather")
        compare(ways, draw, data, arguments)


def compare(ways, draw, data, arguments) -> None:
    processes, groups, found = {}, {}, {way: [] for way in ways}
    path = arguments.file.with_suffix(".indices")

    def ask(way: str, indices) -> list[str]:
        """Returns seconds, CPU seconds and the sum of the bytes; nothing if the process died."""
        indices.tofile(path)
        try:
            processes[way].stdin.write(f"{path}\n")
            processes[way].stdin.flush()
        except BrokenPipeError:
            return []
        return processes[way].stdout.readline().split()

    for way, command in ways.items():
        drop_cached(arguments.file)
        alone = way == "io_uring alone"
        if alone:
            groups[way] = Cgroup.made(None)
        processes[way] = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=groups[way].join if alone else None,
        )
        if not alone:
            said = processes[way].stdout.readline().strip()
            if said:
                groups[way] = Cgroup(Path(said))
            else:
                del processes[way]
                print(f"{way}: left out")
    try:
        # The first rounds fill the caches.
        for number in range(arguments.rounds + 2):
            for way in list(processes):
                slow = way in OF_PAGE_CACHE and "threads" not in way
                count = arguments.slow_count if slow else arguments.count
                indices = draw(count).astype(np.uint64)
                answer = ask(way, indices)
                if answer and number == 0:
                    some = indices[:200]
                    expected = int(data[some].sum(dtype=np.uint64))
                    answer = ask(way, some)
                    assert not answer or int(answer[2]) == expected, way
                if not answer:
                    processes.pop(way).wait()
                    print(f"{way}: died, for example of too little memory")
                elif number >= 2:
                    seconds, cpu, _ = answer
                    found[way].append((count / float(seconds), float(cpu) / count * 1e6))
    finally:
        for process in processes.values():
            process.stdin.close()
            process.wait()
            process.stdout.close()
        peaks = {way: group.peak_bytes() for way, group in groups.items()}
        for group in groups.values():
            group.remove()
    base = found.get("io_uring alone")
    rows = arguments.count * arguments.row_bytes >> 20
    print(f"MiB: the most charged, of {arguments.dram >> 20} and {rows} for the rows of a gather")
    print(f"{'way':24} {'K rows/s':>22} {'CPU µs a row':>13} {'MiB':>6}  of io_uring alone")
    for way, rounds in found.items():
        if not rounds:
            continue
        rates = sorted(rate / 1e3 for rate, _ in rounds)
        cpu = statistics.median(cpu for _, cpu in rounds)
        ratios = sorted(a / b for (a, _), (b, _) in zip(rounds, base)) if base else [float("nan")]
        span = f"{statistics.median(rates):.1f} ({rates[0]:.1f}–{rates[-1]:.1f})"
        ratio = f"{statistics.median(ratios):.2f} ({ratios[0]:.2f}–{ratios[-1]:.2f})"
        print(f"{way:24} {span:>22} {cpu:13.1f} {peaks[way] >> 20:6}  {ratio}")


if __name__ == "__main__":
    main()
