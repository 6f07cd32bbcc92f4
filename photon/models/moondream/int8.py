"""The vision tower's products in 8-bit integers, for CPUs: FBGEMM's, which PyTorch carries.

Weights have a scale for each output and 7 bits, activations a scale for each crop and 8 bits, chosen as they come:
without VNNI a CPU adds two products in 16 bits, which 7 times 8 bits cannot overflow. Only where one crop is computed
at a time, as on a CPU, does a crop's outcome depend on no other.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from photon.errors import ConfigError
from photon.models.moondream.weights import Attention, Linear, Mlp, MoondreamWeights, Product, VisionBlock

LEVELS = 63  # of a weight, to either side of zero


class Int8Linear:
    """`Linear` with packed weights. Input and output are float32."""

    def __init__(self, w: Product) -> None:
        assert isinstance(w, Linear), "quantised twice"
        scale = w.weight.abs().amax(1).clamp_min(torch.finfo(torch.float32).tiny) / LEVELS
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # tensors of quantised dtypes will leave PyTorch some day
            levels = torch.quantize_per_channel(
                w.weight.contiguous(), scale.double(), torch.zeros_like(scale, dtype=torch.long), 0, torch.qint8
            )
        self._packed: Any = torch.ops.quantized.linear_prepack(levels, w.bias)

    def __call__(self, x: Tensor) -> Tensor:
        return torch.ops.quantized.linear_dynamic(x, self._packed, False)


def with_int8_vision(w: MoondreamWeights) -> MoondreamWeights:
    """The same weights, but for the blocks of the vision tower. ConfigError where there are no such products."""
    kind = w.vision.pos_emb
    if not kind.is_cpu or kind.dtype != torch.float32:
        raise ConfigError(f"quantization 'int8' is for float32 on a CPU, not for {kind.dtype} on {kind.device}")
    if "fbgemm" not in torch.backends.quantized.supported_engines:
        raise ConfigError(f"quantization 'int8' needs FBGEMM, which PyTorch {torch.__version__} lacks on this machine")
    torch.backends.quantized.engine = "fbgemm"  # of what is packed from here on
    return replace(w, vision=replace(w.vision, blocks=[_block(block) for block in w.vision.blocks]))


def _block(b: VisionBlock) -> VisionBlock:
    return replace(
        b,
        attn=Attention(Int8Linear(b.attn.qkv), Int8Linear(b.attn.proj)),
        mlp=Mlp(Int8Linear(b.mlp.fc1), Int8Linear(b.mlp.fc2)),
    )
