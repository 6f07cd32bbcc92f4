"""Our attention under a name that transformers knows. Its context, an `Attend`, comes as a keyword through forward.

transformers makes a mask only where a mask function is registered under the attention's name; none is, so that no mask
is made and nothing of it asks the device: what sees what is the `Attend`'s business.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from photon.errors import ModelError
from photon.kernels.attention import Attend, AttentionRule

NAME = "photon"
KEYWORD = "photon_attend"
LAYER_TYPES = {"full_attention", "sliding_attention"}
# What sees itself both ways, in the families whose forward is told so by token types: picture or whole prompt.
TWO_WAY = {"gemma3": "picture", "paligemma": "prompt"}
_HARMLESS = {"position_ids", "cache_position"}  # tensors that change nothing about attention


def photon_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """One layer over query [1, H, T, head_dim], key and value [1, KV heads, T, head_dim]; out [1, T, H, head_dim].

    ModelError for what would silently be another attention than the model's own.
    """
    attend: Attend | None = others.pop(KEYWORD, None)
    name = type(module).__name__
    if attend is None:
        raise ModelError(f"{name} does not get the keyword arguments of its model's forward, so Photon cannot run it")
    if attention_mask is not None:
        raise ModelError(f"{name} makes an attention mask of its own, which Photon cannot page")
    unknown = sorted(k for k, v in others.items() if isinstance(v, Tensor) and k not in _HARMLESS)
    if unknown:
        raise ModelError(f"{name} hands {', '.join(unknown)} to its attention, of which Photon knows nothing")
    layer = module.layer_idx
    assert isinstance(layer, int), f"{name} has no layer_idx"
    rule = AttentionRule(scaling, _window(module, layer, sliding_window), softcap)
    q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
    return attend(layer, q, k, v, rule)[None], None


def use_photon_attention(backbone: Any, *, sees_ahead: bool) -> None:
    """Let `backbone` attend so, and nothing around it such as a vision tower. ModelError where it lets nobody, or
    where it looks ahead and is of no family of which we know how (`sees_ahead`)."""
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, photon_attention)
    kinds = set(getattr(backbone.config, "layer_types", None) or ()) - LAYER_TYPES
    if kinds:
        raise ModelError(f"{type(backbone).__name__} has layers of {', '.join(sorted(kinds))}, Photon pages only keys")
    if not sees_ahead and not all(getattr(module, "is_causal", True) for module in backbone.modules()):
        raise ModelError(f"{type(backbone).__name__} sees what comes after, so it cannot say one token after the other")
    backbone.set_attn_implementation(NAME)
    if backbone.config._attn_implementation != NAME:
        raise ModelError(f"{type(backbone).__name__} does not let its attention be replaced (AttentionInterface)")


def check_token_types(config: Any, forward: Callable[..., Any]) -> None:
    """ModelError for a family whose forward takes token types and of which we do not know what they mean."""
    if "token_type_ids" in inspect.signature(forward).parameters and config.model_type not in TWO_WAY:
        raise ModelError(f"models of type {config.model_type!r} mask by token types in a way that Photon does not know")


def _window(module: nn.Module, layer: int, given: int | None) -> int | None:
    """The layer's window: as handed over, or as its configuration says."""
    config: Any = getattr(module, "config", None)
    types = getattr(config, "layer_types", None)
    if given is None and types and types[layer] == "sliding_attention":
        return config.sliding_window
    return given
