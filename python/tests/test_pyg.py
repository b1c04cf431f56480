"""Loaders of PyTorch Geometric get the features that are on flash."""

import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import ebbtide
from conftest import ROOT
from test_documents import blocks

pytest.importorskip("torch_geometric", reason="not installed: pip install ebbtide[pyg]")

import torch
from torch_geometric.data import Data, HeteroData, TensorAttr
from torch_geometric.loader import NeighborLoader

from ebbtide.pyg import FeatureStore

DRAM = "2MiB"
NODES = 3000


@pytest.fixture
def data() -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(1).standard_normal((NODES, 64), np.float32))


@pytest.fixture
def array(data: torch.Tensor, tmp_path: Path):
    with ebbtide.create(tmp_path / "features.npy", data.shape, "f4", DRAM) as array:
        array[:] = data
        yield array


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch):
    # Workers that are spawned import it too.
    monkeypatch.syspath_prepend(str(ROOT / "python/examples"))
    monkeypatch.delitem(sys.modules, "pyg_loader", raising=False)
    import pyg_loader

    return pyg_loader


def test_features_are_those_of_a_store_in_dram(array, data) -> None:
    labels = torch.arange(NODES)
    store = FeatureStore({"x": array, ("paper", "y"): labels})
    assert "'x'" in repr(store)
    found = [(attr.group_name, attr.attr_name) for attr in store.get_all_tensor_attrs()]
    assert found == [(None, "x"), ("paper", "y")]
    assert store.get_tensor_size(TensorAttr(None, "x")) == (NODES, 64)
    assert store.get_tensor_size(TensorAttr(None, "z")) is None
    mask = torch.zeros(NODES, dtype=torch.bool)
    mask[[3, 77]] = True
    for index in (None, torch.tensor([5, 2, 5]), slice(3, 90, 7), mask, 4, torch.tensor([]).long()):
        expected = data if index is None else data[index]
        assert torch.equal(store.get_tensor(None, "x", index), expected)
    assert torch.equal(store["paper", "y", slice(2, 5)], labels[2:5])
    assert torch.equal(store["paper"].y[torch.tensor([7])], labels[[7]])
    with pytest.raises(KeyError, match="no such feature"):
        store.get_tensor(None, "z", None)


def test_features_are_put_and_removed(array, data) -> None:
    store = FeatureStore({"x": array})
    ids = torch.tensor([7, 2999])
    assert store.put_tensor(torch.ones(2, 64), None, "x", ids)
    data[ids] = 1
    assert torch.equal(store.get_tensor(None, "x", None), data)
    assert store.put_tensor(data * 2, None, "x", None)
    assert np.array_equal(array[:], data.numpy() * 2)
    assert not store.put_tensor(torch.ones(2), "new", "y", ids)
    assert store.put_tensor(torch.arange(5), "new", "y", None)
    assert store.put_tensor(torch.tensor([9]), "new", "y", torch.tensor([1]))
    assert store.get_tensor("new", "y", None).tolist() == [0, 9, 2, 3, 4]
    assert store.remove_tensor(None, "x", None) and not store.remove_tensor(None, "x", None)
    assert array[0, 0] == data[0, 0] * 2, "the array stays open"


@pytest.mark.parametrize(
    ("start", "in_workers"), [(None, False), ("fork", False), ("fork", True), ("spawn", True)]
)
def test_a_loader_gives_batches_with_their_features(example, array, data, start, in_workers) -> None:
    edges = torch.from_numpy(np.random.default_rng(2).integers(0, NODES, (2, 10 * NODES)))
    graph = Data()
    graph.put_edge_index(edges, layout="coo", size=(NODES, NODES))
    store = FeatureStore({"x": array, "y": torch.arange(NODES)})
    seeds = torch.arange(0, NODES, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loader = example.loader(
            store, graph, [5, 3], seeds, batch_size=300, filter_per_worker=in_workers,
            num_workers=2 if start else 0, multiprocessing_context=start,
        )
        assert isinstance(loader, NeighborLoader) == example.HAS_SAMPLER
        batches = list(loader)
    assert torch.equal(torch.cat([batch.y[: batch.batch_size] for batch in batches]), seeds)
    known = set(map(tuple, edges.T.tolist()))
    for batch in batches:
        assert torch.equal(batch.x, data[batch.n_id]) and torch.equal(batch.y, batch.n_id)
        assert batch.n_id.unique().numel() == batch.n_id.numel()
        used = batch.n_id[batch.edge_index].T.tolist()
        assert used and all(tuple(edge) in known for edge in used)


def test_a_graph_with_several_groups_of_nodes_has_its_features(array, data) -> None:
    from torch_geometric.loader.utils import filter_custom_hetero_store

    graph, nodes = HeteroData(), torch.tensor([4, 2999, 17])
    kind = ("paper", "cites", "paper")
    graph[kind].edge_index = torch.tensor([[4, 17], [17, 4]])
    store = FeatureStore({("paper", "x"): array, ("author", "x"): torch.zeros(3)})
    batch = filter_custom_hetero_store(
        store, graph, {"paper": nodes}, {kind: torch.tensor([0])}, {kind: torch.tensor([2])}, {}
    )
    assert torch.equal(batch["paper"].x, data[nodes]) and "author" not in batch.node_types


def test_the_program_of_the_document_makes_a_loader(array, data, monkeypatch) -> None:
    monkeypatch.chdir(array.path.parent)
    array.flush()
    (block,) = [block for block in blocks() if "ebbtide.pyg" in block]
    names = {
        "ebbtide": ebbtide, "edges": torch.tensor([[1, 2], [2, 3]]), "nodes": NODES,
        "labels": torch.arange(NODES), "seeds": torch.tensor([2, 3]),
    }  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(block.replace("1GiB", DRAM), names)  # noqa: S102
    store = names["features"]
    assert isinstance(store, FeatureStore)
    assert torch.equal(store.get_tensor(None, "x", torch.tensor([7])), data[[7]])
    assert len(names["loader"]) == 1  # type: ignore[arg-type]


def test_the_example_runs(example, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["pyg_loader", "--nodes", "20000", "--dram", "4MiB"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        example.main()
    assert "1 batches" in capsys.readouterr().out
