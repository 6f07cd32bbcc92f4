"""Whether a model says through Photon what it says by itself: asked when it is loaded, so that one whose code does more
than we call is refused, and nobody gets wrong answers from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from photon.errors import ModelError
from photon.kernels.attention import PLAIN, AttentionRule, attend_row, visibility
from photon.request import IMAGE_ID, Prompt

if TYPE_CHECKING:
    from photon.models.hf.model import TransformersModel


class ProbeAttend:
    """`Attend` over the new positions alone, causal but for `blocks`; remembers the shape [KV heads, head_dim] of each
    layer's keys."""

    def __init__(self, blocks: tuple[tuple[int, int], ...] = ()) -> None:
        self._blocks = blocks
        self.shapes: dict[int, tuple[int, int]] = {}

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor, rule: AttentionRule = PLAIN) -> Tensor:
        if layer in self.shapes or k.shape != v.shape or len(k) != len(q):
            raise ModelError(f"layer {layer} shares keys and values, or has them of two sizes: Photon cannot page them")
        self.shapes[layer] = (k.shape[1], k.shape[2])
        return attend_row(q, k, v, visibility(len(q), len(q), self._blocks, q.device, window=rule.window), rule)


@torch.inference_mode()
def probe_prompt(model: TransformersModel, prompt: Prompt, inputs: dict[str, Tensor]) -> None:
    """`inputs`: the prompt as the model's own forward takes it. ModelError where the next word's logits differ."""
    expected = model.logits_by_itself(inputs)
    ids = torch.tensor([max(token.id, 0) for token in prompt.tokens], device=expected.device)
    embeds = model.embed(ids)
    for span, features in zip(prompt.images, model.encode_images([s.image for s in prompt.images]), strict=True):
        places = [i for i in range(span.start, span.end) if prompt.tokens[i].id == IMAGE_ID]
        if len(places) != len(features):
            raise ModelError(
                f"{model.name} makes {len(features)} features of a picture, its processor leaves {len(places)} places"
            )
        embeds[torch.tensor(places, device=embeds.device)] = features
    positions = torch.arange(len(ids), device=expected.device)
    if prompt.rotary is not None:
        positions = torch.from_numpy(prompt.rotary).to(expected.device)
        positions = positions if model.rotary_axes > 1 else positions[:, 0]
    elif model.rotary_axes > 1:
        positions = positions[:, None].expand(-1, model.rotary_axes)
    hidden = model.forward(embeds, positions, ProbeAttend(tuple(span.block for span in prompt.images)))
    check_same(model.name, model.logits(hidden[-1:])[0], expected, embeds.dtype)


def check_same(name: str, found: Tensor, expected: Tensor, dtype: torch.dtype) -> None:
    """ModelError unless two rows of logits are the same up to what sums in `dtype` are rounded by."""
    tolerance = 1e-3 if dtype == torch.float32 else 1e-1
    if not (found.float() - expected.float()).abs().max() <= tolerance * expected.float().abs().max():
        raise ModelError(f"{name} says something else through Photon than by itself: this architecture is not run")


def unlike(*taken: Any, size: int) -> list[int]:
    """Two ids below `size` that are none of those with a meaning."""
    return [i for i in range(size // 2, size) if i not in taken][:2]
