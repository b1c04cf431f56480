"""Results are those of the command, as attributes, tables and charts."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pandas
import polars
import pyarrow
import pytest
from conftest import complaint, run

import ebbtide

OF_THE_HOST = ("wall_s", "accesses_per_wall_s")


def simulate(small: dict[str, object], **more: object) -> ebbtide.Simulation:
    return ebbtide.simulate(workload="array-swap", jobs=200, set=small, **more)  # type: ignore


def test_a_run_is_that_of_the_command(small, command, tmp_path: Path) -> None:
    ours = simulate(small, explain=True).data
    keys = [f"--set={key}={value}" for key, value in small.items()]
    verb = ["sim", "--workload=array-swap", "--jobs=200", "--explain", "--json", *keys]
    theirs = json.loads(run(command, *verb, cwd=tmp_path))
    for key in OF_THE_HOST:
        del ours[key], theirs[key]
    assert ours == theirs


def test_figures_are_attributes_and_unknown_ones_say_what_there_is(small) -> None:
    result = simulate(small)
    assert 0 < result.ratio_to_dram <= 1.5
    assert result.service_ns.p99 >= result.service_ns.p50
    assert result.config.dram_cache.size == "1MiB"
    assert "ratio_to_dram" in dir(result) and "p99" in dir(result.service_ns)
    with pytest.raises(AttributeError, match="no 'ratio'.*ratio_to_dram"):
        _ = result.ratio


def test_polars_pyarrow_and_pandas_take_the_table(small) -> None:
    result = simulate(small)
    table = pyarrow.table(result)
    assert table.num_rows == 1
    assert table["jobs"].type == pyarrow.int64() and table["jobs"][0].as_py() == 200
    assert table["ratio_to_dram"].type == pyarrow.float64()
    assert table["design"].type == pyarrow.string()
    frame = polars.DataFrame(result)
    assert frame["ratio_to_dram"].item() == result.ratio_to_dram
    assert result.to_polars().equals(frame)
    assert isinstance(result.to_pandas(), pandas.DataFrame)
    # A second reader finds the same.
    assert pyarrow.table(result).equals(table)


def test_seeds_and_traces_are_rows_too(small, tmp_path: Path) -> None:
    runs = simulate(small, seeds=2)
    assert len(runs.runs) == 2 and runs.to_polars()["seed"].to_list() == [1, 2]
    trace = tmp_path / "trace.txt"
    addresses = [4096 * (n * 7 % 500) for n in range(2000)]
    made = ebbtide.Trace.from_arrays(addresses, path=trace)
    replayed = ebbtide.simulate(trace=made, set=small)
    assert replayed.accesses == 2000
    assert ebbtide.simulate(trace=str(trace), set=small).accesses == 2000


def test_a_comparison_has_a_row_a_design(small) -> None:
    compared = ebbtide.compare("array-swap", designs=["astriflash"], set=small, jobs=200, scale=1)
    frame = compared.to_polars()
    assert frame["design"].to_list() == ["dram-only", "astriflash"]
    assert frame["ratio_to_dram"][0] == 1.0
    assert frame.columns[:4] == ["design", "ratio_to_dram", "throughput_per_s", "p50_us"]
    assert "astriflash" in str(compared)


def test_a_sizing_has_a_row_a_design_and_curves_a_row_a_size() -> None:
    sized = ebbtide.size("array-swap", dataset="16MiB", slo="2ms")
    assert sized.recommended == "ebbtide"
    assert "paging" in sized.to_polars()["design"].to_list()
    papers = ebbtide.size("array-swap", dataset="16MiB", slo="2ms", machine="published")
    assert papers.recommended == "astriflash"
    curves = ebbtide.mrc("array-swap", dataset="16MiB", policies=["fifo"]).to_polars()
    assert set(curves["policy"]) == {"lru", "fifo"}
    lru = curves.filter(polars.col("policy") == "lru").sort("dram_bytes")
    assert lru["miss_ratio"].is_sorted(descending=True)


def test_charts_and_pages_are_html_that_needs_nothing_else(small, tmp_path: Path) -> None:
    result = simulate(small)
    charts = result.plot()
    assert "<svg" in charts._repr_html_().replace("&lt;", "<")
    assert "<svg" in charts.save(tmp_path / "charts.html").read_text()
    assert "http://" not in charts.pages[0].replace("http://www.w3.org", "")
    assert "charts" in repr(charts)
    assert result._repr_html_().startswith("<iframe")
    names = [path.name for path in result.write(tmp_path / "report")]
    assert names[0] == "report.html" and (tmp_path / "report/report.html").exists()


def test_a_reproduction_has_a_row_a_claim(monkeypatch) -> None:
    pytest.importorskip("ebbtide")
    with pytest.raises(ebbtide.InputError, match="did you mean 'astriflash'"):
        ebbtide.reproduce("astroflash")


def test_designs_and_workloads_are_listed() -> None:
    assert "hardware DRAM cache" in ebbtide.designs()["astriflash"]
    assert "tatp" in ebbtide.workloads()


@pytest.mark.parametrize(
    ("keywords", "arguments"),
    [
        ({"design": "astroflash"}, ["--design=astroflash"]),
        ({"set": {"dram_cache.way": 8}}, ["--set=dram_cache.way=8"]),
        ({"set": {"dram_cache.ways": "many"}}, ["--set=dram_cache.ways=many"]),
        ({"set": {"dram_cache.size": "512GiB"}}, ["--set=dram_cache.size=512GiB"]),
        ({"preset": "atc32"}, ["--preset=atc32"]),
        ({"design": "none.toml"}, ["--design=none.toml"]),
        ({"trace": "none.ebt"}, ["--trace=none.ebt"]),
        ({"energy": "none.toml"}, ["--energy=none.toml"]),
    ],
)
def test_errors_are_the_lines_of_the_command_without_dashes(
    keywords, arguments, command, tmp_path
) -> None:
    status, line = complaint(command, "sim", *arguments, cwd=tmp_path)
    with pytest.raises(ebbtide.InputError) as caught:
        ebbtide.simulate(**keywords)
    assert (status, line.removeprefix("--")) == (2, str(caught.value))
    assert isinstance(caught.value, ValueError) and "\n" not in line


@pytest.mark.parametrize(
    ("keywords", "said"),
    [
        ({"workload": "hashtable"}, "workload: unknown workload 'hashtable'; did you mean"),
        ({"scale": "2"}, "scale: '2' is not a fraction"),
        ({"jobs": 0}, "jobs: '0': expected a whole number from 1"),
        ({"jobs": 1.5}, "jobs: '1.5'"),
        ({"seed": -1}, "seed: '-1'"),
        ({"arrivals": "poisson"}, "arrivals: "),
    ],
)
def test_arguments_that_cannot_be_are_named(keywords, said) -> None:
    with pytest.raises(ebbtide.InputError) as caught:
        ebbtide.simulate(**keywords)
    assert said in str(caught.value)


def test_a_damaged_trace_and_a_foreign_file_are_bad_input(tmp_path, small) -> None:
    trace = tmp_path / "trace.ebt"
    ebbtide.Trace.from_arrays(range(0, 4096 * 2000, 4096), path=trace)
    trace.write_bytes(trace.read_bytes()[:-20])
    with pytest.raises(ebbtide.InputError, match=r"trace\.ebt.* cut short"):
        ebbtide.simulate(trace=trace, set=small)
    foreign = tmp_path / "foreign"
    foreign.write_bytes(b"\x7fELF\0\0\0\0")
    with pytest.raises(ebbtide.InputError, match="expected a trace"):
        ebbtide.simulate(trace=foreign)


def test_other_threads_run_meanwhile(small) -> None:
    counted, over = 0, threading.Event()

    def count() -> None:
        nonlocal counted
        while not over.is_set():
            counted += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    ebbtide.simulate(workload="array-swap", jobs=5000, set=small, seeds=4)
    over.set()
    thread.join()
    assert counted > 10


def test_progress_is_told_and_what_it_raises_ends_the_run(small) -> None:
    class Enough(Exception):
        pass

    told: list[tuple[str, float]] = []

    def tell(stage: str, share: float) -> None:
        told.append((stage, share))
        if share > 0.1:
            raise Enough

    with pytest.raises(Enough):
        ebbtide.simulate(workload="array-swap", jobs=10**7, set=small, progress=tell)
    assert all(0 <= share <= 1 for _, share in told) and told[-1][1] > 0.1


def test_a_call_ends_when_its_run_ends(small) -> None:
    # A run checks signals every 20 ms. A busy host may delay a call, so the best counts.
    def beyond_the_run() -> float:
        begun = time.monotonic()
        run = ebbtide.simulate(workload="array-swap", jobs=1, set=small, progress=False)
        return time.monotonic() - begun - float(run.wall_s)

    assert min(beyond_the_run() for _ in range(20)) < 0.01


STOPPED = """
    import os, signal, threading, time
    import ebbtide
    sent = []
    def interrupt():
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)
    threading.Timer({after}, interrupt).start()
    try:
        {call}
    except KeyboardInterrupt:
        print(time.monotonic() - sent[0])
"""


@pytest.mark.parametrize("after", [0.3, 1.5])
@pytest.mark.parametrize(
    "call",
    [
        "ebbtide.simulate(progress=False)",
        "ebbtide.compare('silo', progress=False)",
        "ebbtide.size(dataset='8GiB', progress=False)",
        "ebbtide.Sweep(workload='tatp', seeds=[1, 2, 3]).run(progress=False)",
        "ebbtide.reproduce('hams', progress=False)",
    ],
)
def test_ctrl_c_ends_a_call_within_a_fifth_of_a_second(call: str, after: float) -> None:
    # One busy host may delay the call, never the code: the best of three counts.
    script = textwrap.dedent(STOPPED.format(call=call, after=after))
    waited = []
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        waited.append(float(done.stdout))
        if waited[-1] < 0.2:
            return
    pytest.fail(f"it took {waited} s")


def test_a_forked_child_simulates_too(small) -> None:
    simulate(small)
    child = os.fork()
    if child == 0:
        os._exit(0 if simulate(small).jobs == 200 else 1)
    signal.alarm(0)
    assert os.waitpid(child, 0)[1] == 0
