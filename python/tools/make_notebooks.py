"""Writes the notebooks of `notebooks/` from their sources, which are Python files with cells.

A cell begins with `# %%`, a cell of text with `# %% [markdown]`.
"""

import sys
from pathlib import Path

import nbformat

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"


def notebook(source: str) -> nbformat.NotebookNode:
    """The notebook of a source."""
    cells = []
    for cell in source.split("# %%")[1:]:
        head, _, body = cell.partition("\n")
        if "[markdown]" in head:
            text = "\n".join(line.removeprefix("# ").removeprefix("#") for line in body.splitlines())
            cells.append(nbformat.v4.new_markdown_cell(text.strip()))
        else:
            cells.append(nbformat.v4.new_code_cell(body.strip()))
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number}"
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})


for path in sorted(FOLDER.glob("*.py")):
    text = nbformat.writes(notebook(path.read_text())) + "\n"
    target = path.with_suffix(".ipynb")
    if "--check" in sys.argv and target.read_text() != text:
        sys.exit(f"{target}: run python/tools/make_notebooks.py")
    if "--check" not in sys.argv:
        target.write_text(text)
