"""What a model must offer to the runner. The runner is its only caller; the model never calls back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from torch import Tensor

    from photon.kernels.attention import Attend


@dataclass(frozen=True)
class ModelSpec:
    """Sizes that the runner and the KV cache need. `vocab_size` counts the logits; ids at or above `num_tokens`, the
    tokenizer's length, are never sampled (P8). `coord_id` is the id that GROUNDED text reads as a coordinate.
    `rotary_axes`: numbers that say where a position stands; 1 but for models that place a picture's in a plane."""

    dim: int
    num_layers: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    num_tokens: int
    max_context: int
    coord_id: int | None
    rotary_axes: int = 1


class Model(Protocol):
    """T positions, A rotary axes, B rows, D model width, V vocabulary. All tensors on the model's device."""

    @property
    def spec(self) -> ModelSpec: ...

    def encode_images(self, images: list[Any]) -> list[Tensor]:
        """Projected features [positions, D] of each image, which is as the model's family prepares it."""
        ...

    def embed(self, ids_T: Tensor, values_T2: Tensor | None = None, value_sizes_T: Tensor | None = None) -> Tensor:
        """[T, D]: the table's row for an id; where value_sizes is 1 or 2 the encoded coordinate or size instead.
        Without the two, no position carries a value."""
        ...

    def forward(self, embeds_TD: Tensor, positions_T: Tensor, attend: Attend) -> Tensor:
        """All layers; the last hidden state [T, D], which `logits` takes. positions [T], or [T, A] of several axes."""
        ...

    def logits(self, hidden_BD: Tensor) -> Tensor:
        """[B, V] float32."""
        ...

    def read_coordinates(self, hidden_BD: Tensor) -> Tensor:
        """The coordinate that each hidden state stands for, float32 [B]; argmax over the bins."""
        ...

    def read_sizes(self, hidden_BD: Tensor) -> Tensor:
        """The width and height that each hidden state stands for, float32 [B, 2]; argmax over the bins."""
        ...
