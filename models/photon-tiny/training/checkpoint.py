"""Weights in the published layout, in two shards, and the full state of a training on the machine that runs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

INDEX = "model.safetensors.index.json"
SHARDS = 2


def export(parameters: dict[str, Tensor], folder: Path, *, shards: int = SHARDS) -> None:
    """bfloat16 safetensors of about equal size and their index."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: p.detach().to("cpu", torch.bfloat16).contiguous() for name, p in sorted(parameters.items())}
    total = sum(w.nbytes for w in weights.values())
    parts: list[dict[str, Tensor]] = [{} for _ in range(shards)]
    done = 0
    for name, weight in weights.items():
        parts[min(shards - 1, done * shards // total)][name] = weight
        done += weight.nbytes
    index: dict[str, Any] = {"metadata": {"total_size": total}, "weight_map": {}}
    for i, part in enumerate(parts):
        file = f"model-{i + 1:05d}-of-{shards:05d}.safetensors"
        save_file(part, folder / file, metadata={"format": "pt"})
        index["weight_map"] |= dict.fromkeys(part, file)
    (folder / INDEX).write_text(json.dumps(index, indent=1) + "\n")


def load_exported(folder: Path) -> dict[str, Tensor]:
    """All weights of a folder that `export` wrote, in float32."""
    weights: dict[str, Tensor] = {}
    for file in sorted(set(json.loads((folder / INDEX).read_text())["weight_map"].values())):
        with safe_open(folder / file, "pt") as shard:
            weights |= {name: shard.get_tensor(name).float() for name in shard.keys()}
    return weights


def save_state(path: Path, **state: Any) -> None:
    """Written beside and renamed, so that a killed run leaves the older one whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".new")
    torch.save(state, beside)
    beside.rename(path)


def load_state(path: Path, device: str) -> dict[str, Any]:
    return torch.load(path, map_location=device, weights_only=True)
