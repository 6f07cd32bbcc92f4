"""Safetensors of one checkpoint, single file or sharded, seen as one mapping from stored name to tensor."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from photon.errors import ModelError


class Checkpoint:
    """Open files of a checkpoint; tensors are read when asked for. A context manager.

    `source` is a file, or a folder with an index (`*.safetensors.index.json`) or with safetensors files.
    ModelError when there is none, when a file or the index is damaged, or when two files hold the same name.
    """

    def __init__(self, source: Path) -> None:
        self._source = source
        self._stack = ExitStack()
        self._files: dict[str, Any] = {}

    def __enter__(self) -> Checkpoint:
        for path in weight_files(self._source):
            try:
                opened = self._stack.enter_context(safe_open(path, framework="pt"))
            except (SafetensorError, OSError) as error:
                raise ModelError(f"{path} is no readable safetensors file: {error}") from error
            for name in opened.keys():
                if name in self._files:
                    raise ModelError(f"tensor {name!r} stands twice in {self._source}")
                self._files[name] = opened
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def names(self) -> list[str]:
        return list(self._files)

    def read(self, name: str) -> Tensor:
        return self._files[name].get_tensor(name)


def weight_files(source: Path) -> list[Path]:
    """The safetensors files of a checkpoint. ModelError when there is none, or a shard of the index is missing."""
    if source.is_file():
        return [source]
    indexes = sorted(source.glob("*.safetensors.index.json"))
    if indexes:
        files = [source / shard for shard in _shards(indexes[0])]
    else:
        files = sorted(source.glob("*.safetensors"))
    missing = [file.name for file in files if not file.is_file()]
    if not files or missing:
        raise ModelError(
            f"{source} holds no safetensors files" if not files else f"{source} lacks {', '.join(missing)}"
        )
    return files


def _shards(index: Path) -> list[str]:
    try:
        return sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise ModelError(f"{index} is no index of shards: {error!r}") from error
