"""A loaded Moondream model, as the runner sees it: the plain functions bound to weights and configuration."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from photon.kernels.attention import Attend
from photon.models.base import ModelSpec
from photon.models.moondream import region, text, vision
from photon.models.moondream.config import MoondreamConfig
from photon.models.moondream.weights import MoondreamWeights
from photon.request import PreparedImage

CPU_CROPS = 3  # more leave a CPU's caches, fewer leave its threads waiting


@dataclass(frozen=True)
class MoondreamModel:
    """Implements `models.base.Model`. `num_tokens` is the tokenizer's length, `coord_id` the recipe's. `cpu_crops` go
    through the vision tower at once on a CPU."""

    config: MoondreamConfig
    weights: MoondreamWeights
    num_tokens: int
    coord_id: int | None
    cpu_crops: int = CPU_CROPS

    @property
    def spec(self) -> ModelSpec:
        t = self.config.text
        return ModelSpec(
            dim=t.dim,
            num_layers=t.n_layers,
            num_kv_heads=t.n_kv_heads,
            head_dim=t.head_dim,
            vocab_size=t.vocab_size,
            num_tokens=min(self.num_tokens, t.vocab_size),
            max_context=t.max_context,
            coord_id=self.coord_id,
        )

    def encode_images(self, images: list[PreparedImage]) -> list[Tensor]:
        """[P, D] for each image; all crops of all images in one pass.

        A picture of one tile has two equal crops, which are encoded once.
        """
        w, c = self.weights.vision, self.config.vision
        different = [image.crops[:1] if image.tiling == (1, 1) else image.crops for image in images]
        crops = torch.from_numpy(np.concatenate(different)).to(w.pos_emb.device)
        at_once = self.cpu_crops if crops.is_cpu else len(crops)
        features_NPE = torch.cat(
            [vision.encode_crops(w, c, vision.normalize_crops(part, w.pos_emb.dtype)) for part in crops.split(at_once)]
        )
        wholes, pooled = [], []
        for image, features in zip(images, features_NPE.split([len(crops) for crops in different]), strict=True):
            whole, tiles = features[:1], features[1:] if len(features) > 1 else features
            wholes.append(whole)
            pooled.append(vision.pool_tiles(c, tiles[None], image.tiling))
        return list(vision.project(w, torch.cat(wholes), torch.cat(pooled)))

    def embed(self, ids_T: Tensor, values_T2: Tensor | None = None, value_sizes_T: Tensor | None = None) -> Tensor:
        """[T, D]: table rows, or the encoded coordinate or size where the position carries one."""
        embeds_TD = self.weights.text.wte[ids_T]
        if values_T2 is None or value_sizes_T is None:
            return embeds_TD
        w = self.weights.region
        coordinates = region.encode_coordinate(w, values_T2[:, 0])
        sizes = region.encode_size(w, values_T2)
        kind = value_sizes_T[:, None]
        return torch.where(kind == 1, coordinates, torch.where(kind == 2, sizes, embeds_TD))

    def forward(self, embeds_TD: Tensor, positions_T: Tensor, attend: Attend) -> Tensor:
        return text.text_forward(self.weights.text, self.config.text, embeds_TD, positions_T, attend)

    def logits(self, hidden_BD: Tensor) -> Tensor:
        return text.lm_logits(self.weights.text, hidden_BD).float()

    def read_coordinates(self, hidden_BD: Tensor) -> Tensor:
        bins = region.coordinate_logits(self.weights.region, hidden_BD)
        return region.bins_to_coordinate(bins.argmax(-1), bins.shape[-1])

    def read_sizes(self, hidden_BD: Tensor) -> Tensor:
        bins = region.size_logits(self.weights.region, hidden_BD)
        return region.bins_to_size(bins.argmax(-1), bins.shape[-1])
