"""Photon: points, boxes, answers and captions from pictures. Names load when first used, so the import stays light."""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

logging.getLogger("photon").addHandler(logging.NullHandler())  # says nothing unless the program asks for it

if TYPE_CHECKING:
    from photon.chunks import End, ReasoningDelta, TextDelta
    from photon.config import EngineConfig
    from photon.engine import AsyncEngine, Engine
    from photon.engine.asks import Caption, Detect, Extract, Gaze, PointAt, Query
    from photon.errors import (
        ConfigError,
        ConstraintError,
        DeadlineError,
        EngineError,
        ImageError,
        ModelError,
        NumericsError,
        PhotonError,
        RequestError,
    )
    from photon.results import (
        Box,
        Candidate,
        CaptionResult,
        DetectResult,
        GazeResult,
        Grounding,
        Metrics,
        Point,
        PointResult,
        QueryResult,
        Reasoning,
        TokenLogprobs,
    )

_HOMES = {
    "photon.config": ("EngineConfig",),
    "photon.chunks": ("End", "ReasoningDelta", "TextDelta"),
    "photon.engine": ("AsyncEngine", "Engine"),
    "photon.engine.asks": ("Caption", "Detect", "Extract", "Gaze", "PointAt", "Query"),
    "photon.errors": (
        "ConfigError",
        "ConstraintError",
        "DeadlineError",
        "EngineError",
        "ImageError",
        "ModelError",
        "NumericsError",
        "PhotonError",
        "RequestError",
    ),
    "photon.results": (
        "Box",
        "Candidate",
        "CaptionResult",
        "DetectResult",
        "GazeResult",
        "Grounding",
        "Metrics",
        "Point",
        "PointResult",
        "QueryResult",
        "Reasoning",
        "TokenLogprobs",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AsyncEngine",
    "Box",
    "Candidate",
    "Caption",
    "CaptionResult",
    "ConfigError",
    "ConstraintError",
    "DeadlineError",
    "Detect",
    "DetectResult",
    "End",
    "Engine",
    "EngineConfig",
    "EngineError",
    "Extract",
    "Gaze",
    "GazeResult",
    "Grounding",
    "ImageError",
    "Metrics",
    "ModelError",
    "NumericsError",
    "PhotonError",
    "Point",
    "PointAt",
    "PointResult",
    "Query",
    "QueryResult",
    "Reasoning",
    "ReasoningDelta",
    "RequestError",
    "TextDelta",
    "TokenLogprobs",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'photon' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
