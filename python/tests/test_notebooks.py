"""The notebooks run from beginning to end."""

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

nbclient = pytest.importorskip("nbclient")
FOLDER = ROOT / "python/notebooks"


@pytest.mark.parametrize("name", ["compare_designs", "size_a_service", "gather_features"])
def test_a_notebook_runs(name: str, tmp_path: Path) -> None:
    import nbformat

    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert outputs and not [output for output in outputs if output.output_type == "error"]


def test_the_notebooks_are_those_of_their_sources() -> None:
    script = ROOT / "python/tools/make_notebooks.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
