"""The package as it is shipped: what the wheel holds, that it runs where it is installed, that importing it is light.

Nothing here needs a network: the wheel is built with the tools at hand and installed beside the dependencies at hand.
"""

import os
import re
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from email.parser import Parser
from pathlib import Path

import pytest
from PIL import Image, ImageChops

import photon

ROOT = Path(__file__).parent.parent
TINY = ROOT / "models" / "photon-tiny"
HEAVY = {"torch", "transformers", "xgrammar", "tokenizers", "safetensors", "huggingface_hub", "PIL", "rich"}


def pip(*arguments: str | Path) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the installed package alone."""
    folder = tmp_path_factory.mktemp("site")
    pip("install", "--no-index", "--no-deps", "--target", folder, wheel)
    return folder


def run_installed(site: Path, command: Sequence[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the installed `photon`, which sees the dependencies of this environment and no network."""
    assert command[0] == "photon"
    environment = {**os.environ, "PYTHONPATH": str(site), "HF_HUB_OFFLINE": "1", "https_proxy": "http://127.0.0.1:9"}
    script = [sys.executable, str(site / "bin" / "photon"), *command[1:]]
    return subprocess.run(script, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300)


def test_the_wheel_holds_code_and_data_and_no_more(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    tops = {name.split("/")[0] for name in names}
    assert tops == {"photon", f"photon_vlm-{photon.__version__}.dist-info"}
    for path in (ROOT / "photon").rglob("*.py"):
        assert path.relative_to(ROOT).as_posix() in names
    shipped = [*ROOT.glob("grammars/**/*.ebnf"), *(p for p in ROOT.glob("models/*/*") if p.is_file())]
    assert {f"photon/_data/{path.relative_to(ROOT).as_posix()}" for path in shipped} == {
        name for name in names if name.startswith("photon/_data/")
    }
    assert "photon/py.typed" in names
    assert not any("training" in name for name in names)


def test_the_metadata(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
    metadata = Parser().parsestr(archive.read(name).decode())
    assert (metadata["Name"], metadata["Version"]) == ("photon-vlm", photon.__version__)
    needed = {re.split(r"[^\w-]", line)[0] for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line}
    assert needed == {
        "torch",
        "transformers",
        "tokenizers",
        "safetensors",
        "huggingface-hub",
        "pillow",
        "numpy",
        "xgrammar",
        "jsonschema",
        "referencing",
        "typer",
        "rich",
    }


def test_the_installed_command_finds_its_data(site: Path, tmp_path: Path) -> None:
    done = run_installed(site, ["photon", "models"], tmp_path)
    assert done.returncode == 0 and "photon-tiny" in done.stdout and "moondream2" in done.stdout, done.stderr


def test_the_installed_command_runs_a_model_from_a_folder(site: Path, tmp_path: Path) -> None:
    folder = ROOT / "tests" / "data" / "moondream2_tiny"
    command = ["photon", "detect", str(folder / "small.png"), "circle", "--model", str(folder), "--max-objects", "2"]
    done = run_installed(site, [*command, "--device", "cpu"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert "circle in" in done.stdout and "moondream2_tiny on cpu" in done.stderr


def first_readme_command() -> list[str]:
    """`photon detect …` of the README's first line that installs."""
    line = next(line for line in (ROOT / "README.md").read_text().splitlines() if "pip install . &&" in line)
    return shlex.split(line.split("&&", 1)[1])


@pytest.mark.skipif(not list(TINY.glob("model*.safetensors")), reason="the bundled weights are not in this checkout")
def test_the_readmes_first_line(site: Path, tmp_path: Path) -> None:
    command = first_readme_command()
    assert command[:2] == ["photon", "detect"] and "--draw" in command
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    done = run_installed(site, command, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("photon: photon-tiny on "), "it says which model runs, and where"
    assert re.search(r"^\s*1(\s+\d+){4}\s+[01]\.\d\d\s*$", done.stdout, re.MULTILINE), done.stdout
    picture = Image.open(tmp_path / command[2]).convert("RGB")
    drawn = Image.open(tmp_path / command[command.index("--draw") + 1]).convert("RGB")
    assert drawn.size == picture.size and ImageChops.difference(drawn, picture).getbbox()


def imported_by(code: str) -> tuple[set[str], float]:
    """Top-level modules that running `code` imports, and the seconds that its imports took."""
    command = [sys.executable, "-X", "importtime", "-c", code]
    log = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stderr
    rows = re.findall(r"^import time:\s+(\d+) \|\s+\d+ \|\s*(\S+)$", log, re.MULTILINE)
    return {name.split(".")[0] for _, name in rows}, sum(int(own) for own, _ in rows) / 1e6


def test_importing_is_light() -> None:
    modules, seconds = min((imported_by("import photon") for _ in range(3)), key=lambda pair: pair[1])
    assert "photon" in modules and not modules & HEAVY
    assert seconds < 1


def test_results_and_configuration_are_light_too() -> None:
    modules, _ = imported_by("import photon; photon.Point(0, 0); photon.EngineConfig(); photon.ImageError")
    assert not modules & HEAVY


def test_listing_models_needs_no_torch() -> None:
    modules, _ = imported_by("from photon.cli.main import run; run(['models'])")
    assert not modules & {"torch", "transformers", "xgrammar"}


def test_every_public_name_is_there() -> None:
    for name in photon.__all__:
        assert getattr(photon, name) is not None
    assert set(photon.__all__) <= set(dir(photon))
    with pytest.raises(AttributeError, match="no attribute 'Motor'"):
        photon.Motor  # noqa: B018
