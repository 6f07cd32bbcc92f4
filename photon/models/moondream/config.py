"""Sizes of a Moondream model from `config.json`: the reference's own dictionary, or that dictionary under "config".

An absent section or key takes the published Moondream 2 value. Unknown keys are ignored, impossible sizes are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from photon.errors import ModelError

ROTARY_DIMS = 32  # the reference rotates the first 32 dims of each head, whatever the head's size


@dataclass(frozen=True)
class TextConfig:
    dim: int = 2048
    ff_dim: int = 8192
    n_layers: int = 24
    vocab_size: int = 51200
    max_context: int = 2048
    n_heads: int = 32
    n_kv_heads: int = 32
    prefix_attn: int = 730

    @property
    def head_dim(self) -> int:
        return self.dim // self.n_heads


@dataclass(frozen=True)
class VisionConfig:
    enc_dim: int = 1152
    enc_patch_size: int = 14
    enc_n_layers: int = 27
    enc_ff_dim: int = 4304
    enc_n_heads: int = 16
    proj_out_dim: int = 2048
    crop_size: int = 378
    in_channels: int = 3
    max_crops: int = 12
    overlap_margin: int = 4
    proj_inner_dim: int = 8192

    @property
    def grid(self) -> int:
        """Patches along a crop's side."""
        return self.crop_size // self.enc_patch_size

    @property
    def num_positions(self) -> int:
        """Positions that an image takes in the prompt."""
        return self.grid**2


@dataclass(frozen=True)
class RegionConfig:
    dim: int = 2048
    coord_feat_dim: int = 256
    coord_out_dim: int = 1024
    size_feat_dim: int = 512
    size_out_dim: int = 2048
    inner_dim: int = 8192


@dataclass(frozen=True)
class MoondreamConfig:
    text: TextConfig = field(default_factory=TextConfig)
    vision: VisionConfig = field(default_factory=VisionConfig)
    region: RegionConfig = field(default_factory=RegionConfig)

    @classmethod
    def from_dict(cls, config: Mapping[str, Any]) -> MoondreamConfig:
        """From the parsed `config.json`. ModelError when a size is impossible."""
        inner = config.get("config", config)
        _require(isinstance(inner, Mapping), f"'config' must be an object, got {inner!r}")
        made = cls(
            text=_section(TextConfig, inner.get("text", {})),
            vision=_section(VisionConfig, inner.get("vision", {})),
            region=_section(RegionConfig, inner.get("region", {})),
        )
        made._check()
        return made

    def _check(self) -> None:
        text, vision, region = self.text, self.vision, self.region
        _require(text.dim % text.n_heads == 0, f"text dim {text.dim} is no multiple of n_heads {text.n_heads}")
        _require(text.head_dim >= ROTARY_DIMS, f"text head dim {text.head_dim} is under the {ROTARY_DIMS} rotated dims")
        _require(text.n_heads % text.n_kv_heads == 0, f"n_heads {text.n_heads}, n_kv_heads {text.n_kv_heads}")
        _require(
            vision.enc_dim % vision.enc_n_heads == 0, f"enc_dim {vision.enc_dim}, enc_n_heads {vision.enc_n_heads}"
        )
        _require(vision.crop_size % vision.enc_patch_size == 0, f"crop_size {vision.crop_size} is not whole patches")
        _require(2 * vision.overlap_margin < vision.grid, f"overlap_margin {vision.overlap_margin} leaves no window")
        _require(vision.proj_out_dim == text.dim == region.dim, "proj_out_dim, text dim and region dim must be equal")
        _require(text.prefix_attn == vision.num_positions + 1, f"prefix_attn {text.prefix_attn} is not positions + 1")


Section = TypeVar("Section", TextConfig, VisionConfig, RegionConfig)


def _section(kind: type[Section], given: Mapping[str, Any]) -> Section:
    _require(isinstance(given, Mapping), f"a section must be an object, got {given!r}")
    known = {f.name for f in fields(kind)}
    values = {key: value for key, value in given.items() if key in known}
    for key, value in values.items():
        _require(isinstance(value, int) and value > 0, f"{key} must be a positive whole number, got {value!r}")
    return kind(**values)


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise ModelError(f"config.json: {message}")
