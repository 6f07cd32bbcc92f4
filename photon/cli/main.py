"""The command line's ends: how it starts, what becomes of errors. Answers go to stdout, everything else to stderr.

Exit codes: 0 all answered; 1 a picture failed, or the engine did; 2 wrong usage or configuration, a model that cannot
be loaded among it; 130 interrupted, when all that was answered before is out. Imports little before `run`, so that an
interrupt finds it there.
"""

from __future__ import annotations

import io
import os
import sys

INTERRUPTED = 130


def run(arguments: list[str]) -> int:
    """Run one command line; its exit code. Never a traceback for what a user can do wrong."""
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader of stdout has gone; what is still buffered goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a file's name need not be text, and a terminal not know all text
            stream.reconfigure(errors="backslashreplace")
    code = run(sys.argv[1:])
    if code == INTERRUPTED:  # do not wait for a worker in the middle of a picture or of an import
        os._exit(code)
    sys.exit(code)


def _run(arguments: list[str]) -> int:
    import typer

    from photon.cli.commands import app
    from photon.cli.output import say
    from photon.cli.usage import usage_line
    from photon.errors import ConfigError, ModelError, PhotonError, RequestError

    try:
        code = app(arguments, prog_name="photon", standalone_mode=False) or 0
        sys.stdout.flush()
        return code
    except typer.TyperException as error:
        say(usage_line(error))
        return 2
    except typer.Abort:
        return INTERRUPTED
    except (ConfigError, ModelError, RequestError) as error:
        say(str(error))
        return 2
    except PhotonError as error:
        say(str(error))
        return 1
    except BrokenPipeError:
        raise
    except OSError as error:  # of what is written: a full disk, a folder that is not to be written to
        say(f"{error.filename or 'output'}: {error.strerror or error}")
        return 1
