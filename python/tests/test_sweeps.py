"""A sweep gives the same tables whoever runs its points."""

import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest
from conftest import SMALL, run

import ebbtide

AXES = {"designs": ["astriflash", "os-swap"], "workload": "array-swap", "jobs": 200, "seeds": [1, 2]}
SET = {**SMALL, "dram_cache.size": ["1MiB", "2MiB"]}


def sweep() -> ebbtide.Sweep:
    return ebbtide.Sweep(**AXES, set=SET)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "points.jsonl"}


@pytest.fixture(scope="module")
def here(tmp_path_factory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("here")
    sweep().run(folder / "kept", progress=False).write(folder / "tables")
    return files(folder / "tables")


def test_points_are_plain_data_and_their_outcomes_make_the_same_tables(here, tmp_path) -> None:
    points = sweep().points()
    assert len(points) == len(sweep()) == 8
    assert pickle.loads(pickle.dumps(points)) == points
    outcomes = [ebbtide.run_point(point) for point in reversed(points)]
    sweep().collect(outcomes).write(tmp_path)
    assert files(tmp_path) == here


def test_other_processes_make_the_same_tables(here, tmp_path) -> None:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        sweep().collect(pool.map(ebbtide.run_point, sweep().points())).write(tmp_path)
    assert files(tmp_path) == here


def test_the_command_and_its_shards_make_the_same_tables(here, command, tmp_path) -> None:
    text = "\n".join(
        [
            'designs = ["astriflash", "os-swap"]\nworkload = "array-swap"\njobs = 200\nseeds = [1, 2]',
            "[set]",
            *(f"{key} = {value!r}".replace("'", '"') for key, value in SET.items()),
        ]
    )
    (tmp_path / "small.toml").write_text(text)
    assert len(ebbtide.Sweep.read(tmp_path / "small.toml")) == 8
    run(command, "sweep", "small.toml", "--report=whole", cwd=tmp_path)
    assert files(tmp_path / "whole") == here
    for part in (1, 2, 3):
        run(command, "sweep", "small.toml", f"--shard={part}/3", cwd=tmp_path)
    parts = [f"small.results/shard-{part}-of-3" for part in (1, 2, 3)]
    run(command, "sweep", "merge", *parts, "--report=merged", cwd=tmp_path)
    assert files(tmp_path / "merged") == here


def test_a_sweep_goes_on_where_it_stopped(tmp_path) -> None:
    told: list[float] = []

    def stop(_: str, share: float) -> None:
        told.append(share)
        if share > 0.6:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        ebbtide.Sweep(**{**AXES, "jobs": 20_000}, set=SET).run(tmp_path, progress=stop)
    kept = (tmp_path / "points.jsonl").read_text().count("\n") - 1
    assert kept >= 1
    # The thread of the run may still hold the folder for a moment.
    other = ebbtide.Sweep(**{**AXES, "jobs": 100}, set=SET)
    with pytest.raises(ebbtide.InputError, match="holds (runs of another|a sweep that is running)"):
        other.run(tmp_path, progress=False)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ebbtide.Sweep(desing="x"), "unknown key 'desing'; did you mean 'design'"),
        (lambda: ebbtide.Sweep(jobs=[1, 1]), "jobs: 1 is listed twice"),
        (lambda: ebbtide.Sweep(design="astroflash").check(), "unknown design 'astroflash'"),
        (lambda: ebbtide.Sweep.read("none.toml"), "none.toml: No such file"),
        (lambda: sweep().collect([]), "8 of 8 points have no outcome"),
        (lambda: sweep().collect([{}]), "expected what run_point gives"),
        (lambda: ebbtide.run_point({"number": 1}), "expected a point of Sweep.points()"),
        (lambda: ebbtide.run_point({"number": 1, "values": {"desing": "x"}}), "desing"),
    ],
)
def test_what_cannot_be_swept_is_one_line(make, said: str) -> None:
    with pytest.raises(ebbtide.InputError) as caught:
        make()
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_outcomes_of_another_sweep_are_refused() -> None:
    other = ebbtide.Sweep(**{**AXES, "seeds": [3, 4]}, set=SET)
    point = other.points()[0]
    outcome = {**point, "outcome": {"jobs": 1}}
    with pytest.raises(ebbtide.InputError, match="point 0: expected a point of this sweep"):
        sweep().collect([outcome])
    assert pickle.loads(pickle.dumps(sweep())).axes == sweep().axes
