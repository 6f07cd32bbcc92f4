"""One line for a command that was misused: what is wrong, and the right form."""

from __future__ import annotations

from typing import Any

import typer


def usage_line(error: typer.TyperException) -> str:
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
