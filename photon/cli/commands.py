"""The commands: a function each, its help text and its flags."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import photon
from photon.cli.answer import answer
from photon.cli.options import DEFAULT_MODEL, Device, Model, takes
from photon.cli.skills import CaptionFlags, DetectFlags, ExtractFlags, GazeFlags, PointFlags, QueryFlags

app = typer.Typer(add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context, version: Annotated[bool, typer.Option("--version", help="Say the version.")] = False
) -> None:
    """Points, boxes, answers and captions from pictures."""
    if version:
        print(f"photon {photon.__version__}")
        raise typer.Exit(0)
    if context.invoked_subcommand is None:
        context.get_help()  # which prints it
        raise typer.Exit(2)


@app.command()
@takes(CaptionFlags)
def caption(flags: CaptionFlags) -> int:
    """Describe each picture."""
    return answer(flags)


@app.command()
@takes(QueryFlags)
def query(flags: QueryFlags) -> int:
    """Answer a question about each picture."""
    return answer(flags)


@app.command()
@takes(ExtractFlags)
def extract(flags: ExtractFlags) -> int:
    """Fill in a JSON schema from each picture."""
    return answer(flags)


@app.command()
@takes(PointFlags)
def point(flags: PointFlags) -> int:
    """Point at every OBJECT in each picture."""
    return answer(flags)


@app.command()
@takes(DetectFlags)
def detect(flags: DetectFlags) -> int:
    """Put a box around every OBJECT in each picture."""
    return answer(flags)


@app.command()
@takes(GazeFlags)
def gaze(flags: GazeFlags) -> int:
    """Say where the person whose eye is at X Y looks. Not every model can."""
    return answer(flags)


@app.command(name="eval")
def evaluate(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Pictures and a scenes.json.", show_default=False)],
    model: Model = DEFAULT_MODEL,
    json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
    device: Device = "auto",
    dtype: Annotated[str, typer.Option(help="auto, float32, bfloat16 or float16.")] = "auto",
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first scenes.", show_default=False)] = None,
) -> None:
    """Show how often a model is right about a set of scenes."""
    from photon.cli.evaluate import show_figures

    show_figures(folder, model=model, device=device, dtype=dtype, limit=limit, as_json=json)


@app.command()
def models() -> None:
    """List the models that Photon knows by name."""
    from photon.cli.models import show_models

    show_models()
