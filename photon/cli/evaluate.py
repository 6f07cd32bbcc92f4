"""`photon eval`: the figures of a model on a folder of scenes, as a table or as one JSON document."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import photon
from photon.cli.output import console, say


def show_figures(folder: Path, *, model: str, device: str, dtype: str, limit: int | None, as_json: bool) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from photon.bench.evaluate import BATCH_SIZE, evaluate, read_questions

    questions = read_questions(folder, limit=limit)
    with photon.Engine(model, device=device, dtype=dtype, max_batch_size=BATCH_SIZE) as engine:
        say(engine.description)
        figures = evaluate(engine, questions)
    if as_json:
        print(json.dumps({"folder": str(folder), "model": model, "figures": [asdict(f) for f in figures]}))
        return
    table = Table("figure", "value", "95%", "chance", "of", box=SIMPLE_HEAD)
    for column in table.columns[1:]:
        column.justify = "right"
    for figure in figures:
        interval = f"{figure.low:.3f} to {figure.high:.3f}"
        table.add_row(figure.name, f"{figure.value:.3f}", interval, f"{figure.chance:.3f}", str(figure.count))
    console().print(table)
