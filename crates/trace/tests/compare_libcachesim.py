"""Compares the misses of a trace's pages with those that libCacheSim counts.

    pip install libcachesim==0.3.5 numpy
    python3 crates/trace/tests/compare_libcachesim.py TRACE [PAGES…]

TRACE has any format that Ebbtide reads, and PAGES are sizes of caches (64, 256 and 1,024 unless
given). Prints a line for each policy and size: Ebbtide's misses, libCacheSim's, and the difference.
Policies that only one of them has are printed without a difference. Ends with status 1 if LRU,
FIFO or CLOCK differ by a miss. The counts in libcachesim.rs are from here.
"""

import array
import pathlib
import subprocess
import sys
import tempfile

import libcachesim

ROOT = pathlib.Path(__file__).resolve().parents[3]
EXACT = {"lru": libcachesim.LRU, "fifo": libcachesim.FIFO, "clock": libcachesim.Clock}
THEIRS = {
    **EXACT,
    "s3-fifo": libcachesim.S3FIFO,
    "arc": libcachesim.ARC,
    "lirs": libcachesim.LIRS,
    "sieve": libcachesim.Sieve,
}


def ours(trace, sizes, pages_file):
    """Returns Ebbtide's misses by policy and size, and writes the pages to pages_file."""
    bench = ["cargo", "bench", "--quiet", "-p", "ebbtide-trace"]
    bench += ["--bench", "policy_misses", "--", trace, *map(str, sizes)]
    bench += ["--pages", pages_file]
    said = subprocess.run(bench, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    rows = (line.split() for line in said.splitlines())
    return {(policy, int(size)): int(misses) for policy, size, misses in rows}


def theirs(policy, size, pages):
    """Returns the misses that libCacheSim counts."""
    cache, request, misses = policy(size), libcachesim.Request(), 0
    request.obj_size = 1
    for clock, page in enumerate(pages):
        request.clock_time = clock
        request.obj_id = page
        misses += not cache.get(request)
    return misses


def main(trace, sizes):
    with tempfile.TemporaryDirectory() as folder:
        pages_file = f"{folder}/pages"
        own = ours(str(pathlib.Path(trace).resolve()), sizes, pages_file)
        pages = array.array("Q", pathlib.Path(pages_file).read_bytes())
    differ = False
    print(f"{'policy':12} {'pages':>10} {'Ebbtide':>12} {'libCacheSim':>12}")
    for policy in dict.fromkeys([*THEIRS, *(policy for policy, _ in own)]):
        for size in sizes:
            mine = own.get((policy, size))
            their = theirs(THEIRS[policy], size, pages) if policy in THEIRS else None
            cells = ["–" if count is None else str(count) for count in (mine, their)]
            apart = f" {mine / their - 1:+.2%}" if mine and their else ""
            print(f"{policy:12} {size:10} {cells[0]:>12} {cells[1]:>12}{apart}")
            differ |= policy in EXACT and mine != their
    return differ


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], [int(size) for size in sys.argv[2:]] or [64, 256, 1024]))
