"""Features of graphs on flash for PyTorch Geometric: `pip install ebbtide[pyg]`.

    features = ebbtide.pyg.FeatureStore({"x": ebbtide.open("features.npy", "1GiB"), "y": labels})
    graph = Data()
    graph.put_edge_index(edges, layout="coo", size=(nodes, nodes))
    loader = NeighborLoader((features, graph), [15, 10, 5], seeds, batch_size=1024)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import torch_geometric.data

from ._array import Array

#: A group of nodes, or `None` in a graph with one, and the name of their feature.
Key = tuple[str | None, str]


class FeatureStore(torch_geometric.data.FeatureStore):
    """Serves features of nodes from arrays on flash, next to tensors in DRAM.

    Loaders gather the features of each batch. With `filter_per_worker=False` they do it in the main
    process, and else in each worker process, which opens the arrays with a DRAM budget of its own.
    """

    def __init__(self, features: Mapping[str | Key, Any] | None = None) -> None:
        """Serves `features`.

        A key is the name of a feature, such as `"x"`, or a group of nodes with a name. A value is
        an `ebbtide.Array` or a tensor. Its rows are nodes.
        """
        super().__init__()
        self._features: dict[Key, Any] = {}
        for key, feature in (features or {}).items():
            group, name = (None, key) if isinstance(key, str) else key
            self._features[group, name] = feature

    def _put_tensor(self, tensor: Any, attr: Any) -> bool:
        """Changes rows of an array or a tensor. A new feature is kept in DRAM."""
        key, index = _key(attr), _index(attr)
        if key not in self._features:
            if attr.index is not None:
                return False
            self._features[key] = torch.as_tensor(tensor)
            return True
        feature = self._features[key]
        feature[index] = tensor if isinstance(feature, Array) else torch.as_tensor(tensor)
        return True

    def _get_tensor(self, attr: Any) -> torch.Tensor:
        key = _key(attr)
        if key not in self._features:
            raise KeyError(f"{key}: no such feature (known: {list(self._features)})")
        feature, index = self._features[key], _index(attr)
        if not isinstance(feature, Array):
            return torch.as_tensor(feature)[index]
        return torch.from_numpy(np.asarray(feature[index]))

    def _remove_tensor(self, attr: Any) -> bool:
        """Serves a feature no more. Its array stays open, and its file stays."""
        return self._features.pop(_key(attr), None) is not None

    def _get_tensor_size(self, attr: Any) -> tuple[int, ...] | None:
        feature = self._features.get(_key(attr))
        return None if feature is None else tuple(feature.shape)

    def get_all_tensor_attrs(self) -> list[Any]:
        """Returns the group and the name of each feature."""
        return [self._tensor_attr_cls(group, name) for group, name in self._features]

    def __repr__(self) -> str:
        return f"FeatureStore({list(self._features)})"


def _key(attr: Any) -> Key:
    return attr.group_name if attr.is_set("group_name") else None, attr.attr_name


def _index(attr: Any) -> Any:
    return slice(None) if attr.index is None else attr.index
