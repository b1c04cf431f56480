"""The subcommands of `ebbtide` that simulate or compute."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from . import _native
from ._config import Config
from ._policy import Prefetcher, Replacement
from ._progress import Progress, shown
from ._result import Record, Result
from ._trace import Trace, path_of

Set = Mapping[str, object]
"""Parameters by their keys in TOML files, such as `{"dram_cache.ways": 8}`."""

Path = str | os.PathLike[str]


def text_of(value: object) -> str:
    """Returns a value in the form of the command line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        raise TypeError("expected a value, not a mapping: keys of sections are joined by dots")
    if isinstance(value, (list, tuple)):
        return ",".join(text_of(item) for item in value)
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def _given(**arguments: object) -> dict[str, str]:
    return {name: text_of(value) for name, value in arguments.items() if value is not None}


def _design(design: str | Path | Config, set: Set | None) -> tuple[str, list[tuple[str, str]]]:
    own = design._set if isinstance(design, Config) else []
    name = design._design if isinstance(design, Config) else text_of(design)
    return name, [*own, *((key, text_of(value)) for key, value in (set or {}).items())]


class Simulation(Result):
    """One run of a program or a trace on a simulated machine."""

    design: str
    workload: str
    jobs: int
    jobs_per_s: float
    """Throughput."""
    ratio_to_dram: float
    """Throughput over that of DRAM-only on the same jobs."""
    miss_interval_us: float
    """Execution between two misses of a core."""
    service_ns: Record
    """Service time of jobs, from their start: `p50`, `p99` and others."""
    response_ns: Record
    """Response time of jobs, from their arrival."""
    dram_cache: Record
    """Counters of the memory side."""
    flash: Record
    """Counters of the flash device during the measured part."""
    config: Record
    """All parameters."""


class Comparison(Result):
    """Designs on the same work. The table has a row for each design."""

    work: str
    unit: str
    designs: list[Record]
    left_out: list[Record]
    """Designs that are incompatible with the common machine, and why."""


class Sizing(Result):
    """The DRAM that a program needs. The table has a row for each design."""

    recommended: str
    knee: Record
    demand: Record
    designs: list[Record]
    notices: list[str]


class Reproduction(Result):
    """Claims of papers and our results. The table has a row for each claim."""

    claims: list[Record]


class MissRatioCurve(Result):
    """The miss ratio by size of DRAM. The table has a row for each policy and size."""

    curves: list[Record]


def simulate(
    design: str | Path | Config = "astriflash",
    *,
    workload: str | None = None,
    trace: Trace | Path | None = None,
    address: str | None = None,
    beyond: str | None = None,
    preset: str | None = None,
    set: Set | None = None,
    scale: object = None,
    jobs: int | None = None,
    seed: int | None = None,
    seeds: int | None = None,
    arrivals: str | None = None,
    energy: Path | None = None,
    explain: bool = False,
    replacement: Replacement | None = None,
    prefetcher: Prefetcher | None = None,
    progress: Progress = None,
) -> Simulation:
    """Simulates a design on a program or a trace, as `ebbtide sim` does.

    Args:
        design: a design's name (`ebbtide.designs()`), a TOML file, or a `Config`.
        workload: the program; a hash table without.
        trace: a trace to replay instead, directly into the memory side.
        address: the addresses of the trace to replay, `"virtual"` or `"physical"`.
        beyond: addresses of the trace beyond the modelled data. `"fold"`, the default, moves their
            regions of 2 MiB to unused addresses. `"refuse"` raises `InputError`.
        preset: a named set of parameters, such as `"atc23"`.
        set: parameters by their keys, over all others.
        scale: scale of the capacities, such as `"1/64"`.
        jobs: jobs to measure after the warm-up; 20,000 by default.
        seed: seed of data, jobs and arrivals; 1 by default.
        seeds: run this many seeds, starting with `seed`.
        arrivals: `"saturating"`, or `"poisson:0.8"` for that share of DRAM-only's throughput.
        energy: a TOML file with the energy of operations.
        explain: also follow a typical miss (`typical_miss`).
        replacement: an `ebbtide.Replacement` for the DRAM cache.
        prefetcher: an `ebbtide.Prefetcher` for the device of cxl-flash.
        progress: see `ebbtide.Progress`.

    Raises:
        InputError: the arguments or the trace are wrong.
        RunError: the run failed.
        KeyboardInterrupt: Ctrl-C.
    """
    name, keys = _design(design, set)
    arguments = _given(
        design=name,
        workload=workload,
        trace=None if trace is None else path_of(trace),
        address=address,
        beyond=beyond,
        preset=preset,
        scale=scale,
        jobs=jobs,
        seed=seed,
        seeds=seeds,
        arrivals=arrivals,
        energy=energy,
        explain=explain or None,
    )
    with shown(progress) as tell:
        return Simulation(_native.simulate(arguments, keys, replacement, prefetcher, tell))


def compare(
    workload: str | None = None,
    *,
    trace: Trace | Path | None = None,
    designs: Iterable[str] = (),
    set: Set | None = None,
    scale: object = None,
    jobs: int | None = None,
    seed: int | None = None,
    energy: Path | None = None,
    dram_price: float | None = None,
    flash_price: float | None = None,
    cells: str | None = None,
    ssd: str | int | None = None,
    progress: Progress = None,
) -> Comparison:
    """Compares designs on the same program or trace, cores, data and amount of DRAM, as `ebbtide
    compare` does.

    Args:
        workload: the program; a hash table without.
        trace: a trace to replay instead.
        designs: the designs to compare with DRAM-only; all by default.
        set: parameters of every design that has them.
        scale: scale of the capacities. The default is 1/64, or the data of the trace.
        jobs: jobs to measure; 10,000 by default.
        seed: seed of data and jobs; 1 by default.
        energy: a TOML file with the energy of operations.
        dram_price: dollars a GB of DRAM.
        flash_price: dollars a GB of flash.
        cells: `"ull"`, `"slc"`, `"mlc"`, `"tlc"` or `"qlc"`, for lifetimes by formula.
        ssd: capacity of an SSD. The number of SSDs is chosen to hold the data.
        progress: see `ebbtide.Progress`.
    """
    if isinstance(designs, str):
        designs = [designs]
    arguments = _given(
        workload=workload,
        trace=None if trace is None else path_of(trace),
        scale=scale,
        jobs=jobs,
        seed=seed,
        energy=energy,
        dram_price=dram_price,
        flash_price=flash_price,
        cells=cells,
        ssd=ssd,
    )
    keys = [(key, text_of(value)) for key, value in (set or {}).items()]
    with shown(progress) as tell:
        return Comparison(_native.compare(arguments, list(designs), keys, tell))


def size(
    workload: str | None = None,
    *,
    trace: Trace | Path | None = None,
    job: str | None = None,
    dataset: str | int | None = None,
    theta: float | None = None,
    miss_interval: str | None = None,
    seed: int | None = None,
    slo: str | None = None,
    load: float | None = None,
    dram_price: float | None = None,
    flash_price: float | None = None,
    cores: int | None = None,
    ssd: str | int | None = None,
    cells: str | None = None,
    min_lifetime: float | None = None,
    machine: Path | None = None,
    claims: bool = False,
    policies: Iterable[str] | None = None,
    progress: Progress = None,
) -> Sizing:
    """Finds how much DRAM a program needs, what it costs and how long the SSD lasts, as `ebbtide
    size` does.

    Args:
        workload: the program; a hash table without.
        trace: a trace of the program to size instead.
        job: execution time of a job of the trace, such as `"10us"`.
        dataset: size of the program's data, such as `"1GiB"`.
        theta: Zipf skew of the program's keys; 0 is uniform.
        miss_interval: execution between misses with 3% of the data in DRAM, such as `"10us"`.
        seed: seed of data and jobs.
        slo: the p99 response time to meet, such as `"1ms"`.
        load: offered load, as a share of DRAM-only's throughput.
        dram_price: dollars a GB of DRAM.
        flash_price: dollars a GB of flash.
        cores: cores that share the flash.
        ssd: capacity of an SSD, such as `"3.84TB"`. The number of SSDs is chosen to hold the data.
        cells: `"ull"`, `"slc"`, `"mlc"`, `"tlc"` or `"qlc"`.
        min_lifetime: least lifetime of the SSD in years of continuous use.
        machine: a file written by `ebbtide doctor --write`, or `"published"` for the published
            designs. The default is `machine.toml` if it exists, or else a current drive.
        claims: also compare the trace with the claims of AstriFlash's paper on services.
        policies: further replacement policies to draw curves for.
        progress: see `ebbtide.Progress`.
    """
    arguments = _given(
        workload=workload,
        trace=None if trace is None else path_of(trace),
        job=job,
        dataset=dataset,
        theta=theta,
        miss_interval=miss_interval,
        seed=seed,
        slo=slo,
        load=load,
        dram_price=dram_price,
        flash_price=flash_price,
        cores=cores,
        ssd=ssd,
        cells=cells,
        min_lifetime=min_lifetime,
        machine=machine,
        claims=claims or None,
    )
    kinds = None if policies is None else list(policies)
    with shown(progress) as tell:
        return Sizing(_native.size(arguments, kinds, tell))


def mrc(
    workload: str | None = None,
    *,
    trace: Trace | Path | None = None,
    dataset: str | int | None = None,
    theta: float | None = None,
    seed: int | None = None,
    policies: Iterable[str] = (),
    progress: Progress = None,
) -> MissRatioCurve:
    """Computes the miss ratio of a program or a trace by size of DRAM, for LRU and other policies.

    Args:
        workload: the program; a hash table without.
        trace: a trace instead.
        dataset: size of the program's data, such as `"1GiB"`.
        theta: Zipf skew of the program's keys; 0 is uniform.
        seed: seed of data and jobs.
        policies: replacement policies to draw curves for, in addition to LRU.
        progress: see `ebbtide.Progress`.
    """
    arguments = _given(
        workload=workload,
        trace=None if trace is None else path_of(trace),
        dataset=dataset,
        theta=theta,
        seed=seed,
    )
    with shown(progress) as tell:
        return MissRatioCurve(_native.mrc(arguments, list(policies), tell))


#: `mrc` by its full name.
miss_ratio_curve = mrc


def reproduce(
    paper: str = "all",
    *,
    quick: bool = True,
    real: bool = False,
    seed: int | None = None,
    traces: Path | None = None,
    progress: Progress = None,
) -> Reproduction:
    """Reproduces the claims of a paper, or of all, as `ebbtide reproduce` does.

    Args:
        paper: `"astriflash"`, `"flatflash"`, `"hams"`, `"cxl-flash"` or `"all"`.
        quick: simulate a small part of the capacities: minutes instead of most of an hour.
        real: also measure on this machine what the papers state about real hosts.
        seed: seed of layouts, job streams and arrivals.
        traces: a folder with the CXL-flash study's own traces of real programs.
        progress: see `ebbtide.Progress`.
    """
    arguments = _given(paper=paper, quick=quick, real=real, seed=seed, traces=traces)
    with shown(progress) as tell:
        return Reproduction(_native.reproduce(arguments, tell))


def designs() -> dict[str, str]:
    """Returns the designs and a description of each."""
    return dict(_native.designs())


def workloads() -> list[str]:
    """Returns the programs' names."""
    return list(_native.workloads())


