"""Run the plain test functions of a folder and write their outcomes as JUnit; started as a program of its own.

It knows `test_*` functions without arguments, no fixtures: a few milliseconds where pytest takes half a second.
"""

from __future__ import annotations

import importlib.util
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

__all__ = ["main"]


def main(folder: str, out: str) -> None:
    """Run every tests/test_*.py below `folder`; write the outcome of each to `out`, with its file as class name."""
    root = Path(folder)
    sys.path.insert(0, folder)
    outcomes: dict[tuple[str, str], str] = {}
    for path in sorted((root / "tests").glob("test_*.py")):
        label = f"tests/{path.name}"
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None:
            continue
        module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except Exception as error:  # noqa: BLE001 - whatever broken code raises is the outcome
            outcomes["", label] = f"{type(error).__name__}: {error}"
            continue
        for name, test in sorted(vars(module).items()):
            if name.startswith("test_") and callable(test):
                try:
                    test()
                except Exception as error:  # noqa: BLE001 - likewise
                    outcomes[label, name] = f"{type(error).__name__}: {error}"
                else:
                    outcomes[label, name] = ""
    suite = ET.Element("testsuite")
    for (label, name), said in outcomes.items():
        case = ET.SubElement(suite, "testcase", classname=label, name=name)
        if said:
            ET.SubElement(case, "failure", message=said)
    ET.ElementTree(suite).write(out)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
