"""Changed arrays are NumPy's, in DRAM, in the file, after a crash and in other processes."""

import functools
import multiprocessing
import operator
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ebbtide

DRAM = "2MiB"
ROWS = 100_000


@pytest.fixture(scope="module")
def changed(tmp_path_factory):
    """64 MB behind 2 MiB of DRAM: 3%, so that changed pages leave and come back."""
    path = tmp_path_factory.mktemp("writes") / "rows.npy"
    with ebbtide.create(path, (ROWS, 4, 8, 5), "f4", DRAM) as array:
        yield array, np.zeros((ROWS, 4, 8, 5), np.float32)


def keys() -> st.SearchStrategy:
    """Keys of rows, and keys behind them."""
    row = st.integers(-ROWS, ROWS - 1)
    bound = st.one_of(st.none(), st.integers(-ROWS - 10, ROWS + 10))
    near = st.tuples(row, st.integers(1, 300), st.sampled_from([1, 2, 7])).map(
        lambda key: slice(key[0] % ROWS, key[0] % ROWS + key[1], key[2])
    )
    back = st.tuples(row, st.integers(1, 300)).map(
        lambda key: slice(key[0] % ROWS, max(key[0] % ROWS - key[1], 0), -3)
    )
    rows = st.one_of(
        row,
        st.lists(row, max_size=60),
        st.lists(row, min_size=6, max_size=6).map(lambda key: np.reshape(key, (2, 3))),
        near,
        back,
        st.tuples(bound, bound).map(lambda key: slice(key[0], key[1], 997)),
    )
    part = st.one_of(
        st.sampled_from([slice(None), slice(1, 3), slice(None, None, -1), slice(3, 0, -2), slice(2, 2)]),
        st.integers(-4, 3),
    )
    rest = st.one_of(
        st.just(()), st.tuples(part), st.tuples(part, st.sampled_from([3, slice(2, 8, 3), slice(None)]))
    )
    return st.tuples(rows, rest).map(lambda key: (key[0], *key[1]) if key[1] else key[0])


@settings(deadline=None, max_examples=150)
@given(key=keys(), seed=st.integers(0, 2**31), form=st.sampled_from(["scalar", "row", "full", "int"]))
def test_an_assignment_is_numpys(changed, key, seed, form) -> None:
    array, data = changed
    random = np.random.default_rng(seed)
    value = random.standard_normal(data[key].shape, np.float32)
    if form == "scalar":
        value = np.float32(random.standard_normal())
    elif form == "row" and value.ndim:
        value = value[-1:] if value.shape[0] else value
    elif form == "int":
        value = (value * 100).astype(np.int64)
    array[key] = value
    data[key] = value
    assert np.array_equal(array[key], data[key])
    some = random.integers(0, ROWS, 50)
    assert np.array_equal(array[some], data[some])


def test_all_rows_are_numpys_and_numpy_reads_them_after_a_flush(changed) -> None:
    array, data = changed
    mask = np.random.default_rng(5).random(ROWS) < 0.1
    array[mask] = data[mask] = 7
    array[mask, 2] = data[mask, 2] = np.arange(40, dtype=np.float32).reshape(8, 5)
    array[::-3] = data[::-3] = -1.5
    assert array.counters()["misses"] > 0
    array.flush()
    assert np.array_equal(array[:], data)
    assert np.array_equal(np.load(array.path), data)
    assert np.array_equal(np.load(array.path, mmap_mode="r"), data)
    with ebbtide.open(array.path, DRAM) as reader:
        assert np.array_equal(reader[::7], data[::7])


def test_an_array_is_created_with_zeros_and_reopened_with_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "rows.npy"
    with ebbtide.create(path, (1000, 3), "i2", DRAM) as array:
        assert (array.shape, array.dtype, array.mode) == ((1000, 3), np.dtype("i2"), "r+")
        assert "mode='r+'" in repr(array)
        assert not array[:].any()
        array[10:20] = np.arange(30).reshape(10, 3)
    assert path.stat().st_size == 4096 + 6000, "the file ends with the last row"
    with ebbtide.open(path, DRAM, mode="r+") as array:
        assert np.array_equal(array[10:20], np.arange(30).reshape(10, 3))
        array[-1] = 5
    assert np.load(path)[-1].tolist() == [5, 5, 5]
    assert path.stat().st_size == 4096 + 6000
    assert sorted(child.name for child in tmp_path.iterdir()) == ["rows.npy"]


def test_rows_may_be_structured(tmp_path: Path) -> None:
    kind = np.dtype([("größe", "<f4", (3,)), ("n", "<i8"), ("name", "S5")])
    with ebbtide.create(tmp_path / "rows.npy", (500,), kind, DRAM) as array:
        data = np.zeros(500, kind)
        rows = np.zeros(4, kind)
        rows["größe"], rows["n"], rows["name"] = 1.5, [1, 2, 3, 4], b"four"
        for key, value in (
            ([3, 3, 499, -2], rows),
            (7, (2.0, 9, b"x")),
            (slice(10, 12), [(1.0, 5, b"y"), (2.0, 6, b"z")]),
        ):
            array[key] = value
            data[key] = value
            assert np.array_equal(array[key], data[key])
        assert array.dtype == kind and np.array_equal(array[:], data)
    assert np.array_equal(np.load(tmp_path / "rows.npy"), data)


def test_raw_files_with_more_behind_their_rows_are_changed_in_place(tmp_path: Path) -> None:
    path = tmp_path / "raw"
    path.write_bytes(b"head" + bytes(range(250)) * 40 + b"tail")
    with ebbtide.open(path, DRAM, mode="r+", dtype="u1", shape=(1000, 10), offset=4) as array:
        array[[0, 999]] = 7
    found = path.read_bytes()
    assert found[:4] == b"head" and found[-4:] == b"tail" and len(found) == 10_008
    assert found[4:14] == found[-14:-4] == b"\x07" * 10
    assert found[14:-14] == (bytes(range(250)) * 40)[10:-10]


def test_one_array_at_a_time_changes_a_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.npy"
    with ebbtide.create(path, (100,), "f8", DRAM) as array:
        with pytest.raises(ebbtide.InputError, match="rows.npy: in use by this process already"):
            ebbtide.open(path, DRAM, mode="r+")
        script = f"import ebbtide; ebbtide.open({str(path)!r}, {DRAM!r}, mode='r+')"
        other = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        assert other.returncode and "rows.npy: in use by another process" in other.stderr
        with ebbtide.open(path, DRAM) as reader:
            assert reader[3] == 0
        array[3] = 4
    ebbtide.open(path, DRAM, mode="r+").close()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: ebbtide.create(path, (3,)), "rows.npy: is there already, expected a name"),
        (lambda path: ebbtide.create(path / "no" / "rows", (3,)), "Not a directory"),
        (lambda path: ebbtide.create(path.with_name("new"), (3, 0)), "expected at least one row"),
        (lambda path: ebbtide.create(path.with_name("new"), (3,), object), "without objects"),
        (lambda path: ebbtide.create(path.with_name("new"), 3), "shape 3: expected a tuple"),
        (lambda path: ebbtide.create(path.with_name("new"), (3,), "odd"), "expected one of NumPy's"),
        (lambda path: ebbtide.create(path.with_name("new"), (3,), dram="1KiB"), "is too small"),
        (lambda path: ebbtide.open(path, DRAM, mode="w"), "mode: 'w': expected 'r' or 'r+'"),
        (lambda path: ebbtide.open(path, DRAM, mode="r+", column="a"), "expected mode='r'"),
    ],
)
def test_what_cannot_be_made_is_one_line(tmp_path: Path, make, said) -> None:
    path = tmp_path / "rows.npy"
    np.save(path, np.zeros(3))
    with pytest.raises(ebbtide.InputError) as caught:
        make(path)
    assert said in str(caught.value) and "\n" not in str(caught.value)
    assert [child.name for child in tmp_path.iterdir()] == ["rows.npy"]


def test_a_folder_that_is_not_there_is_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ebbtide.MissingFileError, match="No such file"):
        ebbtide.create(tmp_path / "no" / "rows.npy", (3,))


def test_assignments_that_cannot_be_change_nothing(tmp_path: Path) -> None:
    path = tmp_path / "rows.npy"
    data = np.arange(60, dtype=np.float64).reshape(20, 3)
    np.save(path, data)
    with ebbtide.open(path, DRAM) as reader:
        for change in (lambda: reader.__setitem__(1, 2), reader.flush):
            with pytest.raises(ebbtide.InputError, match="opened to be read; expected mode='r\\+'"):
                change()
    with ebbtide.open(path, DRAM, mode="r+") as array:
        for key, value, kind in (
            (20, 0, IndexError),
            ([1, -21], 0, IndexError),
            ((slice(None), 3), 0, IndexError),
            ([1, 2], [1, 2], ValueError),
            (slice(0, 4), np.zeros((3, 3)), ValueError),
            (([1], [2]), 0, ebbtide.InputError),
            (None, 0, ebbtide.InputError),
        ):
            with pytest.raises(kind):
                array[key] = value
        assert np.array_equal(array[:], data)
    array.close()
    with pytest.raises(ebbtide.InputError, match="closed"):
        array[0] = 1


def test_threads_change_their_own_rows_at_once(tmp_path: Path) -> None:
    with ebbtide.create(tmp_path / "rows.npy", (40_000, 16), "i4", DRAM, cores=2) as array:
        failed: list[BaseException] = []

        def work(number: int) -> None:
            try:
                random = np.random.default_rng(number)
                data = np.zeros((10_000, 16), np.int32)
                for _ in range(20):
                    own = random.integers(0, 10_000, 300)
                    data[own] = rows = random.integers(0, 1 << 30, (300, 16))
                    array[own * 4 + number] = rows
                    array[own * 4 + number, 3] = data[own, 3] = number
                    own = random.integers(0, 10_000, 300)
                    assert np.array_equal(array[own * 4 + number], data[own])
                assert np.array_equal(array[number::4], data)
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failed


def test_a_forked_child_and_a_copy_read_the_file(tmp_path: Path) -> None:
    with ebbtide.create(tmp_path / "rows.npy", (1000, 8), "f4", DRAM) as array:
        array[:] = 3
        with pickle.loads(pickle.dumps(array)) as copy:
            assert copy.mode == "r" and np.array_equal(copy[::9], array[::9])
        child = os.fork()
        if child == 0:
            status = 1
            try:
                assert (array[5] == 3).all()
                try:
                    array[5] = 1
                except ebbtide.InputError:
                    status = 0
                array.close()
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        array[5] = 4
        assert (array[5] == 4).all()


def test_a_forked_child_reads_what_changed_before_the_fork(tmp_path: Path) -> None:
    with ebbtide.create(tmp_path / "rows.npy", (1000, 8), "f4", DRAM) as array:
        ebbtide.create(tmp_path / "closed.npy", (10,), "f4", DRAM).close()
        for value in (1, 2):
            array[::3] = value
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    status = 0 if (array[::3] == value).all() and not array[1::3].any() else 2
                finally:
                    os._exit(status)
            assert os.waitpid(child, 0)[1] == 0


def sums(array: ebbtide.Array, rows: list[int]) -> float:
    return float(array[rows].sum())


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_worker_processes_read_rows_of_an_array_that_they_are_given(tmp_path: Path, start) -> None:
    data = np.random.default_rng(1).integers(0, 100, (2000, 4)).astype(np.float32)
    with ebbtide.create(tmp_path / "rows.npy", data.shape, "f4", DRAM) as array:
        array[:] = data
        batches = [(array, list(range(first, 2000, 8))) for first in range(8)]
        with multiprocessing.get_context(start).Pool(2) as pool:
            found = pool.starmap(sums, batches)
    assert found == [float(data[rows].sum()) for _, rows in batches]


def test_a_program_that_ends_without_closing_loses_nothing(tmp_path: Path) -> None:
    script = f"""
        import ebbtide
        array = ebbtide.create({str(tmp_path / "rows.npy")!r}, (1000,), "i4", {DRAM!r})
        array[::2] = 9
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True)
    assert np.load(tmp_path / "rows.npy").tolist() == [9, 0] * 500


CHILD = """
    import sys
    import numpy as np
    import ebbtide
    path, atomic, seed = sys.argv[1], sys.argv[2] == "atomic", int(sys.argv[3])
    array = ebbtide.open(path, "2MiB", mode="r+", atomic_rows=atomic)
    random, value = np.random.default_rng(seed), seed * 1_000_000
    while True:
        for _ in range(random.integers(1, 6)):
            value += 1
            array[random.integers(0, len(array), 500)] = value
        if random.random() < 0.5:
            array.flush()
            array[0] = value
            array.flush()
            print(value, flush=True)
"""


@pytest.mark.parametrize("kind", ["atomic", "pages"])
def test_rows_survive_a_kill(tmp_path: Path, kind: str) -> None:
    """Rows of 1,000 bytes lie in two pages now and then."""
    path = tmp_path / "rows.npy"
    np.save(path, np.zeros((20_000, 250), np.int32))
    for seed in range(1, 7):
        command = [sys.executable, "-c", textwrap.dedent(CHILD), str(path), kind, str(seed)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            flushed = 0
            # Some flushes, and then a kill at any moment.
            for _ in range(1 + seed % 3):
                flushed = int(child.stdout.readline())
            os.kill(child.pid, signal.SIGKILL)
            later = [int(line) for line in child.stdout.read().split()]
            child.wait()
        with ebbtide.open(path, DRAM, mode="r+") as array:
            rows = array[:]
        assert rows[0, 0] >= max([flushed, *later])
        if kind == "atomic":
            assert (rows == rows[:, :1]).all(), "a row is old or new"
        assert not path.with_name("rows.npy.rowlog").exists()


def test_a_log_that_a_crash_has_left_is_applied_by_a_writer_first(tmp_path: Path) -> None:
    path = tmp_path / "rows.npy"
    script = f"""
        import os, signal, ebbtide
        array = ebbtide.create({str(path)!r}, (100,), "i4", {DRAM!r}, atomic_rows=True)
        array[7] = 9
        os.kill(os.getpid(), signal.SIGKILL)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=False)
    with pytest.raises(ebbtide.InputError, match="has a log of rows that a crash has left"):
        ebbtide.open(path, DRAM)
    ebbtide.open(path, DRAM, mode="r+").close()
    assert np.load(path)[7] == 9


def done(work: Callable[[], object]) -> object:
    """Returns what `work` returns, or true; false if NumPy or the array refuses it."""
    try:
        found = work()
    except (ValueError, TypeError, IndexError, OverflowError):
        return False
    return True if found is None else found


def error_of(use: Callable[..., object], *arguments: object) -> Exception | None:
    """Returns what `use` raises."""
    try:
        use(*arguments)
    except Exception as error:
        return error
    return None


WRONG_KEYS = [
    20, -21, 2**70, 1.5, np.float32(1), "x", b"x", (1, 3), (1, 1.5), (1, "x"), (1, 1, 1), [0, 20],
    [-21], [2**70], [1.5], ["x"], np.array([20], np.uint64), np.array([2**63], np.uint64),
    np.array([], float), [[1.0]], object(), (slice(None), 3), (slice(None), -4), (slice(None), 1.5),
    (slice(None), "x"), (slice(None), [1.5]), (slice(None), 0, 0), (slice(0, 0), 3), ([], 3),
    ([1], 3), ([1], 1, 1), np.zeros(3, bool), np.ones(21, bool), np.zeros((20, 4), bool),
    np.zeros((20, 3, 1), bool), [True], [[True]], [], (np.ones(19, bool), 1), (..., ...), (..., 3),
    (0, ..., 0, 0), slice(1.5), slice("x", None), (1, slice(1.5)), (slice(None), slice(1.5)),
    # NumPy takes these.
    None, True, (1, None), (slice(None), None), ([1], [2]), (1, [2]), np.ones((20, 3), bool),
    (slice(None), True), (slice(None), np.ones(3, bool)),
]  # fmt: skip


@pytest.mark.parametrize("key", WRONG_KEYS, ids=lambda key: ascii(key).replace("\n", ""))
def test_a_key_raises_what_numpy_raises(tmp_path: Path, key: object) -> None:
    data = np.arange(60, dtype=np.float64).reshape(20, 3)
    with ebbtide.create(tmp_path / "rows.npy", data.shape, "f8", DRAM) as array:
        array[:] = data
        for use in (operator.getitem, lambda target, key: operator.setitem(target, key, 0)):
            numpys, ours = error_of(use, data.copy(), key), error_of(use, array, key)
            if isinstance(numpys, IndexError):
                assert isinstance(ours, ebbtide.IndexingError) and isinstance(ours, IndexError)
            elif numpys is not None:
                assert type(ours) is type(numpys)
            else:
                # The key is one of NumPy's that an array on flash refuses.
                assert ours is None or type(ours) is ebbtide.InputError
        if numpys is not None:
            assert np.array_equal(array[:], data), "nothing has changed"


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
@pytest.mark.parametrize("kind", ["i1", "f4", "U3", [("a", "i4"), ("b", "S3")]])
def test_values_and_keys_are_converted_and_refused_as_numpy_does(tmp_path: Path, kind) -> None:
    values = [
        "text", "", "7", 300, -300, 2**70, 1.5, 1j, float("nan"), None, [], [1], [[1, 2]], [1, 300],
        (3, b"x"), np.int16(299), np.float64("inf"), np.zeros((1, 1)), np.zeros(0), np.array("a"),
        np.array([(1, 2.0)], "i4,f4"), np.arange(24).reshape(2, 3, 4)[:, ::-1], object(),
    ]  # fmt: skip
    keys = [
        0, -2, (1, 2), (1, 2, 3), slice(0, 0), slice(2), slice(None, None, -1), [], [1, 0], ..., (),
        (..., 0), (1, ..., 2), (slice(None), 1), (slice(None), slice(1, 1)), ([1, 1], slice(None, 2)),
        np.array([True, False]), np.array([], float), (..., ...), (0, 0, 0, 0), (slice(None), 5),
    ]  # fmt: skip
    data = np.zeros((2, 3, 4), kind)
    with ebbtide.create(tmp_path / "rows.npy", data.shape, kind, DRAM) as array:
        for key in keys:
            for value in values:
                refused = [
                    not done(functools.partial(operator.setitem, target, key, value))
                    for target in (data, array)
                ]
                assert refused[0] == refused[1], (key, value, refused)
                assert array[:].tobytes() == data.tobytes(), (key, value)
            found = [
                done(lambda target=target: target[key].tobytes()) for target in (data, array)
            ]
            assert found[0] == found[1], key


def test_a_dtype_of_arrays_is_more_dimensions(tmp_path: Path) -> None:
    with ebbtide.create(tmp_path / "rows.npy", (5,), ("f4", (2, 3)), DRAM) as array:
        array[1] = np.arange(6).reshape(2, 3)
        assert (array.shape, array.dtype) == ((5, 2, 3), np.float32)
    assert np.load(tmp_path / "rows.npy")[1].tolist() == [[0, 1, 2], [3, 4, 5]]
    with ebbtide.open(tmp_path / "rows.npy", DRAM, dtype=("f4", 3), shape=(10,), offset=4096) as raw:
        assert raw[2].tolist() == [0, 1, 2]
