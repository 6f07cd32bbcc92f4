"""`Model` over a model of the transformers library: its embedding, backbone, head and vision tower, called one by one.

All rows of a step are one sequence of T positions to the backbone; which of them belong together only `attend` knows.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from photon.errors import ModelError
from photon.kernels.attention import Attend
from photon.models.base import ModelSpec
from photon.models.hf.attention import KEYWORD, TWO_WAY, check_token_types, use_photon_attention
from photon.models.hf.probe import ProbeAttend, check_same, unlike


class TransformersModel:
    """`hf` is an AutoModelForCausalLM or AutoModelForImageTextToText in evaluation mode on its device.

    ModelError when its code is not what the probe can vouch for: it says the same two tokens both ways.
    """

    def __init__(self, hf: Any, num_tokens: int) -> None:
        self.hf = hf
        self._text = hf.config.get_text_config(decoder=True)
        self._core = getattr(hf, hf.base_model_prefix, hf)
        self._backbone = hf.get_decoder()
        self._table = hf.get_input_embeddings()
        self._head = hf.get_output_embeddings()
        if self._head is None or self._backbone is hf:
            raise ModelError(f"{type(hf).__name__} has no text backbone with a head that Photon could find")
        if self.has_vision:
            check_token_types(hf.config, self._core.forward)
        self.rotary_axes = 3 if hasattr(self._core, "get_rope_index") else 1
        self.first_position = 1 if hf.config.model_type == "paligemma" else 0
        self._num_deep = _count_deepstack(hf.config)
        self.image_inputs = _arguments(self._core.get_image_features) - {"kwargs"} if self.has_vision else set()
        self.image_id = getattr(hf.config, "image_token_id", None)
        self._num_tokens = num_tokens
        self.spec = self._probe()

    @property
    def name(self) -> str:
        return type(self.hf).__name__

    @property
    def has_vision(self) -> bool:
        return hasattr(self._core, "get_image_features")

    def encode_images(self, images: list[Any]) -> list[Tensor]:
        """[P, D] of each image, as its own processor prepared it: one by one, for their sizes differ.

        Of a model that adds features to later layers too, [P, D * (1 + such layers)].
        """
        return [self._encode(image.inputs) for image in images]

    def embed(self, ids_T: Tensor, values_T2: Tensor | None = None, value_sizes_T: Tensor | None = None) -> Tensor:
        embeds_TD = self._table(ids_T)
        return F.pad(embeds_TD, (0, self._num_deep * embeds_TD.shape[1])) if self._num_deep else embeds_TD

    def forward(self, embeds_TD: Tensor, positions_T: Tensor, attend: Attend) -> Tensor:
        """As `Model`; after the final norm, which belongs to the backbone here."""
        more: dict[str, Any] = {KEYWORD: attend}
        if self._num_deep:
            embeds_TD, *deep = embeds_TD.chunk(1 + self._num_deep, dim=1)
            # The mask of image positions is an index to the model: "all of row 0" needs no look at the device.
            all_positions = torch.zeros(1, dtype=torch.long, device=embeds_TD.device)
            more |= {"visual_pos_masks": all_positions, "deepstack_visual_embeds": deep}
        positions = positions_T.T[:, None] if positions_T.ndim == 2 else positions_T[None]
        out = self._backbone(inputs_embeds=embeds_TD[None], position_ids=positions, use_cache=False, **more)
        return out.last_hidden_state[0]

    def logits(self, hidden_BD: Tensor) -> Tensor:
        logits_BV = self._head(hidden_BD).float()
        if (factor := getattr(self.hf, "logit_scale", None)) is not None:
            logits_BV = logits_BV * factor
        if (divisor := getattr(self._text, "logits_scaling", None)) is not None:
            logits_BV = logits_BV / divisor
        if (cap := getattr(self._text, "final_logit_softcapping", None)) is not None:
            logits_BV = cap * torch.tanh(logits_BV / cap)
        return logits_BV

    def read_coordinates(self, hidden_BD: Tensor) -> Tensor:
        raise AssertionError("these models say coordinates as text")

    def read_sizes(self, hidden_BD: Tensor) -> Tensor:
        raise AssertionError("these models say sizes as text")

    def rotary_positions(self, inputs: Mapping[str, Tensor]) -> Tensor | None:
        """[positions, axes] of a prompt as its processor made it, or None where they are 0, 1, 2, ..."""
        count = inputs["input_ids"].shape[1]
        if self.rotary_axes == 3 and "image_grid_thw" in inputs:
            finder = self._core.get_rope_index
            known = _arguments(finder)
            positions, _ = finder(**{k: v for k, v in inputs.items() if k in known})
            return positions[:, 0].T
        if self.first_position:
            return torch.arange(self.first_position, self.first_position + count)[:, None]
        return None

    @torch.inference_mode()
    def logits_by_itself(self, inputs: Mapping[str, Tensor]) -> Tensor:
        """[V], of the word behind a prompt as its processor made it: by the model's own forward and attention."""
        self._backbone.set_attn_implementation("eager")  # the one that does all that its family asks for
        expected = self.hf(**self._given(inputs, _arguments(self.hf.forward) - {"labels"}), use_cache=False)
        use_photon_attention(self._backbone, sees_ahead=self.hf.config.model_type in TWO_WAY)
        return expected.logits[0, -1]

    def _given(self, inputs: Mapping[str, Tensor], names: set[str]) -> dict[str, Tensor]:
        """Those of the inputs, where the model is, and as precise."""
        weight = self._table.weight
        there = {k: v.to(weight.device) for k, v in inputs.items() if k in names}
        return {k: v.to(weight.dtype) if v.is_floating_point() else v for k, v in there.items()}

    def _encode(self, inputs: dict[str, Tensor]) -> Tensor:
        weight, given = self._table.weight, self._given(inputs, self.image_inputs)
        found = self._core.get_image_features(**given, return_dict=True)
        parts = [_flat(found.pooler_output), *map(_flat, getattr(found, "deepstack_features", None) or ())]
        return torch.cat(parts, dim=1).to(weight.dtype)

    @torch.inference_mode()
    def _probe(self) -> ModelSpec:
        """Run two tokens both ways; the sizes that our way finds."""
        meanings = [v for k, v in self.hf.config.to_dict().items() if k.endswith(("_token_id", "_token_index"))]
        size = self._head.weight.shape[0]
        ids = torch.tensor(unlike(*meanings, size=size), device=self._table.weight.device)
        expected = self.logits_by_itself({"input_ids": ids[None]})
        attend = ProbeAttend()
        positions = torch.arange(self.first_position, self.first_position + 2, device=ids.device)
        if self.rotary_axes > 1:
            positions = positions[:, None].expand(-1, self.rotary_axes)
        found = self.logits(self.forward(self.embed(ids), positions, attend)[-1:])[0]
        shapes = attend.shapes
        if sorted(shapes) != list(range(len(shapes))) or len(set(shapes.values())) != 1:
            raise ModelError(f"{self.name}: keys of layers {shapes} cannot be paged as one KV memory")
        check_same(self.name, found, expected, self._table.weight.dtype)
        num_kv_heads, head_dim = shapes[0]
        return ModelSpec(
            dim=self._table.weight.shape[1],
            num_layers=len(shapes),
            num_kv_heads=num_kv_heads,
            head_dim=head_dim,
            vocab_size=size,
            num_tokens=min(self._num_tokens, size),
            max_context=self._text.max_position_embeddings,
            coord_id=None,
            rotary_axes=self.rotary_axes,
        )


def _flat(features: Any) -> Tensor:
    """[P, D] of features in whatever batches and lists they come."""
    if isinstance(features, Tensor):
        return features.flatten(0, -2)
    return torch.cat([_flat(part) for part in features])


def _arguments(function: Callable[..., Any]) -> set[str]:
    return set(inspect.signature(function).parameters)


def _count_deepstack(config: Any) -> int:
    """Layers behind the first that get image features too."""
    vision = getattr(config, "vision_config", None)
    return len(getattr(vision, "deepstack_visual_indexes", None) or ())
