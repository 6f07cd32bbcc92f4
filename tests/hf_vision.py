"""Tiny random image-text models of ten families, from configurations alone, and prompts with pictures for each.

What a processor would make is made by hand here: the ids with a place for each feature, and pixels at random.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from hf_models import TINY
from torch import Tensor
from transformers import AutoModelForImageTextToText
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

IMAGE, START, END, BREAK = 90, 91, 92, 93  # the image token, and words that some families put around its places
Inputs = dict[str, Tensor]
VISION: dict[str, Any] = dict(
    hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, image_size=28, patch_size=7
)


@dataclass(frozen=True)
class Family:
    """`config` by keyword; `picture` makes the pixels of picture number n, and the ids that stand for it."""

    config: dict[str, Any]
    picture: Callable[[int], tuple[Inputs, list[int]]]


def pixels(n: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(n))


def text(model_type: str, **more: Any) -> dict[str, Any]:
    return {"model_type": model_type, **TINY, **more}


def fixed(places: int) -> Callable[[int], tuple[Inputs, list[int]]]:
    """Pictures that all take as many places."""
    return lambda n: ({"pixel_values": pixels(n, 1, 3, 28, 28)}, [IMAGE] * places)


def qwen(n: int) -> tuple[Inputs, list[int]]:
    """Grids of patches of 2 x 2 to 4 x 6, of which four make a place."""
    grid = [(1, 2, 4), (1, 4, 4), (1, 6, 4), (1, 2, 2)][n % 4]
    count = grid[1] * grid[2]
    inputs = {"pixel_values": pixels(n, count, 3 * 2 * 4 * 4), "image_grid_thw": torch.tensor([grid])}
    return inputs, [START, *[IMAGE] * (count // 4), END]


def tiles(n: int) -> tuple[Inputs, list[int]]:
    """Idefics 3: one to three tiles of 4 places each, with words between them."""
    count = 1 + n % 3
    ids = [i for tile in range(count) for i in (START, tile, *[IMAGE] * 4)]
    mask = torch.ones(1, count, 28, 28, dtype=torch.long)
    return {"pixel_values": pixels(n, 1, count, 3, 28, 28), "pixel_attention_mask": mask}, [*ids, START]


def patches(n: int) -> tuple[Inputs, list[int]]:
    """InternVL: one to three squares of 4 places each, one behind the other."""
    count = 1 + n % 3
    return {"pixel_values": pixels(n, count, 3, 28, 28)}, [START, *[IMAGE] * 4 * count, END]


def pixtral(n: int) -> tuple[Inputs, list[int]]:
    """Pictures of whole patches of 7 pixels, merged two by two: rows of places with a word after each."""
    rows, columns = [(1, 2), (2, 2), (2, 1), (2, 3)][n % 4]
    size = torch.tensor([[14 * rows, 14 * columns]])
    ids = [*([IMAGE] * columns + [BREAK]) * rows]
    return {"pixel_values": pixels(n, 1, 3, 14 * rows, 14 * columns), "image_sizes": size}, [*ids[:-1], END]


def onevision(n: int) -> tuple[Inputs, list[int]]:
    """The whole picture, and with it the square tiles of a grid, whose padding is cut off and whose rows end in a word
    of the model's own: counted as in `LlavaOnevisionModel.pack_image_features`."""
    size, grid, places = [((28, 28), (1, 1), 16 + 4 * 5), ((28, 56), (1, 2), 16 + 4 * 9)][n % 2]
    inputs = {
        "pixel_values": pixels(n, 1, 1 + grid[0] * grid[1], 3, 28, 28),
        "image_sizes": torch.tensor([size]),
        "batch_num_images": torch.tensor([1]),
    }
    return inputs, [IMAGE] * places


CLIP = {"model_type": "clip_vision_model", **VISION, "projection_dim": 16}
SIGLIP = {"model_type": "siglip_vision_model", **VISION, "vision_use_head": False}
QWEN_ROPE = {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [1, 1, 2]}
GEMMA_LAYERS = ["sliding_attention", "full_attention", "sliding_attention"]
QWEN25_VISION = dict(
    depth=2, hidden_size=16, num_heads=2, intermediate_size=24, patch_size=4, out_hidden_size=32,
    window_size=16, fullatt_block_indexes=[1], spatial_merge_size=2, temporal_patch_size=2,
)  # fmt: skip
QWEN3_VISION = dict(
    depth=3, hidden_size=16, num_heads=2, intermediate_size=24, patch_size=4, out_hidden_size=32,
    deepstack_visual_indexes=[0, 1], num_position_embeddings=64, spatial_merge_size=2, temporal_patch_size=2,
)  # fmt: skip
INTERN_VISION = {"model_type": "internvl_vision", **VISION, "image_size": [28, 28], "patch_size": [7, 7]}

FAMILIES = {
    "llava": Family({"text_config": text("llama"), "vision_config": CLIP}, fixed(16)),
    "qwen2_5_vl": Family(
        {
            "text_config": text("qwen2_5_vl_text", rope_parameters=QWEN_ROPE),
            "vision_config": QWEN25_VISION,
            "vision_start_token_id": START,
            "vision_end_token_id": END,
            "video_token_id": 94,
        },
        qwen,
    ),
    "qwen3_vl": Family(
        {
            "text_config": text("qwen3_vl_text", rope_parameters={**QWEN_ROPE, "mrope_interleaved": True}),
            "vision_config": QWEN3_VISION,
            "vision_start_token_id": START,
            "vision_end_token_id": END,
            "video_token_id": 94,
        },
        qwen,
    ),
    "idefics3": Family(
        {
            "text_config": text("llama"),
            "vision_config": {"model_type": "idefics3_vision", **VISION},
            "scale_factor": 2,
        },
        tiles,
    ),
    "smolvlm": Family(
        {"text_config": text("llama"), "vision_config": {"model_type": "smolvlm_vision", **VISION}, "scale_factor": 2},
        tiles,
    ),
    "paligemma": Family({"text_config": text("gemma"), "vision_config": SIGLIP, "projection_dim": 32}, fixed(16)),
    "paligemma 2": Family(
        {
            "text_config": text("gemma2", sliding_window=6, layer_types=GEMMA_LAYERS, attn_logit_softcapping=20.0),
            "vision_config": SIGLIP,
            "projection_dim": 32,
        },
        fixed(16),
    ),
    "gemma3": Family(
        {
            "text_config": text("gemma3_text", sliding_window=6, layer_types=GEMMA_LAYERS, query_pre_attn_scalar=1),
            "vision_config": SIGLIP,
            "mm_tokens_per_image": 4,
        },
        lambda n: ({"pixel_values": pixels(n, 1, 3, 28, 28)}, [START, *[IMAGE] * 4, END]),
    ),
    "internvl": Family(
        {"text_config": text("qwen2"), "vision_config": INTERN_VISION, "downsample_ratio": 0.5},
        patches,
    ),
    "mistral3": Family(
        {
            "text_config": text("mistral", sliding_window=9),
            "vision_config": {"model_type": "pixtral", **VISION, "head_dim": 8},
            "spatial_merge_size": 2,
        },
        pixtral,
    ),
    "llava_onevision": Family(
        {
            "text_config": text("qwen2"),
            "vision_config": SIGLIP,
            "image_grid_pinpoints": [[28, 28], [28, 56], [56, 28], [56, 56]],
            "vision_feature_select_strategy": "full",
        },
        onevision,
    ),
}  # fmt: skip


def make(name: str) -> Any:
    """The model of a family, in evaluation mode, attending as transformers does by itself."""
    config = dict(FAMILIES[name].config, image_token_id=IMAGE, tie_word_embeddings=False)
    torch.manual_seed(11)
    made = CONFIG_MAPPING[name.split()[0]](**config)
    return AutoModelForImageTextToText.from_config(made, attn_implementation="eager").eval()


def inputs_of(name: str, number: int | None, before: list[int], after: list[int]) -> Inputs:
    """What `generate` takes for picture `number` between two texts; without a picture, the texts."""
    picture, ids = FAMILIES[name].picture(number) if number is not None else ({}, [])
    whole = torch.tensor([[*before, *ids, *after]])
    made = {"input_ids": whole, "attention_mask": torch.ones_like(whole), **picture}
    types = (whole == IMAGE).long()
    if name == "gemma3":
        made["token_type_ids"] = types
    if name.startswith("paligemma") and number is not None:
        made["token_type_ids"] = torch.zeros_like(whole)
    if name.startswith("qwen"):
        made["mm_token_type_ids"] = types
    return made
