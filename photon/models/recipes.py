"""Recipes: what a model is, where it is published, and the ids that it is spoken to with. Data only; imports no torch.

Recipes are the TOML files `models/<name>/recipe.toml`; `recipe_from_config` reads the same facts from a config.json.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from photon.datadir import models_dir
from photon.errors import ModelError

Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptIds:
    """Ids with a meaning; None where a model has none. `answer` ends a reasoning and is banned within an answer."""

    bos: int
    eos: int
    answer: int | None = None
    thinking: int | None = None
    coord: int | None = None
    size: int | None = None
    start_ground: int | None = None
    end_ground: int | None = None

    def known(self) -> frozenset[int]:
        """All ids that the model has."""
        return frozenset(i for i in (getattr(self, f.name) for f in fields(self)) if i is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A prompt: `prefix`, spatial references, the user's text encoded after `lead`, `suffix`."""

    prefix: Ids
    suffix: Ids
    lead: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryTemplate(Template):
    """After the suffix a plain answer begins with `answer_suffix`, a reasoning one with `reasoning_suffix`.

    `reasoning_suffix` is None for a model that cannot reason. `needs_image`: without a picture it cannot answer.
    """

    answer_suffix: Ids = ()
    reasoning_suffix: Ids | None = None
    needs_image: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Templates:
    """`caption` holds whole prompts by length. `gaze`, where the model has it: an eye's x and y between the two."""

    caption: Mapping[str, Ids]
    query: QueryTemplate
    detect: Template
    point: Template
    gaze: Template | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A model's description file.

    `repository` and `revision` are None for a bundled model; `verified` says that a source names the pinned revision.
    `tokenizer_repository`: where the tokenizer is when it is not beside the weights, even if a tokenizer.json is there.
    `dialect`: how coordinates are said ("heads": read from the hidden state). `grammars`: grammar file by task; gaze is
    a point. `quantization`: what leaves the model as right as it is on a CPU ("none" or "int8"), by its evaluation.
    """

    name: str
    description: str
    family: str
    dialect: str
    ids: PromptIds
    templates: Templates
    grammars: Mapping[str, str]
    repository: str | None = None
    revision: str | None = None
    verified: bool = False
    tokenizer_repository: str | None = None
    takes_images: bool = True
    quantization: str = "none"

    @property
    def can_reason(self) -> bool:
        return self.templates.query.reasoning_suffix is not None and self.ids.answer is not None


def list_recipes() -> list[str]:
    """Names of all recipes, sorted."""
    return sorted(path.parent.name for path in models_dir().glob("*/recipe.toml"))


def load_recipe(name: str) -> Recipe:
    """ModelError when there is no such recipe (it lists the known ones) or its file is wrong."""
    if name not in list_recipes():
        raise ModelError(f"unknown model {name!r}; known models: {', '.join(list_recipes())}")
    path = models_dir() / name / "recipe.toml"
    try:
        return _from_toml(tomllib.loads(path.read_text(encoding="utf-8")))
    except (tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise ModelError(f"recipe {path} is wrong: {error!r}") from error


def recipes_with_gaze() -> list[str]:
    """Names of the recipes of models that tell where a person looks, sorted."""
    return [name for name in list_recipes() if load_recipe(name).templates.gaze is not None]


def find_recipe(repository: str, revision: str | None = None) -> Recipe | None:
    """The recipe that pins this revision of a Hugging Face repository; without one, the newest release's."""
    recipes = [r for r in map(load_recipe, list_recipes()) if r.repository == repository]
    if revision not in (None, "main"):
        recipes = [r for r in recipes if r.revision == revision]
    return max(recipes, key=lambda r: r.revision or "", default=None)


def recipe_from_config(name: str, config: Mapping[str, Any]) -> Recipe:
    """Recipe of a folder that has only a config.json: its "tokenizer" section holds the ids and templates.

    Published repositories keep the whole dictionary under "config". ModelError names what is missing.
    """
    inner = config.get("config", config)
    tokenizer = inner.get("tokenizer") if isinstance(inner, Mapping) else None
    if not tokenizer:
        raise ModelError(f"the config.json of {name} has no 'tokenizer' section with ids and templates")
    try:
        ids = _ids_from_config(tokenizer)
        templates = _templates_from_config(tokenizer["templates"], ids)
    except (KeyError, TypeError) as error:
        raise ModelError(f"the 'tokenizer' section in the config.json of {name} is wrong: {error!r}") from error
    suffix = "" if ids.coord is not None else "-any"
    return Recipe(
        name=name,
        description=f"from the config.json of {name}",
        family="moondream",
        dialect="heads",
        ids=ids,
        templates=templates,
        grammars={"point": f"point{suffix}", "detect": f"detect{suffix}"},
    )


def recipe_of_transformers(name: str, model_type: str) -> Recipe:
    """Of a model in transformers' layout without a recipe: it is asked through its own chat template. Its ids and
    whether it takes images are known, and set, when it is loaded."""
    nothing = Template(prefix=(), suffix=())
    return Recipe(
        name=name,
        description=f"a {model_type} of the transformers library",
        family="transformers",
        dialect="none",
        ids=PromptIds(bos=0, eos=0),
        templates=Templates(
            caption={"short": (), "normal": (), "long": ()},
            query=QueryTemplate(prefix=(), suffix=()),
            detect=nothing,
            point=nothing,
        ),
        grammars={},
    )


def _from_toml(table: dict[str, Any]) -> Recipe:
    ids, templates, tokenizer = table.pop("ids"), table.pop("templates"), table.pop("tokenizer", {})
    return Recipe(
        ids=PromptIds(**ids),
        templates=Templates(
            caption={length: tuple(prompt) for length, prompt in templates["caption"].items()},
            query=QueryTemplate(**_tuples(templates["query"])),
            detect=Template(**_tuples(templates["detect"])),
            point=Template(**_tuples(templates["point"])),
            gaze=_gaze(templates),
        ),
        tokenizer_repository=tokenizer.get("repository"),
        **table,
    )


def _ids_from_config(tokenizer: Mapping[str, Any]) -> PromptIds:
    return PromptIds(
        bos=tokenizer["bos_id"],
        eos=tokenizer["eos_id"],
        answer=tokenizer.get("answer_id"),
        thinking=tokenizer.get("thinking_id"),
        coord=tokenizer.get("coord_id"),
        size=tokenizer.get("size_id"),
        start_ground=tokenizer.get("start_ground_points_id"),
        end_ground=tokenizer.get("end_ground_id"),
    )


def _templates_from_config(templates: Mapping[str, Any], ids: PromptIds) -> Templates:
    """A config.json does not say these three: a model with an answer id takes the question without a space before it,
    begins a plain answer with the answer id once more, and a reasoning one with the thinking id."""
    query = QueryTemplate(
        **_tuples(templates["query"]),
        lead="" if ids.answer is not None else " ",
        answer_suffix=() if ids.answer is None else (ids.answer,),
        reasoning_suffix=None if ids.thinking is None else (ids.thinking,),
    )
    return Templates(
        caption={length: tuple(prompt) for length, prompt in templates["caption"].items()},
        query=query,
        detect=Template(**_tuples(templates["detect"]), lead=" "),
        point=Template(**_tuples(templates["point"]), lead=" "),
        gaze=_gaze(templates),
    )


def _gaze(templates: Mapping[str, Any]) -> Template | None:
    return Template(**_tuples(templates["gaze"])) if "gaze" in templates else None


def _tuples(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
