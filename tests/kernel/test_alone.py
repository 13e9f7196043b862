"""The kernel stands alone: it imports nothing else of ours but errors and files, and one can read it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KERNEL = ROOT / "src" / "combee" / "kernel"
MODULES = sorted(KERNEL.rglob("*.py"))
ALLOWED = ("combee.errors", "combee.files", "combee.kernel")


def imported(path: Path, *, at_the_top: bool = False) -> set[str]:
    names: set[str] = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in tree.body if at_the_top else ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            module = node.module or ""
            names |= {f"{module}.{alias.name}" for alias in node.names} if module == "combee" else {module}
    return names


def is_allowed(name: str) -> bool:
    return any(name == allowed or name.startswith(f"{allowed}.") for allowed in ALLOWED)


def test_the_kernel_names_nothing_else_of_ours() -> None:
    others = {
        f"{path.relative_to(KERNEL)}: {name}"
        for path in MODULES
        for name in imported(path)
        if name.split(".")[0] == "combee" and not is_allowed(name)
    }
    assert others == set()


def test_the_kernel_loads_nothing_else_of_ours_and_no_other_package() -> None:
    modules = [".".join(path.relative_to(ROOT / "src").with_suffix("").parts) for path in MODULES]
    program = (
        f"import importlib, sys\nfor name in {modules!r}:\n"
        "    importlib.import_module(name.removesuffix('.__init__'))\n"
        "own = {name for name in sys.modules if name.split('.')[0] == 'combee'}\n"
        "print(*own, *({name.split('.')[0] for name in sys.modules} - sys.stdlib_module_names), sep='\\n')"
    )
    done = subprocess.run([sys.executable, "-S", "-c", _with_path(program)], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split()) - {"combee", "__main__"}
    assert {name for name in loaded if not is_allowed(name)} == set()
    assert "combee.kernel.learn.loop" in loaded


def _with_path(program: str) -> str:
    """Give the program our source alone: without `-S` a .pth file may load what it likes."""
    return f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r})\n{program}"


def test_no_two_files_of_the_kernel_import_each_other_in_a_circle() -> None:
    """Imports at the top of files: what a function imports when it runs cannot hinder loading."""
    of = {
        ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__"): path
        for path in MODULES
    }
    needs = {
        name: {other for other in imported(path, at_the_top=True) if other in of and other != name}
        for name, path in of.items()
    }
    while leaves := {name for name, others in needs.items() if not others}:
        needs = {name: others - leaves for name, others in needs.items() if name not in leaves}
    assert needs == {}


def test_the_page_about_the_kernel_names_files_that_exist() -> None:
    page = (ROOT / "docs" / "kernel.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\b((?:[a-z]+/)*[a-z_]+\.py)\b", page))
    assert len(named) > 25
    assert {name for name in named if not (KERNEL / name).exists()} == set()
    rooms = {path.name for path in KERNEL.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert {room for room in rooms if f"{room}/" not in page} == set()


def test_the_kernel_has_at_most_eleven_thousand_lines() -> None:
    assert sum(path.read_text(encoding="utf-8").count("\n") for path in MODULES) <= 11_000
