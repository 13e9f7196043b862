"""What installed packages add to this one: commands, methods and readers of traces, found by their entry points."""

from __future__ import annotations

import ast
import importlib.util
from contextlib import suppress
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from combee.errors import UsageError

COMMANDS = "combee.commands"
"""Commands below `combee`: a `click.Command`. Its line in `combee --help` is the first line of its module."""

ENVIRONMENTS = "combee.environments"
"""Kinds of environments: a `combee.run.environments.Environment`, made without arguments."""

METHODS = "combee.methods"
"""Ways of learning: a subclass of `combee.run.methods.LearningMethod`, made without arguments."""

READERS = "combee.readers"
"""Readers of a format of traces: a class or object with the members of `combee.kernel.learn.roles.Reader`."""

WORKERS = "combee.workers"
"""Kinds of workers: a `combee.run.methods.WorkerKind`, made without arguments."""


def offered(group: str) -> dict[str, EntryPoint]:
    """Return what installed packages offer in a group, by name in alphabetical order; nothing of it is imported."""
    return {
        point.name: point for point in sorted(entry_points(group=group), key=lambda point: (point.name, point.value))
    }


def load(point: EntryPoint, *, make: bool = False) -> object:
    """Import what an entry point names; of a class, with `make`, return one that is made without arguments.

    Raises:
        UsageError: The package that offers it cannot be imported; the message names it.
    """
    try:
        found = point.load()
        return found() if make and isinstance(found, type) else found
    except UsageError:  # an extra that is not installed, say: it knows its remedy
        raise
    except Exception as error:  # a foreign package may fail in any way; the user must learn which
        raise UsageError(
            f"{point.name!r} of {_owner(point)} ({point.value}) cannot be loaded: {error}",
            hint="Update or remove the package that brings it.",
        ) from error


def first_line(point: EntryPoint) -> str:
    """Return the first line of the docstring of the module that an entry point names; the module is not imported."""
    top, *rest = point.module.split(".")
    with suppress(ImportError, OSError, SyntaxError, ValueError):  # what is wrong with it is said when it is used
        spec = importlib.util.find_spec(top)  # of a name without a dot nothing is imported
        places = (spec.submodule_search_locations or [str(spec.origin).removesuffix(".py")]) if spec is not None else []
        for module in (Path(place, *rest) for place in places):
            for file in (module.with_suffix(".py"), module / "__init__.py"):
                if file.is_file():
                    doc = ast.get_docstring(ast.parse(file.read_bytes())) or ""
                    return doc.partition("\n")[0] or f"From {_owner(point)}."
    return f"From {_owner(point)}."


def _owner(point: EntryPoint) -> str:
    return "an installed package" if point.dist is None else point.dist.name
