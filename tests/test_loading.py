"""From what a user names to weights in memory: both published layouts, one file or shards, and every mismatch named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_model import SIZES, write_tiny_model
from torch import Tensor

from photon.errors import ModelError
from photon.models.moondream.config import MoondreamConfig
from photon.models.moondream.loader import load_weights
from photon.models.moondream.weights import named_tensors
from photon.models.source import find_model

CONFIG = MoondreamConfig.from_dict(SIZES)
NUM_TENSORS = 1 + 2 + 12 + 2 + 4 + 1 + 2 * 10 + 2 + 2 + 2 + 2 * (2 + 4)  # vision, text, region; see `SIZES`

# The training layout of a model with one vision block and two text blocks, name by name.
PAIRS = {
    "vision.patch_emb": "vision_encoder.encoder.model.visual.patch_embed.linear",
    "vision.blocks.0.ln1": "vision_encoder.encoder.model.visual.blocks.0.norm1",
    "vision.blocks.0.ln2": "vision_encoder.encoder.model.visual.blocks.0.norm2",
    "vision.blocks.0.attn.qkv": "vision_encoder.encoder.model.visual.blocks.0.attn.qkv",
    "vision.blocks.0.attn.proj": "vision_encoder.encoder.model.visual.blocks.0.attn.proj",
    "vision.blocks.0.mlp.fc1": "vision_encoder.encoder.model.visual.blocks.0.mlp.fc1",
    "vision.blocks.0.mlp.fc2": "vision_encoder.encoder.model.visual.blocks.0.mlp.fc2",
    "vision.post_ln": "vision_encoder.encoder.model.visual.norm",
    "vision.proj_mlp.fc1": "vision_encoder.projection.mlp.fc1",
    "vision.proj_mlp.fc2": "vision_encoder.projection.mlp.fc2",
    "text.blocks.0.ln": "text_model.transformer.h.0.ln",
    "text.blocks.0.attn.qkv": "text_model.transformer.h.0.mixer.Wqkv",
    "text.blocks.0.attn.proj": "text_model.transformer.h.0.mixer.out_proj",
    "text.blocks.0.mlp.fc1": "text_model.transformer.h.0.mlp.fc1",
    "text.blocks.0.mlp.fc2": "text_model.transformer.h.0.mlp.fc2",
    "text.blocks.1.ln": "text_model.transformer.h.1.ln",
    "text.blocks.1.attn.qkv": "text_model.transformer.h.1.mixer.Wqkv",
    "text.blocks.1.attn.proj": "text_model.transformer.h.1.mixer.out_proj",
    "text.blocks.1.mlp.fc1": "text_model.transformer.h.1.mlp.fc1",
    "text.blocks.1.mlp.fc2": "text_model.transformer.h.1.mlp.fc2",
    "text.post_ln": "text_model.lm_head.ln",
    "text.lm_head": "text_model.lm_head.linear",
    "region.coord_encoder": "region_model.coordinate_encoder",
    "region.coord_decoder.fc1": "region_model.coordinate_decoder.fc1",
    "region.coord_decoder.fc2": "region_model.coordinate_decoder.fc2",
    "region.size_encoder": "region_model.size_encoder",
    "region.size_decoder.fc1": "region_model.size_decoder.fc1",
    "region.size_decoder.fc2": "region_model.size_decoder.fc2",
}
SINGLES = {
    "vision.pos_emb": "vision_encoder.encoder.model.visual.pos_embed",
    "text.wte": "text_model.transformer.embd.wte.weight",
}
TRANSPOSED = {
    "region.coord_features": "region_model.coordinate_features.weight",
    "region.size_features": "region_model.size_features.weight",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def stored(folder: Path) -> dict[str, Tensor]:
    return load_file(folder / "model.safetensors")


def load(path: Path, tensors: dict[str, Tensor] | None = None) -> dict[str, Tensor]:
    if tensors is not None:
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)
    return named_tensors(load_weights(path, CONFIG, device="cpu", dtype=torch.float32))


def assert_same(loaded: dict[str, Tensor], stored: dict[str, Tensor]) -> None:
    assert loaded.keys() == stored.keys() and len(stored) == NUM_TENSORS
    assert all(torch.equal(loaded[name], tensor) for name, tensor in stored.items())


def in_training_layout(stored: dict[str, Tensor]) -> dict[str, Tensor]:
    tensors = {training: stored[f"model.{name}"] for name, training in SINGLES.items()}
    tensors |= {training: stored[f"model.{name}"].T for name, training in TRANSPOSED.items()}
    for name, training in PAIRS.items():
        for leaf in ("weight", "bias"):
            tensors[f"{training}.{leaf}"] = stored[f"model.{name}.{leaf}"]
    return tensors


def test_the_published_layout(stored: dict[str, Tensor], folder: Path) -> None:
    assert_same(load(folder / "model.safetensors"), stored)


def test_without_the_prefix(stored: dict[str, Tensor], tmp_path: Path) -> None:
    bare = {name.removeprefix("model."): tensor for name, tensor in stored.items()}
    assert_same(load(tmp_path / "bare.safetensors", bare), stored)


def test_the_training_layout(stored: dict[str, Tensor], tmp_path: Path) -> None:
    assert_same(load(tmp_path / "training.safetensors", in_training_layout(stored)), stored)


def test_the_training_layout_of_a_compiled_model(stored: dict[str, Tensor], tmp_path: Path) -> None:
    compiled = {
        name.replace("text_model.", "text_model._orig_mod."): tensor
        for name, tensor in in_training_layout(stored).items()
    }
    assert_same(load(tmp_path / "compiled.safetensors", compiled), stored)


@pytest.mark.parametrize("has_index", [False, True])
def test_shards(stored: dict[str, Tensor], tmp_path: Path, has_index: bool) -> None:
    names = sorted(stored)
    shards = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for shard, held in shards.items():
        save_file({name: stored[name] for name in held}, tmp_path / shard)
    if has_index:
        weight_map = {name: shard for shard, held in shards.items() for name in held}
        (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
        save_file({"other": torch.zeros(1)}, tmp_path / "not-in-the-index.safetensors")
    assert_same(load(tmp_path), stored)


def test_what_does_not_fit_is_named(stored: dict[str, Tensor], tmp_path: Path) -> None:
    stored["model.text.head_scale"] = torch.zeros(1)
    stored["model.vision.post_ln.weight"] = torch.zeros(33)
    del stored["model.region.size_encoder.bias"]
    with pytest.raises(ModelError) as caught:
        load(tmp_path / "wrong.safetensors", stored)
    said = str(caught.value)
    assert "missing model.region.size_encoder.bias [64]" in said
    assert "model.vision.post_ln.weight has shape [33] instead of [32]" in said
    assert "surplus model.text.head_scale" in said and "wrong.safetensors" in said


def test_the_named_buffers_are_ignored_and_no_others(stored: dict[str, Tensor], tmp_path: Path) -> None:
    buffers = ("attn_mask", "freqs_cis", "text.blocks.0.kv_cache", "model.text.blocks.1.kv_cache.k_cache")
    with_buffers = stored | {name: torch.zeros(1) for name in buffers}
    assert_same(load(tmp_path / "buffers.safetensors", with_buffers), stored)
    with pytest.raises(ModelError, match="surplus my_freqs_cis"):
        load(tmp_path / "other.safetensors", stored | {"my_freqs_cis": torch.zeros(1)})


def test_one_tensor_under_two_names(stored: dict[str, Tensor], tmp_path: Path) -> None:
    twice = stored | {"text.wte": torch.zeros_like(stored["model.text.wte"])}
    with pytest.raises(ModelError, match=r"text\.wte' and '.*text\.wte' are the same tensor"):
        load(tmp_path / "twice.safetensors", twice)
    for shard in "ab":
        save_file({"model.text.wte": stored["model.text.wte"]}, tmp_path / f"{shard}.safetensors")
    (tmp_path / "twice.safetensors").unlink()
    with pytest.raises(ModelError, match="'model.text.wte' stands twice"):
        load(tmp_path)


@pytest.mark.parametrize("index", ["", "[]", "{}", '{"weight_map": 3}', '{"weight_map": {"a": ["b"]}}'])
def test_an_index_that_is_none(index: str, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(index)
    with pytest.raises(ModelError, match="model.safetensors.index.json is no index"):
        load(tmp_path)


def test_files_that_are_missing_or_damaged(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no safetensors files"):
        load(tmp_path)
    whole = (folder / "model.safetensors").read_bytes()
    (tmp_path / "cut.safetensors").write_bytes(whole[:-100])
    with pytest.raises(ModelError, match="cut.safetensors is no readable safetensors file"):
        load(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": {"a": "absent.safetensors"}}')
    with pytest.raises(ModelError, match="lacks absent.safetensors"):
        load(tmp_path)


# --- what a user may name


def test_a_folder_and_a_file(folder: Path) -> None:
    for path in (folder, folder / "model.safetensors"):
        source = find_model(str(path))
        assert (source.weights, source.tokenizer) == (path, folder / "tokenizer.json")
        assert source.recipe.ids.coord == 5 and source.config["text"] == SIZES["text"]
    with pytest.raises(ModelError, match="no revision 'v2'"):
        find_model(str(folder), "v2")


@pytest.mark.parametrize("absent", ["config.json", "tokenizer.json"])
def test_a_folder_that_lacks_a_file(folder: Path, tmp_path: Path, absent: str) -> None:
    shutil.copytree(folder, tmp_path / "model")
    (tmp_path / "model" / absent).unlink()
    with pytest.raises(ModelError, match=f"{absent} is missing"):
        find_model(str(tmp_path / "model"))


@pytest.mark.parametrize("config", ["", "[]", '{"config": null}', '{"config": 3}', '{"tokenizer": 3}'])
def test_a_config_that_is_none(folder: Path, tmp_path: Path, config: str) -> None:
    shutil.copytree(folder, tmp_path / "model")
    (tmp_path / "model" / "config.json").write_text(config)
    with pytest.raises(ModelError, match="config.json"):
        find_model(str(tmp_path / "model"))


@pytest.mark.parametrize("name", ["no-such-model", "./a/b", "a/b/c", "~nobody-of-that-name/x/y", "x" * 5000, "a\0b"])
def test_no_such_model(name: str) -> None:
    with pytest.raises(ModelError, match="neither a recipe"):
        find_model(name)


def test_a_hugging_face_id_with_a_revision(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, Any, bool]] = []

    def download(repository: str, *, revision: Any, local_files_only: bool, **_: Any) -> str:
        asked.append((repository, revision, local_files_only))
        return str(folder)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    assert find_model("someone/fine-tune", "v2").weights == folder
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert find_model("vikhyatk/moondream2", "2025-01-09").recipe.name == "moondream2-2025-01"
    assert find_model("moondream2").recipe.name == "moondream2"
    assert asked == [
        ("someone/fine-tune", "v2", False),
        ("vikhyatk/moondream2", "2025-01-09", True),
        ("vikhyatk/moondream2", "2025-06-21", True),
        ("moondream/starmie-v1", None, True),
    ]


def test_what_cannot_be_fetched_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ModelError, match="cannot get 'someone/absent' at revision 'v2' from Hugging Face"):
        find_model("someone/absent", "v2")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"text": {"dim": 63}}, "63"),
        ({"text": {"dim": 0}}, "dim must be a positive whole number, got 0"),
        ({"text": {"n_heads": 4}}, "head dim 16"),
        ({"text": {"prefix_attn": 5}}, "prefix_attn 5"),
        ({"vision": {"crop_size": 57}}, "crop_size 57"),
        ({"vision": {"overlap_margin": 2}}, "overlap_margin 2"),
        ({"region": {"dim": 32}}, "must be equal"),
        ({"text": []}, "must be an object"),
        ({"config": None}, "must be an object"),
    ],
)
def test_impossible_sizes_are_named(change: dict[str, Any], said: str) -> None:
    config = {
        key: value | change.get(key, {}) if isinstance(change.get(key, {}), dict) else change[key]
        for key, value in SIZES.items()
    } | {key: value for key, value in change.items() if key not in SIZES}
    with pytest.raises(ModelError, match=said):
        MoondreamConfig.from_dict(config)
