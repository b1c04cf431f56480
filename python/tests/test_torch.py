"""Layers of PyTorch over tables on flash train as PyTorch's sparse embeddings do.

PyTorch for Linux comes with gigabytes for graphics cards, so that the tests of every change go without.
"""

from pathlib import Path

import numpy as np
import pytest

import ebbtide

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install ebbtide[torch]")

DRAM = "2MiB"


@pytest.mark.parametrize("optimizer", ["sgd", "adagrad"])
def test_a_layer_trains_as_pytorchs_does(tmp_path: Path, optimizer: str) -> None:
    from ebbtide.torch import Embedding

    first = np.random.default_rng(1).standard_normal((500, 8)).astype(np.float32)
    expected = torch.nn.Embedding.from_pretrained(torch.tensor(first), freeze=False, sparse=True)
    kind = {"sgd": torch.optim.SGD, "adagrad": torch.optim.Adagrad}[optimizer]
    steps = kind(expected.parameters(), lr=0.1)
    made = ebbtide.EmbeddingTable.create(
        tmp_path / "table.npy", 500, 8, DRAM,
        optimizer=optimizer, initial=lambda ids: first[ids], rate=0.1,
    )
    with made as table:
        layer = Embedding(table)
        assert not list(layer.parameters()) and "500 x 8" in repr(layer)
        for seed in range(20):
            torch.manual_seed(seed)
            ids = torch.randint(0, 500, (16, 3))
            weight = torch.randn(8)
            layer.prefetch(ids)
            losses = [(rows(ids) @ weight).square().mean() for rows in (layer, expected)]
            assert torch.allclose(*losses, rtol=1e-4)
            steps.zero_grad()
            losses[0].backward()
            losses[1].backward()
            steps.step()
        found = table.gather(np.arange(500))
        assert np.allclose(found, expected.weight.detach().numpy(), rtol=1e-4, atol=1e-5)
        with torch.no_grad():
            layer(ids)
        assert np.array_equal(table.gather(np.arange(500)), found)


def test_tensors_are_rows_and_ids(tmp_path: Path) -> None:
    with ebbtide.create(tmp_path / "rows.npy", (100, 4), "f4", DRAM) as array:
        array[torch.tensor([3, 5])] = torch.ones(2, 4)
        out = torch.empty(2, 4)
        assert array.take(torch.tensor([5, 6]), out) is out
        assert out.tolist() == [[1.0] * 4, [0.0] * 4]
