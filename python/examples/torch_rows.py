"""Rows on flash as a PyTorch dataset, whose items are whole batches.

    python torch_rows.py features.npy
    python torch_rows.py features.npy spawn         # workers that start anew
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

import ebbtide


class Batches(Dataset):
    """Batches of the rows in a file, by lists of indices."""

    def __init__(self, path: str, dram: str = "1GiB") -> None:
        self.path, self.dram = path, dram
        self.array: ebbtide.Array | None = None

    def __getitem__(self, indices: Sequence[int]) -> torch.Tensor:
        if self.array is None:
            # Each worker process opens the array again.
            self.array = ebbtide.open(self.path, self.dram)
        return torch.from_numpy(self.array[indices])


def loader(path: str, rows: int, batch: int, workers: int, start: str = "fork") -> DataLoader:
    """Batches of all rows in random order. `start` is `"fork"` or `"spawn"`."""
    order = BatchSampler(RandomSampler(range(rows)), batch, drop_last=False)
    return DataLoader(
        Batches(path, "64MiB"), sampler=order, batch_size=None,
        num_workers=workers, multiprocessing_context=start,
    )


def main(path: str, start: str = "fork") -> None:
    with ebbtide.open(path, "64MiB") as array:
        rows = len(array)
    count, total = 0, 0.0
    for batch in loader(path, rows, batch=512, workers=2, start=start):
        count += len(batch)
        total += float(batch.double().sum())
    print(f"{count} rows, sum {total:.3f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
