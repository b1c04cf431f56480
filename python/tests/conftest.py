"""A machine so small that a run takes moments."""

import shutil
import subprocess
from pathlib import Path

import pytest

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


@pytest.fixture(scope="session")
def command() -> list[str]:
    """The `ebbtide` command of the same source, if it was built."""
    import os

    target = Path(os.environ.get("EBBTIDE_TARGET", ROOT / "target"))
    for built in (target / "release/ebbtide", target / "debug/ebbtide"):
        if built.exists():
            return [str(built)]
    found = shutil.which("ebbtide")
    if found is None:
        pytest.skip("the ebbtide command is not built: cargo build --release -p ebbtide")
    return [found]


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
