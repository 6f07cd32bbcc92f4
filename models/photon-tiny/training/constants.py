"""Small constant tensors, made once: making one from a list waits for all that the device still has to do."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor


@lru_cache(maxsize=4096)
def constant(values: Any, device: torch.device | str) -> Tensor:
    """`torch.tensor` of a number or of nested tuples; never written to."""
    return torch.tensor(values, device=device)
