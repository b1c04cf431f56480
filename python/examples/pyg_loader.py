"""Mini-batches of a graph with PyTorch Geometric, whose features are on flash.

    python pyg_loader.py                # a random graph and its features, in the current folder

`NeighborLoader` needs pyg-lib or torch-sparse. Without them, `NodeLoader` runs a plain sampler.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch_geometric.typing
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader, NodeLoader
from torch_geometric.sampler import BaseSampler, NodeSamplerInput, SamplerOutput

import ebbtide
import ebbtide.pyg

HAS_SAMPLER = torch_geometric.typing.WITH_PYG_LIB or torch_geometric.typing.WITH_TORCH_SPARSE


class Sampler(BaseSampler):
    """Samples neighbours of a graph with one kind of node, with repetition."""

    def __init__(self, graph: Data, fanout: list[int]) -> None:
        self.sources, self.first, _ = graph.csc()
        self.fanout = fanout

    def sample_from_nodes(self, inputs: NodeSamplerInput, **_: Any) -> SamplerOutput:
        found, sources, targets = [inputs.node], [], []
        start, count = 0, inputs.node.numel()
        for fanout in self.fanout:
            nodes, places = found[-1], torch.arange(start, count)
            degrees = self.first[nodes + 1] - self.first[nodes]
            nodes, places = nodes[degrees > 0], places[degrees > 0]
            degrees = degrees[degrees > 0][:, None]
            chosen = (torch.rand(nodes.numel(), fanout) * degrees).long()
            near = self.sources[self.first[nodes][:, None] + chosen].reshape(-1)
            targets.append(places.repeat_interleave(fanout))
            start, count = count, count + near.numel()
            sources.append(torch.arange(start, count))
            found.append(near)
        # Each node once, in the order of its first occurrence: the seeds come first.
        _, first, places = np.unique(torch.cat(found), return_index=True, return_inverse=True)
        order = np.argsort(first)
        local = torch.empty(order.size, dtype=torch.long)
        local[torch.from_numpy(order)] = torch.arange(order.size)
        local = local[torch.from_numpy(places)]
        node = torch.cat(found)[torch.from_numpy(first[order])]
        row, col = local[torch.cat(sources)], local[torch.cat(targets)]
        return SamplerOutput(node, row, col, None, metadata=(inputs.input_id, inputs.time))

    def sample_from_edges(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


def loader(
    features: ebbtide.pyg.FeatureStore, graph: Data, fanout: list[int], seeds: Any, **more: Any
) -> NodeLoader:
    """Mini-batches with the features of their nodes."""
    if HAS_SAMPLER:
        return NeighborLoader((features, graph), fanout, seeds, **more)
    return NodeLoader((features, graph), Sampler(graph, fanout), seeds, **more)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--dram", default="16MiB")
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    nodes, random = arguments.nodes, np.random.default_rng(1)
    graph = Data()
    edges = torch.from_numpy(random.integers(0, nodes, (2, 10 * nodes)))
    # `NeighborLoader` needs the size.
    graph.put_edge_index(edges, layout="coo", size=(nodes, nodes))
    with tempfile.TemporaryDirectory(dir=".") as folder:
        path = Path(folder) / "features.npy"
        data = random.standard_normal((nodes, arguments.width), np.float32)
        np.save(path, data)
        with ebbtide.open(path, arguments.dram) as array:
            features = ebbtide.pyg.FeatureStore({"x": array, "y": torch.arange(nodes)})
            # Workers sample. The main process gathers, with one DRAM budget.
            batches = loader(
                features, graph, [15, 10, 5], torch.arange(0, nodes, 100),
                batch_size=256, num_workers=arguments.workers, filter_per_worker=False,
            )
            for count, batch in enumerate(batches, 1):
                assert torch.equal(batch.x, torch.from_numpy(data)[batch.y])
            print(f"{count} batches, {array.counters()}")


if __name__ == "__main__":
    main()
