"""The one configuration of an engine: validated when made, never written later. The only reader of the environment."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from photon.errors import ConfigError

DEVICES = ("auto", "cpu", "cuda")
QUANTIZATIONS = ("auto", "none", "int8")
DTYPES = ("auto", "float32", "bfloat16", "float16")


@dataclass(frozen=True, kw_only=True)
class EngineConfig:
    """Options of `Engine`, set by the user. None or "auto" means chosen at start, as the engine's `repr` and log say.

    model             recipe name, folder (config.json, safetensors, tokenizer.json), file, or Hugging Face id
    revision          revision of a Hugging Face repository; None takes the recipe's
    device            "auto", "cpu", "cuda" or "cuda:N"
    dtype             "auto" (float32 on the CPU, bfloat16 on a GPU), "float32", "bfloat16", "float16"
    quantization      "none", or "int8": on a CPU, the vision tower's products in 8-bit integers (a detect is about a
                      tenth faster, and a box may differ by a pixel) and the text tower's weights in float16; "auto"
                      takes int8 where the recipe says that the model is as right with it and dtype is "auto" too
    pipeline_depth    1: commit each step before the next is launched; 2: overlap them; None takes 2 on a GPU and 1 on
                      a CPU, where there is nothing to overlap and a step more would be computed for every answer
    max_batch_size    rows that decode together, 1 to 1,024
    page_size         positions a page of KV memory, 1 to 256
    num_pages         pages of KV memory; None takes what max_batch_size full contexts need, within kv_bytes
    kv_bytes          limit on KV memory in bytes when num_pages is None
    max_prefill_tokens  positions that one prefill launch takes at most (a longer prompt is taken alone)
    image_workers     threads that decode and crop pictures
    max_image_pixels  pictures with more pixels are refused
    """

    model: str = "photon-tiny"
    revision: str | None = None
    device: str = "auto"
    dtype: str = "auto"
    quantization: str = "auto"
    pipeline_depth: int | None = None
    max_batch_size: int = 8
    page_size: int = 16
    num_pages: int | None = None
    kv_bytes: int = 2**30
    max_prefill_tokens: int = 4096
    image_workers: int = 2
    max_image_pixels: int = 50_000_000

    @classmethod
    def from_options(cls, model: str | Path = "photon-tiny", **options: Any) -> EngineConfig:
        """As the constructor, but an unknown option is a ConfigError that lists the known ones."""
        known = [f.name for f in fields(cls)]
        for name in options:
            if name not in known:
                raise ConfigError(f"unknown option {name!r}; known options: {', '.join(known)}")
        return cls(model=str(model), **options)

    def __post_init__(self) -> None:
        object.__setattr__(self, "device", str(self.device))  # a torch.device too
        _check_choice("dtype", self.dtype, DTYPES)
        _check_choice("quantization", self.quantization, QUANTIZATIONS)
        if self.device not in DEVICES and not re.fullmatch("cuda:[0-9]+", self.device):
            raise ConfigError(f"device must be one of auto, cpu, cuda, cuda:N, got {self.device!r}")
        if self.pipeline_depth is not None:
            _check_range("pipeline_depth", self.pipeline_depth, 1, 2)
        _check_range("max_batch_size", self.max_batch_size, 1, 1024)
        _check_range("page_size", self.page_size, 1, 256)
        _check_range("max_prefill_tokens", self.max_prefill_tokens, 1, 2**20)
        _check_range("image_workers", self.image_workers, 1, 256)
        _check_range("max_image_pixels", self.max_image_pixels, 1, 2**40)
        _check_range("kv_bytes", self.kv_bytes, 1, 2**48)
        if self.num_pages is not None:
            _check_range("num_pages", self.num_pages, 1, 2**31 - 2)
        if not isinstance(self.revision, str | None):
            raise ConfigError(f"revision must be a name or None, got {self.revision!r}")


def hub_offline() -> bool:
    """Whether the user asked that nothing be fetched (HF_HUB_OFFLINE)."""
    return os.environ.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on")


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if not (isinstance(value, str) and value in choices):
        raise ConfigError(f"{name} must be one of {', '.join(choices)}, got {value!r}")


def _check_range(name: str, value: int, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ConfigError(f"{name} must be a whole number in [{low}, {high}], got {value!r}")
