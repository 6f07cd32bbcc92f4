"""A file imports only from its own folder or from a lower layer, imports inside functions and for typing included."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "photon"
LAYERS = {
    0: ["errors", "request", "results", "chunks", "config", "device", "draw", "datadir", "trace"],
    1: ["kernels"],
    2: ["cache", "constraint", "dialects", "models", "images", "text"],
    3: ["runner"],
    4: ["scheduler"],
    5: ["tasks"],
    6: ["engine"],
    7: ["server", "compat", "export"],
    8: ["bench"],
    9: ["cli"],
}
LAYER_OF = {name: layer for layer, names in LAYERS.items() for name in names}
FILES = sorted(PACKAGE.rglob("*.py"))


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def photon_imports(path: Path) -> set[str]:
    """The parts of photon that a file imports, wherever in the file the import stands."""
    parts: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            parts |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("photon.")}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the layer"
            module = node.module or ""
            if module == "photon":
                parts |= {alias.name for alias in node.names}
            elif module.startswith("photon."):
                parts.add(module.split(".")[1])
    return parts


@pytest.mark.parametrize("path", [f for f in FILES if f.name != "__init__.py" or f.parent != PACKAGE], ids=str)
def test_imports_point_downward(path: Path) -> None:
    own = part_of(path)
    assert own in LAYER_OF or own == "__main__", f"{own} has no layer"
    for part in photon_imports(path) - {own}:
        if part == "__version__" or own == "__main__":
            continue
        assert part in LAYER_OF, f"{path} imports photon.{part}, which has no layer"
        lower = LAYER_OF[part] < LAYER_OF[own]
        assert lower or LAYER_OF[part] == LAYER_OF[own] == 0, (
            f"{path} ({own}) imports {part} of the same or a higher layer"
        )


def test_every_part_exists_in_some_layer() -> None:
    present = {part_of(f) for f in FILES} - {"__init__", "__main__"}
    assert present <= set(LAYER_OF), present - set(LAYER_OF)


def test_what_is_imported_is_a_dependency() -> None:
    """Of this package itself, not only of one of its dependencies."""
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())["project"]
    declared = {re.split("[^a-zA-Z0-9_-]", line)[0] for line in project["dependencies"]}
    modules = {"PIL" if name == "pillow" else name for name in declared}
    assert third_party_imports() <= modules, third_party_imports() - modules


def third_party_imports() -> set[str]:
    nodes = [node for path in FILES for node in ast.walk(ast.parse(path.read_text()))]
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names = plain | {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    return {name.split(".")[0] for name in names} - sys.stdlib_module_names - {"photon"}


def test_plain_logic_imports_no_torch() -> None:
    for folder, names in {
        "cache": ["pages", "prefix"],
        "scheduler": ["*"],
        "constraint": ["*"],
        "dialects": ["*"],
        "tasks": ["*"],
    }.items():
        for name in names:
            for path in (PACKAGE / folder).glob(f"{name}.py"):
                top = {
                    a.name.split(".")[0]
                    for n in ast.walk(ast.parse(path.read_text()))
                    if isinstance(n, ast.Import)
                    for a in n.names
                }
                top |= {
                    (n.module or "").split(".")[0]
                    for n in ast.walk(ast.parse(path.read_text()))
                    if isinstance(n, ast.ImportFrom)
                }
                assert "torch" not in top, path
