"""From a folder in transformers' layout to a model in memory and its processor. All that can be wrong without reading
weights is found before they are read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from photon.device import Device
from photon.errors import ModelError
from photon.models.checkpoint import weight_files
from photon.models.hf.model import TransformersModel
from photon.models.hf.probe import probe_prompt
from photon.models.hf.processor import ChatProcessor
from photon.models.hf.prompts import ProcessedImage, to_prompt


@dataclass(frozen=True)
class LoadedTransformers:
    """`stop_ids` end an answer, the first of them being the one that stands for all."""

    model: TransformersModel
    processor: ChatProcessor
    stop_ids: tuple[int, ...]


def load_transformers(folder: Path, device: Device) -> LoadedTransformers:
    """ModelError for an unknown architecture, a missing processor or weights, or a model that Photon cannot run."""
    config, kind = _choose_class(folder)
    has_vision = hasattr(config, "vision_config")
    processor = ChatProcessor(folder, config, has_vision=has_vision)
    stop_ids = _stop_ids(folder, config, processor)
    weight_files(folder)
    try:
        hf = kind.from_pretrained(folder, config=config, dtype=device.dtype, local_files_only=True)
    except (OSError, ValueError, RuntimeError, ImportError) as error:
        raise ModelError(f"transformers cannot load {folder}: {error}") from error
    hf = hf.eval().requires_grad_(False).to(device.name)
    model = TransformersModel(hf, processor.num_tokens)
    if has_vision:
        _probe_picture(model, processor)
    return LoadedTransformers(model, processor, tuple(i for i in stop_ids if i < model.spec.num_tokens))


def _probe_picture(model: TransformersModel, processor: ChatProcessor) -> None:
    """ModelError where a picture comes to something else through Photon than through the model alone."""
    picture = Image.radial_gradient("L").convert("RGB").resize((96, 64))
    inputs = processor("What is this?", picture)
    probe_prompt(model, to_prompt(model, inputs, ProcessedImage(picture, picture.size)), inputs)


def _choose_class(folder: Path) -> tuple[Any, Any]:
    """The configuration, and the Auto class that makes a model of it."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText, __version__

    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(f"transformers {__version__} does not know the architecture of {folder}: {error}") from error
    if getattr(config, "is_encoder_decoder", False):
        raise ModelError(f"{config.model_type} is an encoder and a decoder; Photon runs models that are a decoder only")
    for kind in (AutoModelForImageTextToText, AutoModelForCausalLM):
        if type(config) in kind._model_mapping:
            return config, kind
    raise ModelError(
        f"transformers {__version__} has no model of type {config.model_type!r} that says text: "
        "AutoModelForCausalLM and AutoModelForImageTextToText do not know it"
    )


def _stop_ids(folder: Path, config: Any, processor: ChatProcessor) -> tuple[int, ...]:
    """As `generate` takes them: of generation_config.json, else of the configuration; and the tokenizer's own."""
    from transformers import GenerationConfig

    try:
        listed = GenerationConfig.from_pretrained(folder, local_files_only=True).eos_token_id
    except OSError:  # there is none
        listed = config.get_text_config(decoder=True).eos_token_id
    ids = listed if isinstance(listed, list) else [listed]
    found = tuple(dict.fromkeys(i for i in (*ids, processor.eos_id) if i is not None))
    if not found:
        raise ModelError(f"{folder} names no token that ends an answer (eos_token_id)")
    return found
