"""The command line. Answers go to stdout, everything else to stderr.

Exit codes: 0; 1 a picture, request or model failed; 2 wrong usage or configuration; 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

import photon
from photon.cli.answer import Options, answer_all
from photon.cli.output import say
from photon.errors import ConfigError, PhotonError

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


class Length(StrEnum):
    short = "short"
    normal = "normal"
    long = "long"


Images = Annotated[list[str], typer.Argument(metavar="IMAGE", help="Picture files.", show_default=False)]
Question = Annotated[str, typer.Argument(metavar="QUESTION", help="What to answer.", show_default=False)]
Object = Annotated[str, typer.Argument(metavar="OBJECT", help="What to look for.", show_default=False)]
Model = Annotated[str, typer.Option(help="A recipe's name, a folder, a weights file, or a Hugging Face id.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a picture, one a line.")]
Draw = Annotated[
    Path | None,
    typer.Option(
        metavar="OUT",
        help="Save the picture with the answer drawn on it; of several pictures OUT.png becomes OUT-1.png, OUT-2.png.",
        show_default=False,
    ),
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")]
MaxObjects = Annotated[int, typer.Option(help="At most so many objects.")]

DEFAULT_MODEL = "photon-tiny"
INTERRUPTED = 130


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context, version: Annotated[bool, typer.Option("--version", help="Say the version.")] = False
) -> None:
    """Points, boxes, answers and captions from pictures."""
    if version:
        print(f"photon {photon.__version__}")
        raise typer.Exit(0)
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(2)


@app.command()
def caption(
    images: Images,
    model: Model = DEFAULT_MODEL,
    json: Json = False,
    draw: Draw = None,
    device: Device = "auto",
    length: Annotated[Length, typer.Option(help="How much to say.")] = Length.normal,
) -> int:
    """Describe each picture."""
    options = Options(model, device, json, draw)
    return answer_all(images, options, lambda engine, image: engine.caption(image, length=length.value))


@app.command()
def query(
    images: Images,
    question: Question,
    model: Model = DEFAULT_MODEL,
    json: Json = False,
    draw: Draw = None,
    device: Device = "auto",
    reasoning: Annotated[bool, typer.Option("--reasoning", help="Let the model think first.")] = False,
) -> int:
    """Answer a question about each picture."""
    options = Options(model, device, json, draw)
    return answer_all(images, options, lambda engine, image: engine.query(image, question, reasoning=reasoning))


@app.command()
def point(
    images: Images,
    object: Object,
    model: Model = DEFAULT_MODEL,
    json: Json = False,
    draw: Draw = None,
    device: Device = "auto",
    max_objects: MaxObjects = 50,
) -> int:
    """Point at every OBJECT in each picture."""
    options = Options(model, device, json, draw)
    return answer_all(
        images, options, lambda engine, image: engine.point(image, object, max_objects=max_objects), label=object
    )


@app.command()
def detect(
    images: Images,
    object: Object,
    model: Model = DEFAULT_MODEL,
    json: Json = False,
    draw: Draw = None,
    device: Device = "auto",
    max_objects: MaxObjects = 50,
) -> int:
    """Put a box around every OBJECT in each picture."""
    options = Options(model, device, json, draw)
    return answer_all(
        images, options, lambda engine, image: engine.detect(image, object, max_objects=max_objects), label=object
    )


@app.command(name="eval")
def evaluate(
    folder: Annotated[Path, typer.Argument(help="Pictures and a scenes.json.", show_default=False)],
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


def run(arguments: list[str]) -> int:
    """Run one command line; its exit code. Never a traceback for what a user can do wrong."""
    try:
        return app(arguments, prog_name="photon", standalone_mode=False) or 0
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)  # of the command that was misused
        command = context.command_path if context is not None else "photon"
        say(f"{getattr(error, 'format_message', error.__str__)()} (see {command} --help)")
        return 2
    except ConfigError as error:
        say(str(error))
        return 2
    except PhotonError as error:
        say(str(error))
        return 1
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:  # the reader of stdout has gone; what is still buffered goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def main() -> None:
    code = run(sys.argv[1:])
    if code == INTERRUPTED:  # do not wait for a worker in the middle of a picture or of an import
        os._exit(code)
    sys.exit(code)
