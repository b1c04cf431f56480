"""Times an epoch over a graph shaped like ogbn-papers100M, with its features in DRAM and on flash.

    python python/benches/epoch.py                   # 3 GB of features, 19% of them in DRAM

The graph is a configuration model. Citations of a node follow a power law with the exponent 3.16
(Clauset, Shalizi and Newman 2009). Its references are log-normal. Both have the mean of
papers100M, 14.55, and an edge is used in both directions. A node has 128 features of float32.
Mini-batches sample 15, 10 and 5 neighbours a step, as GraphSAGE does, from 1.09% of the nodes. The
mean of each step's features is the work of a batch.

A second thread gathers the features of the next batch, in every way. Ways take turns, each in a
process and a memory cgroup of its own, which needs root. The limit is the peak of the process
without features, plus the share of the features, plus 64 MiB. Batches of different ways are equal,
and so must be their results. The drive limits an epoch whose pages need more time than its work:
compare the pages that are read with the drive's random reads a second.

A batch of 1,024 seeds is a far larger part of 6 million nodes than of papers100M. With 56 seeds it
is the same part.
"""

from __future__ import annotations

import argparse
import mmap
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gather import Cgroup, copied, drop_cached

Array = np.ndarray[Any, Any]
Gather = Callable[[Array, Array], None]

WIDTH = 128
FANOUT = (15, 10, 5)
#: Edges of a node of papers100M: 1,615,685,872 of 111,059,956 nodes.
EDGES = 14.55
#: Training nodes of papers100M: 1,207,179.
TRAINED = 0.0109
SLACK = 64 << 20

WAYS = ("memory", "ebbtide", "memmap", "memmap, random advice")


def degrees(nodes: int, random: np.random.Generator) -> Array:
    """Citations and references of each node."""
    exponent, sigma = 3.16, 0.9
    cited = EDGES * (exponent - 2) * random.pareto(exponent - 1, nodes)
    cites = random.lognormal(np.log(EDGES) - sigma**2 / 2, sigma, nodes)
    found = np.maximum(np.rint(cited) + np.rint(cites), 1).astype(np.int64)
    return np.minimum(found, nodes - 1)


def make(folder: Path, nodes: int, by_degree: bool) -> None:
    """The graph and the features, unless they are there already."""
    if (folder / "made").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(1)
    degree = degrees(nodes, random)
    if by_degree:
        degree = np.sort(degree)[::-1]
    first = np.concatenate([[0], np.cumsum(degree)])
    np.save(folder / "first.npy", first)
    targets = np.repeat(np.arange(nodes, dtype=np.int32), degree)
    random.shuffle(targets)
    np.save(folder / "targets.npy", targets)
    data = np.lib.format.open_memmap(folder / "features.npy", "w+", np.float32, (nodes, WIDTH))
    for start in range(0, nodes, 1 << 16):
        part = data[start : start + (1 << 16)]
        part[:] = random.random(part.shape, np.float32)
    data.flush()
    hot = np.sort(degree)[::-1][: int(nodes * 0.19)].sum() / degree.sum()
    said = (
        f"{nodes:,} nodes, {targets.size:,} neighbours, at most {degree.max():,} of a node; "
        f"the 19% of nodes with most are {hot:.0%} of the neighbours"
    )
    (folder / "made").write_text(said)


class Batch:
    """Seeds with their sampled neighbours by step, as places among the needed nodes."""

    def __init__(self, first: Array, targets: Array, seeds: Array, number: int) -> None:
        random = np.random.default_rng([7, number])
        steps = [seeds]
        for fanout in FANOUT:
            nodes = steps[-1]
            begin, degree = first[nodes], first[nodes + 1] - first[nodes]
            chosen = (random.random((nodes.size, fanout)) * degree[:, None]).astype(np.int64)
            steps.append(targets[begin[:, None] + chosen].reshape(-1))
        self.needed, places = np.unique(np.concatenate(steps), return_inverse=True)
        self.needed = self.needed.astype(np.int64)
        sizes = np.cumsum([step.size for step in steps])[:-1]
        self.steps = np.split(places.astype(np.int32), sizes)

    def aggregate(self, features: Array) -> float:
        """Takes the mean of each step for each seed. Returns the sum of all."""
        found, seeds = 0.0, self.steps[0].size
        for step in self.steps:
            near = step.reshape(seeds, -1)
            # Some seeds at a time, whose features fit a cache.
            count = max(1, 4096 // near.shape[1])
            for start in range(0, seeds, count):
                means = features[near[start : start + count]].mean(axis=1)
                found += float(means.sum(dtype=np.float64))
        return found


def gatherer(way: str, folder: Path, dram: int) -> tuple[Gather, Callable[[], int]]:
    """Returns a function that gathers rows into an array, and one of the pages read so far."""
    path = folder / "features.npy"
    if way == "nothing":
        return lambda rows, out: out.fill(0), lambda: 0
    if way == "ebbtide":
        import ebbtide

        array = ebbtide.open(path, dram)
        return array.take, lambda: array.counters()["misses"]
    if way == "memory":
        # Not `numpy.load`, so that no second copy stays in the page cache of the group.
        data = np.empty(np.load(path, mmap_mode="r").shape, np.float32)
        with path.open("rb", buffering=0) as file:
            file.seek(path.stat().st_size - data.nbytes)
            whole, start = memoryview(data).cast("B"), 0
            while start < len(whole):
                start += file.readinto(whole[start : start + (1 << 24)])
    else:
        data = np.load(copied(path, way), mmap_mode="r")
        if "random" in way:
            data._mmap.madvise(mmap.MADV_RANDOM)
    # `take` with a mode releases the interpreter's lock.
    return lambda rows, out: data.take(rows, axis=0, out=out, mode="clip"), read_by_faults


class Epoch:
    """The work of a way, with a gather of the next batch in a second thread."""

    def __init__(self, way: str, folder: Path, dram: int, seeds: int) -> None:
        self.graph = np.load(folder / "first.npy"), np.load(folder / "targets.npy")
        nodes = self.graph[0].size - 1
        trained = np.random.default_rng(3).permutation(nodes)[: int(nodes * TRAINED)]
        self.seeds = np.array_split(trained, max(1, trained.size // seeds))
        self.gather, self.pages = gatherer(way, folder, dram)
        self.pool = ThreadPoolExecutor(1)
        self.buffers = [np.empty((0, WIDTH), np.float32)] * 2
        self.rows = 0

    def draw(self, number: int) -> Batch:
        return Batch(*self.graph, self.seeds[number % len(self.seeds)], number)

    def start(self, batch: Batch, number: int) -> tuple[Batch, Array, Future[None]]:
        """Begins to gather the features of a batch. Two batches have a buffer at a time."""
        count = batch.needed.size
        if self.buffers[number % 2].shape[0] < count:
            self.buffers[number % 2] = np.empty((count * 9 // 8, WIDTH), np.float32)
        into = self.buffers[number % 2][:count]
        self.rows += count
        return batch, into, self.pool.submit(self.gather, batch.needed, into)

    def run(self, begin: int, end: int) -> list[float]:
        """Returns the results of the batches from `begin` to `end`."""
        found, running, drawn = [], self.start(self.draw(begin), begin), self.draw(begin + 1)
        for number in range(begin, end):
            batch, features, gathered = running
            gathered.result()
            if number + 1 < end:
                running = self.start(drawn, number + 1)
            found.append(batch.aggregate(features))
            if number + 2 < end:
                drawn = self.draw(number + 2)
        return found


def read_by_faults() -> int:
    """Returns the 4 KiB of this process's reads from the device."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) >> 12 for line in lines if line.startswith("read_bytes"))


def peak_bytes() -> int:
    """Returns the most memory that this process has had."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


def child(way: str, arguments: argparse.Namespace) -> None:
    """Answers lines with the first and the last batch of a round."""
    group = Cgroup.made(arguments.limit or None)
    group.join()
    epoch = Epoch(way, arguments.folder, arguments.dram, arguments.seeds)
    print(group.path, len(epoch.seeds), flush=True)
    for line in sys.stdin:
        begin, end = map(int, line.split())
        rows, pages, begun = epoch.rows, epoch.pages(), time.perf_counter()
        found = epoch.run(begin, end)
        seconds = time.perf_counter() - begun
        rows, pages = epoch.rows - rows, epoch.pages() - pages
        print(seconds, rows, pages, peak_bytes(), *found, flush=True)


@dataclass(frozen=True)
class Answer:
    """What a way did in a turn."""

    seconds: float
    rows: int
    pages: int
    peak: int
    found: list[float]


class Process:
    """A way, as a process that answers."""

    def __init__(self, way: str, arguments: argparse.Namespace, limit: int) -> None:
        drop_cached(arguments.folder / "features.npy")
        command = [sys.executable, __file__, "--folder", arguments.folder, "--child", way]
        command += ["--dram", arguments.dram, "--seeds", arguments.seeds, "--limit", limit]
        self.process = subprocess.Popen(
            list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        said = self.process.stdout.readline().rsplit(maxsplit=1)
        self.group, self.batches = Cgroup(Path(said[0])), int(said[1])

    def ask(self, begin: int, end: int) -> Answer | None:
        """Runs the batches from `begin` to `end`. Returns `None` if the process died."""
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.write(f"{begin} {end}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return None
        answer = self.process.stdout.readline().split()
        if not answer:
            return None
        seconds, rows, pages, peak, *found = answer
        return Answer(
            float(seconds), int(rows), int(pages), int(peak), list(map(float, found))
        )

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()
        self.group.remove()


def own_bytes(arguments: argparse.Namespace) -> int:
    """Returns the peak of a process that aggregates without features."""
    process = Process("nothing", arguments, 0)
    answer = process.ask(0, 3)
    process.end()
    assert answer is not None
    return answer.peak


def compare(arguments: argparse.Namespace) -> None:
    own = own_bytes(arguments)
    limit = own + arguments.dram + SLACK
    print(f"{arguments.seeds} seeds a batch; DRAM: {arguments.dram >> 20} MiB for features, "
          f"{own >> 20} MiB for the rest, limit {limit >> 20} MiB", flush=True)
    ways = arguments.ways.split(";")
    processes = {
        way: Process(way, arguments, 0 if way == "memory" else limit) for way in ways
    }
    batches = min(process.batches for process in processes.values())
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    pages: dict[str, list[float]] = {way: [] for way in ways}
    try:
        rounds = range(0, min(batches, arguments.most) - arguments.round + 1, arguments.round)
        for number, begin in enumerate(rounds):
            expected: list[float] = []
            for way, process in list(processes.items()):
                slow = way.startswith("memmap")
                if slow and number >= arguments.slow_rounds + arguments.warm:
                    continue
                end = begin + (arguments.slow_batches if slow else arguments.round)
                answer = process.ask(begin, end)
                if answer is None:
                    processes.pop(way).end()
                    print(f"{way}: died, for example of too little memory")
                    continue
                expected = expected or answer.found
                assert answer.found == expected[: end - begin], f"{way}: wrong features"
                count = end - begin
                if number >= arguments.warm:
                    seconds[way].append(answer.seconds / count)
                    pages[way].append(answer.pages / count)
                print(f"  {begin}: {way}: {answer.seconds / count:.2f} s, {answer.rows // count:,} "
                      f"rows, {answer.pages // count:,} pages a batch", file=sys.stderr, flush=True)
    finally:
        for process in processes.values():
            process.end()
    print(f"{'way':22} {'s a batch':>22} {'pages read':>11} {'s an epoch':>11}  of {ways[0]}")
    for way in filter(seconds.get, ways):
        found = seconds[way]
        ratios = sorted(a / b for a, b in zip(found, seconds[ways[0]]))
        span = f"{statistics.median(found):.3f} ({min(found):.3f}–{max(found):.3f})"
        epoch = statistics.mean(found) * batches
        ratio = f"{statistics.median(ratios):.2f} ({ratios[0]:.2f}–{ratios[-1]:.2f})"
        read = statistics.median(pages[way])
        print(f"{way:22} {span:>22} {read:11,.0f} {epoch:11.0f}  {ratio}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("epoch"), help="of graph and features")
    parser.add_argument("--nodes", type=int, default=6_000_000)
    parser.add_argument("--share", type=float, default=0.19, help="of the features in DRAM")
    parser.add_argument("--seeds", type=int, default=1024, help="a batch")
    parser.add_argument("--by-degree", action="store_true", help="numbers nodes by their degree")
    parser.add_argument("--round", type=int, default=8, help="batches a turn")
    parser.add_argument("--warm", type=int, default=1, help="turns before those that count")
    parser.add_argument("--most", type=int, default=1 << 30, help="batches of an epoch that run")
    parser.add_argument("--slow-batches", type=int, default=1, help="a turn of memmap")
    parser.add_argument("--slow-rounds", type=int, default=3, help="turns of memmap that count")
    parser.add_argument("--ways", default=";".join(WAYS), help="some of the ways")
    parser.add_argument("--dram", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--limit", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--child")
    arguments = parser.parse_args()
    if arguments.child:
        return child(arguments.child, arguments)
    make(arguments.folder, arguments.nodes, arguments.by_degree)
    features = arguments.folder / "features.npy"
    for way in arguments.ways.split(";"):
        # A file of its own: a mapping can use pages that another has fetched.
        if way.startswith("memmap") and not copied(features, way).exists():
            shutil.copyfile(features, copied(features, way))
    arguments.dram = int(features.stat().st_size * arguments.share)
    print((arguments.folder / "made").read_text())
    compare(arguments)


if __name__ == "__main__":
    main()
