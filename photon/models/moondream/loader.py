"""Moondream weights from safetensors files, in either published layout; every mismatch is an error that names it."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from photon.errors import ModelError
from photon.models.checkpoint import Checkpoint
from photon.models.moondream.config import MoondreamConfig
from photon.models.moondream.layouts import index_names
from photon.models.moondream.weights import MoondreamWeights, assemble


def load_weights(source: Path, config: MoondreamConfig, *, device: str, dtype: torch.dtype) -> MoondreamWeights:
    """Weights of `config` from a file or folder. ModelError naming each missing, surplus or misshapen tensor."""
    with Checkpoint(source) as checkpoint:
        stored = index_names(checkpoint.names())
        unread = set(stored)
        problems: list[str] = []

        def read(name: str, shape: tuple[int, ...]) -> Tensor:
            if name not in stored:
                problems.append(f"missing {name} {list(shape)}")
                return torch.empty(0)
            unread.discard(name)
            stored_name, transposed = stored[name]
            tensor = checkpoint.read(stored_name)
            tensor = tensor.T if transposed else tensor
            if tuple(tensor.shape) != shape:
                problems.append(f"{name} has shape {list(tensor.shape)} instead of {list(shape)}")
            return _lay_out(name, tensor.to(device=device, dtype=dtype))

        weights = assemble(config, read)
        problems += [f"surplus {stored[name][0]}" for name in sorted(unread)]
        if problems:
            shown = "; ".join(problems[:8]) + (f"; and {len(problems) - 8} more" if len(problems) > 8 else "")
            raise ModelError(f"weights in {source} do not fit config.json: {shown}")
        return weights


def _lay_out(name: str, tensor: Tensor) -> Tensor:
    """In memory as products read it fastest: on a CPU a matrix [out, in] by inputs, which a single row multiplies half
    as fast again as one by outputs, and many rows about as fast."""
    if tensor.is_cpu and tensor.dim() == 2 and name.endswith(".weight"):
        return tensor.T.contiguous().T
    return tensor.contiguous()
