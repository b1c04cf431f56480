"""What is wrong has one text, whether the command, Python or C is told of it."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from c_library import Library
from conftest import complaint

import ebbtide

INPUT, FAILED, BUSY = 1, 2, 3
SIZE = 4 << 20


def damaged(path: Path, place: int, by: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        file.write(by)


def of_another_version(path: Path) -> None:
    damaged(path, 8, b"\x63")


def with_a_damaged_header(path: Path) -> None:
    damaged(path, 40, b"\xff\xff\xff")


def cut_short(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(20 << 10)


def without_superblocks(path: Path) -> None:
    damaged(path, 4096, bytes(64 << 10))


def no_store(path: Path) -> None:
    path.write_bytes(b"a diary\n" * 3000)


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A durable store that is in order."""
    path = tmp_path / "store"
    ebbtide.Store(path, "4MiB", "4MiB").close()
    return path


def test_a_store_that_is_in_order_opens(library: Library, store: Path) -> None:
    assert library.open(store) == (0, "")


@pytest.mark.parametrize(
    ("spoil", "code", "said"),
    [
        (of_another_version, INPUT, "of version 99, expected"),
        (with_a_damaged_header, INPUT, "header is damaged"),
        (cut_short, INPUT, "truncated: has 20480 bytes, needs"),
        (without_superblocks, FAILED, "superblock"),
        (no_store, INPUT, "not an Ebbtide data file"),
        (a_folder, INPUT, "neither a file nor a block device"),
    ],
)
def test_a_file_that_cannot_be_opened(
    spoil: Callable[[Path], None], code: int, said: str, command, library, store: Path
) -> None:
    spoil(store)
    status, line = complaint(command, "store", "info", str(store), cwd=store.parent)
    assert said in line and "\n" not in line
    assert status == (2 if code == INPUT else 1)
    assert library.open(store) == (code, line)
    kind = ebbtide.InputError if code == INPUT else ebbtide.RunError
    with pytest.raises(kind) as caught:
        ebbtide.Store(store)
    assert str(caught.value) == line


HOLDS = """
import ebbtide, sys
with ebbtide.Store(sys.argv[1], size="4MiB", dram="4MiB"):
    print(flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[Path]:
    """A store that another process has open."""
    path = tmp_path / "busy"
    arguments = [sys.executable, "-c", HOLDS, str(path)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdin and holder.stdout
        assert holder.stdout.readline() == b"\n"
        yield path
        holder.stdin.close()


def test_a_store_that_another_process_has_open(command, library: Library, busy: Path) -> None:
    status, line = complaint(command, "store", "info", str(busy), cwd=busy.parent)
    assert status == 2 and line == f"{busy}: in use by another process"
    serve = ["serve", "--port=0", f"--data={busy}"]
    assert complaint(command, *serve, cwd=busy.parent) == (2, line)
    assert library.open(busy) == (BUSY, line)
    assert library.create(busy) == (BUSY, line)
    with pytest.raises(ebbtide.InputError) as caught:
        ebbtide.Store(busy)
    assert str(caught.value) == line


def test_a_file_that_would_be_overwritten(command, library: Library, tmp_path: Path) -> None:
    diary = tmp_path / "diary"
    no_store(diary)
    arguments = ["serve", "--port=0", f"--data={diary}", "--capacity=4MiB", "--dram=64MiB"]
    status, line = complaint(command, *arguments, cwd=tmp_path)
    assert status == 2
    code, text = library.create(diary)
    assert code == INPUT
    # The sizes of the overwritten parts differ.
    assert text.split(" overwrite ")[0] == line.split(" overwrite ")[0]
    assert "not an Ebbtide data file; --force would" in text


def test_a_folder_that_is_not_there(command, library: Library, tmp_path: Path) -> None:
    path = tmp_path / "none" / "store"
    arguments = ["serve", "--port=0", f"--data={path}", "--capacity=4MiB", "--dram=64MiB"]
    status, line = complaint(command, *arguments, cwd=tmp_path)
    assert (status, library.create(path)) == (2, (INPUT, line))
    with pytest.raises(ebbtide.InputError) as caught:
        ebbtide.Store(path, "4MiB", "4MiB")
    assert str(caught.value) == line


def test_a_file_that_is_not_there(command, library: Library, tmp_path: Path) -> None:
    path = tmp_path / "none"
    status, line = complaint(command, "store", "info", str(path), cwd=tmp_path)
    assert (status, library.open(path)) == (2, (INPUT, line))
    with pytest.raises(ebbtide.InputError) as caught:
        ebbtide.open(path, "2MiB", dtype="f4", shape=(10,))
    assert str(caught.value) == line


def test_a_durability_that_does_not_exist(command, library: Library, store: Path) -> None:
    status, line = complaint(command, "serve", "--durability=seldom", cwd=store.parent)
    code, text = library.open(store, durability="seldom")
    assert (status, code) == (2, INPUT)
    # The names of the option differ, and the rest is the same.
    assert line.endswith(text)
    with pytest.raises(ebbtide.InputError) as caught:
        ebbtide.Store(store, durability="seldom")
    assert str(caught.value) == f"durability: {text}"


def test_a_budget_that_is_too_small(command, library: Library, tmp_path: Path) -> None:
    """The numbers are each store's own: the server has buffers of connections as well."""
    path, rows = tmp_path / "new", tmp_path / "rows"
    rows.write_bytes(bytes(SIZE))
    code, text = library.create(path, dram_bytes=1000)
    assert code == INPUT and text.startswith("a DRAM budget of 1000 bytes is too small: ")
    with pytest.raises(ebbtide.InputError) as caught:
        ebbtide.Store(path, "4MiB", 1000)
    assert numberless(str(caught.value)) == numberless(f"dram: {text}")
    with pytest.raises(ebbtide.InputError) as caught:
        ebbtide.open(rows, 1000, dtype="u1", shape=(SIZE,))
    assert numberless(str(caught.value)) == numberless(f"{rows}: {text}")
    serve = ["serve", "--port=0", f"--data={path}", "--capacity=4MiB", "--dram=1000"]
    status, line = complaint(command, *serve, cwd=tmp_path)
    assert (status, numberless(line)) == (2, numberless(f"--dram: {text}"))
    bench = ["bench", "hash-table", f"--data={path}", "--dataset=4MiB", "--dram=1000"]
    status, line = complaint(command, *bench, cwd=tmp_path)
    assert (status, numberless(line)) == (2, numberless(f"--dram: hash-table: {text}"))
    assert not path.exists()


def numberless(text: str) -> str:
    return re.sub(r"\d+", "N", text)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.unlink(),
        lambda path: path.write_text("a diary\n"),
        lambda path: damaged(path, 8, b"\x63"),
        lambda path: os.truncate(path, path.stat().st_size - 20),
        lambda path: os.truncate(path, 4),
    ],
)
def test_a_trace_that_cannot_be_read(spoil: Callable[[Path], object], command, tmp_path) -> None:
    path = tmp_path / "trace.ebt"
    ebbtide.Trace.from_arrays(range(0, 4096 * 2000, 4096), path=path)
    spoil(path)
    status, line = complaint(command, "sim", f"--trace={path}", "--scale=1/256", cwd=tmp_path)
    with pytest.raises(ebbtide.InputError) as caught:
        ebbtide.simulate(trace=path, scale="1/256", progress=False)
    assert (status, line) == (2, str(caught.value))


def test_a_size_that_is_none(command, tmp_path: Path) -> None:
    status, line = complaint(command, "serve", "--dram=much", cwd=tmp_path)
    with pytest.raises(ebbtide.InputError) as caught:
        ebbtide.Store(tmp_path / "new", dram="much")
    text = str(caught.value).removeprefix("dram: ")
    assert status == 2 and line.endswith(text) and text.startswith("'much' is not a size")
