"""The flags of the skills: one dataclass a group, one field a flag. A skill's flags are its groups, put together.

`takes` makes a command of a function of such a dataclass; typer reads names, types and help texts from its signature.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer

from photon.request import Sampling

if TYPE_CHECKING:
    from photon.engine.asks import Ask

DEFAULT_MODEL = "photon-tiny"
CHOOSING, OUTPUT, ENGINE = "How words are chosen", "What becomes of the answers", "The engine"
STRUCTURE = "What the answer must be"
GREEDY = Sampling()

Flags = TypeVar("Flags")

Model = Annotated[
    str, typer.Option(help="A recipe's name, a folder, a weights file, or a Hugging Face id.", rich_help_panel=ENGINE)
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.", rich_help_panel=ENGINE)]


@dataclass(frozen=True, kw_only=True)
class SkillFlags(ABC):
    """What every skill takes."""

    images: Annotated[
        list[str],
        typer.Argument(
            metavar="IMAGE",
            help='Pictures: files, folders, or patterns in quotes, such as "shots/**/*.png".',
            show_default=False,
        ),
    ]
    temperature: Annotated[
        float, typer.Option(help="0 takes the likeliest; up to 100, ever more at random.", rich_help_panel=CHOOSING)
    ] = GREEDY.temperature
    top_p: Annotated[
        float, typer.Option(help="Only the likeliest that make up this much, in (0, 1].", rich_help_panel=CHOOSING)
    ] = GREEDY.top_p
    top_k: Annotated[int, typer.Option(help="Only so many of the likeliest; 0 for all.", rich_help_panel=CHOOSING)] = (
        GREEDY.top_k
    )
    min_p: Annotated[
        float,
        typer.Option(
            help="Only those at least this likely, beside the likeliest, in [0, 1].", rich_help_panel=CHOOSING
        ),
    ] = GREEDY.min_p
    repetition_penalty: Annotated[
        float,
        typer.Option(help="Above 1: less of what was said before. In [0.01, 100].", rich_help_panel=CHOOSING),
    ] = GREEDY.repetition_penalty
    seed: Annotated[
        int, typer.Option(help="Of the random numbers; the same seed, the same answer.", rich_help_panel=CHOOSING)
    ] = GREEDY.seed
    json: Annotated[
        bool, typer.Option("--json", help="One JSON object a picture, one a line.", rich_help_panel=OUTPUT)
    ] = False
    stream: Annotated[bool, typer.Option("--stream", help="Show each answer as it comes.", rich_help_panel=OUTPUT)] = (
        False
    )
    draw: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Save the one picture with the answer drawn on it.",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Save every picture with its answer drawn on it there, and all answers in DIR/answers.jsonl.",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None
    scores: Annotated[
        bool,
        typer.Option("--scores", help="Draw how sure the model is of each object, too.", rich_help_panel=OUTPUT),
    ] = False
    quiet: Annotated[
        bool, typer.Option("--quiet", help="No progress, no word of model and device.", rich_help_panel=OUTPUT)
    ] = False
    model: Model = DEFAULT_MODEL
    device: Device = "auto"
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="Give a picture up after so long; pictures are then answered one at a time.",
            show_default=False,
            rich_help_panel=ENGINE,
        ),
    ] = None

    @property
    def objects(self) -> list[str]:
        """The names of what is looked for; none where a skill looks for nothing."""
        return []

    @property
    def of_all(self) -> dict[str, Any]:
        """The fields that all asks have in common."""
        sampling = {f.name: getattr(self, f.name) for f in fields(Sampling) if hasattr(self, f.name)}
        return {"sampling": sampling, "timeout": self.timeout}

    @abstractmethod
    def ask(self, image: Any) -> Ask:
        """What is asked of `image`."""


def takes(flags: type[Flags]) -> Callable[[Callable[[Flags], int]], Callable[..., int]]:
    """The command whose parameters are the fields of `flags`, of which the decorated function gets one."""
    hints = get_type_hints(flags, include_extras=True)
    parameters = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(flags)  # type: ignore[arg-type]
    ]

    def wrap(command: Callable[[Flags], int]) -> Callable[..., int]:
        @wraps(command)
        def called(**values: Any) -> int:
            return command(flags(**values))

        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return called

    return wrap
