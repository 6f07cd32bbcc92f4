"""From a configuration to a model in memory, its tokenizer, and what tasks must know of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from PIL import Image

from photon.cache.kv import PageShape, allocate_kv
from photon.cache.pages import PagePool
from photon.config import EngineConfig
from photon.constraint.compiler import ConstraintCompiler
from photon.constraint.vocabulary import Vocabulary
from photon.device import Device
from photon.errors import ConfigError, ModelError
from photon.images.crops import prepare_image
from photon.models.base import Model
from photon.models.recipes import PromptIds, Recipe
from photon.models.source import ModelSource, find_model
from photon.request import PreparedImage, Prompt
from photon.runner.runner import ModelRunner
from photon.scheduler.scheduler import Scheduler
from photon.tasks.context import Chat, TaskContext
from photon.text.detokenizer import Detokenizer
from photon.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class LoadedModel:
    """`prepare` cuts an upright picture as this model wants it; `quantization` is "none" or "int8"."""

    model: Model
    context: TaskContext
    prepare: Callable[[Image.Image], Any]
    quantization: str


def load_model(config: EngineConfig, device: Device) -> LoadedModel:
    """ModelError when the model is unknown, incomplete or of a family that this version does not run."""
    source = find_model(config.model, config.revision)
    if source.recipe.family == "transformers":
        return _load_transformers(source, config, device)
    if source.recipe.family != "moondream":
        raise ModelError(
            f"{source.recipe.name} is of family {source.recipe.family!r}; this version runs moondream and transformers"
        )
    return _load_moondream(source, device, _choose_quantization(config, source.recipe, device))


def _load_moondream(source: ModelSource, device: Device, quantization: str) -> LoadedModel:
    from photon.models.moondream import int8
    from photon.models.moondream.config import MoondreamConfig
    from photon.models.moondream.loader import load_weights
    from photon.models.moondream.model import CPU_CROPS, MoondreamModel

    recipe = source.recipe
    sizes = MoondreamConfig.from_dict(source.config)
    tokenizer = Tokenizer.from_file(source.tokenizer)
    weights = load_weights(source.weights, sizes, device=device.name, dtype=device.dtype)
    cpu_crops = CPU_CROPS
    if quantization == "int8":
        weights, cpu_crops = int8.with_packed_products(weights), int8.CROPS
    model = MoondreamModel(sizes, weights, tokenizer.num_tokens, recipe.ids.coord, cpu_crops)
    vocabulary = Vocabulary.build(
        tokenizer.text_bytes,
        special_ids=recipe.ids.known() | tokenizer.special_ids,
        vocab_size=sizes.text.vocab_size,
        stop_ids=(recipe.ids.eos,),
    )
    context = TaskContext(
        recipe=recipe,
        encode=tokenizer.encode,
        decode=tokenizer.decode,
        detokenizer=lambda: Detokenizer(tokenizer),
        image_length=sizes.vision.num_positions,
        max_context=sizes.text.max_context,
        constraints=ConstraintCompiler(vocabulary),
    )
    vision = sizes.vision

    def prepare(image: Image.Image) -> PreparedImage:
        return prepare_image(
            image,
            crop_size=vision.crop_size,
            patch_size=vision.enc_patch_size,
            overlap_margin=vision.overlap_margin,
            max_crops=vision.max_crops,
        )

    return LoadedModel(model, context, prepare, quantization)


def _load_transformers(source: ModelSource, config: EngineConfig, device: Device) -> LoadedModel:
    from photon.models.hf.loader import load_transformers
    from photon.models.hf.prompts import ProcessedImage, captions_of, to_prompt

    if config.quantization == "int8":
        raise ConfigError("quantization='int8' is for models of the moondream family: leave it, or take 'none'")
    loaded = load_transformers(source.weights, device)
    model, processor = loaded.model, loaded.processor
    tokenizer = Tokenizer.from_json(processor.tokenizer_json)
    recipe = replace(
        source.recipe,
        ids=PromptIds(bos=loaded.stop_ids[0], eos=loaded.stop_ids[0]),
        takes_images=model.has_vision,
        templates=replace(
            source.recipe.templates, query=replace(source.recipe.templates.query, needs_image=processor.needs_image)
        ),
    )
    vocabulary = Vocabulary.build(
        tokenizer.text_bytes,
        special_ids=tokenizer.special_ids | set(loaded.stop_ids),
        vocab_size=model.spec.vocab_size,
        stop_ids=loaded.stop_ids,
    )

    def prompt(text: str, image: ProcessedImage | None) -> Prompt:
        return to_prompt(model, processor(text, image and image.picture), image)

    context = TaskContext(
        recipe=recipe,
        encode=tokenizer.encode,
        decode=tokenizer.decode,
        detokenizer=lambda: Detokenizer(tokenizer),
        image_length=0,  # a picture takes as many positions as its processor says
        max_context=model.spec.max_context,
        constraints=ConstraintCompiler(vocabulary),
        chat=Chat(prompt, captions_of(model)),
    )
    return LoadedModel(model, context, lambda picture: ProcessedImage(picture, picture.size), "none")


def _choose_quantization(config: EngineConfig, recipe: Recipe, device: Device) -> str:
    """By itself only what changes nothing that anybody asked for."""
    if config.quantization != "auto":
        return config.quantization
    from photon.models.moondream.int8 import is_at_hand

    is_free = config.dtype == "auto" and device.name == "cpu" and is_at_hand()
    return recipe.quantization if is_free else "none"


def build_scheduler(config: EngineConfig, model: Model, device: Device) -> Scheduler:
    """Allocates KV memory and slots. ConfigError when the memory cannot hold one page."""
    spec = model.spec
    page = PageShape(spec.num_layers, config.page_size, spec.num_kv_heads, spec.head_dim)
    num_pages = config.num_pages or _choose_num_pages(config, spec.max_context, page.num_bytes(device.dtype.itemsize))
    runner = ModelRunner(
        model,
        allocate_kv(page, num_pages, device),
        device,
        max_rows=config.max_batch_size,
        max_positions=max(config.max_prefill_tokens, spec.max_context, config.max_batch_size),
    )
    return Scheduler(
        runner,
        PagePool(num_pages, config.page_size),
        max_rows=config.max_batch_size,
        max_context=spec.max_context,
        depth=config.pipeline_depth or (2 if device.is_cuda else 1),
        max_prefill_tokens=config.max_prefill_tokens,
    )


def _choose_num_pages(config: EngineConfig, max_context: int, page_bytes: int) -> int:
    """Pages for a full batch of full contexts, or as many as kv_bytes holds."""
    wanted = config.max_batch_size * -(-max_context // config.page_size)
    affordable = config.kv_bytes // page_bytes
    if affordable < 1:
        raise ConfigError(f"kv_bytes={config.kv_bytes} does not hold one page of {page_bytes} bytes")
    return min(wanted, affordable)
