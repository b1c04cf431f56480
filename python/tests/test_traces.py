"""Traces from and to arrays and files."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ebbtide


@settings(deadline=None, max_examples=40)
@given(
    st.lists(
        st.tuples(st.integers(0, 2**46), st.booleans(), st.integers(0, 10**6)), min_size=1, max_size=200
    )
)
def test_arrays_survive_a_file(rows: list[tuple[int, bool, int]]) -> None:
    addresses = np.array([row[0] for row in rows], dtype=np.int64)
    writes = np.array([row[1] for row in rows])
    times = np.cumsum([row[2] for row in rows])
    trace = ebbtide.Trace.from_arrays(addresses, writes, times)
    again = trace.to_arrays()
    assert all(np.array_equal(ours, theirs) for ours, theirs in zip(again, (addresses, writes, times)))


def test_formats_are_told_by_names_and_content(tmp_path: Path) -> None:
    trace = ebbtide.Trace.from_arrays(np.arange(0, 4096 * 50, 64), path=tmp_path / "a.ebt")
    for name in ("b.txt", "c.csv", "d.txt.zst"):
        other = trace.convert(tmp_path / name)
        assert np.array_equal(other.to_arrays()[0], trace.to_arrays()[0])
    info = trace.info()
    assert info.accesses == 3200 and info.writes == 0
    assert info.footprint_bytes == 50 * 4096


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((np.zeros((2, 2), int),), "addresses: 2 dimensions of int64: expected one dimension"),
        ((np.zeros(3),), "addresses: 1 dimensions of float64: expected one dimension"),
        ((["a"],), "addresses: "),
        ((np.array([-1]),), "addresses: -1: expected no negative number"),
        ((np.arange(3), np.zeros(2, bool)), "3 addresses, 2 writes and 3 times"),
        ((np.arange(3), None, np.array([2, 1, 3])), "times_ns[1] = 1: expected no less than 2"),
        ((np.arange(1), None, np.array([2**62])), "times_ns: 4611686018427387904: expected at most"),
    ],
)
def test_arrays_that_are_no_trace_are_refused(arguments, said: str) -> None:
    with pytest.raises(ebbtide.InputError) as caught:
        ebbtide.Trace.from_arrays(*arguments)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_a_url_is_read_through_fsspec(tmp_path: Path, small) -> None:
    fsspec = pytest.importorskip("fsspec")
    path = tmp_path / "trace.ebt"
    ebbtide.Trace.from_arrays(np.arange(0, 4096 * 50, 64), path=path)
    with fsspec.open("memory://traces/trace.ebt", "wb") as file:
        file.write(path.read_bytes())
    trace = ebbtide.Trace("memory://traces/trace.ebt")
    assert trace.info().accesses == 3200
    with pytest.raises(ebbtide.InputError, match="memory://none"):
        ebbtide.simulate(trace="memory://none", set=small)


def test_a_file_of_another_version_says_so(tmp_path: Path) -> None:
    path = tmp_path / "trace.ebt"
    ebbtide.Trace.from_arrays(np.arange(10), path=path)
    bytes_ = bytearray(path.read_bytes())
    header = bytes_[:16]
    for place in range(len(header)):
        changed = bytearray(bytes_)
        changed[place] ^= 0xFF
        path.write_bytes(changed)
        with pytest.raises(ebbtide.Error):
            ebbtide.Trace(path).to_arrays()


def test_every_page_of_an_access_is_replayed_and_unread_columns_are_told(tmp_path: Path) -> None:
    lines = [f"{number * 1000},{number % 1024 * 16384},16384,R,7" for number in range(2048)]
    path = tmp_path / "wide.csv"
    path.write_text("\n".join(["time_ns,address,bytes,op,colour", *lines, ""]))
    told = "wide.csv: not read: columns 'colour'"
    replayed = ebbtide.simulate(trace=path, scale="1/16384", progress=False)
    assert replayed.accesses == 8192 and told in str(replayed)
    compared = ebbtide.compare(trace=path, designs=["astriflash"], progress=False)
    assert compared.touched_pages == 4096 and told in str(compared)
