"""The programs of docs/PYTHON.md about dictionaries and parameters do what they say."""

from pathlib import Path

import ebbtide
from conftest import ROOT


def blocks() -> list[str]:
    text = (ROOT / "docs/PYTHON.md").read_text(encoding="utf-8")
    return [part.split("```")[0] for part in text.split("```python\n")[1:]]


def test_the_dictionary_of_the_document_works(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = [block for block in blocks() if "ebbtide.Store(" in block]
    names: dict[str, object] = {"ebbtide": ebbtide}
    small = block.replace("10GiB", "4MiB").replace("20GiB", "8MiB").replace("256MiB", "8MiB")
    exec(small, names)  # noqa: S102
    store = names["store"]
    assert isinstance(store, ebbtide.Store)
    assert dict(store) == {b"key": b"value", b"from": b"9", b"to": b"1"}
    store.close()


def test_the_parameters_of_the_document_work(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = [block for block in blocks() if "config.save" in block]
    lines = [line for line in block.splitlines() if not line.startswith("ebbtide.simulate")]
    exec("\n".join(lines), {"ebbtide": ebbtide})  # noqa: S102
    assert ebbtide.Config("mine.toml").dram_cache.ways == 8
