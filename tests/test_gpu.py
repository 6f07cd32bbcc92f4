"""The same answers on a GPU: golden parity in float32 at depth 1 and 2, and bfloat16 that stays close.

Run with `pytest -m gpu` on a machine with CUDA; skipped elsewhere. The outcome on an H200 is in docs/benchmarks/h200.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from test_engine_golden import SETS, check, golden_cases, start
from test_moondream_golden import PICTURES, golden, prepared

from photon import Engine
from photon.models.moondream.config import MoondreamConfig
from photon.models.moondream.loader import load_weights
from photon.models.moondream.model import MoondreamModel

DATA = Path(__file__).parent / "data"

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


def load(name: str, dtype: torch.dtype) -> MoondreamModel:
    config = MoondreamConfig.from_dict(json.loads((DATA / name / "config.json").read_text()))
    weights = load_weights(DATA / name / "model.safetensors", config, device="cuda", dtype=dtype)
    return MoondreamModel(config, weights, num_tokens=512, coord_id=5)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.bfloat16, 5e-2)])
@torch.inference_mode()
def test_image_features(name: str, dtype: torch.dtype, tolerance: float) -> None:
    features = load(name, dtype).encode_images([prepared(name, picture) for picture in PICTURES])
    for picture, image_PD in zip(PICTURES, features, strict=True):
        reference = torch.from_numpy(golden(name, picture, "image_embeds"))
        error = (image_PD.float().cpu() - reference).norm() / reference.norm()
        assert error < tolerance, f"{picture}: relative error {error:.2e}"


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("name", SETS)
def test_golden_answers_in_float32(name: str, depth: int) -> None:
    cases = golden_cases(name)
    with Engine(DATA / name, device="cuda", dtype="float32", pipeline_depth=depth) as engine:
        for case in cases:
            check(start(engine, name, case).result(60), case[2], case[3])
        futures = [start(engine, name, case) for case in cases]
        for case, future in zip(cases, futures, strict=True):
            check(future.result(120), case[2], case[3])
