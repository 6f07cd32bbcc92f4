"""Folders of tiny random models as transformers saves them: weights, tokenizer, chat template, image processor."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from hf_models import TINY
from hf_vision import FAMILIES
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText, LlamaConfig, PreTrainedTokenizerFast
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil
from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import GotOcr2ImageProcessorPil
from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil
from transformers.models.llava_onevision.image_processing_pil_llava_onevision import LlavaOnevisionImageProcessorPil
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

TURN, START, END, IMAGE, VIDEO, LLAVA = (
    "<|im_start|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>", "<image>",
)  # fmt: skip
TEXT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def template(image: str) -> str:
    """`image` stands where the picture goes."""
    parts = (
        "{% for c in m.content %}{% if c.type == 'image' %}" + image + "{% else %}{{ c.text }}{% endif %}{% endfor %}"
    )
    return TEXT_TEMPLATE.replace("{{ m.content }}", parts)


def tokenizer(*, extra: Sequence[str] = (), **named: Any) -> PreTrainedTokenizerFast:
    """One id a byte, and the control tokens: those that all here have, `extra`, and `named` ones."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE(vocab={char: i for i, char in enumerate(alphabet)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token="<|im_end|>",
        pad_token="<|pad|>",
        additional_special_tokens=[TURN, START, END, IMAGE, VIDEO, LLAVA, *extra],
        **named,
    )


def sizes(words: Any) -> dict[str, Any]:
    return {**TINY, "vocab_size": len(words), "eos_token_id": words.eos_token_id, "max_position_embeddings": 1024}


def _save(folder: Path, hf: Any, words: Any, chat: str | None) -> Path:
    hf.generation_config.eos_token_id = words.eos_token_id
    hf.save_pretrained(folder)
    words.save_pretrained(folder)
    if chat is not None:
        (folder / "chat_template.jinja").write_text(chat)
    return folder


def save_llama(folder: Path, *, chat: str | None = TEXT_TEMPLATE) -> Path:
    words = tokenizer()
    torch.manual_seed(5)
    return _save(folder, AutoModelForCausalLM.from_config(LlamaConfig(**sizes(words))), words, chat)


@dataclass(frozen=True)
class Kind:
    """What a family's folder holds beside the model of `hf_vision`.

    `ids` are token ids of the configuration, by the token; `place` stands in the chat template for the picture (None:
    no template); `processor` is processor_config.json.
    """

    pixels: Any
    place: str | None
    ids: dict[str, str]
    processor: dict[str, Any] | None = None
    extra: tuple[str, ...] = ()
    named: dict[str, Any] = field(default_factory=dict)


QWEN_IDS = {
    "image_token_id": IMAGE,
    "video_token_id": VIDEO,
    "vision_start_token_id": START,
    "vision_end_token_id": END,
}
QWEN = Kind(
    Qwen2VLImageProcessorPil(patch_size=4, merge_size=2, min_pixels=64, max_pixels=1024), START + IMAGE + END, QWEN_IDS
)
SIDE = {"height": 28, "width": 28}
TILES = [f"<row_{row}_col_{column}>" for row in range(1, 5) for column in range(1, 5)]
KINDS = {
    "llava": Kind(
        CLIPImageProcessorPil(size={"shortest_edge": 28}, crop_size=SIDE),
        LLAVA + "\n",
        {"image_token_id": LLAVA},
        {"patch_size": 7, "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1},
    ),
    "qwen2_5_vl": QWEN,
    "qwen3_vl": QWEN,
    "gemma3": Kind(
        Gemma3ImageProcessorPil(size=SIDE),
        "<boi>",
        {"image_token_id": "<soft>", "boi_token_index": "<boi>", "eoi_token_index": "<eoi>"},
        {"image_seq_length": 4},
        named={"extra_special_tokens": {"boi_token": "<boi>", "eoi_token": "<eoi>", "image_token": "<soft>"}},
    ),
    "paligemma": Kind(
        SiglipImageProcessorPil(size=SIDE, image_seq_length=16),
        None,
        {"image_token_id": LLAVA},
        extra=(*(f"<loc{i:04}>" for i in range(1024)), *(f"<seg{i:03}>" for i in range(128))),
        named={"bos_token": "<bos>"},
    ),
    "idefics3": Kind(
        Idefics3ImageProcessorPil(size={"longest_edge": 56}, max_image_size={"longest_edge": 28}),
        LLAVA,
        {"image_token_id": LLAVA},
        {"image_seq_len": 4},
        ("<fake_token_around_image>", "<end_of_utterance>", "<global-img>", *TILES),
    ),
    "internvl": Kind(
        GotOcr2ImageProcessorPil(size=SIDE, crop_to_patches=True, min_patches=1, max_patches=4),
        "<IMG_CONTEXT>\n",
        {"image_token_id": "<IMG_CONTEXT>"},
        {"image_seq_length": 4},
        named={
            "extra_special_tokens": {
                "start_image_token": "<img>",
                "end_image_token": "</img>",
                "context_image_token": "<IMG_CONTEXT>",
                "video_token": "<video>",
            }
        },
    ),
    "llava_onevision": Kind(
        LlavaOnevisionImageProcessorPil(
            size=SIDE, image_grid_pinpoints=FAMILIES["llava_onevision"].config["image_grid_pinpoints"]
        ),
        LLAVA + "\n",
        {"image_token_id": LLAVA},
        {"num_image_tokens": 16, "vision_feature_select_strategy": "full", "video_token": VIDEO},
    ),
}


def save_vision(folder: Path, name: str) -> Path:
    kind, made = KINDS[name], CONFIG_MAPPING[name]
    words = tokenizer(extra=kind.extra, **kind.named)
    ids = {key: words.convert_tokens_to_ids(token) for key, token in kind.ids.items()}
    config: dict[str, Any] = FAMILIES[name].config | ids
    config["text_config"] = config["text_config"] | sizes(words)
    kind.pixels.save_pretrained(folder)
    if kind.processor is not None:
        (folder / "processor_config.json").write_text(json.dumps(kind.processor))
    torch.manual_seed(5)
    as_any: Any = made
    hf = AutoModelForImageTextToText.from_config(as_any(**config, tie_word_embeddings=False))
    return _save(folder, hf, words, kind.place and template(kind.place))
