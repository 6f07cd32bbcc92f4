"""Models in transformers' layout, from a folder to an answer: what `generate` says to what their processors make of a
question; and what is wrong with a folder, said before weights are read."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hf_folders import KINDS, save_llama, save_vision
from PIL import Image
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText, AutoTokenizer

from photon import Engine, ModelError, Query, RequestError
from photon.chunks import TextDelta
from photon.models.hf.processor import ChatProcessor

MAX_TOKENS = 9
SIZES = [(40, 20), (20, 40), (64, 64), (33, 17)]


def picture(width: int, height: int) -> Image.Image:
    pixels = np.random.default_rng(width * height).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    saved = {name: save_vision(tmp_path_factory.mktemp(name), name) for name in KINDS}
    return saved | {"llama": save_llama(tmp_path_factory.mktemp("llama"))}


@torch.inference_mode()
def expected(hf: Any, inputs: Any) -> tuple[int, ...]:
    said = hf.generate(**inputs, max_new_tokens=MAX_TOKENS, do_sample=False)[0, inputs["input_ids"].shape[1] :].tolist()
    end = hf.generation_config.eos_token_id
    return tuple(said[: said.index(end)] if end in said else said)


@pytest.mark.parametrize(("name", "depth"), [*((name, 2) for name in KINDS), ("llava", 1), ("qwen2_5_vl", 1)])
def test_a_folder_answers_as_transformers_does(folders: dict[str, Path], name: str, depth: int) -> None:
    hf = AutoModelForImageTextToText.from_pretrained(folders[name]).eval()
    processor = ChatProcessor(folders[name], hf.config, has_vision=True)
    questions = [f"what is in picture {i}?" for i in range(len(SIZES))]
    with Engine(folders[name], pipeline_depth=depth, max_batch_size=3) as engine:
        asks = [Query(picture(*size), q, max_tokens=MAX_TOKENS) for q, size in zip(questions, SIZES, strict=True)]
        futures = [engine.submit(ask) for ask in asks]
        answers = [future.result() for future in futures]
    for question, size, answer in zip(questions, SIZES, answers, strict=True):
        inputs = processor(question, picture(*size))
        assert answer.token_ids == expected(hf, inputs), (question, size)
        assert answer.metrics.prompt_tokens == inputs["input_ids"].shape[1]
    assert len({answer.token_ids for answer in answers}) > 1


def test_a_text_model_is_asked_through_its_chat_template(folders: dict[str, Path]) -> None:
    hf: Any = AutoModelForCausalLM.from_pretrained(folders["llama"]).eval()
    ids = AutoTokenizer.from_pretrained(folders["llama"])(
        "<|im_start|>user\nwhy?<|im_end|>\n<|im_start|>assistant\n", return_tensors="pt"
    )
    with Engine(folders["llama"]) as engine:
        answer = engine.query(None, "why?", max_tokens=MAX_TOKENS)
        streamed = engine.query(None, "why?", max_tokens=MAX_TOKENS, stream=True)
        text = "".join(chunk.text for chunk in streamed if isinstance(chunk, TextDelta))
        with pytest.raises(RequestError, match="is a text model and takes no image"):
            engine.query(picture(8, 8), "why?")
        with pytest.raises(RequestError, match="takes no image"):
            engine.caption(picture(8, 8))
        with pytest.raises(RequestError, match="'<|im_end|>', which is a control token"):
            engine.query(None, "<|im_end|>")
    assert answer.token_ids == expected(hf, ids)
    assert text == answer.answer


def test_an_answer_may_be_held_to_a_form(folders: dict[str, Path]) -> None:
    with Engine(folders["qwen2_5_vl"], pipeline_depth=2) as engine:
        assert engine.query(picture(40, 20), "which?", choices=["left", "right"]).answer in ("left", "right")
        assert re.fullmatch("[0-9]{3}", engine.query(None, "how many?", regex="[0-9]{3}").answer)


def test_what_is_not_known_without_a_recipe_says_so(folders: dict[str, Path]) -> None:
    with Engine(folders["llava"]) as engine:
        assert engine.caption(picture(30, 20), max_tokens=3).caption is not None
        for ask in (engine.point, engine.detect):
            with pytest.raises(RequestError, match="no recipe that says how it speaks of places"):
                ask(picture(30, 20), "mug")
        with pytest.raises(RequestError, match="no gaze"):
            engine.gaze(picture(30, 20), (0.5, 0.5))
        with pytest.raises(RequestError, match="cannot reason"):
            engine.query(picture(30, 20), "why?", reasoning=True)
        with pytest.raises(RequestError, match="no spatial references"):
            engine.query(picture(30, 20), "why?", spatial_refs=[(0.5, 0.5)])


def without(folder: Path, copy: Path, *names: str, **config: Any) -> Path:
    """A copy without some files, and without weights: what is wrong is found before they are looked for."""
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("*.safetensors", *names))
    path = copy / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | config))
    return copy


def test_a_wrong_folder_says_what_is_wrong_before_weights_are_read(folders: dict[str, Path], tmp_path: Path) -> None:
    cases = {
        "does not know the architecture": without(folders["llama"], tmp_path / "a", model_type="llama_of_tomorrow"),
        "no tokenizer that transformers can read": without(folders["llama"], tmp_path / "b", "tokenizer*"),
        "has no processor (LlavaProcessor)": without(folders["llava"], tmp_path / "c", "*processor_config.json"),
        "holds no safetensors files": without(folders["llama"], tmp_path / "d"),
        "Photon runs models that are a decoder only": without(folders["llama"], tmp_path / "e", model_type="t5"),
    }
    for message, folder in cases.items():
        with pytest.raises(ModelError) as caught:
            Engine(folder)
        assert message in str(caught.value), caught.value
