"""Imports point down only: the table of floors, held."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent / "src" / "combee"
FLOORS = {
    0: {"errors", "files"},
    1: {"kernel"},
    2: {"redaction"},
    3: {"model"},
    4: {"ace", "lexical", "tasks"},
    5: {"run"},
    6: {"terminal"},
    7: {"traces", "gepa", "team", "export", "mock"},
    8: {"report", "mcp", "workers", "environments"},
    9: {"bench", "swarm", "serve"},
    10: {"cli"},
}
EVERYWHERE = {"errors", "files"}
FLOOR_OF = {package: floor for floor, packages in FLOORS.items() for package in packages}
MODULES = sorted(path for path in SOURCE.rglob("*.py") if path.parent != SOURCE or path.stem in EVERYWHERE)


def package_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_packages(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = (
                [f"{node.module}.{alias.name}" for alias in node.names] if node.module == "combee" else [node.module]
            )
        found |= {name.split(".")[1] for name in names if name.startswith("combee.")}
    return (found & FLOOR_OF.keys()) - EVERYWHERE


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_imports_only_its_own_package_and_lower_floors(path: Path) -> None:
    own = package_of(path)
    assert own in FLOOR_OF, f"{own} has no floor: add it to the table"
    too_high = {name for name in imported_packages(path) if name != own and FLOOR_OF[name] >= FLOOR_OF[own]}
    assert not too_high


SATELLITES = {"environments", "traces", "gepa", "swarm", "team", "serve", "mock"}


@pytest.mark.parametrize("room", ["kernel", "run", "terminal", "cli"])
def test_satellites_are_known_by_their_entry_points_only(room: str) -> None:
    modules = [path for path in MODULES if package_of(path) == room]
    assert modules
    named = {path.name: found for path in modules if (found := imported_packages(path) & SATELLITES)}
    assert named == {}


def test_run_neither_parses_nor_prints() -> None:
    for path in (path for path in MODULES if package_of(path) == "run"):
        text = path.read_text(encoding="utf-8")
        assert "import click" not in text
        assert "print(" not in text


def _lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count the lines of a function but for its docstring, which may hold an example."""
    first = function.body[0]
    text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    own = (first.end_lineno or 0) - first.lineno + 1 if text else 0
    return (function.end_lineno or 0) - function.lineno + 1 - own


def test_every_source_file_and_function_stays_small() -> None:
    long_functions = [
        f"{path.name}:{node.name}"
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _lines(node) > 60
    ]
    long_modules = [path.name for path in SOURCE.rglob("*.py") if path.read_text(encoding="utf-8").count("\n") > 500]
    assert long_functions == []
    assert long_modules == []


def test_no_files_import_each_other_in_a_circle() -> None:
    """Imports at the top of files only: what a function imports when it runs cannot hinder loading."""
    names = {_dotted(path): path for path in SOURCE.rglob("*.py") if path.name != "__init__.py"}
    graph = {
        name: {
            source
            for node in ast.parse(path.read_text(encoding="utf-8")).body
            if isinstance(node, ast.ImportFrom) and node.module
            for source in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
            if source in names
        }
        for name, path in names.items()
    }
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


def _dotted(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)


def test_no_class_name_stands_for_two_things() -> None:
    where: dict[str, list[str]] = {}
    for path in SOURCE.rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                where.setdefault(node.name, []).append(str(path.relative_to(SOURCE)))
    assert {name: places for name, places in where.items() if len(places) > 1} == {}
