"""Stand-in for the part of `torch` that the PyTorch recipe uses. Tests use PyTorch if it is installed.

PyTorch for Linux comes with gigabytes for graphics cards, too much for the tests of every change.
The loader's workers are forked processes with their own copy of the dataset, as in PyTorch. Batches
come in the order of the sampler.
"""

import multiprocessing
import random
import sys
from collections.abc import Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import pytest


class Tensor(np.ndarray):
    def double(self) -> "Tensor":
        return self.astype(np.float64)

    def __int__(self) -> int:
        """Of a tensor with one element, whatever its dimensions."""
        return int(self.item())


def from_numpy(array: np.ndarray) -> Tensor:
    return array.view(Tensor)


class Dataset:
    def __getitem__(self, index: Any) -> Any:
        raise NotImplementedError


class RandomSampler:
    def __init__(self, source: Sequence[int]) -> None:
        self.count = len(source)

    def __iter__(self) -> Iterator[int]:
        yield from random.sample(range(self.count), self.count)


class BatchSampler:
    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self) -> Iterator[list[int]]:
        batch = []
        for index in self.sampler:
            batch.append(index)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch


class DataLoader:
    def __init__(
        self,
        dataset: Dataset,
        sampler: Iterable[Any],
        batch_size: None,
        num_workers: int,
        multiprocessing_context: str,
    ) -> None:
        assert batch_size is None, "items are whole batches"
        assert multiprocessing_context == "fork", "a process that starts anew has no stand-in"
        self.dataset, self.sampler, self.workers = dataset, sampler, num_workers

    def __iter__(self) -> Iterator[Any]:
        fork = multiprocessing.get_context("fork")
        with fork.Pool(self.workers, _begin, (self.dataset,)) as pool:
            yield from pool.imap(_item, self.sampler)


_dataset = Dataset()


def _begin(dataset: Dataset) -> None:
    global _dataset
    _dataset = dataset


def _item(index: Any) -> Any:
    return _dataset[index]


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has `import torch` give this until the end of the test."""
    torch, utils, data = map(ModuleType, ("torch", "torch.utils", "torch.utils.data"))
    data.__dict__.update(
        Dataset=Dataset, DataLoader=DataLoader, BatchSampler=BatchSampler, RandomSampler=RandomSampler
    )
    utils.__dict__.update(data=data)
    torch.__dict__.update(utils=utils, Tensor=Tensor, from_numpy=from_numpy)
    for module in (torch, utils, data):
        monkeypatch.setitem(sys.modules, module.__name__, module)
