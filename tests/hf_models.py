"""Tiny random models of the transformers library, and prompts run on them by our scheduler and by `generate`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from photon.cache.kv import PageShape, allocate_kv
from photon.cache.pages import PagePool
from photon.device import Device
from photon.models.hf.model import TransformersModel
from photon.request import Prompt, Request, Token
from photon.runner.runner import ModelRunner
from photon.scheduler.scheduler import Scheduler

CPU = Device("cpu", torch.float32)
TINY: dict[str, Any] = dict(
    vocab_size=97,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=8,
    max_position_embeddings=256,
    initializer_range=0.4,  # so large that every position, and which one it is, changes what is said
    tie_word_embeddings=False,  # a random model with one table for both says its last word again
    bos_token_id=None,
    eos_token_id=None,
    pad_token_id=None,
)
LENGTH = 12


@dataclass(frozen=True)
class Case:
    """A prompt for us, and the same as the arguments of `generate`."""

    prompt: Prompt
    inputs: dict[str, Any]


def text_case(ids: Sequence[int]) -> Case:
    return Case(Prompt(tuple(map(Token, ids))), {"input_ids": torch.tensor([list(ids)])})


@torch.inference_mode()
def generate(hf: Any, case: Case) -> list[int]:
    """What transformers says, greedily. Call before Photon's attention is put in, or on another copy of the model."""
    length = case.inputs["input_ids"].shape[1]
    said = hf.generate(**case.inputs, max_new_tokens=LENGTH, min_new_tokens=LENGTH, do_sample=False, use_cache=True)
    return said[0, length:].tolist()


def run(model: TransformersModel, prompts: Sequence[Prompt], *, depth: int, together: int, page_size: int = 4) -> list:
    """The ids that each prompt's answer has, at most `together` of them running at once."""
    spec = model.spec
    shape = PageShape(spec.num_layers, page_size, spec.num_kv_heads, spec.head_dim)
    num_pages = 2 + together * -(-spec.max_context // page_size)
    runner = ModelRunner(
        model, allocate_kv(shape, num_pages, CPU), CPU, max_rows=together, max_positions=spec.max_context * together
    )
    scheduler = Scheduler(
        runner,
        PagePool(num_pages, page_size),
        max_rows=together,
        max_context=spec.max_context,
        depth=depth,
        max_prefill_tokens=spec.max_context,
    )
    said: list[list[int]] = [[] for _ in prompts]
    for i, prompt in enumerate(prompts):
        scheduler.add(Request(i, prompt, LENGTH, LENGTH, frozenset()))
    while scheduler.has_work:
        for update in scheduler.tick():
            assert update.error is None, update.error
            said[update.request_id] += [token.id for token in update.tokens]
    scheduler.check_integrity()
    return said


def assert_parity(hf: Any, cases: Sequence[Case], *, model: TransformersModel | None = None) -> None:
    """Token for token what `generate` of `hf` says: alone at depth 1, in mixed batches at depth 1 and 2. `model` runs a
    twin of `hf`; without it, `hf` itself."""
    expected = [generate(hf, case) for case in cases]
    assert len({tuple(ids) for ids in expected}) == len(expected), f"the prompts make no difference: {expected}"
    assert all(len(set(ids)) > 3 for ids in expected), f"the answers only repeat themselves: {expected}"
    model = model or TransformersModel(hf, TINY["vocab_size"])
    prompts = [case.prompt for case in cases]
    for depth, together in ((1, 1), (1, len(cases)), (2, len(cases)), (2, 2)):
        assert run(model, prompts, depth=depth, together=together) == expected, (depth, together)
