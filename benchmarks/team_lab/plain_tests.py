"""Run the plain test functions of a folder and write their outcomes as JSON; started as a program of its own.

It knows `test_*` functions without arguments, no fixtures: a few milliseconds where pytest takes half a second.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

__all__ = ["main"]


def main(folder: str, out: str) -> None:
    """Run every tests/test_*.py below `folder`; write {"file::name": ""} to `out`, with the error where it failed."""
    root = Path(folder)
    sys.path.insert(0, folder)
    outcomes: dict[str, str] = {}
    for path in sorted((root / "tests").glob("test_*.py")):
        label = f"tests/{path.name}"
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None:
            continue
        module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except Exception as error:  # noqa: BLE001 - whatever broken code raises is the outcome
            outcomes[label] = f"{type(error).__name__}: {error}"
            continue
        for name, test in sorted(vars(module).items()):
            if name.startswith("test_") and callable(test):
                try:
                    test()
                except Exception as error:  # noqa: BLE001 - likewise
                    outcomes[f"{label}::{name}"] = f"{type(error).__name__}: {error}"
                else:
                    outcomes[f"{label}::{name}"] = ""
    Path(out).write_text(json.dumps(outcomes), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
