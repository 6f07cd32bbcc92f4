"""The two published layouts of a Moondream checkpoint, both read under the names of the first.

The Hugging Face layout (`model.text.blocks.0.ln.weight`, some files without `model.`) and the training layout
(`text_model.transformer.h.0.ln.weight`). Two matrices of the training layout are stored transposed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from photon.errors import ModelError

BUFFERS = {"kv_cache", "freqs_cis", "attn_mask"}  # what a state dict may hold beside weights, alone or with parts

_TRAINING_PATTERNS = [
    (r"vision_encoder\.encoder\.model\.visual\.patch_embed\.linear\.", "vision.patch_emb."),
    (r"vision_encoder\.encoder\.model\.visual\.pos_embed$", "vision.pos_emb"),
    (r"vision_encoder\.encoder\.model\.visual\.norm\.", "vision.post_ln."),
    (r"vision_encoder\.encoder\.model\.visual\.blocks\.(\d+)\.norm([12])\.", r"vision.blocks.\1.ln\2."),
    (r"vision_encoder\.encoder\.model\.visual\.blocks\.", "vision.blocks."),
    (r"vision_encoder\.projection\.mlp\.", "vision.proj_mlp."),
    (r"text_model\.transformer\.embd\.wte\.weight$", "text.wte"),
    (r"text_model\.transformer\.h\.(\d+)\.mixer\.Wqkv\.", r"text.blocks.\1.attn.qkv."),
    (r"text_model\.transformer\.h\.(\d+)\.mixer\.out_proj\.", r"text.blocks.\1.attn.proj."),
    (r"text_model\.transformer\.h\.", "text.blocks."),
    (r"text_model\.lm_head\.ln\.", "text.post_ln."),
    (r"text_model\.lm_head\.linear\.", "text.lm_head."),
    (r"region_model\.coordinate_(encoder|decoder)\.", r"region.coord_\1."),
    (r"region_model\.size_(encoder|decoder)\.", r"region.size_\1."),
    (r"region_model\.coordinate_features\.weight$", "region.coord_features"),
    (r"region_model\.size_features\.weight$", "region.size_features"),
]
_TRANSPOSED = ("region.coord_features", "region.size_features")


def published_name(stored: str) -> tuple[str, bool]:
    """The Hugging Face name of a stored tensor, and whether it is stored transposed."""
    name = stored.replace("._orig_mod", "")
    for pattern, replacement in _TRAINING_PATTERNS:
        renamed, count = re.subn(f"^{pattern}", replacement, name)
        if count:
            return f"model.{renamed}", renamed in _TRANSPOSED
    return (name if name.startswith("model.") else f"model.{name}"), False


def index_names(stored: Iterable[str]) -> dict[str, tuple[str, bool]]:
    """Published name -> (stored name, is it transposed), without buffers. ModelError when two names mean one tensor."""
    index: dict[str, tuple[str, bool]] = {}
    for name in stored:
        if not BUFFERS.isdisjoint(name.split(".")):
            continue
        published, transposed = published_name(name)
        if published in index:
            raise ModelError(f"{index[published][0]!r} and {name!r} are the same tensor")
        index[published] = name, transposed
    return index
