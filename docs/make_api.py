"""Write docs/api.md from the docstrings of `import combee`: `python docs/make_api.py`."""

from __future__ import annotations

import inspect
from pathlib import Path

import combee

PAGE = Path(__file__).with_name("api.md")
HEAD = """# The Python interface

Made from the docstrings by `python docs/make_api.py`: all of `import combee`. [library.md](library.md)
shows it at work.
"""


def page() -> str:
    """Return the page."""
    parts = [HEAD]
    for name in sorted(combee.__all__, key=lambda one: (one[0].isupper(), one.lower())):
        found = getattr(combee, name)
        if name.startswith("__") or inspect.ismodule(found):
            continue
        prefix = "async " if inspect.iscoroutinefunction(found) else ""
        shown = f"{prefix}{name}{inspect.signature(found)}" if inspect.isfunction(found) else f"class {name}"
        parts.append(f"## `{name}`\n\n```text\n{shown}\n\n{inspect.getdoc(found)}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
