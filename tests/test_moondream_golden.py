"""The model's parts against what the torch reference computes for two tiny configurations (tests/data)."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from photon.kernels.attention import AttentionPlan, DenseAttend, PagedAttend, visibility
from photon.models.moondream import region, text, vision
from photon.models.moondream.config import MoondreamConfig
from photon.models.moondream.loader import load_weights
from photon.models.moondream.model import MoondreamModel
from photon.request import PreparedImage

DATA = Path(__file__).parent / "data"
SETS = ["moondream2_tiny", "moondream2_tiny_grounding"]
PICTURES = ["small", "wide", "photo"]
QUESTION = "How many circles?"

pytestmark = pytest.mark.parametrize("name", SETS)


@cache
def load(name: str) -> MoondreamModel:
    config = MoondreamConfig.from_dict(json.loads((DATA / name / "config.json").read_text()))
    weights = load_weights(DATA / name / "model.safetensors", config, device="cpu", dtype=torch.float32)
    return MoondreamModel(config, weights, num_tokens=512, coord_id=5)


@cache
def expected(name: str) -> dict[str, np.ndarray]:
    with np.load(DATA / name / "expected.npz") as stored:
        return dict(stored)


def assert_close(actual: torch.Tensor, reference: np.ndarray, *, atol: float = 1e-4) -> None:
    torch.testing.assert_close(actual.float(), torch.from_numpy(reference).float(), rtol=1e-4, atol=atol)


def golden(name: str, picture: str, key: str) -> np.ndarray:
    return expected(name)[f"{picture}.{key}"]


def prepared(name: str, picture: str) -> PreparedImage:
    meta = json.loads((DATA / name / "expected.json").read_text())[picture]
    return PreparedImage(golden(name, picture, "crops"), tuple(meta["tiling"]), tuple(meta["size"]))


def query_ids() -> torch.Tensor:
    return torch.tensor([1, 304, 2, *(byte + 16 for byte in QUESTION.encode()), 3, 3])


@pytest.mark.parametrize("picture", PICTURES)
def test_vision(name: str, picture: str) -> None:
    model = load(name)
    crops = torch.from_numpy(golden(name, picture, "crops"))
    pixels = vision.normalize_crops(crops, torch.float32)
    features = vision.encode_crops(model.weights.vision, model.config.vision, pixels)
    assert_close(features[0], golden(name, picture, "vision_features_crop0"))
    sums = features.double().sum(dim=(1, 2))
    assert_close(sums, golden(name, picture, "vision_features_sum"), atol=1e-2)


def test_images_encoded_together_equal_the_reference(name: str) -> None:
    features = load(name).encode_images([prepared(name, picture) for picture in PICTURES])
    for picture, image_PD in zip(PICTURES, features, strict=True):
        assert_close(image_PD, golden(name, picture, "image_embeds"))


@pytest.mark.parametrize("picture", PICTURES)
def test_prompt(name: str, picture: str) -> None:
    """Text tower over BOS + image + question, dense: cached rows, logits, coordinate and size heads."""
    model = load(name)
    w = model.weights
    image_PD = torch.from_numpy(golden(name, picture, "image_embeds"))
    embeds = torch.cat([w.text.wte[[0]], image_PD, w.text.wte[query_ids()]])
    mask = visibility(len(embeds), len(embeds), ((0, 730),), "cpu")
    hidden = text.text_forward(w.text, model.config.text, embeds[None], torch.arange(len(embeds)), DenseAttend(mask))[
        0, -1:
    ]
    assert_close(hidden[0], golden(name, picture, "query_hidden_last"))
    assert_close(text.lm_logits(w.text, hidden)[0], golden(name, picture, "query_logits"))
    coordinate, size = region.coordinate_logits(w.region, hidden), region.size_logits(w.region, hidden)
    assert_close(coordinate[0], golden(name, picture, "coord_logits"))
    assert_close(size[0], golden(name, picture, "size_logits"))


def test_paged_prefill_of_several_prompts(name: str) -> None:
    """All three prompts in one ragged launch over scattered pages: logits and cache rows of the reference."""
    model, page_size, span = load(name), 16, 730
    rows = [torch.from_numpy(golden(name, picture, "image_embeds")) for picture in PICTURES]
    w = model.weights.text
    embeds = torch.cat([torch.cat([w.wte[[0]], image, w.wte[query_ids()]]) for image in rows])
    length = len(embeds) // 3
    pages_per_row = -(-length // page_size)
    table = (torch.randperm(3 * pages_per_row, generator=torch.Generator().manual_seed(0)) + 1).view(3, -1)
    position = torch.arange(length)
    slots = torch.cat([row[position // page_size] * page_size + position % page_size for row in table])
    lengths = [length] * 3
    plan = AttentionPlan(page_size, slots, table, torch.tensor(lengths), lengths, lengths, [((0, span),)] * 3)
    spec = model.spec
    kv = torch.full((spec.num_layers, 2, 3 * pages_per_row + 1, page_size, spec.num_kv_heads, spec.head_dim), torch.nan)
    hidden = model.forward(embeds, position.repeat(3), PagedAttend(kv, plan)).view(3, length, -1)
    for row, picture in enumerate(PICTURES):
        assert_close(model.logits(hidden[row, -1:])[0], golden(name, picture, "query_logits"))
        sampled = torch.arange(0, span, 73)
        keys = kv[0, 0][table[row]].flatten(0, 1)[sampled].transpose(0, 1)
        values = kv[2, 1][table[row]].flatten(0, 1)[sampled].transpose(0, 1)
        assert_close(interleaved(keys), golden(name, picture, "k_layer0"))
        assert_close(values, golden(name, picture, "v_layer2"))


def interleaved(keys: torch.Tensor) -> torch.Tensor:
    """The reference stores rotated pairs side by side; here pair i is (i, i + 16)."""
    rotated = keys[..., :32].unflatten(-1, (2, 16)).transpose(-1, -2).flatten(-2)
    return torch.cat([rotated, keys[..., 32:]], dim=-1)
