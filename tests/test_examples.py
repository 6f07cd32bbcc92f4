"""Every example runs as its first line says, is short, and says something true."""

from __future__ import annotations

import re
import runpy
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

# What each must print, from looking at the pictures.
TRUE = {
    "asynchronous": r"2 cars; a bicycle\? Yes",
    "bulk": r"street\.png: houses: 3\n(.*\n)+.*park\.png: trees: 2",
    "caption": r"short: .*houses?.*\n.*normal: ",
    "detect": r"(banana at .*\n){3}$",
    "gaze": r"^photon-tiny has no gaze; these models have it: moondream2-2025-01\n$",
    "point": r"^a dog at 0\.2\d+, 0\.7\d+",
    "several_labels": r"^(\w+ at 0.*\n){7}car: 2, house: 3, bus: 1, bicycle: 1$",
    "spatial_refs": r"(at .*: apple\n)+",
    "structured": r"^a banana\? Yes\nbananas: (3|three)\ntext: \{\"fruit\": .*\ncount: \d+\n$",
    "streaming": r"(an apple at .*\n){3}done after",
}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(path.read_text().splitlines()) <= 40
    (tmp_path / "examples").mkdir()
    shutil.copytree(ROOT / "examples/images", tmp_path / "examples/images")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [str(path)])
    runpy.run_path(str(path), run_name="__main__")
    assert re.search(TRUE[path.stem], capsys.readouterr().out)
