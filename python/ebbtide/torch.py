"""Embedding tables on flash as layers of PyTorch models: `pip install ebbtide[torch]`.

    table = ebbtide.EmbeddingTable.create("users.npy", 10_000_000, 64, optimizer="adagrad")
    users = ebbtide.torch.Embedding(table)
    loss = model(users(ids)).sum()
    loss.backward()                       # also updates the rows of `ids` on flash
"""

from __future__ import annotations

from typing import Any

import torch

from ._embedding import EmbeddingTable


class _Lookup(torch.autograd.Function):
    """Gathers rows. Its backward pass is a step of the table's optimizer."""

    @staticmethod
    def forward(ctx: Any, anchor: torch.Tensor, ids: torch.Tensor, table: EmbeddingTable) -> Any:
        ctx.ids, ctx.table = ids, table
        weights = torch.empty((*ids.shape, table.width), dtype=torch.float32)
        table.gather(ids.numpy(), weights.numpy())
        return weights

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        ctx.table.step(ctx.ids.numpy(), gradients[0].detach().numpy())
        return None, None, None


class Embedding(torch.nn.Module):
    """Looks up the weights of ids in an `EmbeddingTable`.

    The backward pass updates the rows by the table's optimizer, so that no other optimizer needs to
    know them. In a `torch.no_grad` block nothing changes. Ids and weights are on the CPU.
    """

    def __init__(self, table: EmbeddingTable) -> None:
        super().__init__()
        self.table = table
        #: Has autograd call the backward pass. It is no parameter.
        self._anchor = torch.zeros((), requires_grad=True)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Returns the weights of `ids`, with one dimension more than `ids`."""
        return _Lookup.apply(self._anchor, ids, self.table)

    def prefetch(self, ids: torch.Tensor) -> None:
        """Begins to fetch the rows of the next batch."""
        self.table.prefetch(ids.numpy())

    def extra_repr(self) -> str:
        """Describes the table in the text of a model."""
        return repr(self.table)
