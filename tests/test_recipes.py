"""Recipes: the ids of the published models as the facts give them, the same facts from a config.json, and errors."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import photon.models.recipes as recipes
from photon.datadir import grammars_dir, models_dir
from photon.errors import ModelError
from photon.models.recipes import find_recipe, list_recipes, load_recipe, recipe_from_config

GOLDEN_CONFIG = json.loads((Path(__file__).parent / "data/moondream2_tiny/config.json").read_text())


def test_all_recipes_load_and_their_grammars_exist() -> None:
    assert {"moondream-0.5b", "moondream2", "moondream2-2025-01", "photon-tiny"} <= set(list_recipes())
    for name in list_recipes():
        recipe = load_recipe(name)
        assert recipe.name == name and recipe.description and recipe.dialect == "heads"
        assert set(recipe.templates.caption) == {"short", "normal", "long"}
        assert all((grammars_dir() / f"{grammar}.ebnf").is_file() for grammar in recipe.grammars.values())


def test_moondream2() -> None:
    recipe = load_recipe("moondream2")
    assert (recipe.repository, recipe.revision, recipe.verified) == ("vikhyatk/moondream2", "2025-06-21", True)
    assert recipe.tokenizer_repository == "moondream/starmie-v1"
    assert recipe.ids.known() == {0, 3, 4, 5, 6, 7, 9}
    assert recipe.templates.caption["normal"] == (1, 32708, 2, 6382, 3)
    assert recipe.templates.query.prefix == (1, 15381, 2)
    assert recipe.can_reason


def test_models_with_the_older_tokenizer_have_neither_coordinate_ids_nor_reasoning() -> None:
    for name in ("moondream2-2025-01", "moondream-0.5b"):
        recipe = load_recipe(name)
        assert recipe.ids.known() == {50256} and not recipe.can_reason
        assert recipe.grammars == {"point": "point-any", "detect": "detect-any"}
        assert recipe.templates.query.lead == " " and recipe.templates.query.answer_suffix == ()
    assert not load_recipe("moondream-0.5b").verified


def test_config_of_the_bundled_model_says_the_same_as_its_recipe() -> None:
    config = json.loads((models_dir() / "photon-tiny/config.json").read_text())
    recipe = load_recipe("photon-tiny")
    assert recipe.repository is None
    same = recipe_from_config("photon-tiny", config)
    for name in ("description", "verified", "quantization"):  # a config says nothing of them
        same = replace(same, **{name: getattr(recipe, name)})
    assert same == recipe


def test_recipe_from_a_config() -> None:
    recipe = recipe_from_config("folder", GOLDEN_CONFIG)
    assert recipe.templates.detect.prefix == (1, 305, 306, 2) and recipe.templates.detect.lead == " "
    assert recipe.templates.query.answer_suffix == (3,) and recipe.templates.query.reasoning_suffix == (4,)
    assert (recipe.ids.start_ground, recipe.ids.end_ground) == (7, 9)
    assert recipe_from_config("folder", {"config": GOLDEN_CONFIG}) == recipe


def test_a_config_without_coordinate_ids_is_an_older_model() -> None:
    templates = GOLDEN_CONFIG["tokenizer"]["templates"]
    recipe = recipe_from_config("old", {"tokenizer": {"bos_id": 50, "eos_id": 50, "templates": templates}})
    assert recipe.ids.known() == {50} and not recipe.can_reason
    assert recipe.grammars["detect"] == "detect-any" and recipe.templates.query.lead == " "


@pytest.mark.parametrize("config", [{}, {"config": {}}, {"tokenizer": {}}])
def test_a_config_without_ids_is_an_error(config: dict) -> None:
    with pytest.raises(ModelError, match="config.json of folder has no 'tokenizer' section"):
        recipe_from_config("folder", config)


@pytest.mark.parametrize(("missing", "section"), [("eos_id", ()), ("templates", ()), ("detect", ("templates",))])
def test_a_config_that_lacks_a_key_is_an_error_that_names_it(missing: str, section: tuple[str, ...]) -> None:
    config = json.loads(json.dumps(GOLDEN_CONFIG))
    table = config["tokenizer"]
    for name in section:
        table = table[name]
    del table[missing]
    with pytest.raises(ModelError, match=missing):
        recipe_from_config("folder", config)


def test_an_unknown_name_lists_the_known_ones() -> None:
    for name in ("moondream9", "../models/moondream2", ""):
        with pytest.raises(ModelError, match="known models: .*moondream2, .*photon-tiny"):
            load_recipe(name)


def test_a_wrong_recipe_is_an_error_that_names_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipes, "models_dir", lambda: tmp_path)
    text = (models_dir() / "moondream2/recipe.toml").read_text()
    wrong = {"syntax": "name =", "surplus": 'colour = "red"\n' + text, "missing": text.replace("bos = 0", "")}
    for name, content in wrong.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "recipe.toml").write_text(content)
        with pytest.raises(ModelError, match=f"{name}/recipe.toml is wrong"):
            load_recipe(name)


def test_recipe_of_a_repository() -> None:
    def name_of(repository: str, revision: str | None = None) -> str | None:
        recipe = find_recipe(repository, revision)
        return recipe.name if recipe else None

    assert name_of("vikhyatk/moondream2") == name_of("vikhyatk/moondream2", "main") == "moondream2"
    assert name_of("vikhyatk/moondream2", "2025-01-09") == "moondream2-2025-01"
    assert name_of("vikhyatk/moondream2", "2024-08-26") is None  # whose ids nobody wrote down here
    assert name_of("somebody/else") is None
