"""Results of the models."""

from __future__ import annotations

import html
import json
import os
from functools import cached_property
from pathlib import Path
from typing import Any

from . import _native


class Record(dict[str, Any]):
    """A part of a result: a dictionary whose keys are also attributes."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            known = ", ".join(self)
            raise AttributeError(f"no '{name}' in this part of the result; it has {known}") from None

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(key for key in self if key.isidentifier())]


class Charts:
    """The charts of a result, as a notebook shows them. They load no other files."""

    def __init__(self, pages: list[str]) -> None:
        self.pages = pages

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the charts as one HTML file, which opens offline. Returns its path."""
        path = Path(path)
        path.write_text("\n".join(self.pages), encoding="utf-8")
        return path

    def _repr_html_(self) -> str:
        return "".join(_frame(page, 120 + 560 * max(1, page.count("<figure>"))) for page in self.pages)

    def __repr__(self) -> str:
        count = sum(page.count("<figure>") for page in self.pages)
        return f"<{count} charts; .save('charts.html') writes them>"


def _frame(page: str, height: int) -> str:
    # A frame separates the page's style from the notebook's.
    source = html.escape(page, quote=True)
    style = f"width:100%;height:{height}px;border:0"
    # After the page is drawn, the frame gets its height.
    fit = "this.style.height=this.contentDocument.documentElement.scrollHeight+24+'px'"
    return f'<iframe srcdoc="{source}" style="{style}" onload="{fit}"></iframe>'


class Result:
    """A result: figures as attributes, a table, charts and text.

    Figures have the keys that the command prints with `--json`. The table goes to
    polars (`polars.DataFrame(result)`), pyarrow (`pyarrow.table(result)`) and others through the
    Arrow C stream, without copies.
    """

    def __init__(self, native: _native.Report) -> None:
        self._native = native

    @cached_property
    def data(self) -> Record:
        """All figures, by the keys that the command prints with `--json`."""
        data: Record = json.loads(self._native.json(), object_hook=Record)
        return data

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.data, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.data})

    def json(self) -> str:
        """The JSON text that the command prints with `--json`."""
        return self._native.json()

    def write(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Writes `report.html` and its data files into `folder`. Returns the paths written."""
        return [Path(path) for path in self._native.write(os.fspath(folder))]

    def plot(self) -> Charts:
        """The charts of the result. A notebook draws them."""
        return Charts(self._native.pages(True))

    def to_arrow(self) -> Any:
        """The table as a `pyarrow.Table`."""
        import pyarrow

        return pyarrow.table(self)

    def to_pandas(self) -> Any:
        """The table as a `pandas.DataFrame`, through pyarrow."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """The table as a `polars.DataFrame`."""
        import polars

        return polars.DataFrame(self)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._native.__arrow_c_stream__(requested_schema)

    def __str__(self) -> str:
        return self._native.text()

    def __repr__(self) -> str:
        return self._native.text()

    def _repr_html_(self) -> str:
        return "".join(_frame(page, 560) for page in self._native.pages(False))
