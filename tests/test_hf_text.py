"""Text models of transformers on our scheduler, runner and pages: the ids that `generate` says."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from hf_models import TINY, assert_parity, text_case
from torch import nn
from transformers import (
    AutoModelForCausalLM,
    CohereConfig,
    Gemma2Config,
    Gemma3TextConfig,
    GemmaConfig,
    GPT2Config,
    GptOssConfig,
    GraniteConfig,
    LlamaConfig,
    MistralConfig,
    Qwen3Config,
)

from photon.errors import ModelError
from photon.models.hf.model import TransformersModel

MIXED = ["sliding_attention", "full_attention", "sliding_attention"]
CONFIGS = {
    "llama": LlamaConfig(**TINY),
    "qwen3": Qwen3Config(**TINY),
    "mistral, window of 5": MistralConfig(**TINY, sliding_window=5),
    "gemma": GemmaConfig(**TINY),
    "gemma 2, window of 5, soft caps": Gemma2Config(
        **TINY, sliding_window=5, layer_types=MIXED, attn_logit_softcapping=2.0, final_logit_softcapping=3.0
    ),
    "gemma 3, window of 5": Gemma3TextConfig(**TINY, sliding_window=5, layer_types=MIXED, query_pre_attn_scalar=3),
    "gpt 2, learned positions": GPT2Config(**TINY, n_embd=32, n_layer=3, n_head=4, n_positions=256),
    "cohere, scaled logits": CohereConfig(**TINY, logit_scale=0.3),
    "granite, scaled logits": GraniteConfig(**TINY, logits_scaling=3.0, embedding_multiplier=2.0),
}


def make(config: Any) -> Any:
    torch.manual_seed(7)
    return AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()


@pytest.mark.parametrize("name", CONFIGS)
def test_says_what_generate_says(name: str) -> None:
    rng = random.Random(1)
    cases = [text_case([rng.randrange(97) for _ in range(length)]) for length in (1, 3, 4, 9, 17)]
    assert_parity(make(CONFIGS[name]), cases)


def test_attention_sinks_are_refused() -> None:
    with pytest.raises(ModelError, match="hands s_aux to its attention"):
        TransformersModel(make(GptOssConfig(**TINY, num_local_experts=4, num_experts_per_tok=2)), 97)


def test_what_keeps_keyword_arguments_to_itself_is_refused() -> None:
    hf = make(LlamaConfig(**TINY))
    attention = hf.model.layers[1].self_attn
    forward = attention.forward
    attention.forward = lambda hidden_states, position_embeddings, attention_mask=None, **_: forward(
        hidden_states, position_embeddings, attention_mask
    )
    with pytest.raises(ModelError, match="LlamaAttention does not get the keyword arguments"):
        TransformersModel(hf, 97)


def test_what_says_something_else_than_by_itself_is_refused() -> None:
    class Louder(nn.Module):
        def forward(self, module: Any, args: Any, out: Any) -> Any:
            out.logits = out.logits * 1.5
            return out

    hf = make(LlamaConfig(**TINY))
    hf.register_forward_hook(Louder())
    with pytest.raises(ModelError, match="says something else through Photon"):
        TransformersModel(hf, 97)


def test_what_attends_by_code_of_its_own_is_refused() -> None:
    hf = make(LlamaConfig(**TINY))
    hf.model.config.layer_types = ["full_attention", "linear_attention", "full_attention"]
    with pytest.raises(ModelError, match="layers of linear_attention"):
        TransformersModel(hf, 97)
