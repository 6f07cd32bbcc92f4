"""Image-text models of transformers on our scheduler, runner and pages: the ids that `generate` says, whatever the
sizes of the pictures and whoever is in the batch."""

from __future__ import annotations

import pytest
from hf_models import Case, assert_parity
from hf_vision import FAMILIES, inputs_of, make

from photon.errors import ModelError
from photon.models.hf.model import TransformersModel
from photon.models.hf.probe import probe_prompt
from photon.models.hf.prompts import ProcessedImage, to_prompt

# Pictures of several sizes, and none; texts before and behind them, of several lengths.
PROMPTS = [(0, [5], [6, 7]), (1, [8, 9, 10], [11]), (None, [12, 13, 14], []), (2, [5], [15, 16, 17, 18]), (3, [], [19])]


@pytest.mark.parametrize("name", FAMILIES)
def test_says_what_generate_says(name: str) -> None:
    hf, twin = make(name), make(name)
    model = TransformersModel(twin, 97)
    cases = []
    for number, before, after in PROMPTS:
        inputs = inputs_of(name, number, before, after)
        image = None if number is None else ProcessedImage(None, (28, 28))
        cases.append(Case(to_prompt(model, inputs, image), inputs))
    assert_parity(hf, cases, model=model)


def test_qwen_counts_positions_by_the_larger_side_of_a_grid() -> None:
    """Texts count by 1; a grid of 2 x 3 places (rows x columns) by 3, its first row at (t, t, t..t+2)."""
    model = TransformersModel(make("qwen2_5_vl"), 97)
    inputs = inputs_of("qwen2_5_vl", 2, [5], [6])
    prompt = to_prompt(model, inputs, ProcessedImage(None, (28, 28)))
    assert prompt.rotary is not None
    places = [(2, 2 + row, 2 + column) for row in range(3) for column in range(2)]
    expected = [(0, 0, 0), (1, 1, 1), *places, (5, 5, 5), (6, 6, 6)]
    assert [tuple(row) for row in prompt.rotary.tolist()] == expected


def test_a_vision_tower_keeps_its_own_attention() -> None:
    hf = make("llava")
    TransformersModel(hf, 97)
    assert hf.model.vision_tower.config._attn_implementation == "eager"
    assert hf.model.language_model.config._attn_implementation == "photon"


@pytest.mark.parametrize("name", ["qwen3_vl", "paligemma 2", "idefics3"])
def test_a_picture_that_comes_to_something_else_is_refused(name: str) -> None:
    """The probe of a load passes for the same prompt, and not when the model's own forward reads another one."""
    model = TransformersModel(make(name), 97)
    inputs = inputs_of(name, 1, [5], [6, 7])
    prompt = to_prompt(model, inputs, ProcessedImage(None, (28, 28)))
    probe_prompt(model, prompt, inputs)
    inputs["input_ids"] = inputs["input_ids"].clone()
    inputs["input_ids"][0, -1] = 8
    with pytest.raises(ModelError, match="says something else through Photon"):
        probe_prompt(model, prompt, inputs)
