"""Products in 8-bit integers: how far from float32, never overflown, blind to other crops, and as right on scenes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_model import write_tiny_model

from photon import Engine
from photon.bench.evaluate import evaluate, read_questions
from photon.errors import ConfigError
from photon.models.moondream.config import MoondreamConfig
from photon.models.moondream.int8 import HalfLinear, Int8Linear, with_packed_products
from photon.models.moondream.model import MoondreamModel
from photon.models.moondream.weights import Linear, random_init
from photon.request import PreparedImage

SCENES = Path(__file__).parent / "data" / "photon_tiny_eval"
SIZES = json.loads((Path(__file__).parent.parent / "models" / "photon-tiny" / "config.json").read_text())


@pytest.fixture(autouse=True)
def engine_of_torch() -> Iterator[None]:
    before = torch.backends.quantized.engine
    yield
    torch.backends.quantized.engine = before


def int8(weight: torch.Tensor, bias: torch.Tensor) -> Int8Linear:
    torch.backends.quantized.engine = "fbgemm"
    return Int8Linear(Linear(weight, bias))


@pytest.mark.parametrize("shape", [(256, 1024), (1024, 256), (588, 256)])
def test_a_product_is_within_its_steps_of_float64(shape: tuple[int, int]) -> None:
    """Weights are off by up to half of largest / 63, inputs by half of their range / 255; squares of errors add up."""
    into, out = shape
    generator = torch.Generator().manual_seed(into)
    x, weight, bias = (torch.randn(size, generator=generator) for size in ((256, into), (out, into), (out,)))
    expected = x.double() @ weight.double().T + bias
    error = (int8(weight, bias)(x[None])[0] - expected).double().pow(2).mean().sqrt()
    step_w = weight.abs().amax(1).mean() / 63
    step_x = (x.max() - x.min()) / 255
    bound = (into * (step_w**2 + step_x**2) / 12) ** 0.5  # of x and weight of variance 1
    assert error < 1.2 * bound
    assert error < 0.04 * expected.std()


def test_the_largest_sums_do_not_overflow() -> None:
    """Every product is the largest there is: in 16 bits a pair of them, at 8 bits each, would not fit."""
    out = int8(torch.ones(32, 512), torch.zeros(32))(torch.ones(2, 4, 512))
    torch.testing.assert_close(out, torch.full((2, 4, 32), 512.0), rtol=5e-3, atol=0)


def test_weights_of_a_published_model_are_exact_in_float16_and_rows_are_alone() -> None:
    generator = torch.Generator().manual_seed(1)
    weight, bias, x = (torch.randn(size, generator=generator) for size in ((96, 256), (96,), (9, 256)))
    weight = (weight / 16).bfloat16().float()
    torch.backends.quantized.engine = "fbgemm"
    product = HalfLinear(Linear(weight, bias))
    together = product(x)
    expected = (x.double() @ weight.double().T + bias).float()
    torch.testing.assert_close(together, expected, rtol=1e-5, atol=1e-5)
    for row in range(9):
        torch.testing.assert_close(product(x[row : row + 1])[0], together[row], rtol=1e-5, atol=1e-5)


def test_a_pictures_features_do_not_depend_on_its_neighbours() -> None:
    config = MoondreamConfig.from_dict(SIZES)
    model = MoondreamModel(config, with_packed_products(random_init(config, 3)), num_tokens=1000, coord_id=5)
    rng = np.random.default_rng(4)
    dark, bright = (
        PreparedImage(rng.integers(low, high, (3, 224, 224, 3), dtype=np.uint8), (1, 2), (300, 200))
        for low, high in ((0, 9), (0, 256))
    )
    with torch.inference_mode():
        (alone,) = model.encode_images([dark])
        together = model.encode_images([bright, dark])[1]
    assert torch.equal(alone, together)


def test_it_is_taken_only_where_nothing_else_was_asked_for(tmp_path: Path) -> None:
    """The recipe of photon-tiny vouches for it; a model of a folder has nobody to do so."""
    unknown = write_tiny_model(tmp_path)
    for model, options, is_int8 in (
        ("photon-tiny", {}, True),
        ("photon-tiny", {"dtype": "float32"}, False),
        ("photon-tiny", {"dtype": "bfloat16"}, False),
        ("photon-tiny", {"quantization": "none"}, False),
        ("photon-tiny", {"quantization": "int8", "dtype": "float32"}, True),
        (unknown, {}, False),
    ):
        with Engine(model, device="cpu", **options) as engine:
            assert engine.description.endswith("int8 vision, float16 text") == is_int8, (model, options)


def test_where_it_cannot_be_is_said() -> None:
    with pytest.raises(ConfigError, match="auto, none, int8, got 'int4'"):
        Engine(quantization="int4")
    config = MoondreamConfig.from_dict(SIZES)
    with pytest.raises(ConfigError, match=r"float32 on a CPU, not for torch\.bfloat16 on cpu"):
        with_packed_products(random_init(config, 3, dtype=torch.bfloat16))


def test_boxes_are_as_right_as_in_float32() -> None:
    questions = [q for q in read_questions(SCENES, limit=20) if q.row["task"] == "detect" and q.row["boxes"]]
    figures = {}
    for quantization in ("none", "int8"):
        with Engine("photon-tiny", device="cpu", quantization=quantization) as engine:
            assert engine.description.endswith("float32, int8 vision, float16 text") == (quantization == "int8")
            figures[quantization] = evaluate(engine, questions)
    for plain, quantised in zip(figures["none"][:2], figures["int8"][:2], strict=True):
        assert plain.name == quantised.name and plain.name.startswith("detect, F1 at IoU")
        assert quantised.value >= plain.value - 0.005, f"{plain.name}: {plain.value} became {quantised.value}"
