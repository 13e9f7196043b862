"""Run every bench_*.py, or those named on the command line (`python -m benchmarks scan journal`)."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path


def main() -> int:
    """Run the benchmarks one after another; a failing one is named at the end."""
    names = sorted(path.stem.removeprefix("bench_") for path in Path(__file__).parent.glob("bench_*.py"))
    wanted = [Path(name).name.removeprefix("bench_").removesuffix(".py") for name in sys.argv[1:]] or names
    unknown = [name for name in wanted if name not in names]
    if unknown:
        print(f"There is no benchmark {', '.join(unknown)}. Known: {', '.join(names)}.", file=sys.stderr)
        return 2
    failed: list[str] = []
    sys.argv = sys.argv[:1]  # a benchmark that reads options must not see the names
    for name in wanted:
        print(f"\n== {name}", flush=True)
        try:
            importlib.import_module(f"benchmarks.bench_{name}").main()
        except Exception as error:  # noqa: BLE001 - one broken benchmark must not hide the others
            failed.append(name)
            print(f"{name} failed: {error!r}", file=sys.stderr)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
