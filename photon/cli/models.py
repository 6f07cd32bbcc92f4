"""`photon models`: the recipes as a table."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.table import Table

from photon.cli.output import console
from photon.models.recipes import list_recipes, load_recipe


def show_models() -> None:
    """A revision that no source was found to name is marked unverified."""
    table = Table("name", "family", "repository", "revision", "description", box=SIMPLE_HEAD)
    table.columns[0].no_wrap = True
    table.columns[2].overflow = "fold"
    for recipe in map(load_recipe, list_recipes()):
        repository = recipe.repository or "bundled"
        revision = recipe.revision or ""
        if recipe.repository and not recipe.verified:
            revision += " (unverified)"
        table.add_row(recipe.name, recipe.family, repository, revision, recipe.description)
    console().print(table)
