"""The weights of a Moondream model as plain dataclasses of tensors, and the one walk that makes them.

`assemble(config, source)` asks `source(name, shape)` for every tensor by its published name. Loading, random
initialisation and export are three sources of the same walk, so names and shapes stand here once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from photon.models.moondream.config import MoondreamConfig, RegionConfig, TextConfig, VisionConfig

Source = Callable[[str, tuple[int, ...]], Tensor]


@dataclass
class Linear:
    weight: Tensor  # [out, in]
    bias: Tensor  # [out]

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


class Product(Protocol):
    """A linear layer, however it keeps its weights: [..., in] to [..., out]."""

    def __call__(self, x: Tensor) -> Tensor: ...


@dataclass
class Norm:
    weight: Tensor
    bias: Tensor


@dataclass
class Attention:
    qkv: Product
    proj: Product


@dataclass
class Mlp:
    fc1: Product
    fc2: Product


@dataclass
class VisionBlock:
    ln1: Norm
    attn: Attention
    ln2: Norm
    mlp: Mlp


@dataclass
class VisionWeights:
    patch_emb: Linear
    pos_emb: Tensor  # [1, patches, enc_dim]
    blocks: list[VisionBlock]
    post_ln: Norm
    proj_mlp: Mlp


@dataclass
class TextBlock:
    ln: Norm
    attn: Attention
    mlp: Mlp


@dataclass
class TextWeights:
    wte: Tensor  # [vocab, dim]
    blocks: list[TextBlock]
    post_ln: Norm
    lm_head: Product


@dataclass
class RegionWeights:
    coord_features: Tensor  # [1, coord_feat_dim / 2]
    coord_encoder: Linear
    coord_decoder: Mlp
    size_features: Tensor  # [2, size_feat_dim / 2]
    size_encoder: Linear
    size_decoder: Mlp


@dataclass
class MoondreamWeights:
    vision: VisionWeights
    text: TextWeights
    region: RegionWeights


def assemble(config: MoondreamConfig, source: Source) -> MoondreamWeights:
    """All weights of the configuration, each tensor taken from `source(published name, shape)`."""
    return MoondreamWeights(
        vision=_vision(config.vision, source),
        text=_text(config.text, source),
        region=_region(config.region, source),
    )


def random_init(
    config: MoondreamConfig, seed: int, *, device: str = "cpu", dtype: torch.dtype = torch.float32
) -> MoondreamWeights:
    """Seeded random weights, for tests, benchmarks and training: products keep the scale of their input."""
    generator = torch.Generator(device).manual_seed(seed)

    def source(name: str, shape: tuple[int, ...]) -> Tensor:
        leaf = name.rsplit(".", 2)
        if name.endswith("bias"):
            return torch.zeros(shape, device=device, dtype=dtype)
        if leaf[-2].startswith(("ln", "post_ln")):
            return torch.ones(shape, device=device, dtype=dtype)
        return (torch.randn(shape, generator=generator, device=device) * _scale(name, shape)).to(dtype)

    return assemble(config, source)


def named_tensors(weights: MoondreamWeights) -> dict[str, Tensor]:
    """Every tensor by its published name, as `model.text.blocks.0.attn.qkv.weight`."""
    return dict(_walk("model", weights))


def _walk(prefix: str, node: object) -> Iterator[tuple[str, Tensor]]:
    if isinstance(node, Tensor):
        yield prefix, node
    elif isinstance(node, list):
        for index, item in enumerate(node):
            yield from _walk(f"{prefix}.{index}", item)
    else:
        assert is_dataclass(node)
        for f in fields(node):
            yield from _walk(f"{prefix}.{f.name}", getattr(node, f.name))


def _scale(name: str, shape: tuple[int, ...]) -> float:
    if name.endswith(("wte", "pos_emb")):
        return 0.02
    if name.endswith("coord_features"):
        return 4.0  # cycles over the unit interval: fine enough to tell neighbouring bins apart
    if name.endswith("size_features"):
        return 2.0
    return 1 / math.sqrt(shape[-1])


def _linear(source: Source, name: str, out: int, into: int) -> Linear:
    return Linear(source(f"{name}.weight", (out, into)), source(f"{name}.bias", (out,)))


def _norm(source: Source, name: str, dim: int) -> Norm:
    return Norm(source(f"{name}.weight", (dim,)), source(f"{name}.bias", (dim,)))


def _mlp(source: Source, name: str, into: int, inner: int, out: int) -> Mlp:
    return Mlp(_linear(source, f"{name}.fc1", inner, into), _linear(source, f"{name}.fc2", out, inner))


def _attention(source: Source, name: str, dim: int, qkv: int) -> Attention:
    return Attention(_linear(source, f"{name}.qkv", qkv, dim), _linear(source, f"{name}.proj", dim, dim))


def _vision(c: VisionConfig, source: Source) -> VisionWeights:
    d, patch = c.enc_dim, c.in_channels * c.enc_patch_size**2

    def block(i: int) -> VisionBlock:
        name = f"model.vision.blocks.{i}"
        return VisionBlock(
            ln1=_norm(source, f"{name}.ln1", d),
            attn=_attention(source, f"{name}.attn", d, 3 * d),
            ln2=_norm(source, f"{name}.ln2", d),
            mlp=_mlp(source, f"{name}.mlp", d, c.enc_ff_dim, d),
        )

    return VisionWeights(
        patch_emb=_linear(source, "model.vision.patch_emb", d, patch),
        pos_emb=source("model.vision.pos_emb", (1, c.num_positions, d)),
        blocks=[block(i) for i in range(c.enc_n_layers)],
        post_ln=_norm(source, "model.vision.post_ln", d),
        proj_mlp=_mlp(source, "model.vision.proj_mlp", 2 * d, c.proj_inner_dim, c.proj_out_dim),
    )


def _text(c: TextConfig, source: Source) -> TextWeights:
    qkv = c.dim + 2 * c.n_kv_heads * c.head_dim

    def block(i: int) -> TextBlock:
        name = f"model.text.blocks.{i}"
        return TextBlock(
            ln=_norm(source, f"{name}.ln", c.dim),
            attn=_attention(source, f"{name}.attn", c.dim, qkv),
            mlp=_mlp(source, f"{name}.mlp", c.dim, c.ff_dim, c.dim),
        )

    return TextWeights(
        wte=source("model.text.wte", (c.vocab_size, c.dim)),
        blocks=[block(i) for i in range(c.n_layers)],
        post_ln=_norm(source, "model.text.post_ln", c.dim),
        lm_head=_linear(source, "model.text.lm_head", c.vocab_size, c.dim),
    )


def _region(c: RegionConfig, source: Source) -> RegionWeights:
    name = "model.region"
    return RegionWeights(
        coord_features=source(f"{name}.coord_features", (1, c.coord_feat_dim // 2)),
        coord_encoder=_linear(source, f"{name}.coord_encoder", c.dim, c.coord_feat_dim),
        coord_decoder=_mlp(source, f"{name}.coord_decoder", c.dim, c.inner_dim, c.coord_out_dim),
        size_features=source(f"{name}.size_features", (2, c.size_feat_dim // 2)),
        size_encoder=_linear(source, f"{name}.size_encoder", c.dim, c.size_feat_dim),
        size_decoder=_mlp(source, f"{name}.size_decoder", c.dim, c.inner_dim, c.size_out_dim),
    )
