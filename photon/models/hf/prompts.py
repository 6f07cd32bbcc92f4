"""From what a processor makes of a text and a picture to a `Prompt`: where the picture's features go, who sees whom,
and where the model is to believe that each position stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from photon.errors import ModelError
from photon.models.hf.attention import TWO_WAY
from photon.models.hf.model import TransformersModel
from photon.request import IMAGE_ID, ImageSpan, Prompt, Token

CAPTIONS = {
    "short": "Describe this image in one short sentence.",
    "normal": "Describe this image in a few sentences.",
    "long": "Describe this image in detail.",
}


def captions_of(model: TransformersModel) -> Mapping[str, str]:
    """What to ask for, by length. PaliGemma was trained on one wording and no lengths."""
    return dict.fromkeys(CAPTIONS, "caption en") if model.hf.config.model_type == "paligemma" else CAPTIONS


@dataclass(slots=True, eq=False)
class ProcessedImage:
    """An upright picture, and the tensors that its model's processor made of it: set with the first prompt that holds
    it, and the same for all."""

    picture: Any
    size: tuple[int, int]  # (width, height) in pixels
    inputs: dict[str, Tensor] = field(default_factory=dict)


def to_prompt(model: TransformersModel, inputs: Mapping[str, Tensor], image: ProcessedImage | None) -> Prompt:
    """`inputs`: a processor's tensors for one text, with `image` or without any."""
    ids: list[int] = inputs["input_ids"][0].tolist()
    rotary = model.rotary_positions(inputs)
    array = None if rotary is None else rotary.numpy()
    if image is None:
        return Prompt(tuple(map(Token, ids)), rotary=array)
    places = [i for i, token_id in enumerate(ids) if token_id == model.image_id]
    if not places:
        raise ModelError(f"the processor of {type(model.hf).__name__} leaves no place for the picture in its prompt")
    if not image.inputs:
        image.inputs = {name: tensor for name, tensor in inputs.items() if name in model.image_inputs}
    start, end = places[0], places[-1] + 1
    kind = TWO_WAY.get(model.hf.config.model_type)
    block = {"picture": (start, end), "prompt": (0, len(ids)), None: (end, end)}[kind]
    span = ImageSpan(image, start, end - start, *block)
    tokens = tuple(Token(IMAGE_ID if token_id == model.image_id else token_id) for token_id in ids)
    return Prompt(tokens, (span,), array)
