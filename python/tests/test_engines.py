"""Ray and Dask run a sweep's points, and make the same tables even if a worker is killed."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import SMALL

import ebbtide

SWEEP = ebbtide.Sweep(
    designs=["astriflash", "os-swap"], workload="array-swap", jobs=2000, seeds=[1, 2, 3], set=SMALL
)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def here(tmp_path_factory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("here")
    SWEEP.run(progress=False).write(folder)
    return files(folder)


def killed_once(marker: str) -> Callable[[dict], dict]:
    """A function that runs a point; the first worker that takes the third point is killed.

    It is made here, so that it goes to workers by value: they cannot import this file.
    """

    def run(point: dict) -> dict:
        if point["number"] == 2:
            try:
                Path(marker).touch(exist_ok=False)
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return ebbtide.run_point(point)

    return run


def test_ray_makes_the_same_tables_with_a_worker_killed(here, tmp_path: Path) -> None:
    ray = pytest.importorskip("ray")
    marker = str(tmp_path / "killed")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        remote = ray.remote(max_retries=3)(killed_once(marker))
        outcomes = ray.get([remote.remote(point) for point in SWEEP.points()])
    finally:
        ray.shutdown()
    assert Path(marker).exists()
    SWEEP.collect(outcomes).write(tmp_path / "tables")
    assert files(tmp_path / "tables") == here


def test_dask_makes_the_same_tables_with_a_worker_killed(here, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    marker = str(tmp_path / "killed")
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    )
    with cluster, distributed.Client(cluster) as client:
        futures = client.map(killed_once(marker), SWEEP.points(), pure=False)
        outcomes = client.gather(futures)
    assert Path(marker).exists()
    SWEEP.collect(outcomes).write(tmp_path / "tables")
    assert files(tmp_path / "tables") == here


def test_the_slurm_script_runs_its_part(command, tmp_path: Path) -> None:
    import subprocess

    from conftest import ROOT, run

    lines = ['designs = ["astriflash", "os-swap"]', 'workload = "array-swap"', "jobs = 200", "[set]"]
    lines += [f"{key} = {value!r}".replace("'", '"') for key, value in SMALL.items()]
    (tmp_path / "small.toml").write_text("\n".join(lines))
    run(command, "sweep", "small.toml", "--report=whole", cwd=tmp_path)
    script = ROOT / "python/examples/sweep.sbatch"
    for task in ("1", "2"):
        job = {"SLURM_ARRAY_TASK_ID": task, "SLURM_ARRAY_TASK_COUNT": "2", "EBBTIDE": command[0]}
        subprocess.run(
            ["bash", script, "small.toml", "parts"], cwd=tmp_path, env=os.environ | job, check=True
        )
    parts = [f"parts/shard-{task}-of-2" for task in (1, 2)]
    run(command, "sweep", "merge", *parts, cwd=tmp_path)
    for name in ("report.html", "results.csv", "results.parquet"):
        assert (tmp_path / "parts" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
