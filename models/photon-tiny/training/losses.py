"""What training minimises: the model's own outputs, and noun and box at every patch of the vision tower.

The model runs through the package's functions on a copy of the weights in bfloat16 (float32 on a CPU). n pictures, C
crops, P patches, S positions behind the image prefix. Shapes but n and C are fixed, so that compiled code is reused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from slots import Group, Slots
from torch import Tensor

from photon.kernels.attention import PLAIN, AttentionRule
from photon.models.moondream import region, text, vision
from photon.models.moondream.config import MoondreamConfig
from photon.models.moondream.weights import MoondreamWeights, assemble

SPREAD = 1.5  # bins, of the target around the true value
LOSS_NAMES = ("coord", "decision", "forced", "answer", "caption", "size")
SIZE_OCTAVES = region.SIZE_OCTAVES
LEARNT = [int(group) for group in Group if group != Group.NONE]  # plain numbers: torch.compile does not take the enum
# Numbers go in here: float32 in training.
PRECISE = ("coord_features", "size_features", "coord_encoder", "size_encoder")


@dataclass
class DenseHeads:
    """Linear heads on the vision features, thrown away at export: noun [V + 1, E] and box [4, E]."""

    noun: Tensor
    box: Tensor


def working_copy(parameters: dict[str, Tensor], config: MoondreamConfig, dtype: torch.dtype) -> MoondreamWeights:
    """The weights that a step computes with; gradients flow back to the parameters."""

    def source(name: str, shape: tuple[int, ...]) -> Tensor:
        given = parameters[name]
        assert tuple(given.shape) == shape, name
        return given if any(part in name for part in PRECISE) else given.to(dtype)

    return assemble(config, source)


def vision_losses(
    w: MoondreamWeights, heads: DenseHeads, c: MoondreamConfig, pixels: Tensor, nouns: Tensor, boxes: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Features [C, P, E] of pixels [C, 3, side, side]; cross-entropy of the noun, distance of the box at each patch."""
    features = vision.encode_crops(w.vision, c.vision, pixels)
    logits = F.linear(features, heads.noun.to(features.dtype)).float()
    noun_loss = F.cross_entropy(logits.flatten(0, 1), nouns.flatten())
    is_object = (nouns < logits.shape[-1] - 1).float()[..., None]
    distance = (F.linear(features, heads.box.to(features.dtype)).float() - boxes).abs() * is_object
    return features, noun_loss, distance.sum() / (4 * is_object.sum().clamp(min=1))


@dataclass(eq=False)  # hashed by identity: the compiler hashes what it calls
class SlotAttend:
    """`Attend` for [image prefix, slots]: the prefix sees itself, the slots what `mask` [S, prefix + S] says."""

    prefix: int
    mask: Tensor

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor, rule: AttentionRule = PLAIN) -> Tensor:
        q, k, v = (x.transpose(-2, -3) for x in (q, k, v))
        p = self.prefix
        first = F.scaled_dot_product_attention(q[:, :, :p], k[:, :, :p], v[:, :, :p])
        rest = F.scaled_dot_product_attention(q[:, :, p:], k, v, attn_mask=self.mask)
        return torch.cat([first, rest], 2).transpose(-2, -3)


def slot_frame(prefix: int, lengths: tuple[int, ...], device: str) -> tuple[Tensor, Tensor]:
    """Positions [prefix + S], counting on from the image in every slot, and the mask [S, prefix + S]."""
    slot = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    within = torch.cat([torch.arange(n) for n in lengths])
    positions = torch.cat([torch.arange(prefix), prefix + within])
    own = (slot[:, None] == slot[None]) & (within[:, None] >= within[None])
    mask = torch.cat([torch.ones(len(slot), prefix, dtype=torch.bool), own], 1)
    return positions.to(device), mask.to(device)


def embed_slots(w: MoondreamWeights, slots: Slots) -> Tensor:
    """[n, S, D]: token embeddings, or encoded values where a position carries one."""
    # A product, not an indexing: most ids are padding, and the gradient of indexing would add them up one by one.
    is_id = slots.ids[..., None] == torch.arange(len(w.text.wte), device=slots.ids.device)
    tokens = is_id.to(w.text.wte.dtype) @ w.text.wte
    kind = slots.value_kind[..., None]
    coordinates = region.encode_coordinate(w.region, slots.value[..., 0]).to(tokens.dtype)
    sizes = region.encode_size(w.region, slots.value).to(tokens.dtype)
    return torch.where(kind == 1, coordinates, torch.where(kind == 2, sizes, tokens))


def text_hidden(
    w: MoondreamWeights, c: MoondreamConfig, image_NPD: Tensor, embeds_NSD: Tensor, frame: tuple[Tensor, Tensor]
) -> Tensor:
    """Hidden states [n, S, D] of the slots behind BOS and the image."""
    positions, mask = frame
    bos = w.text.wte[:1].expand(len(image_NPD), 1, -1)
    x = torch.cat([bos, image_NPD, embeds_NSD], 1)
    prefix = image_NPD.shape[1] + 1
    return text.text_forward(w.text, c.text, x, positions, SlotAttend(prefix, mask))[:, prefix:]


def text_losses(
    w: MoondreamWeights,
    c: MoondreamConfig,
    image_NPD: Tensor,
    slots: Slots,
    frame: tuple[Tensor, Tensor],
    grounded: int,
) -> Tensor:
    """Six means, in the order of LOSS_NAMES. The first `grounded` positions are those of grounding slots."""
    hidden = text_hidden(w, c, image_NPD, embed_slots(w, slots), frame)
    nll = F.cross_entropy(
        text.lm_logits(w.text, hidden).float().flatten(0, 1), slots.target.flatten(), reduction="none"
    ).view_as(slots.target)
    by_group = [_mean(nll, slots.group == group) for group in LEARNT]
    near = hidden[:, :grounded]
    coords = _soft_nll(region.coordinate_logits(w.region, near), slots.coord[:, :grounded], _coordinate_bin)
    sizes = _soft_nll(region.size_logits(w.region, near), slots.size[:, :grounded], _size_bin).sum(-1)
    return torch.stack(
        [_mean(coords, slots.has_coord[:, :grounded]), *by_group, _mean(sizes, slots.has_size[:, :grounded])]
    )


def _mean(values: Tensor, where: Tensor) -> Tensor:
    return (values * where).sum() / where.sum().clamp(min=1)


def _coordinate_bin(value: Tensor, bins: int) -> Tensor:
    return value * bins


def _size_bin(value: Tensor, bins: int) -> Tensor:
    return (value.clamp(min=2.0**-SIZE_OCTAVES).log2() + SIZE_OCTAVES) / SIZE_OCTAVES * (bins - 1)


def _soft_nll(logits: Tensor, value: Tensor, to_bin: Callable[[Tensor, int], Tensor]) -> Tensor:
    """Cross-entropy against a Gaussian around the true bin; logits [..., bins], value [...]."""
    bins = logits.shape[-1]
    true = to_bin(value, bins).clamp(0, bins - 1)
    distance = torch.arange(bins, device=logits.device) - true[..., None]
    target = torch.softmax(-0.5 * (distance / SPREAD) ** 2, -1)
    return -(target * logits.float().log_softmax(-1)).sum(-1)
