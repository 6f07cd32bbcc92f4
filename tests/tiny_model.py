"""A Moondream of a few thousand random weights in a folder, for tests that need a whole engine and no meaning.

Its tokenizer is that of the golden data: a string's ids are its UTF-8 bytes plus 16; ids 0-15 are special.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from photon.models.moondream.config import MoondreamConfig
from photon.models.moondream.weights import Linear, named_tensors, random_init

DATA = Path(__file__).parent / "data"
GOLDEN = DATA / "moondream2_tiny"

SIZES: dict[str, Any] = {
    "text": {
        "dim": 64,
        "ff_dim": 64,
        "n_layers": 2,
        "vocab_size": 512,
        "max_context": 256,
        "n_heads": 2,
        "n_kv_heads": 2,
        "prefix_attn": 17,
    },
    "vision": {
        "enc_dim": 32,
        "enc_n_layers": 1,
        "enc_ff_dim": 32,
        "enc_n_heads": 1,
        "proj_out_dim": 64,
        "crop_size": 56,
        "max_crops": 4,
        "overlap_margin": 1,
        "proj_inner_dim": 32,
    },
    "region": {
        "dim": 64,
        "coord_feat_dim": 32,
        "coord_out_dim": 64,
        "size_feat_dim": 32,
        "size_out_dim": 128,
        "inner_dim": 32,
    },
}


# An older model: no ids but the end's, templates in words, and gaze.
OLDER: dict[str, Any] = {
    "bos_id": 0,
    "eos_id": 0,
    "templates": {
        "caption": {"short": [26, 26, 99], "normal": [26, 26, 83], "long": [26, 26, 92]},
        "query": {"prefix": [26, 26, 97], "suffix": [26, 26, 81]},
        "detect": {"prefix": [26, 26, 84], "suffix": [26]},
        "point": {"prefix": [26, 26, 96], "suffix": [26]},
        "gaze": {"prefix": [26, 26, 96], "suffix": [119, 26]},
    },
}


def write_tiny_model(folder: Path, *, seed: int = 0, tokenizer: dict[str, Any] | None = None, **text: int) -> Path:
    """config.json, model.safetensors and tokenizer.json in `folder`; `tokenizer` changes ids and templates from those
    of the golden data, `text` sizes of the text tower."""
    tokenizer = tokenizer or json.loads((GOLDEN / "config.json").read_text())["tokenizer"]
    config = SIZES | {"text": SIZES["text"] | text, "tokenizer": tokenizer}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    weights = random_init(MoondreamConfig.from_dict(config), seed)
    head = weights.text.lm_head
    assert isinstance(head, Linear)
    head.weight.mul_(3)  # sharper logits: fewer near ties
    head.bias[0] = 3.0  # an end now and then
    head.bias[5] = 6.0  # an object more often
    save_file(
        {name: tensor.contiguous() for name, tensor in named_tensors(weights).items()}, folder / "model.safetensors"
    )
    shutil.copy(GOLDEN / "tokenizer.json", folder)
    return folder
