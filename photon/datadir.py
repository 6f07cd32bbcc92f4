"""Where the data folders are: inside the package in a wheel, beside it in a checkout or an editable install."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def models_dir() -> Path:
    """The folder of recipes: one folder a model."""
    return _data_dir("models")


def grammars_dir() -> Path:
    """The folder of grammars: one file a grammar."""
    return _data_dir("grammars")


def _data_dir(name: str) -> Path:
    packed = _PACKAGE / "_data" / name
    return packed if packed.is_dir() else _PACKAGE.parent / name
