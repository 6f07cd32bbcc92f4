"""The command line. Answers go to stdout, everything else to stderr.

Exit codes: 0 all answered; 1 a picture failed, or the engine did; 2 wrong usage or configuration, a model that cannot
be loaded among it; 130 interrupted, when all that was answered before is out.
"""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

import photon
from photon.cli.answer import answer
from photon.cli.options import DEFAULT_MODEL, Device, Model, takes
from photon.cli.output import say
from photon.cli.skills import CaptionFlags, DetectFlags, GazeFlags, PointFlags, QueryFlags
from photon.errors import ConfigError, ModelError, PhotonError, RequestError

app = typer.Typer(add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False)

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


def run(arguments: list[str]) -> int:
    """Run one command line; its exit code. Never a traceback for what a user can do wrong."""
    try:
        code = app(arguments, prog_name="photon", standalone_mode=False) or 0
        sys.stdout.flush()
        return code
    except typer.TyperException as error:
        say(_usage(error))
        return 2
    except (ConfigError, ModelError, RequestError) as error:
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
    except OSError as error:  # of what is written: a full disk, a folder that is not to be written to
        say(f"{error.filename or 'output'}: {error.strerror or error}")
        return 1


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a file's name need not be text, and a terminal not know all text
            stream.reconfigure(errors="backslashreplace")
    code = run(sys.argv[1:])
    if code == INTERRUPTED:  # do not wait for a worker in the middle of a picture or of an import
        os._exit(code)
    sys.exit(code)


def _usage(error: typer.TyperException) -> str:
    """What is wrong, and where the right form is to be seen."""
    message = error.format_message()
    context: Any = getattr(error, "ctx", None)  # of the command that was misused
    if context is None:
        return message
    hint = f"(see {context.command_path} --help)"
    arguments = [p for p in context.command.params if p.param_type_name == "argument"]
    wrong: Any = getattr(error, "param", None)
    if wrong not in arguments:
        return f"{message} {hint}"
    form = " ".join([context.command_path, *(f"{p.metavar}{'...' * (p.nargs == -1)}" for p in arguments)])
    if hasattr(error, "param_type"):  # one is missing
        message = _missing([p.metavar for p in arguments], wrong.metavar)
    return f"{message}: {form} {hint}"


def _missing(names: list[str], missed: str) -> str:
    """Pictures take what the others leave and are asked for last, so that of a lone argument it is the last, not the
    picture, that the user has left out."""
    if len(names) == 2 and missed == names[0]:
        names = names[1:]
    return f"Missing argument{'s' * (len(names) > 1)} {', '.join(map(repr, names))}"
