"""Flash as memory: models of published systems, sizing, and arrays on flash.

    import ebbtide

    run = ebbtide.simulate("astriflash", scale="1/64")
    run.ratio_to_dram                     # throughput over that of DRAM-only
    ebbtide.compare("tatp").plot()        # every design on the same work
    ebbtide.size(trace="accesses.ebt", slo="1ms").to_polars()

    features = ebbtide.open("features.npy", dram="1GiB")
    features[indices]                     # gathers rows of an array far larger than DRAM
    ebbtide.create("rows.npy", (10**9, 128), "f4")[indices] = rows   # changes them
    ebbtide.Store("kept")["key"] = b"value"   # a dictionary that survives crashes

Results equal those of the `ebbtide` command, which runs the same code.
"""

from ._array import Array, create, open
from ._config import Config
from ._embedding import EmbeddingTable
from ._errors import Error, IndexingError, InputError, MissingFileError, RunError
from ._models import (
    Comparison,
    MissRatioCurve,
    Reproduction,
    Simulation,
    Sizing,
    compare,
    designs,
    miss_ratio_curve,
    mrc,
    reproduce,
    simulate,
    size,
    workloads,
)
from ._native import VERSION as __version__
from ._policy import Prefetcher, Replacement
from ._progress import Progress
from ._result import Charts, Record, Result
from ._store import Map, OrderedMap, Store, Transaction
from ._sweep import Sweep, run_point
from ._trace import Trace

__all__ = [
    "Array",
    "Charts",
    "Comparison",
    "Config",
    "EmbeddingTable",
    "Error",
    "IndexingError",
    "InputError",
    "MissingFileError",
    "Map",
    "MissRatioCurve",
    "OrderedMap",
    "Prefetcher",
    "Progress",
    "Record",
    "Replacement",
    "Reproduction",
    "Result",
    "RunError",
    "Simulation",
    "Sizing",
    "Store",
    "Sweep",
    "Trace",
    "Transaction",
    "__version__",
    "compare",
    "create",
    "designs",
    "miss_ratio_curve",
    "mrc",
    "open",
    "reproduce",
    "run_point",
    "simulate",
    "size",
    "workloads",
]
