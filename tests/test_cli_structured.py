"""`photon extract` and the structure flags of `photon query`: files in, JSON out, faults before a model is loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli_fake import OPENED, FakeEngine
from cli_fake import fake as fake

from photon import Extract, Query
from photon.cli.main import run

Capture = pytest.CaptureFixture[str]
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(SCHEMA))
    return path


def test_extract_says_the_json_of_each_picture(schema: Path, capsys: Capture) -> None:
    assert run(["extract", "a.png", "b.png", "--schema", str(schema)]) == 0
    assert capsys.readouterr().out == 'a.png:\n{"n": 2}\nb.png:\n{"n": 2}\n'
    assert [(type(ask), ask.image) for ask in FakeEngine.asks] == [(Extract, "a.png"), (Extract, "b.png")]
    assert json.loads(FakeEngine.asks[0].schema) == SCHEMA


def test_extract_for_programs_and_in_a_folder(schema: Path, tmp_path: Path, capsys: Capture) -> None:
    arguments = ["extract", "a.png", "bad.png", "--schema", str(schema), "--json", "--out", str(tmp_path / "out")]
    assert run([*arguments, "--instructions", "All of it.", "--max-tokens", "7"]) == 1
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (said[0]["value"], said[0]["answer"]) == ({"n": 2}, '{"n": 2}')
    assert said[1]["error"]["type"] == "ImageError"
    kept = [json.loads(line) for line in (tmp_path / "out" / "answers.jsonl").read_text().splitlines()]
    assert kept == said
    assert (FakeEngine.asks[0].instructions, FakeEngine.asks[0].max_tokens) == ("All of it.", 7)


def test_extract_as_it_comes(schema: Path, tmp_path: Path, capsys: Capture) -> None:
    from PIL import Image

    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    assert run(["extract", str(tmp_path / "a.png"), "--schema", str(schema), "--stream", "--json"]) == 0
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert "".join(one["text"] for one in said if one["type"] == "text") == said[-1]["answer"] == '{"n": 2}'
    assert (said[-1]["type"], said[-1]["value"]) == ("end", {"n": 2})


def test_query_takes_files_of_a_schema_and_a_grammar(schema: Path, tmp_path: Path) -> None:
    (tmp_path / "yes.ebnf").write_text('root ::= "yes" | "no"')
    assert run(["query", "a.png", "why?", "--schema", str(schema)]) == 0
    assert run(["query", "a.png", "why?", "--grammar", str(tmp_path / "yes.ebnf")]) == 0
    assert FakeEngine.asks == [
        Query("a.png", "why?", schema=schema.read_text(), **_shared()),
        Query("a.png", "why?", grammar='root ::= "yes" | "no"', **_shared()),
    ]


def _shared() -> dict[str, Any]:
    from dataclasses import fields

    from photon.request import Sampling

    sampling = {f.name: f.default for f in fields(Sampling) if f.name != "logprobs"}
    return {"sampling": sampling, "timeout": None}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "the schema is not JSON"),
        ('{"type": "objekt"}', "'objekt' is not valid"),
        ('{"$ref": "#"}', "Circular $ref"),
        ('{"type": "string", "pattern": "^[a-z]{9000}$"}', "counted repetitions"),
        ("[1]", "a schema is a JSON object"),
    ],
)
def test_a_schema_that_is_none_is_told_before_a_model_is_loaded(
    text: str, said: str, tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / "schema.json"
    path.write_text(text)
    assert run(["extract", "a.png", "--schema", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and said in err and err.startswith("photon: ") and err.count("\n") == 1
    assert FakeEngine.opened == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["extract", "a.png"], "--schema"),
        (["extract", "a.png", "--schema", "nowhere.json"], "nowhere.json cannot be read"),
        (["query", "a.png", "why?", "--regex", "[a"], "Unclosed '['"),
        (["query", "a.png", "why?", "--regex", "a", "--choice", "b"], "one of schema, regex, grammar and choices"),
        (["query", "a.png", "why?", "--regex", "a", "--stop", "b"], "stop cannot be with regex"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage(arguments: list[str], said: str, capsys: Capture) -> None:
    assert run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == "" and said in err and not err.startswith(OPENED)
    assert FakeEngine.opened == []
