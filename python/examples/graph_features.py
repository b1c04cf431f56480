"""Features of a graph's nodes, sampled and averaged two steps out, from a file larger than DRAM.

    python graph_features.py            # a random graph and its features, in the current folder

It is what a graph network of the GraphSAGE kind reads for each batch: some neighbours of the batch's
nodes, some neighbours of these, and the features of all of them.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import ebbtide

Array = np.ndarray[Any, Any]


class Graph:
    """Neighbours by node, in compressed rows: those of node n are targets[first[n]:first[n + 1]]."""

    def __init__(self, first: Array, targets: Array) -> None:
        self.first, self.targets = first, targets

    @staticmethod
    def random(nodes: int, edges: int, seed: int) -> Graph:
        """A graph in which some nodes have far more neighbours than others."""
        random = np.random.default_rng(seed)
        targets = (nodes * random.random(edges) ** 3).astype(np.int64)
        degrees = np.bincount(random.integers(0, nodes, edges), minlength=nodes)
        return Graph(np.concatenate([[0], np.cumsum(degrees)]), targets)

    def sample(self, nodes: Array, count: int, random: np.random.Generator) -> Array:
        """`count` neighbours of each node, with repetition; a node without any is its own."""
        first, degrees = self.first[nodes], self.first[nodes + 1] - self.first[nodes]
        places = (random.random((nodes.size, count)) * degrees[:, None]).astype(np.int64)
        chosen = self.targets[np.minimum(first[:, None] + places, self.targets.size - 1)]
        return np.where(degrees[:, None] > 0, chosen, nodes[:, None])


class Batch:
    """Nodes with their sampled neighbours, and all of them without repetition."""

    def __init__(self, graph: Graph, nodes: Array, fanout: int, random: np.random.Generator) -> None:
        near = graph.sample(nodes, fanout, random)
        far = graph.sample(near.reshape(-1), fanout, random)
        everything = np.concatenate([nodes, near.reshape(-1), far.reshape(-1)])
        self.needed, places = np.unique(everything, return_inverse=True)
        self.nodes = places[: nodes.size]
        self.near = places[nodes.size : nodes.size + near.size].reshape(near.shape)
        self.far = places[nodes.size + near.size :].reshape(*near.shape, fanout)

    def aggregate(self, features: Array) -> Array:
        """The nodes' features beside the means of one and of two steps out."""
        near, far = features[self.near].mean(axis=1), features[self.far].mean(axis=(1, 2))
        return np.concatenate([features[self.nodes], near, far], axis=1)


def aggregates(graph: Graph, features: Any, batches: int, nodes: int, seed: int) -> list[Array]:
    """The aggregates of some batches. `features` is anything that gathers rows by indices."""
    random = np.random.default_rng(seed)
    count = graph.first.size - 1

    def draw() -> Batch:
        return Batch(graph, random.integers(0, count, nodes), 5, random)

    found, following = [], draw()
    for _ in range(batches):
        batch, following = following, draw()
        if isinstance(features, ebbtide.Array):
            features.prefetch(following.needed)
        found.append(batch.aggregate(features[batch.needed]))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=200_000)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--dram", default="16MiB")
    arguments = parser.parse_args()
    graph = Graph.random(arguments.nodes, 10 * arguments.nodes, seed=1)
    with tempfile.TemporaryDirectory(dir=".") as folder:
        path = Path(folder) / "features.npy"
        data = np.random.default_rng(2).standard_normal((arguments.nodes, arguments.width), np.float32)
        np.save(path, data)
        with ebbtide.open(path, arguments.dram) as features:
            found = aggregates(graph, features, batches=20, nodes=256, seed=3)
            print(f"{len(found)} batches, {features.counters()}")
        assert all(map(np.array_equal, found, aggregates(graph, data, 20, 256, 3)))


if __name__ == "__main__":
    main()
