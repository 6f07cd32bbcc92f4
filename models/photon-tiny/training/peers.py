"""The processes of one training, one a GPU: they average their gradients and go by one clock. One alone has no peers.

`torch.distributed.run` starts them. Invariant: their parameters are equal after every step.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor


class Peers:
    """Of one process; its GPU is the current one from here on."""

    def __init__(self) -> None:
        self.rank, self.count = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        if self.count > 1:
            dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
            # Numbers for the host go by a group of their own: read from the GPU they would wait for all of its work.
            self._hosts = dist.new_group(backend="gloo")

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def agree(self, value: float) -> float:
        """The first one's value, everywhere."""
        if self.count == 1:
            return value
        shared = torch.tensor([value], dtype=torch.float64)
        dist.broadcast(shared, 0, group=self._hosts)
        return float(shared)

    def share(self, tensors: Sequence[Tensor]) -> None:
        """Overwrite them with the first one's."""
        if self.count > 1:
            for tensor in tensors:
                dist.broadcast(tensor, 0)

    def average(self, tensors: Sequence[Tensor]) -> None:
        """Replace each by its mean over all processes."""
        if self.count == 1:
            return
        flat = torch.cat([tensor.flatten() for tensor in tensors])
        dist.all_reduce(flat)
        flat /= self.count
        parts = flat.split([tensor.numel() for tensor in tensors])
        torch._foreach_copy_(list(tensors), [p.view_as(t) for p, t in zip(parts, tensors, strict=True)])

    def close(self) -> None:
        """Wait for all of them, and part."""
        if self.count > 1:
            dist.barrier(group=self._hosts)
            dist.destroy_process_group()
