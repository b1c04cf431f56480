"""Layers of PyTorch over tables on flash train as PyTorch's sparse embeddings do.

PyTorch for Linux comes with gigabytes for graphics cards, so that the tests of every change go without.
These tests run where PyTorch is installed.
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


def test_gradients_of_any_layout_are_steps(tmp_path: Path) -> None:
    from ebbtide.torch import Embedding

    with ebbtide.EmbeddingTable.create(tmp_path / "table.npy", 10, 4, DRAM, rate=1.0) as table:
        layer = Embedding(table)
        # The gradient of a sum is one value, repeated without memory of its own.
        layer(torch.tensor([[1, 2], [2, 3]], dtype=torch.int32).T).sum().backward()
        assert table.gather([0, 1, 2, 3])[:, 0].tolist() == [0, -1, -2, -1]
        layer(torch.tensor([5])).double().T.square().sum().backward()
        layer(torch.tensor(6)).sum().backward()
        assert table.gather([5, 6]).tolist() == [[0] * 4, [-1] * 4]
        layer(torch.tensor([], dtype=torch.long)).sum().backward()


def test_tensors_are_rows_and_ids(tmp_path: Path) -> None:
    with ebbtide.create(tmp_path / "rows.npy", (100, 4), "f4", DRAM) as array:
        array[torch.tensor([3, 5])] = torch.ones(2, 4)
        out = torch.empty(2, 4)
        assert array.take(torch.tensor([5, 6]), out) is out
        assert out.tolist() == [[1.0] * 4, [0.0] * 4]
        mask = torch.zeros(100, dtype=torch.bool)
        mask[torch.tensor([3, 4])] = True
        assert array[mask].tolist() == [[1.0] * 4, [0.0] * 4]
        array[mask, 1:3] = torch.full((2, 2), 2.0, dtype=torch.float64)
        assert array[torch.tensor(4)].tolist() == [0.0, 2.0, 2.0, 0.0]
        assert torch.from_numpy(array[torch.tensor([[3], [4]], dtype=torch.int32)]).shape == (2, 1, 4)


def test_a_table_is_filled_and_read_without_a_copy(tmp_path: Path) -> None:
    with ebbtide.EmbeddingTable.create(tmp_path / "table.npy", 100, 4, DRAM) as table:
        ids, rows = torch.tensor([[3, 5], [3, 99]]), torch.ones(2, 2, 4)
        table.add(ids, rows)
        out = torch.empty(2, 2, 4)
        place = out.data_ptr()
        assert table.gather(ids, out) is out and out.data_ptr() == place
        assert out[..., 0].tolist() == [[2, 1], [2, 1]]
        table.step(ids, rows, rate=1.0)
        assert not table.gather(ids).any()


class Rows(torch.utils.data.Dataset):
    """Batches of an array that the dataset holds."""

    def __init__(self, array: ebbtide.Array) -> None:
        self.array = array

    def __getitem__(self, number: int) -> torch.Tensor:
        if not 0 <= number < 10:
            raise IndexError(number)
        return torch.from_numpy(self.array[number::10])

    def __len__(self) -> int:
        return 10


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_workers_of_a_loader_read_an_array_of_the_main_process(tmp_path: Path, start: str) -> None:
    data = torch.arange(4000).reshape(1000, 4)
    with ebbtide.create(tmp_path / "rows.npy", (1000, 4), "i8", DRAM) as array:
        array[:] = data
        loader = torch.utils.data.DataLoader(
            Rows(array), batch_size=None, num_workers=2, multiprocessing_context=start,
            persistent_workers=True,
        )
        for _ in range(2):
            for number, batch in enumerate(loader):
                assert torch.equal(batch, data[number::10])
        array[5] = 7
        assert array[5].tolist() == [7] * 4, "the main process goes on"
