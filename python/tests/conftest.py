"""A machine so small that a run takes moments."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from c_library import Library

SMALL = {
    "cores.count": 2,
    "llc.size": "256KiB",
    "dataset.size": "16MiB",
    "dram_cache.size": "1MiB",
    "switch.threads": 8,
}

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def small() -> dict[str, object]:
    """Parameters of the small machine."""
    return dict(SMALL)


def built(name: str) -> Path | None:
    """A file that was built from the same source."""
    target = Path(os.environ.get("EBBTIDE_TARGET", ROOT / "target"))
    places = (target / profile / name for profile in ("release", "debug"))
    return next(filter(Path.exists, places), None)


@pytest.fixture(scope="session")
def library() -> Library:
    """The library for C, if it was built."""
    path = built("libebbtide_capi.so")
    if path is None:
        pytest.skip("the library for C is not built: cargo build --release -p ebbtide-capi")
    return Library(path)


@pytest.fixture(scope="session")
def command() -> list[str]:
    """The `ebbtide` command, if it was built."""
    found = built("ebbtide") or shutil.which("ebbtide")
    if found is None:
        pytest.skip("the ebbtide command is not built: cargo build --release -p ebbtide-cli")
    return [str(found)]


def run(command: list[str], *arguments: str, cwd: Path) -> str:
    """What the command prints on standard output."""
    done = subprocess.run([*command, *arguments], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def complaint(command: list[str], *arguments: str, cwd: Path) -> tuple[int, str]:
    """Exit status and the line that the command prints when it fails."""
    done = subprocess.run([*command, *arguments], cwd=cwd, capture_output=True, text=True)
    assert done.returncode != 0
    return done.returncode, done.stderr.strip().removeprefix("ebbtide: ")
