"""From what a user calls a model to its files: a recipe's name, a folder, a weights file, or a Hugging Face id.

The network is used only for a recipe with a repository or for an id that the user gave, and never if HF_HUB_OFFLINE.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from photon.config import hub_offline
from photon.datadir import models_dir
from photon.errors import ModelError
from photon.models.recipes import (
    Recipe,
    find_recipe,
    list_recipes,
    load_recipe,
    recipe_from_config,
    recipe_of_transformers,
)

logger = logging.getLogger("photon.models")

PATTERNS = ["*.safetensors", "*.safetensors.index.json", "config.json", "tokenizer.json"]
PROCESSOR_PATTERNS = [*PATTERNS, "*_config.json", "chat_template.*", "*.model", "vocab.*", "merges.txt"]


@dataclass(frozen=True)
class ModelSource:
    """`weights` is a file or a folder; `config` the parsed config.json (empty where a repository has none).

    Of a model in transformers' layout `weights` and `tokenizer` are its folder."""

    recipe: Recipe
    config: dict[str, Any]
    weights: Path
    tokenizer: Path


def find_model(model: str, revision: str | None = None) -> ModelSource:
    """ModelError when there is no such model, when a file is missing, or when it cannot be fetched."""
    if model in list_recipes():
        recipe = load_recipe(model)
        return _from_recipe(recipe, revision or recipe.revision)
    path = _existing_path(model)
    if path is not None:
        return _from_path(path, revision)
    if model.count("/") != 1 or model.startswith((".", "~", "/")):
        raise ModelError(
            f"no model {model!r}: neither a recipe ({', '.join(list_recipes())}), nor a file or folder, "
            "nor a Hugging Face id (owner/name)"
        )
    recipe = find_recipe(model, revision)
    return _from_recipe(recipe, revision) if recipe else _from_path(_fetch(model, revision, PROCESSOR_PATTERNS), None)


def _from_recipe(recipe: Recipe, revision: str | None) -> ModelSource:
    if recipe.repository is None:
        if revision is not None:
            raise ModelError(f"{recipe.name} is bundled and has no revision {revision!r}")
        folder = models_dir() / recipe.name
    else:
        if not recipe.verified:
            logger.warning("no source names %s at revision %s for %s", recipe.repository, revision, recipe.name)
        folder = _fetch(recipe.repository, revision)
    tokenizer = folder / "tokenizer.json"
    if recipe.tokenizer_repository is not None:
        tokenizer = _fetch(recipe.tokenizer_repository, None) / "tokenizer.json"
    return ModelSource(recipe, _read_config(folder, required=False), folder, _existing(tokenizer))


def _from_path(path: Path, revision: str | None) -> ModelSource:
    if revision is not None:
        raise ModelError(f"{path} is on this machine and has no revision {revision!r}")
    folder = path if path.is_dir() else path.parent
    config = _read_config(folder, required=True)
    if _is_of_transformers(config):
        return ModelSource(recipe_of_transformers(folder.name, config["model_type"]), config, folder, folder)
    return ModelSource(recipe_from_config(folder.name, config), config, path, _existing(folder / "tokenizer.json"))


def _is_of_transformers(config: dict[str, Any]) -> bool:
    """Whether a config.json is one of the library's own models, not of one whose code came with it (Moondream's)."""
    return isinstance(config.get("model_type"), str) and "auto_map" not in config and "tokenizer" not in config


def _existing_path(model: str) -> Path | None:
    try:
        path = Path(model).expanduser()
        return path if path.exists() else None
    except (OSError, RuntimeError, ValueError):  # too long a name, no such user's home, a NUL in it
        return None


def _read_config(folder: Path, *, required: bool) -> dict[str, Any]:
    path = folder / "config.json"
    if not path.is_file() and not required:
        return {}
    try:
        config = json.loads(_existing(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read as JSON: {error}") from error
    if not isinstance(config, dict):
        raise ModelError(f"{path} must hold a JSON object, not {type(config).__name__}")
    return config


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise ModelError(f"{path} is missing")
    return path


def _fetch(repository: str, revision: str | None, patterns: list[str] = PATTERNS) -> Path:
    from huggingface_hub import snapshot_download

    logger.info("getting %s at revision %s from Hugging Face or its cache", repository, revision or "main")
    try:
        folder = snapshot_download(
            repository,
            revision=revision,
            allow_patterns=patterns,
            ignore_patterns="consolidated*",  # the same weights once more, in another layout
            local_files_only=hub_offline(),
        )
    except (OSError, ValueError) as error:  # not found, no such revision, no network, not in the cache
        at = f" at revision {revision!r}" if revision else ""
        raise ModelError(f"cannot get {repository!r}{at} from Hugging Face: {error}") from error
    return Path(folder)
