"""Weights between training and engine: what is exported is what is loaded, and both compute the same from it."""

from __future__ import annotations

import json
from pathlib import Path

import losses
import tiny_model
import torch
from checkpoint import INDEX, export, load_exported
from losses import embed_slots, slot_frame, text_hidden, working_copy
from slots import Slots
from torch import Tensor

from photon.kernels.attention import DenseAttend
from photon.models.moondream import region
from photon.models.moondream.config import MoondreamConfig
from photon.models.moondream.loader import load_weights
from photon.models.moondream.model import MoondreamModel
from photon.models.moondream.weights import named_tensors, random_init

TINY = MoondreamConfig.from_dict(tiny_model.SIZES)


def test_what_is_exported_is_loaded(tmp_path: Path) -> None:
    trained = named_tensors(random_init(TINY, 4))
    export(trained, tmp_path)
    loaded = named_tensors(load_weights(tmp_path, TINY, device="cpu", dtype=torch.bfloat16))
    assert loaded.keys() == trained.keys()
    for name, tensor in trained.items():
        assert loaded[name].dtype == torch.bfloat16 and torch.equal(loaded[name], tensor.to(torch.bfloat16)), name
    resumed = load_exported(tmp_path)
    assert resumed.keys() == trained.keys()
    assert all(torch.equal(resumed[name], tensor.to(torch.bfloat16).float()) for name, tensor in trained.items())


def test_shards_are_of_about_equal_size(tmp_path: Path) -> None:
    trained = named_tensors(random_init(TINY, 4))
    export(trained, tmp_path)
    shards = sorted(tmp_path.glob("*.safetensors"))
    sizes = [path.stat().st_size for path in shards]
    largest = 2 * max(tensor.numel() for tensor in trained.values())
    assert [path.name for path in shards] == ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    assert abs(sizes[0] - sizes[1]) <= 2 * largest + 20_000  # tables of contents included
    index = json.loads((tmp_path / INDEX).read_text())
    assert index["weight_map"].keys() == trained.keys()
    assert index["metadata"]["total_size"] == sum(2 * tensor.numel() for tensor in trained.values())


def slots_of(ids: list[int], values: dict[int, tuple[float, ...]]) -> Slots:
    """One row of positions to be fed; nothing is learnt from them."""
    n = len(ids)
    kind, value = torch.zeros(1, n).long(), torch.zeros(1, n, 2)
    for at, numbers in values.items():
        kind[0, at], value[0, at] = len(numbers), torch.tensor(numbers).expand(2)
    nothing, off = torch.zeros(1, n), torch.zeros(1, n).bool()
    return Slots(torch.tensor([ids]), kind, value, kind, kind, nothing, off, value, off)


def served_hidden(model: MoondreamModel, image: Tensor, slots: Slots) -> Tensor:
    """As the engine feeds one request: BOS, picture, text, one after another; the hidden states of the text."""
    ids = torch.cat([torch.tensor([0]), slots.ids[0]])
    values = torch.cat([torch.zeros(1, 2), slots.value[0]])
    kinds = torch.cat([torch.tensor([0]), slots.value_kind[0]])
    embeds = model.embed(ids, values, kinds)
    embeds = torch.cat([embeds[:1], image, embeds[1:]])
    prefix = 1 + len(image)
    seen = torch.ones(len(embeds), len(embeds)).tril().bool()
    seen[:prefix, :prefix] = True
    return model.forward(embeds, torch.arange(len(embeds)), DenseAttend(seen))[prefix:]


def test_slots_side_by_side_are_what_the_engine_computes_one_by_one() -> None:
    weights = random_init(TINY, 4)
    model = MoondreamModel(TINY, weights, num_tokens=512, coord_id=5)
    copy = working_copy(named_tensors(weights), TINY, torch.float32)
    torch.manual_seed(2)
    image = torch.randn(TINY.vision.num_positions, TINY.text.dim)
    parts = [
        slots_of([1, 305, 306, 2, 48, 115, 3, 5, 5, 6], {7: (0.25,), 8: (0.75,), 9: (0.5, 0.125)}),
        slots_of([1, 304, 2, 5, 5, 88, 121, 3, 3], {3: (0.1,), 4: (0.9,)}),
    ]
    lengths = tuple(part.ids.shape[1] for part in parts)
    embeds = torch.cat([embed_slots(copy, part) for part in parts], 1)
    frame = slot_frame(TINY.text.prefix_attn, lengths, "cpu")
    together = text_hidden(copy, TINY, image[None], embeds, frame)[0].split(list(lengths))
    for part, hidden in zip(parts, together, strict=True):
        torch.testing.assert_close(hidden, served_hidden(model, image, part), rtol=1e-4, atol=1e-4)


def test_the_bins_that_training_aims_at_are_those_that_the_engine_reads() -> None:
    for to_bin, bins, from_bin in (
        (losses._coordinate_bin, 512, region.bins_to_coordinate),
        (losses._size_bin, 512, region.bins_to_size),
    ):
        every = torch.arange(bins)
        torch.testing.assert_close(to_bin(from_bin(every, bins), bins), every.float(), rtol=0, atol=1e-2)
    # The loss is least where the head says the very bin: 0.25 of 512 is bin 128.
    logits = (-0.5 * ((torch.arange(512) - 128) / losses.SPREAD) ** 2).expand(3, -1)
    near = losses._soft_nll(logits, torch.tensor([0.25, 0.27, 0.75]), losses._coordinate_bin)
    assert near[0] < near[1] < near[2]
