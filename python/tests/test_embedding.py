"""Embedding tables on flash train as a table in memory does."""

import multiprocessing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ebbtide

ROWS, WIDTH, DRAM = 20_000, 16, "2MiB"


def initial(ids: np.ndarray) -> np.ndarray:
    return np.sin(ids[:, None] + np.arange(WIDTH)).astype(np.float32)


@pytest.fixture(scope="module", params=["sgd", "adagrad"])
def trained(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("tables") / "table.npy"
    made = ebbtide.EmbeddingTable.create(
        path, ROWS, WIDTH, DRAM, optimizer=request.param, initial=initial, rate=0.1
    )
    with made as table:
        weights = initial(np.arange(ROWS))
        yield table, weights, np.zeros_like(weights)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, ROWS - 1), max_size=100), st.integers(0, 2**31), st.booleans())
def test_a_step_is_that_of_a_table_in_memory(trained, ids, seed, twice) -> None:
    table, weights, squares = trained
    random = np.random.default_rng(seed)
    ids = np.array(ids * (2 if twice else 1), np.int64)
    gradients = random.standard_normal((ids.size, WIDTH), np.float32)
    dense = np.zeros_like(weights)
    np.add.at(dense, ids, gradients)
    if table.optimizer == "adagrad":
        squares += dense * dense
        dense = dense / (np.sqrt(squares) + np.float32(table.epsilon))
    weights -= np.float32(0.1) * dense
    table.prefetch(ids)
    table.step(ids, gradients)
    assert np.allclose(table.gather(ids), weights[ids], rtol=1e-5, atol=1e-5)
    # The rows of others did not change.
    others = np.setdiff1d(random.integers(0, ROWS, 50), ids)
    assert np.allclose(table.gather(others), weights[others], rtol=1e-5, atol=1e-5)


def test_rows_of_one_id_are_all_added(trained) -> None:
    table, weights, _ = trained
    ids = np.array([[5, 7, 5], [19_999, 5, 7]])
    before = table.gather([5, 7, 19_999])
    table.add(ids, np.ones((2, 3, WIDTH)))
    assert np.allclose(table.gather([5, 7, 19_999]) - before, [[3], [2], [1]], atol=1e-5)
    weights[[5, 7, 19_999]] += np.float32([[3], [2], [1]])


def test_weights_are_gathered_into_an_array_of_any_shape_without_a_copy(trained) -> None:
    table, weights, _ = trained
    out = np.empty((3, 2, WIDTH), np.float32)
    ids = np.array([[1, 2], [3, 3], [19_999, 0]])
    assert table.gather(ids, out) is out and np.allclose(out, weights[ids], rtol=1e-5, atol=1e-5)

    class Tensor:
        """What another library's tensor shows of itself."""

        def __init__(self, array: np.ndarray) -> None:
            self.array = array

        def __dlpack__(self, **more: object) -> object:
            return self.array.__dlpack__(**more)

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.array.__dlpack_device__()

    again = np.empty((3, 2, WIDTH), np.float32)
    table.gather(Tensor(ids), Tensor(again))
    assert np.array_equal(again, out)
    before = table.gather(ids)
    table.add(Tensor(ids), Tensor(np.zeros((3, 2, WIDTH), np.float32)))
    assert np.array_equal(table.gather(ids), before)


def test_numpy_reads_the_weights_and_a_table_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "table.npy"
    with ebbtide.EmbeddingTable.create(path, 100, 4, DRAM, optimizer="adagrad") as table:
        table.step([3, 4], np.ones((2, 4)))
    rows = np.load(path)
    assert np.allclose(rows["weight"][3:5], -0.01) and (rows["square"][3:5] == 1).all()
    with ebbtide.EmbeddingTable(path, DRAM) as table:
        assert (table.optimizer, table.width, len(table)) == ("adagrad", 4, 100)
        table.step([3], np.ones((1, 4)), rate=1.0)
        assert np.allclose(table.gather([3]), -0.01 - 1 / np.sqrt(2))
        assert "100 x 4, adagrad" in repr(table) and table.counters()["accesses"] > 0
        table.flush()
    with ebbtide.EmbeddingTable(path, DRAM, mode="r") as table:
        with pytest.raises(ebbtide.InputError, match="expected mode='r\\+'"):
            table.add([1], np.zeros((1, 4)))


def test_what_is_no_table_is_one_line(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.zeros((3, 4), np.float32))
    odd = np.zeros(3, [("weight", "<f4", (2,)), ("other", "<f4", (2,))])
    np.save(tmp_path / "odd.npy", odd)
    for name in ("rows.npy", "odd.npy"):
        with pytest.raises(ebbtide.InputError, match="expected 'weight' and perhaps 'square'"):
            ebbtide.EmbeddingTable(tmp_path / name, DRAM)
        # It is free again.
        ebbtide.open(tmp_path / name, DRAM, mode="r+").close()
    with pytest.raises(ebbtide.InputError, match="expected 'sgd' or 'adagrad'"):
        ebbtide.EmbeddingTable.create(tmp_path / "new", 3, 4, DRAM, optimizer="adam")
    with ebbtide.EmbeddingTable.create(tmp_path / "new", 3, 4, DRAM) as table:
        with pytest.raises(ebbtide.InputError, match=r"rows: \(1, 4\): expected \(2, 4\)"):
            table.add([1, 2], np.zeros((1, 4)))
        with pytest.raises(IndexError):
            table.step([3], np.zeros((1, 4)))


def weights_of(table: ebbtide.EmbeddingTable, ids: list[int]) -> float:
    return float(table.gather(ids).sum())


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_worker_processes_gather_from_a_table_that_they_are_given(tmp_path: Path, start) -> None:
    with ebbtide.EmbeddingTable.create(tmp_path / "table.npy", 400, 2, DRAM) as table:
        table.add(np.arange(400), np.arange(800).reshape(400, 2))
        with multiprocessing.get_context(start).Pool(2) as pool:
            found = pool.starmap(weights_of, [(table, [n, 399]) for n in range(0, 300, 50)])
    assert found == [4 * n + 1 + 4 * 399 + 1 for n in range(0, 300, 50)]
