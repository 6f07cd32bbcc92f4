"""Folders of tiny random models as transformers saves them: weights, tokenizer, chat template, image processor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from hf_models import TINY
from hf_vision import CLIP, FAMILIES
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText, LlamaConfig, PreTrainedTokenizerFast
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

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


def tokenizer() -> PreTrainedTokenizerFast:
    """One id a byte, and the control tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE(vocab={char: i for i, char in enumerate(alphabet)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token="<|im_end|>",
        pad_token="<|pad|>",
        additional_special_tokens=[TURN, START, END, IMAGE, VIDEO, LLAVA],
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


def _save_vision(folder: Path, model_type: str, config: dict[str, Any], words: Any, chat: str) -> Path:
    torch.manual_seed(5)
    kind: Any = CONFIG_MAPPING[model_type]
    made = kind(**config, tie_word_embeddings=False)
    return _save(folder, AutoModelForImageTextToText.from_config(made), words, chat)


def save_qwen(folder: Path) -> Path:
    words, config = tokenizer(), dict(FAMILIES["qwen2_5_vl"].config)
    tokens = {"image": IMAGE, "video": VIDEO, "vision_start": START, "vision_end": END}
    config |= {f"{name}_token_id": words.convert_tokens_to_ids(token) for name, token in tokens.items()}
    config["text_config"] = config["text_config"] | sizes(words)
    Qwen2VLImageProcessorPil(patch_size=4, merge_size=2, min_pixels=64, max_pixels=1024).save_pretrained(folder)
    return _save_vision(folder, "qwen2_5_vl", config, words, template(START + IMAGE + END))


def save_llava(folder: Path) -> Path:
    words = tokenizer()
    config = {
        "text_config": {"model_type": "llama", **sizes(words)},
        "vision_config": CLIP,
        "image_token_id": words.convert_tokens_to_ids(LLAVA),
    }
    CLIPImageProcessorPil(size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28}).save_pretrained(folder)
    (folder / "processor_config.json").write_text(
        '{"processor_class": "LlavaProcessor", "patch_size": 7, "vision_feature_select_strategy": "default", '
        '"num_additional_image_tokens": 1, "image_token": "<image>"}'
    )
    return _save_vision(folder, "llava", config, words, template(LLAVA + "\n"))
