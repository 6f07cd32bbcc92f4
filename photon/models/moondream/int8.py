"""Products that a CPU finishes sooner, by FBGEMM, which PyTorch carries: the vision tower's in 8-bit integers, the text
tower's with weights in float16.

In 8 bits, weights have a scale for each output and 7 bits, activations a scale for each crop and 8 bits, chosen as
they come: without VNNI a CPU adds two products in 16 bits, which 7 times 8 bits cannot overflow.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from photon.errors import ConfigError
from photon.models.moondream.weights import Attention, Linear, Mlp, MoondreamWeights, Product, VisionBlock

LEVELS = 63  # of a weight, to either side of zero
CROPS = 1  # at once through the vision tower: each has its own scale anyway


class Int8Linear:
    """`Linear` with packed weights, of crops [N, P, in] in float32: crop by crop, so that none depends on another."""

    def __init__(self, w: Product) -> None:
        assert isinstance(w, Linear), "packed twice"
        scale = w.weight.abs().amax(1).clamp_min(torch.finfo(torch.float32).tiny) / LEVELS
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # tensors of quantised dtypes will leave PyTorch some day
            levels = torch.quantize_per_channel(
                w.weight.contiguous(), scale.double(), torch.zeros_like(scale, dtype=torch.long), 0, torch.qint8
            )
        self._packed: Any = torch.ops.quantized.linear_prepack(levels, w.bias)

    def __call__(self, x: Tensor) -> Tensor:
        outs = [torch.ops.quantized.linear_dynamic(crop, self._packed, False) for crop in x]
        return outs[0][None] if len(outs) == 1 else torch.stack(outs)


class HalfLinear:
    """`Linear` whose weights are kept in float16, which holds those that were stored in bfloat16; computes in float32.

    A row's outcome depends on the rows beside it by rounding alone; a single row waits for half as much memory.
    """

    def __init__(self, w: Product) -> None:
        assert isinstance(w, Linear), "packed twice"
        self._packed: Any = torch.ops.quantized.linear_prepack_fp16(w.weight.contiguous(), w.bias)

    def __call__(self, x: Tensor) -> Tensor:
        return torch.ops.quantized.linear_dynamic_fp16(x, self._packed)


def is_at_hand() -> bool:
    """Whether PyTorch has FBGEMM here."""
    return "fbgemm" in torch.backends.quantized.supported_engines


def with_packed_products(w: MoondreamWeights) -> MoondreamWeights:
    """The same weights: the vision tower's blocks in int8, the text tower's and the heads that read numbers in float16.

    ConfigError where there are no such products.
    """
    kind = w.vision.pos_emb
    if not kind.is_cpu or kind.dtype != torch.float32:
        raise ConfigError(f"quantization 'int8' is for float32 on a CPU, not for {kind.dtype} on {kind.device}")
    if not is_at_hand():
        raise ConfigError(f"quantization 'int8' needs FBGEMM, which PyTorch {torch.__version__} lacks on this machine")
    torch.backends.quantized.engine = "fbgemm"  # of what is packed from here on
    vision = replace(w.vision, blocks=[_pack_vision(block) for block in w.vision.blocks])
    blocks = [replace(b, attn=_pack(b.attn, HalfLinear), mlp=_pack(b.mlp, HalfLinear)) for b in w.text.blocks]
    text = replace(w.text, blocks=blocks, lm_head=HalfLinear(w.text.lm_head))
    region = replace(
        w.region,
        coord_decoder=_pack(w.region.coord_decoder, HalfLinear),
        size_decoder=_pack(w.region.size_decoder, HalfLinear),
    )
    return MoondreamWeights(vision, text, region)


def _pack_vision(b: VisionBlock) -> VisionBlock:
    return replace(b, attn=_pack(b.attn, Int8Linear), mlp=_pack(b.mlp, Int8Linear))


Part = TypeVar("Part", Attention, Mlp)


def _pack(part: Part, kind: Callable[[Product], Product]) -> Part:
    if isinstance(part, Attention):
        return Attention(kind(part.qkv), kind(part.proj))
    return Mlp(kind(part.fc1), kind(part.fc2))
