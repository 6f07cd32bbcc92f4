"""The activation in both of its forms, and how weights lie in memory, against formulas and the stored tensors."""

import math
from pathlib import Path

import pytest
import torch
from tiny_model import SIZES, write_tiny_model

from photon.models.moondream.config import MoondreamConfig
from photon.models.moondream.loader import load_weights
from photon.models.moondream.ops import gelu
from photon.models.moondream.weights import named_tensors


@pytest.mark.parametrize("is_trained", [False, True])
def test_gelu_is_its_tanh_form(is_trained: bool) -> None:
    values = [-90.0, -5.0, -0.7, -1e-3, 0.0, 1e-3, 0.7, 5.0, 90.0]
    said = gelu(torch.tensor(values, requires_grad=is_trained)).tolist()
    for x, y in zip(values, said, strict=True):
        expected = x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
        assert y == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_gelu_has_a_gradient() -> None:
    x = torch.linspace(-3, 3, 13, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(gelu, x)
    single = x.detach().float().requires_grad_()
    (slope,) = torch.autograd.grad(gelu(single).sum(), single)
    (expected,) = torch.autograd.grad(gelu(x).sum(), x)
    torch.testing.assert_close(slope, expected.float(), rtol=1e-4, atol=1e-5)


def test_on_a_cpu_products_find_their_weights_by_inputs_and_tables_by_rows(tmp_path: Path) -> None:
    folder = write_tiny_model(tmp_path)
    weights = load_weights(folder, MoondreamConfig.from_dict(SIZES), device="cpu", dtype=torch.float32)
    assert named_tensors(weights)["model.text.blocks.0.mlp.fc1.weight"].T.is_contiguous()
    assert weights.text.wte.is_contiguous() and weights.region.size_features.is_contiguous()
