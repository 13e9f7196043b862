"""A scorer that is a function of the user's, named `package.module:function`.

It is imported and called like any code the user runs; answers and targets are passed to it as plain text.
"""

from __future__ import annotations

import importlib
import inspect
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from combee.errors import CombeeError, UsageError, did_you_mean
from combee.kernel.learn.roles import Score, Task

__all__ = ["PARTS", "PythonScorer", "python_scorer"]

PARTS = 100
"""A float from a function counts as that many hundredths of 100 parts."""


@dataclass(frozen=True, slots=True)
class PythonScorer:
    """Calls the function with `(task, answer)`: it returns a bool (1 part), a float to 1 (100 parts) or a `Score`."""

    spec: str
    function: Callable[[Task, str], object] = field(compare=False)

    def __call__(self, task: Task, answer: str) -> Score:
        """Score one answer.

        Raises:
            UsageError: the function raised, or returned something else.
        """
        try:
            value = self.function(task, answer)
        except CombeeError:
            raise
        except Exception as error:  # the function is the user's: whatever comes out of it is theirs to mend
            raise UsageError(
                f"scorer {self.spec} raised {type(error).__name__} on task {task.id}: {error}",
                hint="It is called with (task, answer) and returns a bool, a float from 0 to 1, or a combee Score.",
            ) from error
        return self._score(task, value)

    def _score(self, task: Task, value: object) -> Score:
        if isinstance(value, Score):
            if 0 <= value.hits <= value.total and value.total > 0:
                return value
            raise self._bad(task, f"{value.hits} hits of {value.total}")
        if isinstance(value, bool) or (isinstance(value, int) and value in (0, 1)):
            return Score(int(value), 1)
        if isinstance(value, float) and math.isfinite(value) and 0 <= value <= 1:
            hits = PARTS if value == 1 else min(round(value * PARTS), PARTS - 1)  # only a full 1.0 passes
            return Score(hits, PARTS)
        if inspect.iscoroutine(value):
            value.close()
            raise self._bad(task, "a coroutine (write a plain function, not an async one)")
        raise self._bad(task, repr(value)[:80])

    def _bad(self, task: Task, what: str) -> UsageError:
        return UsageError(
            f"scorer {self.spec} returned {what} on task {task.id}",
            hint="Return a bool, a float from 0 to 1, or a combee Score.",
        )


def python_scorer(spec: str) -> PythonScorer:
    """Import the function that a spec names; modules in the current directory are found too.

    Raises:
        UsageError: the spec has another form, or the module or function cannot be imported.
    """
    module_name, _, function_name = spec.partition(":")
    parts = [*module_name.split("."), *function_name.split(".")]
    if not all(part.isidentifier() for part in parts):
        raise UsageError(f"{spec!r} does not name a function", hint="Write package.module:function.")
    found: object = _import(spec, module_name)
    for name in function_name.split("."):
        known = [known for known in dir(found) if not known.startswith("_")]
        if not hasattr(found, name):
            raise UsageError(f"scorer {spec}: {module_name} has no {name!r}", hint=did_you_mean(name, known))
        found = getattr(found, name)
    if not callable(found):
        raise UsageError(f"scorer {spec}: {function_name} is {type(found).__name__}, not a function")
    return PythonScorer(spec, found)


def _import(spec: str, module_name: str) -> ModuleType:
    here = str(Path.cwd())
    added = here not in sys.path  # an installed command does not look into the current directory by itself
    if added:
        sys.path.insert(0, here)
    try:
        importlib.invalidate_caches()
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            hint = "It must be installed, or be a file in the current directory."
            raise UsageError(f"scorer {spec}: no module {error.name!r}", hint=hint) from error
        raise UsageError(f"scorer {spec}: {module_name} needs a module that is missing: {error.name}") from error
    except Exception as error:  # importing runs the user's module: anything may come out of it
        raise UsageError(f"scorer {spec}: importing {module_name} raised {type(error).__name__}: {error}") from error
    finally:
        if added and here in sys.path:
            sys.path.remove(here)
