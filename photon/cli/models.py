"""`photon models`: the recipes, one after the other."""

from __future__ import annotations

from photon.models.recipes import list_recipes, load_recipe


def show_models() -> None:
    """A revision that no source was found to name is marked unverified."""
    for recipe in map(load_recipe, list_recipes()):
        where = recipe.repository or "bundled"
        if recipe.repository and recipe.revision:
            where += f" at {recipe.revision}" + ("" if recipe.verified else " (unverified)")
        print(f"{recipe.name}: {where}\n    {recipe.description}")
